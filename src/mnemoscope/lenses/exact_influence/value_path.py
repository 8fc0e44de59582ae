"""The value path of an affine layer: the exact weight of every value written in every read.

The reads of a layer are linear in the values that it writes,

    q_t^T S_t = sum_s M_ts v_s + q_t^T A_t ... A_1 S_0,      M_ts = q_t^T A_t ... A_{s+1} k_s,

and M is the recurrence applied to the identity: its column s is read if only step s writes, and writes the value 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Inexact
from mnemoscope.cells.affine.layer import AffineLayer
from mnemoscope.cells.affine.parts import Parts, scan_parts

ROOM = 8_000_000
"""Numbers of M that are computed at a time."""


@dataclass(frozen=True)
class ValuePaths:
    """The reads of a layer as a linear function of the values that it writes: `reads = matrix @ values + start`.

    The reads of a layer with a normaliser, as in mLSTM, are those divided by it, and so are its rows of M. M is not the
    whole influence of an input, which also acts through gates, keys, queries and convolutions.
    """

    matrix: Inexact[Tensor, "batch heads time writes"]
    """M: one row per read, one column per write, of which an input has `micro_steps`. It is real, the real part that is
    read, unless the values are complex."""
    values: Inexact[Tensor, "batch heads writes values"]
    """v of every write."""
    start: Inexact[Tensor, "batch heads time values"]
    """The part of the reads that comes from the state before the first input."""
    micro_steps: int = 1
    """Number of writes per input."""

    def reads(self) -> Inexact[Tensor, "batch heads time values"]:
        """Return the reads of the layer."""
        return self.matrix @ self.values + self.start

    def energies(self) -> Float[Tensor, "batch heads time sources"]:
        """Return `|sum_j M_tj v_j|^2` over the writes j of each input: the squared norm of its part of each read."""
        squares = self.values.abs().square().sum(-1)
        if self.micro_steps == 1:
            return self.matrix.abs().square() * squares.unsqueeze(-2)
        inputs = (-1, self.micro_steps)
        parts = torch.einsum("bhtsj,bhsje->bhtse", self.matrix.unflatten(-1, inputs), self.values.unflatten(-2, inputs))
        return parts.abs().square().sum(-1)


def value_paths(layer: AffineLayer, heads: slice = slice(None)) -> ValuePaths:
    """Return the weight of every value of a layer in every read, for some of its heads.

    The result has heads x time^2 numbers for each sequence: take a few heads at a time of a layer that has thousands.

    >>> from mnemoscope.cells import affine_layers
    >>> from mnemoscope.cells.affine import DeltaNet
    >>> [layer] = affine_layers(DeltaNet(3, 8, heads=2).double(), torch.randn(20, 4, 3, dtype=torch.float64))
    >>> paths = value_paths(layer)
    >>> torch.allclose(paths.reads(), layer.reads().permute(1, 2, 0, 3))
    True

    """
    parts, start = _of_heads(layer.parts, heads), layer.start[:, heads]
    matrix = _applied_to_identity(parts, start)
    left = scan_parts(parts._replace(values=torch.zeros_like(parts.values)), start)[0]
    values = parts.values if parts.micro_steps == 1 else parts.values.movedim(-3, 1).flatten(0, 1)
    left, values = (x.permute(1, 2, 0, 3) for x in (left, values))
    if not parts.values.is_complex():
        left = left.real
    denominators = layer.denominators()
    if denominators is not None:  # the last value is that of the normaliser
        rows = denominators[..., heads].permute(1, 2, 0).unsqueeze(-1)
        matrix, left, values = matrix / rows, left[..., :-1] / rows, values[..., :-1]
    return ValuePaths(matrix, values, left, parts.micro_steps)


def _of_heads(parts: Parts, heads: slice) -> Parts:
    queries, keys, values, log_decays = (
        x[..., heads, :] for x in (parts.queries, parts.keys, parts.values, parts.log_decays)
    )
    erase = None if parts.erase is None else (parts.erase[0][..., heads, :], parts.erase[1][..., heads, :])
    return Parts(queries, keys, values, log_decays, erase, None, parts.micro_steps)


def _applied_to_identity(parts: Parts, start: Tensor) -> Inexact[Tensor, "batch heads time writes"]:
    """Return what is read if each write in turn is the only one, and its value is 1."""
    time, batch, heads = parts.queries.shape[:3]
    micro = parts.micro_steps
    columns = max(1, ROOM // (time * batch * heads * micro))
    matrix = parts.values.new_zeros(batch, heads, time, time * micro)
    for first in range(0, time * micro, columns):
        block = slice(first, min(first + columns, time * micro))
        begin = first // micro  # nothing is read before it is written
        later = _from_step(parts, begin)
        places = torch.arange(block.start, block.stop, device=matrix.device) - begin * micro
        identity = matrix.real.new_zeros((time - begin) * micro, len(places))
        identity[places, torch.arange(len(places), device=matrix.device)] = 1
        written = identity.unflatten(0, (time - begin, micro))[:, None, :, None].expand(-1, batch, -1, heads, -1)
        later = later._replace(values=written.squeeze(2) if micro == 1 else written)
        empty = start.new_zeros(*start.shape[:-1], len(places))
        read = scan_parts(later, empty)[0].real
        if matrix.is_complex():
            read = torch.complex(read, scan_parts(later._replace(queries=-1j * later.queries), empty)[0].real)
        matrix[:, :, begin:, block] = read.permute(1, 2, 0, 3)
    return matrix


def _from_step(parts: Parts, step: int) -> Parts:
    erase = None if parts.erase is None else (parts.erase[0][step:], parts.erase[1][step:])
    numbers = (parts.queries[step:], parts.keys[step:], parts.values[step:], parts.log_decays[step:])
    return Parts(*numbers, erase, None, parts.micro_steps)
