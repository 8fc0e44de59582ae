"""Derivatives of the states and reads of a layer in the steps that an input reaches directly.

Along a direction of the inputs, the parts have derivatives dg, da, db, dk, dv and dq. Those of the state follow from

    dS' = A dS + dA S + dk v^T + k dv^T,      dA = diag(exp(g) dg) + da b^T + a db^T.

All of it is linear in the columns of S, so that S may stand for S times a few columns of random signs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from mnemoscope.base.array_types import Float, Inexact
from mnemoscope.cells.affine.layer import AffineLayer, LayerInputs
from mnemoscope.cells.affine.parts import Parts, carry_back, scan_states

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

    def normaliser_slopes(self, sketch: Tensor | None) -> Float[Tensor, "time batch heads directions columns"]:
        """Return `slope h`, by which the derivative of the normaliser enters those of the reads h of values."""
        return _sketched(self._slopes.unsqueeze(-2), sketch)

    def add(
        self, directions: Float[Tensor, "directions time batch inputs"], sketch: Sketch
    ) -> Inexact[Tensor, "time batch heads keys directions all_columns"]:
        """Return the derivatives of the states after the last steps that inputs reach, along directions of them.

        Those of inputs whose last step is after the end are 0. Only every c-th input is moved at a time, so that the
        features of a step depend on one moved input.
        """
        time, c = directions.shape[1], self.window
        extended = None if sketch is None else self._extended(sketch)
        states = self._states(extended, len(directions)).movedim(-3, -1).contiguous()  # keys last: long inner loops
        projected = self.inputs.project(self.inputs.xs)
        [change] = _derivatives(lambda xs: [self.inputs.project(xs)], self.inputs.xs, directions)
        sources = torch.arange(time, device=directions.device)
        moved = torch.cat([torch.where((sources % c == first).view(-1, 1, 1), change, 0) for first in range(c)])
        [tangents] = _derivatives(lambda xs: [self.inputs.mix(xs)], projected, moved)
        tangents = tangents.unflatten(0, (c, -1))
        found = torch.zeros_like(states[:-1])
        for later in range(min(c, time)):
            reached = sources[: time - later]
            tangent = tangents[reached % c, :, reached + later].transpose(0, 1)
            found = self._advance(later, tangent, extended, states, found[: time - later])
        found = torch.cat([found, found.new_zeros(time - len(found), *found.shape[1:])])
        return found.movedim(-1, -3).contiguous()

    def _states(
        self, sketch: Tensor | None, number: int
    ) -> Inexact[Tensor, "steps batch heads keys directions columns"]:
        """Return the states before every step and after the last, times the columns of each direction."""
        layer = self.layer
        if sketch is None:
            S, values = layer.start, layer.parts.values
        else:
            flat = sketch.transpose(1, 2).flatten(2)  # (heads, values, directions columns)
            S = layer.start @ flat.to(layer.start.dtype)
            values = (layer.parts.values.unsqueeze(-2) @ flat.to(layer.parts.values.dtype)).squeeze(-2)
        states = torch.cat([S.unsqueeze(0), scan_states(layer.parts._replace(values=values), S)])
        if sketch is None:
            return states.unsqueeze(-2).expand(*states.shape[:-1], number, -1)
        return states.unflatten(-1, (number, -1))

    def _advance(self, first: int, tangent: Tensor, sketch: Tensor | None, states: Tensor, dS: Tensor) -> Tensor:
        """Return the derivatives of the states after the steps from `first` on, and add those of their reads."""
        layer, time = self.layer, len(self.layer.features)
        parts = layer.between(first, time)
        v, q = _sketched(parts.values.unsqueeze(-2), sketch), parts.queries.to(dS.dtype)
        dq, dk, dv, dg, da, db = self._change_of_parts(first, tangent)
        dv = None if dv is None else _sketched(dv, sketch)
        pieces = [_unbound(x, parts.micro_steps) for x in (v, dk, dv, dg, da, db)]
        S = states[first:-1]  # (time, batch, heads, directions, columns, keys), as dS
        for part, v, dk, dv, dg, da, db in zip(parts.each(), *pieces, strict=True):
            moved = _carried(part, dS)
            if dg is not None:
                moved.addcmul_((torch.exp(part.log_decays).unsqueeze(-2) * dg).unsqueeze(-2), S)
            for row, column in _rank_one(part, S, v, dk, dv, da, db):
                moved.addcmul_(row, column)
            dS = moved
            if part.micro_steps < parts.micro_steps:
                S = _carried(part, S).addcmul_(part.keys[..., None, None, :], v.unsqueeze(-1))
        read = (dS.flatten(-3, -2) @ q.unsqueeze(-1)).squeeze(-1).unflatten(-1, dS.shape[-3:-1])
        if dq is not None:
            read = read + (dq.to(dS.dtype).unsqueeze(-2) * states[first + 1 :]).sum(-1)
        if not parts.values.is_complex() and read.is_complex():
            read = read.real
        if self.normalised:
            slopes = self.normaliser_slopes(None if sketch is None else sketch[..., :-1, :-1])[first:]
            read = (read[..., :-1] - slopes * read[..., -1:]) / self.denominators[first:, ..., None, None]
        sources = torch.arange(time - first, device=read.device)
        self.energies[:, sources + first, sources] += read.abs().square().sum((-3, -2, -1)).T
        return dS

    def _change_of_parts(self, first: int, tangent: Tensor) -> list[Tensor | None]:
        """Return the derivatives of q, k, v, g, a and b at the steps from `first` on; None where they do not move.

        The directions are after the heads.
        """
        layer = self.layer
        shift = None if self._shift is None else self._shift[first:]
        scale = None if layer.scales is None else layer.scales[first:]

        def parts(features: Tensor) -> list[Tensor]:
            return _relative(layer.core.parts(features), shift, scale).tensors()

        found = _derivatives(parts, layer.features[first:], tangent)
        found = [x if x is None else x.movedim(0, -2) for x in found]
        return found if len(found) == 6 else [*found, None, None]

    def _extended(self, sketch: Tensor) -> Tensor:
        """Return a sketch that also keeps the column of a normaliser."""
        if not self.normalised:
            return sketch
        extended = torch.nn.functional.pad(sketch, (0, 1, 0, 1))
        extended[..., -1, -1] = 1
        return extended


def _rank_one(
    part: Parts,
    S: Tensor,
    v: Tensor,
    dk: Tensor | None,
    dv: Tensor | None,
    da: Tensor | None,
    db: Tensor | None,
) -> list[tuple[Tensor, Tensor]]:
    """Return the factors of the terms of dS' that are products of a row and a column."""
    terms = []
    if dk is not None:
        terms.append((dk.unsqueeze(-2), v.unsqueeze(-1)))
    if dv is not None:
        terms.append((part.keys[..., None, None, :], dv.unsqueeze(-1)))
    if part.erase is not None:
        a, b = part.erase
        if da is not None:
            read = (S.flatten(-3, -2) @ b.unsqueeze(-1)).unflatten(-2, S.shape[-3:-1])
            terms.append((da.unsqueeze(-2), read))
        if db is not None:
            terms.append((a[..., None, None, :], (db.unsqueeze(-2) * S).sum(-1, keepdim=True)))
    return terms


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
