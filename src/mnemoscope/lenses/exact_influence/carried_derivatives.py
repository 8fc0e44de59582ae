"""The part of the full influence that comes from states which are only carried and read.

With the derivative W_s of the state by an input (`local_derivatives`) and the readers r (`readers`), the squared
derivative of a read is `r^T (sum W_s W_s^T) r`, the sum over directions. `W W^T` has a number for each pair of keys,
and so has `r r^T`: for the reads of later chunks, all squared derivatives are products of matrices with these numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Inexact
from mnemoscope.cells.affine.layer import AffineLayer
from mnemoscope.cells.affine.parts import Parts
from mnemoscope.lenses.exact_influence.device_limits import of_device
from mnemoscope.lenses.exact_influence.local_derivatives import LocalDerivatives, Sketch
from mnemoscope.lenses.exact_influence.readers import Readers, carried_to_end

INSIDE = 16
"""Steps of a chunk of a chunk."""
SQUARES = {"cpu": 4_000_000, "cuda": 256_000_000}
"""Products of readers that are in memory at a time: few, so that they stay in the cache of a CPU."""
MATRIX = 10_000
"""Multiplications from which a product of matrices is faster than one of its numbers: torch calls a routine for each
matrix on some CPUs, which takes microseconds."""


def carry_derivatives(layer: AffineLayer, local: LocalDerivatives) -> Carried:
    """Return the object that carries the derivatives of a layer, without any yet."""
    if local.normalised:
        return _Normalised(layer, local)
    diagonal = layer.parts.erase is None and not layer.start.is_complex()
    return (_Diagonal if diagonal else _Plain)(layer, local)


class Carried(ABC):
    """The part of the squared derivatives that comes from the states after the first steps of each input."""

    def __init__(self, layer: AffineLayer, local: LocalDerivatives) -> None:
        self.layer, self.local = layer, local
        self.late = local.window - 1
        self.readers = Readers(layer.parts, layer.start.dtype)

    @abstractmethod
    def add(self, blocks: Iterator[Inexact[Tensor, "block batch heads keys directions _"]], sketch: Sketch) -> None:
        """Add the derivatives W of some directions, in blocks of inputs."""

    @abstractmethod
    def energies(self) -> Float[Tensor, "batch time states"]:
        """Return the squared derivatives of the reads by the inputs to which the states after each step belong."""

    def in_order(self, sources: Tensor) -> Tensor:
        """Return what belongs to the inputs in the order of the states."""
        late = min(self.late, len(sources))
        return torch.cat([torch.zeros_like(sources[:late]), sources[: len(sources) - late]])

    def in_chunks(self, sources: Tensor) -> Tensor:
        """Return the same as (chunks, steps, ...)."""
        return self.readers.in_chunks(self.in_order(sources))

    def real(self, r: Tensor) -> list[Tensor]:
        """Return real vectors whose products with the real and imaginary rows of W are the parts of `r^T W` that count.

        These are both parts if the values are complex, else the real one.
        """
        if not r.is_complex():
            return [r]
        real = torch.cat([r.real, -r.imag], -1)
        return [real, torch.cat([r.imag, r.real], -1)] if self.layer.parts.values.is_complex() else [real]


class _Plain(Carried):
    """Without a normaliser, the sums of `W W^T` over all directions are carried."""

    def __init__(self, layer: AffineLayer, local: LocalDerivatives) -> None:
        super().__init__(layer, local)
        self.grams: Tensor | None = None

    def add(self, blocks: Iterator[Inexact[Tensor, "block batch heads keys directions _"]], sketch: Sketch) -> None:
        found = []
        for W in blocks:
            W = _as_real(W.flatten(-2))
            found.append(W @ W.mT.contiguous())  # ten times as fast on some CPUs as with a transposed view
        products = torch.cat(found)
        self.grams = products if self.grams is None else self.grams.add_(products)

    def energies(self) -> Float[Tensor, "batch time states"]:
        assert self.grams is not None
        whole, inside = _empty(self.readers, self.local.energies)
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
        _add_across(self.readers, whole, vectors, self.real)
        return whole[:, : self.readers.time, : self.readers.time]


class _Diagonal(Carried):
    """Without a normaliser and with real decays alone, these sums are carried as numbers of pairs of keys.

    Products of numbers replace those of matrices, which take long if there are many small ones.
    """

    def __init__(self, layer: AffineLayer, local: LocalDerivatives) -> None:
        super().__init__(layer, local)
        self.grams: Tensor | None = None

    def add(self, blocks: Iterator[Inexact[Tensor, "block batch heads keys directions _"]], sketch: Sketch) -> None:
        products = torch.cat([_packed_products(W.flatten(-2)) for W in blocks])
        self.grams = products if self.grams is None else self.grams.add_(products)

    def energies(self) -> Float[Tensor, "batch time states"]:
        assert self.grams is not None
        grams, self.grams = self.in_order(self.grams), None
        return _of_pairs(self.layer.parts, grams)


class _Normalised(Carried):
    """With a normaliser, the last column of W is its derivative, and every direction is carried by itself.

    The derivative of the read `h = n / d` of values is `(dn - slope h dz) / d`, with that of the normaliser z.
    """

    def __init__(self, layer: AffineLayer, local: LocalDerivatives) -> None:
        super().__init__(layer, local)
        self.total, self.inside = _empty(self.readers, local.energies)

    def add(self, blocks: Iterator[Inexact[Tensor, "block batch heads keys directions _"]], sketch: Sketch) -> None:
        self.readers = Readers(self.layer.parts, self.layer.start.dtype)
        W = self.in_chunks(torch.cat(list(blocks)))
        number = W.shape[-1] - 1
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


def _empty(readers: Readers, like: Float[Tensor, "batch time time"]) -> tuple[Tensor, Tensor]:
    """Return zeros for all pairs of steps in whole chunks, and a view of the pairs inside of each chunk."""
    length = readers.chunks * readers.size
    whole, chunks = like.new_zeros(len(like), length, length), (readers.chunks, readers.size)
    return whole, whole.unflatten(2, chunks).unflatten(1, chunks).diagonal(0, 1, 3)  # (batch, t, u, chunks)


def _of_pairs(
    parts: Parts, grams: Float[Tensor, "time batch heads pairs"], size: int | None = None
) -> Float[Tensor, "batch time states"]:
    """Return the squared derivatives of all reads by the state after each earlier step, for real decays alone.

    The numbers are those of `_packed_products`, and are overwritten. Chunks of the usual size are sequences that are
    divided into chunks of a smaller size; inside of those, the readers of every step are multiplied.
    """
    readers = Readers(parts, grams.dtype, size)
    whole, inside = _empty(readers, grams.new_zeros(grams.shape[1], 0, 0))
    grams = readers.in_chunks(grams)  # (chunks, steps, batch, heads, pairs)
    if size is None:

        def as_sequences(x: Tensor) -> Tensor:
            return x.transpose(0, 1).flatten(1, 2)

        q, k, v, g = (as_sequences(readers.in_chunks(x)) for x in parts.tensors())
        short = parts._replace(queries=q, keys=k, values=v, log_decays=g)
        found = _of_pairs(short, as_sequences(grams).clone(), INSIDE)
        inside.copy_(found.unflatten(0, (readers.chunks, -1)).permute(1, 2, 3, 0))
    each = grams[0, 0].numel() * readers.size
    groups = torch.arange(len(grams)).split(max(1, of_device(SQUARES, grams) // each))
    for step, r, operator in readers.within():
        for some in () if size is None or r.shape[-2] == 1 else groups:
            chunks = slice(int(some[0]), int(some[-1]) + 1)
            squares = _products(r[chunks, ..., 1:, :].mT.flatten(0, 1).contiguous()).flatten(1, 2)
            norms = (grams[chunks, step].flatten(0, 1).flatten(1).unsqueeze(1) @ squares).squeeze(1)
            inside[:, step + 1 :, step, chunks] += norms.unflatten(0, (len(some), -1)).permute(1, 2, 0)
        grams[:, step] *= _products(operator.flatten(0, 1)).view_as(grams[:, step])
    _add_across(readers, whole, grams)
    return whole[:, : readers.time, : readers.time]


def _add_across(
    readers: Readers,
    whole: Float[Tensor, "batch length length"],
    vectors: Float[Tensor, "chunks steps batch heads pairs"],
    real: Callable[[Tensor], list[Tensor]] = lambda r: [r],
) -> None:
    """Add the squared derivatives of the reads of later chunks to zeros for all pairs of steps.

    The vectors hold the sums of `W W^T` at the end of each chunk, the numbers off the diagonal twice.
    """
    size, (_, _, batch, heads, numbers) = readers.size, vectors.shape
    limit = max(1, of_device(SQUARES, vectors) // (heads * numbers))  # reads of all sequences
    for chunk, r in readers.across():
        first, after = chunk * size, (chunk + 1) * size
        sources = vectors[chunk].transpose(0, 1).flatten(2)  # (batch, steps, heads numbers)
        together = max(1, limit // r.shape[-2])
        for part in real(r):
            for sequence in range(0, batch, together):
                which = slice(sequence, sequence + together)
                for begin in range(0, part.shape[-2], limit):
                    some = part[which, :, begin : begin + limit]
                    block = slice(after + begin, after + begin + some.shape[-2])
                    squares = _products(some.mT.contiguous()).flatten(1, 2)
                    whole[which, block, first:after] += (sources[which] @ squares).mT


def _as_real(W: Tensor) -> Tensor:
    return torch.cat([W.real, W.imag], -2) if W.is_complex() else W


def _real_operator(operator: Tensor) -> Tensor:
    """Return an operator on real and imaginary rows."""
    if not operator.is_complex():
        return operator
    real, imaginary = (torch.diag_embed(x.squeeze(-1)) for x in (operator.real, operator.imag))
    return torch.cat([torch.cat([real, -imaginary], -1), torch.cat([imaginary, real], -1)], -2)


def _packed_products(W: Float[Tensor, "*batch keys columns"]) -> Float[Tensor, "*batch pairs"]:
    """Return `W W^T` as the numbers of the pairs in the order of `triu_indices`, those off the diagonal twice."""
    *shape, keys, columns = W.shape
    i, j = torch.triu_indices(keys, keys, device=W.device)
    twice = torch.where(i == j, 1, 2).to(W)
    if keys**2 * columns >= MATRIX:
        return (W @ W.mT.contiguous())[..., i, j] * twice
    X, found = W.flatten(0, -3).permute(2, 1, 0).contiguous(), []  # (columns, keys, all)
    for key in range(keys):
        found.append((X[:, key : key + 1] * X[:, key:]).sum(0))
    return (torch.cat(found).mT * twice).view(*shape, -1)


def _products(r: Float[Tensor, "batch heads keys reads"]) -> Float[Tensor, "batch heads pairs reads"]:
    """Return the products of all pairs of keys, in the order of `triu_indices`."""
    keys = r.shape[2]
    found, first = r.new_empty(*r.shape[:2], keys * (keys + 1) // 2, r.shape[3]), 0
    for i in range(keys):
        torch.mul(r[:, :, i : i + 1], r[:, :, i:], out=found[:, :, first : first + keys - i])
        first += keys - i
    return found
