"""Lower bounds of the energy with V_d = y frozen, or the reason why none exists.

With c = alpha_c Phi^T Xi^T y and a current u, `E(g) = L_f*(g) - u.g - L_h(sqrt(alpha_s) Xi^T g + c)`. As
`L_h(V) = max over p of V.p - L_h*(p)`, its minimum is also that of `L_h*(p) - c.p - L_f(sqrt(alpha_s) Xi p + u)`.
The energy of the flow is not lower: it has `L_h*(p) - V_h.p` in place of -L_h(V_h), which is its minimum.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite, sqrt

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells.lagrangians import Lagrangian, Polynomial, ReLU, Softmax
from mnemoscope.lenses.energy.weights import Weights


@dataclass(frozen=True)
class LowerBound:
    """Values that the energy never falls below, for each y; -inf if no bound exists or is known."""

    value: Float[Tensor, "*batch"]
    exists: bool | None
    """Whether the energy is bounded from below; None if it is not known."""
    reason: str


def lower_bound(weights: Weights, y: Float[Tensor, "*batch features"]) -> LowerBound:
    """Return a lower bound of the energy with V_d = y frozen, which the notes on the energy leave open (section 6).

    >>> weights = Weights.from_matrices(torch.eye(2), torch.zeros(2, 2), "tanh")
    >>> lower_bound(weights, torch.zeros(2).double()).value.item()  # -1/2 (1 + 1)
    -1.0
    >>> steep = Weights.from_matrices(2 * torch.eye(2), torch.zeros(2, 2), "linear")
    >>> lower_bound(steep, torch.zeros(2).double()).exists
    False
    """
    f, h = (weights.sigma_f, weights.current), (weights.sigma_h, weights.delayed_drive(y))
    recall = sqrt(weights.alpha_s) * weights.Xi
    bounds = {
        f"the range of {weights.sigma_f.name} (sigma_f) is bounded": _by_range(*f, *h, recall.mT),
        f"the range of {weights.sigma_h.name} (sigma_h) is bounded": _by_range(*h, *f, recall),
    }
    known = {reason: value for reason, value in bounds.items() if value is not None}
    if known:
        return LowerBound(torch.stack([*known.values()]).max(0).values, True, "; ".join(known))
    return _by_powers(weights, y)


def _by_range(
    bounded: Lagrangian, drive: Tensor, other: Lagrangian, other_drive: Tensor, matrix: Tensor
) -> Tensor | None:
    """Return the bound for rates s in a bounded range; None if the range, or the L of the others, is not bounded.

    `L*(s) - drive.s >= -L(drive)` by conjugacy, and each entry of `matrix s + other_drive` lies in an interval.
    """
    interval = _range(bounded, matrix)
    most = None if interval is None else _largest_value(other, *(other_drive + edge for edge in interval))
    return None if most is None else -bounded.value(drive) - most


def _range(sigma: Lagrangian, matrix: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return the lowest and highest entries of `matrix s` for s in the range of sigma, a box or a simplex."""
    if isinstance(sigma, Softmax):
        return matrix.min(1).values, matrix.max(1).values
    if not (isfinite(sigma.low) and isfinite(sigma.high)):
        return None
    ends = torch.stack([sigma.low * matrix, sigma.high * matrix])
    return ends.min(0).values.sum(1), ends.max(0).values.sum(1)


def _largest_value(sigma: Lagrangian, low: Tensor, high: Tensor) -> Tensor | None:
    """Return the largest L over a box: at its corners, as L is convex; L of softmax rises in every entry."""
    if isinstance(sigma, Softmax):
        return sigma.value(high)
    if not sigma.elementwise:
        return None
    low, high = torch.broadcast_tensors(low, high)
    return torch.maximum(sigma.value(low.unsqueeze(-1)), sigma.value(high.unsqueeze(-1))).sum(-1)


