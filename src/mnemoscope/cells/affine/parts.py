"""The parts of an affine recurrence, and the ways to run it: one step, a whole sequence, its matrix."""

from __future__ import annotations

from functools import reduce
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from mnemoscope.base.array_types import Bool, Float, Inexact
from mnemoscope.kernels.affine import affine_scan
from mnemoscope.kernels.linear import diagonal_scan


class Parts(NamedTuple):
    """Everything that one step of an affine recurrence takes from the inputs.

    Per head, the state S is a matrix of keys and values, and a step is

        S' = diag(d) S + a (b^T S) + k v^T,      d = exp(g),      o = q^T S'.

    With another `beta_max` than 1, `d = 1 - beta_max (1 - exp(g))`, which may be negative. The leading dimensions are
    those of the inputs, (batch,) or (time, batch). With several micro-steps per input, everything but the queries has
    one more dimension for them before the heads, and only the state after the last one is read.
    """

    queries: Inexact[Tensor, "*batch heads keys"]
    """q, one per input."""
    keys: Inexact[Tensor, "*batch heads keys"]
    """k."""
    values: Inexact[Tensor, "*batch heads values"]
    """v."""
    log_decays: Inexact[Tensor, "*batch heads rates"]
    """g, one per key or one for all keys; a complex g also rotates."""
    erase: tuple[Tensor, Tensor] | None = None
    """a and b, each (*batch, heads, keys); None if there is no such term."""
    log_writes: Float[Tensor, "*batch heads"] | None = None
    """Logarithm of a factor of k that may overflow, as of an exponential gate; the state is then stored divided by
    `exp(m)` (`ScaledState`)."""
    micro_steps: int = 1
    """Number of micro-steps per input."""
    beta_max: float = 1.0
    """Part of what a key holds that a step removes where exp(g) is 0; with 2 it changes the sign."""

    @property
    def decays(self) -> Inexact[Tensor, "*batch heads rates"]:
        """d, the factors by which a step multiplies what the keys hold."""
        kept = torch.exp(self.log_decays)
        return kept if self.beta_max == 1 else torch.lerp(kept.new_ones(()), kept, self.beta_max)

    def tensors(self) -> list[Tensor]:
        """Return all tensors."""
        optional = () if self.log_writes is None else (self.log_writes,)
        return [self.queries, self.keys, self.values, self.log_decays, *(self.erase or ()), *optional]

    def each(self) -> list[Parts]:
        """Return the parts of each micro-step, in order, with the same queries."""
        if self.micro_steps == 1:
            return [self]
        erase = (
            [None] * self.micro_steps if self.erase is None else zip(*(x.unbind(-3) for x in self.erase), strict=True)
        )
        columns = (self.keys.unbind(-3), self.values.unbind(-3), self.log_decays.unbind(-3), erase)
        one = self._replace(micro_steps=1)
        return [one._replace(keys=k, values=v, log_decays=g, erase=e) for k, v, g, e in zip(*columns, strict=True)]

    def chosen(self, index: Any = ..., heads: slice = slice(None)) -> Parts:
        """Return the parts at an index of the leading dimensions, (time, batch) or (batch,), and of some heads."""

        def choose(part: Tensor) -> Tensor:
            return part[index][..., heads, :]

        erase = None if self.erase is None else (choose(self.erase[0]), choose(self.erase[1]))
        log_writes = None if self.log_writes is None else self.log_writes[index][..., heads]
        q, k, v, g = (choose(part) for part in (self.queries, self.keys, self.values, self.log_decays))
        return Parts(q, k, v, g, erase, log_writes, self.micro_steps, self.beta_max)

    def in_precision(self, dtype: torch.dtype) -> Parts:
        """Return the parts in the precision of a real dtype; complex ones stay complex."""
        return Parts(*(_in_precision(x, dtype) for x in self))

    def held(self, mask: Bool[Tensor, "time batch"]) -> Parts:
        """Return parts that do not change the state where the mask is False."""

        def fill(part: Tensor, value: float = 0.0) -> Tensor:
            return part.masked_fill(~mask.view(*mask.shape, *(1,) * (part.dim() - 2)), value)

        erase = None if self.erase is None else (fill(self.erase[0]), fill(self.erase[1]))
        log_writes = None if self.log_writes is None else fill(self.log_writes, -torch.inf)
        return self._replace(keys=fill(self.keys), log_decays=fill(self.log_decays), erase=erase, log_writes=log_writes)


