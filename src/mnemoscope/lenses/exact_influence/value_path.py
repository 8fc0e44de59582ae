"""The value path of an affine layer: the exact weight of every value written in every read.

The reads of a layer are linear in the values that it writes,

    q_t^T S_t = sum_s M_ts v_s + q_t^T A_t ... A_1 S_0,      M_ts = q_t^T A_t ... A_{s+1} k_s,

and a row of M has the products of one read's readers (`readers`) with the keys of all writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Inexact
from mnemoscope.cells.affine.layer import AffineLayer
from mnemoscope.cells.affine.parts import Parts, carry_state, scan_parts
from mnemoscope.lenses.exact_influence.readers import Readers, carried_to_end


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
        return _energies(self.matrix, self.values, self.micro_steps)


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
    parts, start = layer.parts.chosen(heads=heads), layer.start[:, heads]
    left = scan_parts(parts._replace(values=torch.zeros_like(parts.values)), start)[0].permute(1, 2, 0, 3)
    left = left if parts.values.is_complex() else left.real
    denominators = layer.denominators()
    matrix, values = _weights(parts, start.dtype, None if denominators is None else denominators[..., heads])
    if denominators is not None:
        left = left[..., :-1] / denominators[..., heads].permute(1, 2, 0).unsqueeze(-1)
    return ValuePaths(matrix, values, left, parts.micro_steps)


def value_energies(
    layer: AffineLayer, size: int, denominators: Float[Tensor, "time batch all_heads"] | None
) -> Iterator[Float[Tensor, "batch some_heads time sources"]]:
    """Yield `ValuePaths.energies` of the heads in groups of a size; each may overwrite the one before.

    Given are the numbers that divide the reads of all heads, if any do.
    """
    memory = None
    for heads in torch.arange(layer.start.shape[1]).split(size):
        some = slice(int(heads[0]), int(heads[-1]) + 1)
        parts, rows = layer.parts.chosen(heads=some), None if denominators is None else denominators[..., some]
        if rows is not None or parts.micro_steps > 1 or parts.values.is_complex():
            yield _energies(*_weights(parts, layer.start.dtype, rows), parts.micro_steps)
            continue
        norms = parts.values.norm(dim=-1, keepdim=True)
        if memory is None or memory.shape[1] != len(heads):
            memory = _empty_weights(parts, layer.start.dtype.to_real())
        # the same memory for all groups: its upper triangle stays 0, and the system need not clear it again
        yield _weights(parts._replace(keys=parts.keys * norms), layer.start.dtype, None, memory)[0].square_()


def _energies(
    matrix: Inexact[Tensor, "batch heads time writes"],
    values: Inexact[Tensor, "batch heads writes values"],
    micro_steps: int,
) -> Float[Tensor, "batch heads time sources"]:
    if micro_steps == 1:
        return matrix.abs().square_().mul_(values.abs().square().sum(-1).unsqueeze(-2))
    inputs = (-1, micro_steps)
    M, v = matrix.unflatten(-1, inputs), values.unflatten(-2, inputs)
    products = v @ v.mH  # of the values of each input, (batch, heads, sources, micro_steps, micro_steps)
    pairs = (
        (products[..., i, j].unsqueeze(-2) * M[..., i] * M[..., j].conj()).real
        for i in range(micro_steps)
        for j in range(micro_steps)
    )
    return reduce(torch.add, pairs)


def _weights(
    parts: Parts,
    dtype: torch.dtype,
    denominators: Float[Tensor, "time batch heads"] | None,
    memory: Inexact[Tensor, "batch heads length length micro_steps"] | None = None,
) -> tuple[Inexact[Tensor, "batch heads time writes"], Inexact[Tensor, "batch heads writes values"]]:
    """Return M and the values, whose last one is that of the normaliser if there are denominators.

    M is computed in the given memory of `_empty_weights`, if there is one.
    """
    readers, real = Readers(parts, dtype), not parts.values.is_complex()
    keys = readers.in_chunks(_after_tokens(parts, dtype))  # (chunks, steps, batch, heads, keys, micro_steps)
    chunks, size, micro = readers.chunks, readers.size, parts.micro_steps
    M = _empty_weights(parts, dtype.to_real() if real else dtype) if memory is None else memory
    blocks = M.unflatten(3, (chunks, size)).unflatten(2, (chunks, size)).diagonal(0, 2, 4)
    sources = torch.empty_like(keys)
    for j, r, operator in readers.within():
        blocks[:, :, j:, j] = _small_product(r, keys[:, j], real).permute(1, 2, 3, 4, 0)
        sources[:, j] = carried_to_end(operator, keys[:, j])
    columns = sources.permute(0, 2, 3, 4, 1, 5).flatten(-2)  # (chunks, batch, heads, keys, writes of the chunk)
    flat = M.flatten(3)
    for chunk, r in readers.across():
        first, after = chunk * size, (chunk + 1) * size
        flat[:, :, after:, first * micro : after * micro] = _product(r, columns[chunk], real)
    flat = flat[:, :, : readers.time, : readers.time * micro]
    values = parts.values if micro == 1 else parts.values.movedim(-3, 1).flatten(0, 1)
    values = values.permute(1, 2, 0, 3)
    if denominators is not None:
        flat, values = flat / denominators.permute(1, 2, 0).unsqueeze(-1), values[..., :-1]
    return flat, values


def _empty_weights(parts: Parts, dtype: torch.dtype) -> Inexact[Tensor, "batch heads length length micro_steps"]:
    """Return zeros for M of whole chunks."""
    readers, (batch, heads) = Readers(parts, dtype), parts.queries.shape[1:3]
    length = readers.chunks * readers.size
    return torch.zeros(batch, heads, length, length, parts.micro_steps, dtype=dtype, device=parts.queries.device)


def _after_tokens(parts: Parts, dtype: torch.dtype) -> Inexact[Tensor, "time batch heads keys micro_steps"]:
    """Return the keys of each token, carried by its later micro-steps."""
    steps = parts.each()
    carried = []
    for i, step in enumerate(steps):
        key = step.keys.to(dtype).unsqueeze(-1)
        for later in steps[i + 1 :]:
            key = carry_state(later, key)
        carried.append(key)
    return torch.cat(carried, -1)


def _product(r: Tensor, X: Tensor, real: bool) -> Tensor:
    """Return `r X`, or its real part."""
    if not (real and r.is_complex()):
        return r @ X
    return torch.cat([r.real, -r.imag], -1) @ torch.cat([X.real, X.imag], -2)


def _small_product(r: Tensor, X: Tensor, real: bool) -> Tensor:
    """Return the same for many small matrices X: torch calls a routine for each matrix on some CPUs."""
    product = (r.unsqueeze(-1) * X.unsqueeze(-3)).sum(-2)
    return product.real if real and product.is_complex() else product