def _by_powers(weights: Weights, y: Tensor) -> LowerBound:
    """For unbounded ranges: L_f* grows as |g|^m / m, L_h at most as |V_h|^p / p, and the larger power wins."""
    none = torch.full_like(y[..., 0], -inf)
    degree, p = _degree(weights.sigma_f), _degree(weights.sigma_h)
    if degree is None or p is None:
        return LowerBound(none, None, "no bound is known for these nonlinearities")
    if not weights.Xi.any():
        value = -weights.sigma_f.value(weights.current) - weights.sigma_h.value(weights.delayed_drive(y))
        return LowerBound(value, True, "Xi is 0")
    m = degree / (degree - 1)
    if m == p == 2:
        return _by_quadratics(weights, y)
    if m < p:
        reason = f"L_f* grows as |g|^{m:.3g}, L_h as |V_h|^{p:.3g}: the energy falls without bound as rates grow"
        return LowerBound(none, False, reason)
    # Hoelder: |V_h| <= a G + b entry by entry, with G = |g|_m; (a G + b)^p <= 2^(p-1) (a^p G^p + b^p)
    a, b = sqrt(weights.alpha_s) * weights.Xi.abs().pow(degree).sum(0).pow(1 / degree), weights.delayed_drive(y).abs()
    K = 2 ** (p - 1) * float(a.pow(p).sum())
    pushed = float(weights.current.abs().pow(degree).sum()) ** (1 / degree)
    share = 1.0 if pushed == 0 else 0.5  # of G^m / m that bounds the memories; the rest bounds the current
    least = -(1 - 1 / m) * pushed ** (m / (m - 1)) * (1 - share) ** (-1 / (m - 1)) if pushed else 0.0
    if m > p:
        G = (K / share) ** (1 / (m - p))
        least += share * G**m * (1 / m - 1 / p)
    elif share < K:
        return LowerBound(
            none, None, f"L_f* and L_h both grow as a power of {p:.3g}; no bound is known for so large a Xi"
        )
    value = least - 2 ** (p - 1) * b.pow(p).sum(-1) / p
    return LowerBound(value, True, f"L_f* grows as |g|^{m:.3g}, L_h at most as |V_h|^{p:.3g}")


def _degree(sigma: Lagrangian) -> float | None:
    if isinstance(sigma, Polynomial):
        return sigma.degree
    return 2.0 if isinstance(sigma, ReLU) or type(sigma) is Lagrangian else None


def _by_quadratics(weights: Weights, y: Tensor) -> LowerBound:
    """`E >= g.(I - alpha_s Xi Xi^T) g / 2 - g.(u + sqrt(alpha_s) Xi c) - |c|^2 / 2`, equal where both are linear.

    If alpha_s |Xi|^2 < 1 by more than rounding, it has a minimum. If it is 1, the linear term decides: E falls without
    bound along a mode on which only that term acts. Otherwise a direction along which E falls is searched.
    """
    c = weights.delayed_drive(y)
    Q = torch.eye(weights.features, dtype=torch.float64) - weights.alpha_s * (weights.Xi @ weights.Xi.mT)
    gains, modes = torch.linalg.eigh(Q)
    strength = 1 - float(gains[0])
    q = weights.current + sqrt(weights.alpha_s) * c @ weights.Xi.mT
    pushed = q @ modes
    flat = gains <= weights.features * torch.finfo(gains.dtype).eps * max(1.0, strength)
    if not bool(flat.any()):
        value = -pushed.square().div(gains).sum(-1) / 2 - c.square().sum(-1) / 2
        return LowerBound(value, True, f"alpha_s |Xi|^2 = {strength:.3g} is below 1")
    if not Q.any() and not q.any():
        return LowerBound(-c.square().sum(-1) / 2, True, "alpha_s Xi Xi^T is the identity, and there is no drive")
    none = torch.full_like(y[..., 0], -inf)
    relu_f, relu_h = isinstance(weights.sigma_f, ReLU), isinstance(weights.sigma_h, ReLU)
    if not relu_f and not relu_h and bool((pushed[..., flat].norm(dim=-1) > 1e-9 * q.norm(dim=-1)).any()):
        reason = f"alpha_s |Xi|^2 = {strength:.3g}: along its mode, the drive lowers the energy without bound"
        return LowerBound(none, False, reason)
    tried = torch.cat([modes[:, :1].mT, -modes[:, :1].mT, torch.eye(weights.features, dtype=torch.float64)])
    tried = tried.clamp_min(0) if relu_f else tried
    called = sqrt(weights.alpha_s) * tried @ weights.Xi
    called = called.clamp_min(0) if relu_h else called
    if bool((tried.square().sum(1) - called.square().sum(1) < -1e-12 * strength).any()):
        reason = f"alpha_s |Xi|^2 = {strength:.3g}, and there are rates along which the energy falls without bound"
        return LowerBound(none, False, reason)
    return LowerBound(none, None, f"alpha_s |Xi|^2 = {strength:.3g} is not below 1, and no bound is known")
