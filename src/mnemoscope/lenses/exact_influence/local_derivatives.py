"""Derivatives of the states and reads of a layer in the steps that an input reaches directly.

Along a direction of the inputs, the parts have derivatives dg, da, db, dk, dv and dq. Those of the state follow from

    dS' = A dS + dA S + dk v^T + k dv^T,      dA = diag(exp(g) dg) + da b^T + a db^T.

All of it is linear in the columns of S, so that S may stand for S times a few columns of random signs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from mnemoscope.base.array_types import Float, Inexact
from mnemoscope.cells.affine.layer import AffineLayer, LayerInputs
from mnemoscope.cells.affine.parts import Parts, carry_back, scan_states
from mnemoscope.lenses.exact_influence.device_limits import of_device

BLOCK = {"cpu": 2_000_000, "cuda": 64_000_000}
"""Numbers of derivatives of states that are computed at a time: few, so that they stay in the cache of a CPU."""

Sketch = Float[Tensor, "heads directions values columns"] | None
"""Columns by which the values of each head are multiplied along each direction; None for the values themselves."""


class LocalDerivatives:
    """Derivatives of the first reads after each input, and of the state after the last step that it reaches."""

    def __init__(self, layer: AffineLayer, inputs: LayerInputs) -> None:
        self.layer, self.inputs = layer, inputs
        self.window = inputs.window
        """Number of steps that an input reaches directly."""
        time, batch = inputs.xs.shape[:2]
        raw = layer.core.parts(layer.features)
        self._shift = layer.parts.log_decays - raw.log_decays if layer.scales is not None else None
        self.energies = inputs.xs.new_zeros(batch, time, time)
        """Squared derivatives of the reads in these steps, summed over the directions."""
        reads = layer.reads()
        denominators = layer.core.denominators(reads, layer.scales)
        self.normalised = denominators is not None
        """Whether the last column of the state is that of a normaliser."""
        if denominators is not None:
            self.denominators = denominators
            direction = torch.zeros_like(reads)
            direction[..., -1] = 1
            [slope] = _derivatives(lambda x: [layer.core.denominators(x, layer.scales)], reads, direction.unsqueeze(0))
            self._slopes = slope[0].unsqueeze(-1) * reads[..., :-1] / denominators.unsqueeze(-1)

    def normaliser_slopes(
        self, sketch: Tensor | None, steps: slice = slice(None)
    ) -> Float[Tensor, "steps batch heads directions columns"]:
        """Return `slope h`, by which the derivative of the normaliser enters those of the reads h of values."""
        return _sketched(self._slopes[steps].unsqueeze(-2), sketch)

    def blocks(
        self, directions: Float[Tensor, "directions time batch inputs"], sketch: Sketch
    ) -> Iterator[Inexact[Tensor, "block batch heads keys directions all_columns"]]:
        """Yield the derivatives of the states after the last steps that inputs reach, for some inputs after others.

        Those of inputs whose last step is after the end have no meaning. Only every c-th input is moved at a time, so
        that the features of a step depend on one moved input.
        """
        layer, (number, time), c = self.layer, directions.shape[:2], self.window
        tangents = self._change_of_features(directions)
        extended = None if sketch is None else self._extended(sketch)
        S = layer.start if extended is None else layer.start @ _flat(extended).to(layer.start.dtype)
        size = max(1, of_device(BLOCK, S) // (S.numel() * (number if sketch is None else 1)))
        for sources in torch.arange(time, device=directions.device).split(size):
            first, after = int(sources[0]), int(sources[-1]) + 1
            states = self._states(slice(first, min(after + c - 1, time)), S, extended)
            S = states[after - first]
            states = states.unflatten(-1, (1 if sketch is None else number, -1))
            states = states.movedim(-3, -1).contiguous()  # keys last: long inner loops
            found = None
            for later in range(min(c, time - first)):
                reached = sources[: time - later - first]
                tangent = tangents[reached % c, :, reached + later].transpose(0, 1)
                found = None if found is None else found[: len(reached)]
                found = self._advance(first, later, tangent, extended, states, found)
            assert found is not None
            found = torch.cat([found, found.new_zeros(len(sources) - len(found), *found.shape[1:])])
            yield found.movedim(-1, -3).contiguous()

    def _change_of_features(
        self, directions: Float[Tensor, "directions time batch inputs"]
    ) -> Float[Tensor, "moved directions time batch features"]:
        """Return the derivatives of the features by every c-th input, from each of the first c on."""
        inputs, c = self.inputs, self.window
        projected = inputs.project(inputs.xs)
        [change] = _derivatives(lambda xs: [inputs.project(xs)], inputs.xs, directions)
        sources = torch.arange(len(inputs.xs), device=directions.device).view(-1, 1, 1)
        moved = torch.cat([torch.where(sources % c == first, change, 0) for first in range(c)])
        [tangents] = _derivatives(lambda xs: [inputs.mix(xs)], projected, moved)
        return tangents.unflatten(0, (c, -1))

    def _states(
        self, steps: slice, S: Inexact[Tensor, "batch heads keys all_columns"], sketch: Sketch
    ) -> Inexact[Tensor, "steps batch heads keys all_columns"]:
        """Return the state S before some steps and those after each of them, times the columns of all directions."""
        parts = self.layer.between(steps.start, steps.stop)
        if sketch is not None:
            flat = _flat(sketch).to(parts.values.dtype)
            parts = parts._replace(values=(parts.values.unsqueeze(-2) @ flat).squeeze(-2))
        return torch.cat([S.unsqueeze(0), scan_states(parts, S)])

    def _advance(
        self,
        block: int,
        later: int,
        tangent: Float[Tensor, "directions sources batch features"],
        sketch: Sketch,
        states: Inexact[Tensor, "steps batch heads directions_or_1 columns keys"],
        dS: Inexact[Tensor, "sources batch heads directions columns keys"] | None,
    ) -> Inexact[Tensor, "sources batch heads directions columns keys"]:
        """Return the derivatives of the states so many steps after the inputs of a block, and add those of the reads.

        Args:
            block: the first input of the block.
            later: number of steps after each input.
            tangent: derivatives of the features of these steps.
            sketch: the columns of each direction.
            states: states from the first input of the block on, for each direction or for all.
            dS: derivatives one step before; None for zeros.

        """
        number, sources = tangent.shape[:2]
        first = block + later
        steps = slice(first, first + sources)
        parts = self.layer.between(steps.start, steps.stop)
        v = _sketched(parts.values.unsqueeze(-2), sketch)
        dq, dk, dv, dg, da, db = self._change_of_parts(steps, tangent)
        dv = None if dv is None else _sketched(dv, sketch)
        pieces = [_unbound(x, parts.micro_steps) for x in (v, dk, dv, dg, da, db)]
        S, S_after = (states[later + i : later + i + sources] for i in range(2))
        for part, v, dk, dv, dg, da, db in zip(parts.each(), *pieces, strict=True):
            moved = S.new_zeros(*S.shape[:3], number, *S.shape[-2:]) if dS is None else _carried(part, dS)
            for row, column in _terms(part, S, v, dk, dv, dg, da, db):
                moved.addcmul_(row, column)
            dS = moved
            if part.micro_steps < parts.micro_steps:
                S = _carried(part, S).addcmul_(part.keys[..., None, None, :], v.unsqueeze(-1))
        assert dS is not None
        reads = self._change_of_reads(steps, sketch, parts, dS, S_after, dq)
        targets = torch.arange(steps.start, steps.stop, device=reads.device)
        self.energies[:, targets, targets - later] += reads.abs().square().sum((-3, -2, -1)).T
        return dS

    def _change_of_reads(
        self, steps: slice, sketch: Sketch, parts: Parts, dS: Tensor, S: Tensor, dq: Tensor | None
    ) -> Inexact[Tensor, "sources batch heads directions _"]:
        """Return the derivatives of the reads of some steps from those of their states S and queries."""
        q = parts.queries.to(dS.dtype)
        read = (dS.flatten(-3, -2) @ q.unsqueeze(-1)).squeeze(-1).unflatten(-1, dS.shape[-3:-1])
        if dq is not None:
            read = read + _read(S, dq.to(dS.dtype))
        if not parts.values.is_complex() and read.is_complex():
            read = read.real
        if self.normalised:
            slopes = self.normaliser_slopes(None if sketch is None else sketch[..., :-1, :-1], steps)
            read = (read[..., :-1] - slopes * read[..., -1:]) / self.denominators[steps, ..., None, None]
        return read

    def _change_of_parts(
        self, steps: slice, tangent: Float[Tensor, "directions steps batch features"]
    ) -> list[Tensor | None]:
        """Return the derivatives of q, k, v, g, a and b at some steps; None where they do not move.

        The directions are after the heads. Parts belong to one step alone, so that the directions are taken as
        further steps.
        """
        layer, number = self.layer, len(tangent)
        shift, scale = (None if x is None else _repeated(x[steps], number) for x in (self._shift, layer.scales))

        def parts(features: Tensor) -> list[Tensor]:
            return _relative(layer.core.parts(features), shift, scale).tensors()

        found = _derivatives(parts, _repeated(layer.features[steps], number), tangent.flatten(0, 1).unsqueeze(0))
        found = [None if x is None else x.squeeze(0).unflatten(0, (number, -1)).movedim(0, -2) for x in found]
        return found if len(found) == 6 else [*found, None, None]

    def _extended(self, sketch: Tensor) -> Tensor:
        """Return a sketch that also keeps the column of a normaliser."""
        if not self.normalised:
            return sketch
        extended = torch.nn.functional.pad(sketch, (0, 1, 0, 1))
        extended[..., -1, -1] = 1
        return extended


def _terms(
    part: Parts,
    S: Tensor,
    v: Tensor,
    dk: Tensor | None,
    dv: Tensor | None,
    dg: Tensor | None,
    da: Tensor | None,
    db: Tensor | None,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield pairs of tensors whose products are the terms of dS', but for the carried derivative."""
    if dg is not None:
        slopes = part.beta_max * torch.exp(part.log_decays)  # of the decays by g
        if S.shape[-3] == 1:  # the directions share the state
            yield dg.unsqueeze(-2), slopes[..., None, None, :] * S
        else:
            yield (slopes.unsqueeze(-2) * dg).unsqueeze(-2), S
    if dk is not None:
        yield dk.unsqueeze(-2), v.unsqueeze(-1)
    if dv is not None:
        yield part.keys[..., None, None, :], dv.unsqueeze(-1)
    if part.erase is not None:
        a, b = part.erase
        if da is not None:
            yield da.unsqueeze(-2), (S.flatten(-3, -2) @ b.unsqueeze(-1)).unflatten(-2, S.shape[-3:-1])
        if db is not None:
            yield a[..., None, None, :], _read(S, db).unsqueeze(-1)


