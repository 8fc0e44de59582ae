"""The full influence of a layer: derivatives of its reads by its inputs, through values, keys, gates and convolution.

An input x_s reaches the parts of the steps s, ..., s + c - 1, where c is the width of the convolution. Let W_s be the
derivative of the state after these steps by x_s (`local_derivatives`). After them the state is only carried and read,
so that

    d o_t / d x_s = r^T W_s,      |d o_t / d x_s|^2 = r^T (sum W_s W_s^T) r,      r = A_{s+c}^T ... A_t^T q_t,

for t >= s + c: with the readers r of `readers`, all time^2 norms cost O(time^2 keys^2), and are products of matrices.

W_s is computed along all input directions, or estimated from random ones (Hutchinson 1990): with random signs z for the
input features and p columns of random signs w for the values, the mean of `|r^T W_s z w|^2 / p` is the squared norm.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, sqrt
from typing import NamedTuple

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.cells.affine.layer import AffineLayer, LayerInputs
from mnemoscope.lenses.exact_influence.carried_derivatives import carry_derivatives
from mnemoscope.lenses.exact_influence.local_derivatives import LocalDerivatives, Sketch

WORK = 1e8
"""Numbers of derivatives of states up to which every direction is followed."""
DIRECTIONS = 8
"""Random directions otherwise."""
COLUMNS = (8, 2)
"""Columns of random signs by which the values are multiplied for each random direction, without and with normaliser."""
ROOM = 64_000_000
"""Numbers of derivatives of features and states that are in memory at a time, roughly."""


class FullPath(NamedTuple):
    """Squared derivatives of the reads of a layer by its inputs."""

    energies: Float[Tensor, "batch time sources"]
    """`|d o_t / d x_s|^2`, the sum over heads, values and input features."""
    directions: int
    """Number of random directions of each input; 0 if the numbers are exact."""
    columns: int
    """Number of random columns of the values for each direction; 0 if all values are taken."""

    @property
    def standard_error(self) -> float:
        """Largest standard error of a number, relative to it.

        For p columns of random signs w, `|J w|^2 / p` has a variance of at most 2 / p |J|^4; for random signs z, that
        of `|K z|^2` is at most 2 |K|^4, with K = J w / sqrt(p): together at most (2 + 6 / p) |J|^4.
        """
        if not self.directions:
            return 0.0
        return sqrt((2 + (6 / self.columns if self.columns else 0)) / self.directions)


def full_path(layer: AffineLayer, directions: int | None = None, seed: int = 0) -> FullPath:
    """Return the squared derivatives of the reads of a layer by its inputs.

    The reads of a layer with a normaliser are those divided by it. If the layer does not know its inputs, the
    derivatives are those by its features.

    Args:
        layer: the layer on given inputs.
        directions: number of random directions of each input; 0 for all directions, which is exact. By default exact,
            unless that takes long.
        seed: seed of the random directions.

    """
    inputs = layer.inputs or LayerInputs(layer.features, lambda features: features)
    size, S = inputs.xs.shape[-1], layer.start
    if directions is None:
        directions = 0 if size * len(inputs.xs) * S.numel() * inputs.window <= WORK else DIRECTIONS
    local = LocalDerivatives(layer, inputs)
    values = S.shape[-1] - local.normalised
    columns = min(COLUMNS[local.normalised], values)
    columns = columns if directions and columns < values else 0
    carried = carry_derivatives(layer, local)
    for group, sketch in _directions(local, directions, columns, seed):
        carried.add(local.blocks(group, sketch), sketch)
    energies = local.energies
    later = carried.energies()
    late = inputs.window - 1  # the state after step s + late belongs to the input s
    energies[..., : energies.shape[-1] - late] += later[..., late:]
    return FullPath(energies / max(directions, 1), directions, columns)


def _directions(local: LocalDerivatives, number: int, columns: int, seed: int) -> Iterator[tuple[Tensor, Sketch]]:
    """Yield groups of directions of all inputs: unit vectors, or random signs, with columns of signs for the values."""
    layer, xs = local.layer, local.inputs.xs
    generator = seeded_generator(seed)

    def random_signs(*shape: int) -> Tensor:
        return (2 * torch.randint(2, shape, generator=generator) - 1).to(xs)

    heads, keys, values = layer.start.shape[1:]
    values -= local.normalised
    each = local.window * layer.features.shape[-1]
    if local.normalised:
        each = max(each, heads * keys * (columns or values))
    units = torch.eye(xs.shape[-1], dtype=xs.dtype, device=xs.device)
    total = number or len(units)
    groups = ceil(total * each * xs[..., 0].numel() / ROOM)
    for some in torch.arange(total, device=xs.device).split(ceil(total / groups)):
        shape = (len(some), *xs.shape)
        directions = random_signs(*shape) if number else units[some][:, None, None].expand(shape)
        yield directions, random_signs(heads, len(some), values, columns) / sqrt(columns) if columns else None
