"""The full influence of a layer: derivatives of its reads by its inputs, through values, keys, gates and convolution.

An input x_s reaches the parts of the steps s, ..., s + c - 1, where c is the width of the convolution. Let W_s be the
derivative of the state after these steps by x_s. After them the state is only carried and read, so that

    d o_t / d x_s = r^T W_s,      |d o_t / d x_s|^2 = r^T (sum W_s W_s^T) r,      r = A_{s+c}^T ... A_t^T q_t,

for t >= s + c: all time^2 norms cost O(time^2 keys^2). The reads of the first c steps are differentiated directly.
W_s is computed by forward derivatives along all input directions, or estimated from random ones (Hutchinson 1990):
with random signs z for the input features and w for the values, the mean of `(r^T W_s z w)^2` is the squared norm.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from math import sqrt
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Inexact
from mnemoscope.cells.affine.layer import AffineLayer, LayerInputs
from mnemoscope.cells.affine.parts import Parts, carry_back, read_state, step_state

WORK = 1e8
"""Numbers of derivatives of states up to which every direction is followed."""
DIRECTIONS = 8
"""Random directions otherwise."""
ROOM = 8_000_000
"""Numbers of derivatives of states that are in memory at a time."""


class FullPath(NamedTuple):
    """Squared derivatives of the reads of a layer by its inputs."""

    energies: Float[Tensor, "batch time sources"]
    """`|d o_t / d x_s|^2`, the sum over heads, values and input features."""
    directions: int
    """Number of random directions of each input; 0 if the numbers are exact."""

    @property
    def standard_error(self) -> float:
        """Largest standard error of a number, relative to it: `var (z^T J w)^2 <= 8 |J|^4` for random signs z and w."""
        return sqrt(8 / self.directions) if self.directions else 0.0


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
    local = _LocalDerivatives(layer, inputs)
    for direction, signs in _directions(layer, inputs.xs, directions, seed):
        local.add(direction, signs)
    local.energies /= max(directions, 1)
    _carry(layer, local, max(directions, 1))
    return FullPath(local.energies, directions)


def _directions(layer: AffineLayer, xs: Tensor, number: int, seed: int) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Yield directions of all inputs: each unit vector in turn, or random signs, with random signs of the values.

    All values of a layer with a normaliser are kept, since its reads are not linear in them.
    """
    generator = torch.Generator().manual_seed(seed)

    def random_signs(*shape: int) -> Tensor:
        return (2 * torch.randint(2, shape, generator=generator) - 1).to(xs)

    heads, _, values = layer.start.shape[1:]
    normalised = layer.denominators() is not None
    for index in range(number or xs.shape[-1]):
        if number:
            yield random_signs(*xs.shape), None if normalised else random_signs(heads, values, 1)
        else:
            direction = torch.zeros_like(xs)
            direction[..., index] = 1
            yield direction, None


