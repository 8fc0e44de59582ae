"""The nonlinearity `phi` of an elementwise recurrence `h' = phi(V h + u)`, described once for every backend.

Each one can take a gradient back from its output `h` alone, so a scan keeps its states and nothing else. The formulas,
`g` the gradient at `h` and `g_z` the one at `z = V h + u` (PyTorch's convention: dL/dRe + i dL/dIm):

| name | phi(z) | g_z |
|---|---|---|
| tanh | tanh z | g conj(1 - h^2) |
| logistic | 1 / (1 + e^-z) | g conj(h (1 - h)) |
| relu | max(z, 0) | g where h > 0 |
| modrelu | sgn(z) relu(abs(z) + b) | g where h != 0 if real; complex: see `ModReLU`; g_b = Re(conj(sgn h) g_z) |
| linear | z | g |
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Inexact

_aten = torch.ops.aten
InPlace = Callable[[Tensor], Any]
OnArrays = Callable[[np.ndarray], Any]
Numbers = Inexact[Tensor, "*shape"]
Bias = Float[Tensor, " units"] | None
"""One number per unit, the last dimension of `z`; None if the function has none."""


class Activation:
    """An elementwise function that can be fused. This base class is the identity, "linear"."""

    name = "linear"
    low: float = -inf
    high: float = inf
    """Range of the function."""
    takes_bias = False
    takes_complex = True
    stops = False
    """Whether units can be off and block gradients, even infinite ones; `pull_back_` multiplies those by 0."""
    runs_in_numpy = True
    """Whether small scans of real numbers run in numpy; then `g_z` is the product of `g` and the gates."""

    def __call__(self, z: Numbers, bias: Bias = None) -> Tensor:
        """Return `phi(z)`, differentiable."""
        return z

    def in_place(self, like: Numbers, bias: Bias = None) -> InPlace:
        """Return a function that computes `z <- phi(z)` in few calls, for many z like this one."""
        return lambda z: z

    def on_arrays(self, like: np.ndarray, bias: np.ndarray | None) -> OnArrays:
        """Return the same as `in_place` for real numpy arrays."""
        return lambda z: z

    def pull_back(self, g: Numbers, h: Numbers, bias: Bias = None) -> Numbers:
        """Return `g_z` from `g` and the output `h`; differentiable in both and in the bias, for second derivatives."""
        return g

    def gates(self, hs: Inexact[Tensor, "time ..."], bias: Bias = None) -> tuple[Tensor, ...]:
        """Return the factors that `pull_back_` needs, for all times; each (time, ...)."""
        return ()

    def pull_back_(self, g: Numbers, *gates: Tensor) -> None:
        """Compute `g <- g_z` at one time."""
        for gate in gates:
            g.mul_(gate)

    def bias_gradient(self, g_z: Inexact[Tensor, "*rest units"], h: Inexact[Tensor, "*rest units"]) -> Tensor:
        """Return the gradient of the bias, summed over all dimensions but the units."""
        raise NotImplementedError(f"{self.name} has no bias.")


class Tanh(Activation):
    """The hyperbolic tangent."""

    name, low, high = "tanh", -1.0, 1.0

    def __call__(self, z: Tensor, bias: Tensor | None = None) -> Tensor:
        return torch.tanh(z)

    def in_place(self, like: Tensor, bias: Tensor | None = None) -> InPlace:
        return Tensor.tanh_

    def on_arrays(self, like: np.ndarray, bias: np.ndarray | None) -> OnArrays:
        return lambda z: np.tanh(z, out=z)

    def pull_back(self, g: Tensor, h: Tensor, bias: Tensor | None = None) -> Tensor:
        return _aten.tanh_backward(g, h)

    def gates(self, hs: Tensor, bias: Tensor | None = None) -> tuple[Tensor, ...]:
        slope = torch.addcmul(hs.new_ones(()), hs, hs, value=-1)
        return (slope.conj_physical_() if slope.is_complex() else slope,)


class Logistic(Activation):
    """`1 / (1 + exp(-z))`."""

    name, low, high = "logistic", 0.0, 1.0
    runs_in_numpy = False  # it would take four calls

    def __call__(self, z: Tensor, bias: Tensor | None = None) -> Tensor:
        return torch.sigmoid(z)

    def in_place(self, like: Tensor, bias: Tensor | None = None) -> InPlace:
        return Tensor.sigmoid_

    def pull_back(self, g: Tensor, h: Tensor, bias: Tensor | None = None) -> Tensor:
        return _aten.sigmoid_backward(g, h)

    def gates(self, hs: Tensor, bias: Tensor | None = None) -> tuple[Tensor, ...]:
        slope = (1 - hs).mul_(hs)  # h - h^2 would cancel near 1
        return (slope.conj_physical_() if slope.is_complex() else slope,)


class ReLU(Activation):
    """`max(z, 0)`; the slope at 0 is 0."""

    name, low = "relu", 0.0
    takes_complex = False
    stops = True

    def __call__(self, z: Tensor, bias: Tensor | None = None) -> Tensor:
        return torch.relu(z)

    def in_place(self, like: Tensor, bias: Tensor | None = None) -> InPlace:
        return Tensor.relu_

    def on_arrays(self, like: np.ndarray, bias: np.ndarray | None) -> OnArrays:
        zero = np.zeros_like(like)  # a whole array: numpy takes longer to convert a number
        return lambda z: np.maximum(z, zero, out=z)

    def pull_back(self, g: Tensor, h: Tensor, bias: Tensor | None = None) -> Tensor:
        return _aten.threshold_backward(g, h, 0)

    def gates(self, hs: Tensor, bias: Tensor | None = None) -> tuple[Tensor, ...]:
        return (torch.gt(hs, 0, out=torch.empty_like(hs)),)  # directly as numbers, without a bool tensor in between


class ModReLU(Activation):
    """`sgn(z) relu(|z| + b)` (Arjovsky et al. 2016, Eq 8), with `sgn(0) = 0`.

    Complex: with `d = h/|h|` and `|z| = |h| - b` the map stretches the radial direction by 1 and the tangential one by
    `k = |h|/|z|`, so `g_z = k g + (1 - k) Re(conj(d) g) d`. For `b > 0` the relative error of `k` is about `k` times
    the rounding error; `k` is kept finite where `|h| - b` cancels.
    """

    name = "modrelu"
    takes_bias = True
    stops = True

    def __call__(self, z: Tensor, bias: Tensor | None = None) -> Tensor:
        assert bias is not None
        # sgn(0) = 0 keeps the value and the gradient finite at the origin, for complex z too
        return torch.sgn(z) * torch.relu(z.abs() + bias)

    def in_place(self, like: Tensor, bias: Tensor | None = None) -> InPlace:
        assert bias is not None
        if like.is_complex():
            return lambda z: z.copy_(self(z, bias))
        size, low, k = _thresholds(bias)
        buffer = torch.empty_like(like)

        def apply(z: Tensor) -> Tensor:
            torch.clamp(torch.mul(z, k, out=buffer), low, size, out=buffer)
            return z.add_(buffer)

        return apply

    def on_arrays(self, like: np.ndarray, bias: np.ndarray | None) -> OnArrays:
        assert bias is not None
        each = _thresholds(torch.from_numpy(bias))
        size, low, k = (np.broadcast_to(x.numpy(), like.shape).copy() for x in each)
        buffer = np.empty_like(like)

        def apply(z: np.ndarray) -> None:
            np.maximum(np.multiply(z, k, out=buffer), low, out=buffer)
            np.add(z, np.minimum(buffer, size, out=buffer), out=z)

        return apply

    def pull_back(self, g: Tensor, h: Tensor, bias: Tensor | None = None) -> Tensor:
        if not h.is_complex():
            return torch.where(h == 0, 0, torch.where(h.isnan(), 0 * g, g))
        assert bias is not None
        d, k = self._frame(h, bias)
        radial = (g * d.conj()).real
        return torch.where(h == 0, 0, k * g + ((1 - k) * radial) * d)

    def gates(self, hs: Tensor, bias: Tensor | None = None) -> tuple[Tensor, ...]:
        if hs.is_complex():
            assert bias is not None
            d, k = self._frame(hs, bias)
            return d, d.conj().resolve_conj(), k, 1 - k
        return (torch.ne(hs, 0, out=torch.empty_like(hs)),)

    def pull_back_(self, g: Tensor, *gates: Tensor) -> None:
        if not g.is_complex():
            super().pull_back_(g, *gates)
            return
        d, d_conj, k, rest = gates
        radial = (g * d_conj).real.mul_(rest)
        g.mul_(k).addcmul_(radial, d)

    def bias_gradient(self, g_z: Tensor, h: Tensor) -> Tensor:
        # the radial stretch is 1: g and g_z have the same radial part; on a CPU in pieces that stay in its cache
        length = steps_in_cache(h) if h.device.type == "cpu" else len(h)
        pieces = zip(h.split(length), g_z.split(length), strict=True)
        return torch.stack([_summed(torch.sgn(h).conj() * g_z) for h, g_z in pieces]).sum(0)

    def _frame(self, h: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """Return the radial direction and the tangential stretch, both 0 where h is 0."""
        size = h.abs()
        before = torch.maximum(size - bias, torch.finfo(size.dtype).eps * size)
        return torch.sgn(h), torch.where(size == 0, 0, size / torch.where(size == 0, 1, before))


def _thresholds(bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return |b|, -|b| and a k for which modReLU is `z + clamp(k z, -|b|, |b|)`.

    k = -1 subtracts the part of z within |b|, and a huge k adds |b| in the direction of z. The least normal number
    times k exceeds any sensible bias.
    """
    k = torch.full_like(bias, torch.finfo(bias.dtype).max).masked_fill_(bias <= 0, -1)
    return bias.abs(), -bias.abs(), k


def steps_in_cache(states: Tensor) -> int:
    """Return the number of steps (time, ...) whose numbers stay in the cache of a core, at least 1."""
    return max(1, 2**15 // max(1, states[0].numel()))


def _summed(g_b: Tensor) -> Tensor:
    """Return the real part, summed over all dimensions but the units."""
    return (g_b.real if g_b.is_complex() else g_b).reshape(-1, g_b.shape[-1]).sum(0)  # flatten has no batching rule


ACTIVATIONS: dict[str, Activation] = {phi.name: phi for phi in (Tanh(), ReLU(), ModReLU(), Logistic(), Activation())}
"""The activations, by name."""
