"""Growth of the products of the operators over windows of inputs and over the whole sequence.

Windows have 1, 2, 4, ... steps and do not overlap. Their products are joined two by two as the sequence is read, so
that all of them take as many products as there are steps. A product is kept divided by its scale: it neither overflows
nor vanishes.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Inexact, Int
from mnemoscope.cells.affine.layer import AffineLayer
from mnemoscope.cells.affine.parts import carry_state, transition
from mnemoscope.lenses.transition_operators.structures import log_eigenvalues

MOST_WINDOWS = 32
"""Largest number of windows of one size whose norm and spectral radius are computed, evenly spaced."""


class Products(NamedTuple):
    """Growth over windows, and the spectrum of the product over each sequence."""

    sizes: Int[Tensor, " sizes"]
    """Steps of the windows: 1, 2, 4, ..."""
    growth: Float[Tensor, "sizes batch heads"]
    """Mean of `log |P|` over the windows of a size; NaN where a sequence is shorter."""
    peaks: Float[Tensor, "sizes batch heads"]
    """The largest of them."""
    radii: Float[Tensor, "sizes batch heads"]
    """Mean of the logarithm of the spectral radius of P."""
    whole: Inexact[Tensor, "batch heads keys"]
    """Logarithms of the eigenvalues of the product over the whole sequence, in descending order of modulus; minus
    infinity where they are below its rounding error."""


def products_along(layer: AffineLayer, steps: Int[Tensor, " batch"], rounding: float) -> Products:
    """Return the growth of products along the inputs; see `exponents_along` for the arguments."""
    sizes = [1 << level for level in range(int(steps.max()).bit_length())]
    if layer.parts.erase is None:
        return _diagonal_products(layer, steps, sizes)
    windows = _Windows(sizes, steps, layer.start.shape[1])
    joined: dict[int, tuple[Tensor, Tensor]] = {}  # the last window of each size that has no partner yet
    whole, scale = _identity(layer), layer.start.new_zeros(layer.start.shape[:2], dtype=torch.float64)
    for step in range(int(steps.max())):
        parts = layer.at(step)
        after, added = _scaled(carry_state(parts, whole))
        going = (step < steps)[:, None]
        whole, scale = torch.where(going[..., None, None], after, whole), torch.where(going, scale + added, scale)
        size, product = 1, _scaled(transition(parts))
        windows.add(size, step, *product)
        while size in joined and 2 * size <= sizes[-1]:
            earlier, earlier_scale = joined.pop(size)
            joint, added = _scaled(product[0] @ earlier)
            size, product = 2 * size, (joint, product[1] + earlier_scale + added)
            windows.add(size, step, *product)
        joined[size] = product
    return Products(torch.tensor(sizes), *windows.summary(), _log_eigenvalues(whole, scale, rounding))


class _Windows:
    """Norms and spectral radii of products over windows, as these end."""

    def __init__(self, sizes: list[int], steps: Tensor, heads: int) -> None:
        self.sizes, self.steps, self.heads = sizes, steps, heads
        self.norms: dict[int, list[Tensor]] = {size: [] for size in sizes}
        self.radii: dict[int, list[Tensor]] = {size: [] for size in sizes}

    def add(self, size: int, last: int, product: Tensor, scale: Tensor) -> None:
        """Add the window of a size that ends at step `last`, unless it is one of those that are left out."""
        number, every = (last + 1) // size - 1, -(-(int(self.steps.max()) // size) // MOST_WINDOWS)
        if number % every:
            return
        ended = (last >= self.steps)[:, None]  # the window reaches beyond the sequence
        norm = torch.linalg.matrix_norm(product, ord=2).log() + scale
        radius = torch.linalg.eigvals(product).abs().amax(-1).log() + scale
        self.norms[size].append(norm.masked_fill(ended, torch.nan))
        self.radii[size].append(radius.masked_fill(ended, torch.nan))

    def summary(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the means and the maxima of the norms, and the means of the radii."""
        norms, radii = ([torch.stack(found[size]) for size in self.sizes] for found in (self.norms, self.radii))
        return _means(norms), _maxima(norms), _means(radii)


def _diagonal_products(layer: AffineLayer, steps: Tensor, sizes: list[int]) -> Products:
    """Add the logarithms of the eigenvalues; the norm of a diagonal matrix is its spectral radius."""
    g = log_eigenvalues(layer.parts)[: int(steps.max())]
    present = (torch.arange(len(g), device=steps.device).unsqueeze(1) < steps)[..., None, None]
    rates = g.real if g.is_complex() else g
    norms = []
    for size in sizes:
        whole = len(g) // size
        chosen = range(0, whole, -(-whole // MOST_WINDOWS))
        windows = rates[: whole * size].unflatten(0, (whole, size))[list(chosen)].sum(1).amax(-1)
        ends = torch.tensor([(number + 1) * size for number in chosen], device=steps.device)
        norms.append(windows.masked_fill((ends.unsqueeze(1) > steps).unsqueeze(-1), torch.nan))
    total = torch.where(present, g, 0).sum(0)
    return Products(torch.tensor(sizes), _means(norms), _maxima(norms), _means(norms), _descending(total))


def _means(values: list[Tensor]) -> Tensor:
    return torch.stack([each.nanmean(0) for each in values])


def _maxima(values: list[Tensor]) -> Tensor:
    """Return the largest of the known values, NaN if no value is known."""
    largest = [each.nan_to_num(nan=-torch.inf, neginf=-torch.inf).amax(0) for each in values]
    return torch.stack(
        [top.masked_fill(each.isnan().all(0), torch.nan) for top, each in zip(largest, values, strict=True)]
    )


def _identity(layer: AffineLayer) -> Tensor:
    batch, heads, keys = layer.start.shape[:3]
    return torch.eye(keys, dtype=layer.start.dtype, device=layer.start.device).expand(batch, heads, keys, keys)


def _scaled(product: Tensor) -> tuple[Tensor, Tensor]:
    """Return a product divided by its largest entry, and the logarithm of that; 0 stays 0."""
    largest = product.abs().amax((-2, -1))
    largest = torch.where(largest > 0, largest, 1)
    return product / largest[..., None, None], largest.log()


def _log_eigenvalues(product: Tensor, scale: Tensor, rounding: float) -> Tensor:
    values = torch.linalg.eigvals(product)
    floor = rounding * product.shape[-1] * torch.linalg.matrix_norm(product, ord=2)
    logs = values.log() + scale.unsqueeze(-1)
    return _descending(logs.masked_fill(values.abs() <= floor.unsqueeze(-1), -torch.inf))


def _descending(logs: Tensor) -> Tensor:
    """Sort logarithms by their real part."""
    order = (logs.real if logs.is_complex() else logs).argsort(dim=-1, descending=True, stable=True)
    return logs.gather(-1, order)