def _read(S: Tensor, queries: Tensor) -> Tensor:
    """Return the reads (..., directions, columns) of S (..., directions or 1, columns, keys) by each direction."""
    if S.shape[-3] == 1:
        return queries @ S.squeeze(-3).mT
    return (queries.unsqueeze(-2) * S).sum(-1)


def _carried(part: Parts, S: Tensor) -> Tensor:
    """Return `A S` of a single micro-step for S with its keys last."""
    transposed = part if part.erase is None else part._replace(erase=part.erase[::-1])
    return carry_back(transposed, S.flatten(-3, -2)).view(S.shape)


def _unbound(x: Tensor | None, micro_steps: int) -> Sequence[Any]:
    """Return the micro-steps of (..., micro_steps, heads, directions, size)."""
    if x is None or micro_steps == 1:
        return [x] * micro_steps
    return x.unbind(-4)


def _sketched(values: Tensor, sketch: Tensor | None) -> Tensor:
    """Return values (..., heads, directions or 1, values) times the columns of each direction."""
    return values if sketch is None else (values.unsqueeze(-2) @ sketch.to(values.dtype)).squeeze(-2)


def _flat(sketch: Float[Tensor, "heads directions values columns"]) -> Float[Tensor, "heads values all_columns"]:
    """Return the columns of all directions side by side."""
    return sketch.transpose(1, 2).flatten(2)


