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

from abc import ABC, abstractmethod
from collections.abc import Iterator
from math import sqrt
from typing import NamedTuple

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Inexact
from mnemoscope.cells.affine.layer import AffineLayer, LayerInputs
from mnemoscope.lenses.exact_influence.device_limits import of_device
from mnemoscope.lenses.exact_influence.local_derivatives import LocalDerivatives, Sketch
from mnemoscope.lenses.exact_influence.readers import Readers, carried_to_end

WORK = 1e8
"""Numbers of derivatives of states up to which every direction is followed."""
DIRECTIONS = 8
"""Random directions otherwise."""
COLUMNS = (8, 2)
"""Columns of random signs by which the values are multiplied for each random direction, without and with normaliser."""
ROOM = 64_000_000
"""Numbers of derivatives of features and states that are in memory at a time, roughly."""

SQUARES = {"cpu": 4_000_000, "cuda": 256_000_000}
"""Products of readers that are in memory at a time: few, so that they stay in the cache of a CPU."""


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
    carried = _Normalised(layer, local) if local.normalised else _Plain(layer, local)
    for group, sketch in _directions(layer, inputs, directions, columns, seed):
        carried.add(local.add(group, sketch), sketch)
    energies = local.energies
    later = carried.energies()
    late = inputs.window - 1  # the state after step s + late belongs to the input s
    energies[..., : energies.shape[-1] - late] += later[..., late:]
    return FullPath(energies / max(directions, 1), directions, columns)