def check_beta_max(beta_max: float) -> None:
    """Raise if a step that removes up to this part of what a key holds could make the state grow, or removes nothing.

    >>> check_beta_max(2.0)
    """
    if not 0 < beta_max <= 2:
        raise ValueError(f"beta_max must be above 0 and at most 2, where a step only reflects, but is {beta_max}.")


class AffineState(NamedTuple):
    """The memory S (batch, heads, keys, values)."""

    S: Tensor


class ScaledState(NamedTuple):
    """A memory that is stored divided by exp(m): the memory itself is `exp(m) S`."""

    S: Tensor
    """Memory, scaled, (batch, heads, keys, values)."""
    m: Tensor
    """Logarithm of the scale (batch, heads)."""


def scale_step(parts: Parts, m: Float[Tensor, "batch heads"]) -> tuple[Parts, Float[Tensor, "batch heads"]]:
    """Return the parts relative to the scale after the step, and this scale, `m' = max(g + m, log i)`.

    Decays and weights of the writes are then at most 1 (Beck et al. 2024, Eq 15-17).
    """
    assert parts.log_writes is not None
    kept = parts.log_decays.squeeze(-1) + m
    after = torch.maximum(kept, parts.log_writes)
    return _relative(parts, kept - after, parts.log_writes - after), after


def scale_sequence(parts: Parts, m: Float[Tensor, "batch heads"]) -> tuple[Parts, Float[Tensor, "time batch heads"]]:
    """Return the parts relative to the scales after each step, and these scales.

    With the cumulated decays G, `m_t = G_t + max(m_0, max_{s <= t} (log i_s - G_s))`. It is computed in float64,
    because the differences of scales would lose digits in float32.
    """
    assert parts.log_writes is not None
    g, log_i, start = (x.double() for x in (parts.log_decays.squeeze(-1), parts.log_writes, m))
    G = g.cumsum(0)
    scales = G + torch.maximum(start, (log_i - G).cummax(0).values)
    before = torch.cat([start.unsqueeze(0), scales[:-1]])
    decays, writes = (x.to(m) for x in (torch.minimum(g + before - scales, torch.zeros_like(g)), log_i - scales))
    return _relative(parts, decays, writes), scales.to(m)


def _relative(parts: Parts, log_decays: Tensor, log_writes: Tensor) -> Parts:
    assert parts.beta_max == 1
    weights, erase = torch.exp(log_writes).unsqueeze(-1), parts.erase
    if erase is not None:  # it acts on the old state, as the decay does
        erase = (torch.exp(log_decays.unsqueeze(-1) - parts.log_decays) * erase[0], erase[1])
    return parts._replace(keys=weights * parts.keys, log_decays=log_decays.unsqueeze(-1), erase=erase, log_writes=None)


def step_state(parts: Parts, S: Inexact[Tensor, "*batch heads keys values"]) -> Inexact[Tensor, "..."]:
    """Return the state after one input, micro-step by micro-step, as the formula has it."""
    _check_relative(parts)
    for part in parts.each():
        S = _carry(part, S) + part.keys.unsqueeze(-1) * part.values.unsqueeze(-2)
    return S


def _check_relative(parts: Parts) -> None:
    """Raise if the weights of the writes would be left out."""
    if parts.log_writes is not None:
        raise ValueError(
            "These parts have log_writes, the logarithms of weights of their keys: pass those that scale_sequence, or "
            "scale_step for one step, makes relative to the scale of the state."
        )