class _LocalDerivatives:
    """Derivatives of the first reads after each input, and the sums over directions of the products of W_s."""

    def __init__(self, layer: AffineLayer, inputs: LayerInputs) -> None:
        self.layer, self.inputs, self.window = layer, inputs, inputs.window
        time, batch = inputs.xs.shape[:2]
        raw = layer.core.parts(layer.features)
        self.shift = layer.parts.log_decays - raw.log_decays if layer.scales is not None else None
        self.before = torch.cat([layer.start.unsqueeze(0), layer.states()[:-1]])  # S before every step
        self.energies = inputs.xs.new_zeros(batch, time, time)
        heads, keys = layer.start.shape[1:3]
        keys = 2 * keys if layer.start.is_complex() else keys
        squares = inputs.xs.new_zeros(time, batch, heads, keys, keys)
        self.grams = [squares]
        if layer.denominators() is not None:
            values = layer.start.shape[-1] - 1
            self.grams += [torch.zeros_like(squares), inputs.xs.new_zeros(time, batch, heads, values, keys, keys)]

    def add(self, direction: Tensor, signs: Tensor | None) -> None:
        """Add the derivatives along one direction of every input, of all values or of their sum with signs.

        Only every c-th input is moved at a time, so that the features of a step depend on one moved input.
        """
        time, c = len(direction), self.window
        before = self.before if signs is None else self.before @ signs.to(self.before)
        segment = max(1, ROOM // max(1, before[0].numel()))
        projected, change = _forward_derivative(self.inputs.project, (self.inputs.xs,), (direction,))
        tangents = []
        for first in range(c):
            moved = torch.zeros_like(change)
            moved[first::c] = change[first::c]
            tangents.append(_forward_derivative(self.inputs.mix, (projected,), (moved,))[1])
        for some in torch.arange(time, device=direction.device).split(segment):
            self._follow(some, torch.stack(tangents), before, signs)

    def _follow(self, sources: Tensor, tangents: Tensor, before: Tensor, signs: Tensor | None) -> None:
        """Follow the derivatives of the states from some inputs for c steps, through each step's derivative."""
        c, time = tangents.shape[:2]
        change = torch.zeros_like(before[sources])
        for later in range(c):
            there = sources + later < time
            sources, change = sources[there], change[there]
            steps = sources + later
            shift = None if self.shift is None else self.shift[steps]
            scale = None if self.layer.scales is None else self.layer.scales[steps]

            def advance(
                features: Tensor, S: Tensor, shift: Tensor | None = shift, scale: Tensor | None = scale
            ) -> tuple[Tensor, Tensor]:
                parts = _relative(self.layer.core.parts(features), shift, scale)
                if signs is not None:
                    parts = parts._replace(values=(parts.values.unsqueeze(-2) @ signs.to(parts.values)).squeeze(-2))
                S = step_state(parts, S)
                return S, _used(self.layer, parts, S, scale)

            given = (self.layer.features[steps], before[steps])
            change, read = _forward_derivative(advance, given, (tangents[sources % c, steps], change))[1]
            self.energies[:, steps, sources] += read.abs().square().sum((-2, -1)).T
        W = _as_real(change)
        if len(self.grams) == 1:
            self.grams[0][sources] += W @ W.mT
            return
        value, normaliser = W[..., :-1], W[..., -1:]
        self.grams[0][sources] += value @ value.mT
        self.grams[1][sources] += normaliser @ normaliser.mT
        self.grams[2][sources] += torch.einsum("sbhke,sbhj->sbhekj", value, normaliser.squeeze(-1))


def _forward_derivative(function: Callable[..., Any], at: tuple[Tensor, ...], along: tuple[Tensor, ...]) -> Any:
    """Return the value of a function, and its derivative along a direction."""
    with warnings.catch_warnings():  # torch loads its rules of forward mode by means that it calls deprecated
        warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated")
        return torch.func.jvp(function, at, along)[:2]


def _relative(parts: Parts, shift: Tensor | None, scale: Tensor | None) -> Parts:
    """Return parts relative to scales that are held constant, since no output depends on them."""
    if shift is None or scale is None:
        return parts
    assert parts.log_writes is not None
    keys, erase = torch.exp(parts.log_writes - scale).unsqueeze(-1) * parts.keys, parts.erase
    if erase is not None:
        erase = (torch.exp(shift) * erase[0], erase[1])
    return parts._replace(keys=keys, log_decays=parts.log_decays + shift, erase=erase, log_writes=None)


def _used(layer: AffineLayer, parts: Parts, S: Tensor, scale: Tensor | None) -> Inexact[Tensor, "..."]:
    """Return the real part of the reads if values are real, divided by the normaliser if the core has one."""
    reads = read_state(parts, S)
    reads = reads if parts.values.is_complex() or not reads.is_complex() else reads.real
    denominators = layer.core.denominators(reads, scale)
    return reads if denominators is None else reads[..., :-1] / denominators.unsqueeze(-1)


def _as_real(W: Inexact[Tensor, "*batch keys values"]) -> Float[Tensor, "*batch rows values"]:
    return torch.cat([W.real, W.imag], -2) if W.is_complex() else W


def _carry(layer: AffineLayer, local: _LocalDerivatives, number: int) -> None:
    """Add the reads after the first c steps: the readers r are carried back from all reads at once."""
    c, time = local.window, len(layer.features)
    readers = layer.parts.queries.permute(1, 2, 0, 3).to(layer.start.dtype).clone()  # (batch, heads, time, keys)
    weights = _normaliser_weights(layer)
    for step in range(time - 1, c - 1, -1):  # readers of the state before this step
        readers[:, :, step:] = carry_back(layer.at(step), readers[:, :, step:])
        source = step - c
        gram = [x[source] for x in local.grams]
        norms = sum(_norms(part, gram, weights, step) for part in _real_readers(readers[:, :, step:], layer))
        local.energies[:, step:, source] += torch.as_tensor(norms) / number


def _real_readers(readers: Tensor, layer: AffineLayer) -> list[Tensor]:
    """Return real vectors whose products with the real and imaginary rows of W are the parts of `r^T W` that count."""
    if not readers.is_complex():
        return [readers]
    real = torch.cat([readers.real, -readers.imag], -1)
    return [real, torch.cat([readers.imag, readers.real], -1)] if layer.parts.values.is_complex() else [real]


def _norms(r: Tensor, gram: list[Tensor], weights: tuple[Tensor, Tensor, Tensor] | None, step: int) -> Tensor:
    """Return `r^T G r`, the sum over the heads, (batch, reads); with a normaliser, that of the normalised reads."""
    squares = ((r @ gram[0]) * r).sum(-1)
    if weights is None:
        return squares.sum(1)
    denominators, slopes, h = (x[:, :, step:] for x in weights)
    of_normaliser = ((r @ gram[1]) * r).sum(-1) * h.square().sum(-1)
    both = torch.einsum("bhtk,bhekj,bhtj,bhte->bht", r, gram[2], r, h)
    return ((squares - 2 * slopes * both + slopes.square() * of_normaliser) / denominators.square()).sum(1)


def _normaliser_weights(layer: AffineLayer) -> tuple[Tensor, Tensor, Tensor] | None:
    """Return the denominators, their derivatives by the normaliser, and the normalised reads, if the core has one."""
    reads = layer.reads()
    denominators = layer.core.denominators(reads, layer.scales)
    if denominators is None:
        return None
    direction = torch.zeros_like(reads)
    direction[..., -1] = 1
    slopes = _forward_derivative(lambda x: layer.core.denominators(x, layer.scales), (reads,), (direction,))[1]
    h = reads[..., :-1] / denominators.unsqueeze(-1)
    return denominators.permute(1, 2, 0), slopes.permute(1, 2, 0), h.permute(1, 2, 0, 3)