def _directions(
    layer: AffineLayer, inputs: LayerInputs, number: int, columns: int, seed: int
) -> Iterator[tuple[Tensor, Sketch]]:
    """Yield groups of directions of all inputs: unit vectors, or random signs, with columns of signs for the values."""
    generator, xs = torch.Generator().manual_seed(seed), inputs.xs

    def random_signs(*shape: int) -> Tensor:
        return (2 * torch.randint(2, shape, generator=generator) - 1).to(xs)

    heads, keys, values = layer.start.shape[1:]
    values -= layer.denominators() is not None
    each = max(heads * keys * (columns or values), inputs.window * layer.features.shape[-1])
    units = torch.eye(xs.shape[-1], dtype=xs.dtype, device=xs.device)
    for some in torch.arange(number or len(units), device=xs.device).split(max(1, ROOM // (each * xs[..., 0].numel()))):
        shape = (len(some), *xs.shape)
        directions = random_signs(*shape) if number else units[some][:, None, None].expand(shape)
        yield directions, random_signs(heads, len(some), values, columns) / sqrt(columns) if columns else None


class _Carried(ABC):
    """The part of the squared derivatives that comes from the states after the first steps of each input."""

    def __init__(self, layer: AffineLayer, local: LocalDerivatives) -> None:
        self.layer, self.local = layer, local
        self.late = local.window - 1
        self.readers = Readers(layer.parts, layer.start.dtype)

    @abstractmethod
    def add(self, W: Inexact[Tensor, "time batch heads keys directions _"], sketch: Sketch) -> None:
        """Add the derivatives W of some directions."""

    @abstractmethod
    def energies(self) -> Float[Tensor, "batch time states"]:
        """Return the squared derivatives of the reads by the inputs to which the states after each step belong."""

    def empty(self) -> tuple[Tensor, Tensor]:
        """Return zeros for all pairs of steps in whole chunks, and a view of the pairs inside of each chunk."""
        batch, length = self.layer.start.shape[0], self.readers.chunks * self.readers.size
        whole = self.layer.features.new_zeros(batch, length, length, dtype=self.local.energies.dtype)
        chunks = (self.readers.chunks, self.readers.size)
        return whole, whole.unflatten(2, chunks).unflatten(1, chunks).diagonal(0, 1, 3)  # (batch, t, u, chunks)

    def in_chunks(self, sources: Tensor) -> Tensor:
        """Return what belongs to the inputs in the order of the states, (chunks, steps, ...)."""
        late = min(self.late, len(sources))
        return self.readers.in_chunks(torch.cat([torch.zeros_like(sources[:late]), sources[: len(sources) - late]]))


class _Plain(_Carried):
    """Without a normaliser, the sums of `W W^T` over all directions are carried."""

    def __init__(self, layer: AffineLayer, local: LocalDerivatives) -> None:
        super().__init__(layer, local)
        self.grams: Tensor | None = None

    def add(self, W: Inexact[Tensor, "time batch heads keys directions _"], sketch: Sketch) -> None:
        W = _as_real(W.flatten(-2))
        products = W @ W.mT.contiguous()  # ten times as fast on some CPUs as with a transposed view
        self.grams = products if self.grams is None else self.grams.add_(products)

    def energies(self) -> Float[Tensor, "batch time states"]:
        assert self.grams is not None
        whole, inside = self.empty()
        grams, self.grams = self.in_chunks(self.grams), None  # (chunks, steps, batch, heads, keys, keys)
        i, j = torch.triu_indices(*grams.shape[-2:], device=grams.device)
        twice = torch.where(i == j, 1, 2).to(grams)
        vectors = torch.empty(*grams.shape[:-2], len(i), dtype=grams.dtype, device=grams.device)
        for step, r, operator in self.readers.within():
            for part in self.real(r[..., 1:, :]):
                norms = ((part @ grams[:, step]) * part).sum(-1).sum(2)
                inside[:, step + 1 :, step] += norms.permute(1, 2, 0)
            E = _real_operator(operator)
            carried = carried_to_end(E, carried_to_end(E, grams[:, step]).mT.contiguous())
            vectors[:, step] = carried[..., i, j] * twice
        del grams
        size, (_, _, batch, heads, numbers) = self.readers.size, vectors.shape
        rows = max(1, of_device(SQUARES, vectors) // (batch * heads * numbers))
        for chunk, r in self.readers.across():
            first, after = chunk * size, (chunk + 1) * size
            sources = vectors[chunk].transpose(0, 1).flatten(2)  # (batch, steps, heads numbers)
            for part in self.real(r):
                for begin in range(0, part.shape[-2], rows):
                    some = part[..., begin : begin + rows, :]
                    block = slice(after + begin, after + begin + some.shape[-2])
                    whole[:, block, first:after] += (sources @ _products(some.mT.contiguous()).flatten(1, 2)).mT
        return whole[:, : self.readers.time, : self.readers.time]

    def real(self, r: Tensor) -> list[Tensor]:
        """Return real vectors whose products with the real and imaginary rows of W are the parts of `r^T W` that count.

        These are both parts if the values are complex, else the real one.
        """
        if not r.is_complex():
            return [r]
        real = torch.cat([r.real, -r.imag], -1)
        return [real, torch.cat([r.imag, r.real], -1)] if self.layer.parts.values.is_complex() else [real]


class _Normalised(_Carried):
    """With a normaliser, the last column of W is its derivative, and every direction is carried by itself.

    The derivative of the read `h = n / d` of values is `(dn - slope h dz) / d`, with that of the normaliser z.
    """

    def __init__(self, layer: AffineLayer, local: LocalDerivatives) -> None:
        super().__init__(layer, local)
        self.total, self.inside = self.empty()

    def add(self, W: Inexact[Tensor, "time batch heads keys directions _"], sketch: Sketch) -> None:
        self.readers = Readers(self.layer.parts, self.layer.start.dtype)
        number, W = W.shape[-1] - 1, self.in_chunks(W)
        slopes = self.local.normaliser_slopes(sketch).expand(*self.local.denominators.shape, W.shape[-2], number)
        slopes = self.readers.in_chunks(slopes)  # (chunks, steps, batch, heads, directions, columns)
        denominators = self.readers.in_chunks(self.local.denominators)
        denominators = torch.where(denominators == 0, 1, denominators)  # of steps after the end
        sources = torch.empty_like(W)

        def squares(r: Tensor, X: Tensor, slopes: Tensor, denominators: Tensor) -> Tensor:
            products = (r @ X.flatten(-2)).unflatten(-1, X.shape[-2:])
            moved = torch.addcmul(products[..., :number], slopes, products[..., number:], value=-1)
            return moved.square_().sum((-2, -1)) / denominators.square()

        for step, r, operator in self.readers.within():
            X = W[:, step]
            later = (x[:, step + 1 :].movedim(1, 3) for x in (slopes, denominators))
            norms = squares(r[..., 1:, :], X, *later).sum(2)
            self.inside[:, step + 1 :, step] += norms.permute(1, 2, 0)
            sources[:, step] = carried_to_end(operator, X.flatten(-2)).view_as(X)
        size = self.readers.size
        flat = [x.flatten(0, 1).movedim(0, 2) for x in (slopes, denominators)]  # (batch, heads, time, ...)
        for chunk, r in self.readers.across():
            for j in range(size):
                after = (chunk + 1) * size
                norms = squares(r, sources[chunk, j], *(x[:, :, after:] for x in flat))
                self.total[:, after:, chunk * size + j] += norms.sum(1)

    def energies(self) -> Float[Tensor, "batch time states"]:
        return self.total[:, : self.readers.time, : self.readers.time]


def _as_real(W: Tensor) -> Tensor:
    return torch.cat([W.real, W.imag], -2) if W.is_complex() else W


def _real_operator(operator: Tensor) -> Tensor:
    """Return an operator on real and imaginary rows."""
    if not operator.is_complex():
        return operator
    real, imaginary = (torch.diag_embed(x.squeeze(-1)) for x in (operator.real, operator.imag))
    return torch.cat([torch.cat([real, -imaginary], -1), torch.cat([imaginary, real], -1)], -2)


def _products(r: Float[Tensor, "batch heads keys reads"]) -> Float[Tensor, "batch heads pairs reads"]:
    """Return the products of all pairs of keys, in the order of `triu_indices`."""
    keys = r.shape[2]
    found, first = r.new_empty(*r.shape[:2], keys * (keys + 1) // 2, r.shape[3]), 0
    for i in range(keys):
        torch.mul(r[:, :, i : i + 1], r[:, :, i:], out=found[:, :, first : first + keys - i])
        first += keys - i
    return found