def scan_states(
    parts: Parts, S: Inexact[Tensor, "batch heads keys values"], chunk: int = 64
) -> Inexact[Tensor, "time batch heads keys values"]:
    """Return the states after every step, all of which are in memory together.

    Parts with `log_writes` are refused: `scale_sequence` makes them relative to the scales of the states.

    Chunks of steps run side by side, each from an empty state and with the product of its operators, by which the
    state at the end of the chunk before is added: the number of sequential operations is the sum of the steps of a
    chunk and the number of chunks, not the number of steps.
    """
    _check_relative(parts)
    time = len(parts.queries)
    chunk = min(chunk, time)
    chunks = -(-time // chunk)
    missing = chunks * chunk - time  # steps without effect
    padded = [pad(x, (0, 0) * (x.dim() - 1) + (0, missing)) if missing else x for x in parts.tensors()]
    steps = [x.unflatten(0, (chunks, chunk)) for x in padded]
    keys = S.shape[-2]
    operator = torch.ones(keys, 1) if parts.erase is None else torch.eye(keys)
    operator = operator.to(S).expand(chunks, *S.shape[:2], -1, -1)
    local = torch.zeros_like(S).expand(chunks, *S.shape)
    states, operators = [], []
    for j in range(chunk):
        q, k, v, g, *erased = (x[:, j] for x in steps)
        erase = (erased[0], erased[1]) if parts.erase is not None else None
        step = parts._replace(queries=q, keys=k, values=v, log_decays=g, erase=erase)
        local, operator = step_state(step, local), carry_state(step, operator)
        states.append(local)
        operators.append(operator)
    starts = [S]
    for last, product in zip(local[:-1], operator[:-1], strict=True):
        starts.append(last + _applied(product, starts[-1]))
    start = torch.stack(starts)  # of each chunk
    for j, product in enumerate(operators):
        states[j] = states[j] + _applied(product, start)
    return torch.stack(states, 1).flatten(0, 1)[:time]


def _applied(product: Tensor, S: Tensor) -> Tensor:
    """Return the state times a product of operators, a matrix or the column of its diagonal."""
    return product * S if product.shape[-1] == 1 else product @ S


def carry_state(parts: Parts, S: Inexact[Tensor, "*batch heads keys columns"]) -> Inexact[Tensor, "..."]:
    """Return `A S`, what a step keeps of the state; S may have any number of columns. A is not formed."""
    for part in parts.each():
        S = _carry(part, S)
    return S


def carry_back(parts: Parts, M: Inexact[Tensor, "*batch heads rows keys"]) -> Inexact[Tensor, "..."]:
    """Return `M A`, in the order of the micro-steps from the last to the first. A is not formed."""
    for part in reversed(parts.each()):
        kept = M * part.decays.unsqueeze(-2)
        if part.erase is not None:
            a, b = part.erase
            kept = kept + (M @ a.unsqueeze(-1)) * b.unsqueeze(-2)
        M = kept
    return M


def _carry(part: Parts, S: Tensor) -> Tensor:
    """Return `A S` of a single micro-step."""
    kept = part.decays.unsqueeze(-1) * S
    if part.erase is None:
        return kept
    a, b = part.erase
    return kept + a.unsqueeze(-1) * (b.unsqueeze(-2) @ S)


def read_state(parts: Parts, S: Inexact[Tensor, "*batch heads keys values"]) -> Inexact[Tensor, "*batch heads values"]:
    """Return `q^T S` of each head."""
    return (parts.queries.to(S.dtype).unsqueeze(-2) @ S).squeeze(-2)


def transition(parts: Parts) -> Inexact[Tensor, "*batch heads keys keys"]:
    """Return the matrix A of `S' = A S + B`: the product over the micro-steps of `diag(d) + a b^T`."""
    product = None
    for part in parts.each():
        A = torch.diag_embed(part.decays.expand_as(part.keys))
        if part.erase is not None:
            A = A + part.erase[0].unsqueeze(-1) * part.erase[1].unsqueeze(-2)
        product = A if product is None else A @ product
    assert product is not None
    return product


def scan_parts(
    parts: Parts, S: Inexact[Tensor, "batch heads keys values"]
) -> tuple[Inexact[Tensor, "time batch heads values"], Inexact[Tensor, "batch heads keys values"]]:
    """Return `q^T S` at every time and the last state, by the kernel that suits the parts.

    Under autocast the parts differ in precision; they are computed in the highest, and returned as they came.
    """
    _check_relative(parts)
    dtype = reduce(torch.promote_types, (x.dtype.to_real() for x in (S, *parts.tensors())))
    reads, last = _scan(parts.in_precision(dtype), _in_precision(S, dtype))
    return _in_precision(reads, parts.queries.dtype.to_real()), _in_precision(last, S.dtype.to_real())


def _in_precision(x: Any, dtype: torch.dtype) -> Any:
    """Return a tensor, or a tuple of them, in the precision of a real dtype; anything else unchanged."""
    if isinstance(x, tuple):
        return tuple(_in_precision(part, dtype) for part in x)
    return x.to(dtype.to_complex() if x.is_complex() else dtype) if isinstance(x, Tensor) else x


def _scan(parts: Parts, S: Tensor) -> tuple[Tensor, Tensor]:
    if parts.erase is None and parts.micro_steps == 1 and S.shape[-1] == 1:
        return _scan_numbers(parts, S)
    if parts.beta_max != 1:
        return _scan_steps(parts, S)
    if parts.log_decays.is_complex():
        return _scan_rotating(parts, S)
    keys, values, log_decays, *erase = (
        _in_time(x, parts.micro_steps) for x in (parts.keys, parts.values, parts.log_decays, *(parts.erase or ()))
    )
    both = (erase[0], erase[1]) if erase else None
    return affine_scan(parts.queries, keys, values, log_decays, both, state=S, micro_steps=parts.micro_steps)


def _in_time(part: Tensor, micro_steps: int) -> Tensor:
    """Return (time, batch, micro, heads, size) as (time * micro, batch, heads, size)."""
    return part if micro_steps == 1 else part.movedim(-3, 1).flatten(0, 1)


def _scan_numbers(parts: Parts, S: Tensor) -> tuple[Tensor, Tensor]:
    """Run a diagonal recurrence with one value per head: the numbers of the state do not interact."""
    writes = parts.keys * parts.values
    constant = parts.log_decays.numel() > 0 and parts.log_decays.stride()[:2] == (0, 0)  # expanded over time and batch
    decays = (parts._replace(log_decays=parts.log_decays[0, 0]) if constant else parts).decays  # one exponential
    decays = decays.expand(writes.shape[2:] if constant else writes.shape).flatten(0 if constant else 2)
    states = diagonal_scan(decays, writes.flatten(2), S.flatten(1)).view_as(writes)
    return (parts.queries * states).sum(-1, keepdim=True), states[-1].unsqueeze(-1)


def _scan_steps(parts: Parts, S: Tensor) -> tuple[Tensor, Tensor]:
    """Run the literal recurrence: the kernels for matrices take logarithms of decays."""
    reads = []
    for step in range(len(parts.queries)):
        part = parts.chosen(step)
        S = step_state(part, S)
        reads.append(read_state(part, S))
    return torch.stack(reads), S


def _scan_rotating(parts: Parts, S: Tensor) -> tuple[Tensor, Tensor]:
    """Run a complex diagonal recurrence by the kernel for real ones, in a frame that rotates with the keys.

    Let T be the cumulated angles, and `S~ = exp(-iT) S`. Then S~ only decays, its keys are `exp(-iT) k`, and it is
    read by `exp(iT) q`. A complex key counts as two real ones. Only the real part of the outputs is returned.
    """
    assert parts.erase is None
    assert parts.micro_steps == 1
    assert not parts.values.is_complex()
    angles = parts.log_decays.imag.cumsum(0).expand_as(parts.keys)
    turn = torch.polar(torch.ones_like(angles), angles)
    keys = _as_real(parts.keys * turn.conj())
    queries = _as_real((parts.queries * turn).conj())  # Re(q s) is the product of (Re q, -Im q) and (Re s, Im s)
    decays = parts.log_decays.real.expand_as(angles).repeat_interleave(2, dim=-1)
    start = torch.view_as_real(S).movedim(-1, -2).flatten(-3, -2)  # (batch, heads, 2 keys, values)
    outputs, last = affine_scan(queries, keys, parts.values, decays, state=start)
    real, imaginary = last.unflatten(-2, (-1, 2)).unbind(-2)
    return outputs, turn[-1].unsqueeze(-1) * torch.complex(real, imaginary)


def as_complex(pairs: Float[Tensor, "*batch 2"]) -> Inexact[Tensor, "*batch"]:
    """Return pairs of numbers as complex ones, at least in float32: torch has none that are shorter.

    >>> as_complex(torch.tensor([1.0, 2.0], dtype=torch.bfloat16))
    tensor(1.+2.j)
    """
    return torch.view_as_complex(pairs.to(torch.promote_types(pairs.dtype, torch.float32)).contiguous())


def _as_real(x: Tensor) -> Tensor:
    return torch.view_as_real(x.resolve_conj()).flatten(-2)