def _repeated(x: Tensor, number: int) -> Tensor:
    """Return this number of copies of the steps of x, in sequence."""
    return x.repeat(number, *(1,) * (x.dim() - 1))


def _derivatives(
    function: Callable[[Tensor], Sequence[Any]], at: Tensor, along: Float[Tensor, "directions ..."]
) -> list[Any]:
    """Return the derivatives of the values of a function along directions; None for those that are constant."""
    found = []
    with warnings.catch_warnings():  # torch loads its rules of forward mode by means that it calls deprecated
        warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated")
        for direction in along:
            with forward_ad.dual_level():
                values = function(forward_ad.make_dual(at, direction))
                found.append([forward_ad.unpack_dual(value).tangent for value in values])
    if len(found) == 1:  # without a copy
        return [None if tangent is None else tangent.unsqueeze(0) for tangent in found[0]]
    return [None if each[0] is None else torch.stack(each) for each in zip(*found, strict=True)]


def _relative(parts: Parts, shift: Tensor | None, scale: Tensor | None) -> Parts:
    """Return parts relative to scales that are held constant, since no output depends on them."""
    if shift is None or scale is None:
        return parts
    assert parts.log_writes is not None
    keys, erase = torch.exp(parts.log_writes - scale).unsqueeze(-1) * parts.keys, parts.erase
    if erase is not None:
        erase = (torch.exp(shift) * erase[0], erase[1])
    return parts._replace(keys=keys, log_decays=parts.log_decays + shift, erase=erase, log_writes=None)
