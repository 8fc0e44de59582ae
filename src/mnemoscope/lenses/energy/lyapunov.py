"""Functions that fall along every trajectory of `g' = s(W g + b)`, s = grad L: those that exist, and why.

Let M = (D W + W^T D) / 2 and A = (D W - W^T D) / 2 for positive weights D of the units (1, unless s acts on each unit
alone), z = W g + b, and let `F(z, g) = sum d (L(z) + L*(g) - z g) >= 0` be Fenchel's gap, which is 0 where g = s(z).

One step. `V = sum d (L*(g) - b g) - g.M g / 2`; with d = g' - g,  V(g') - V(g) = -F(z, g) - d.M d / 2 + d.A g.
Proof. L*(g') = z.g' - L(z), so the sum changes by -F + D(z - b).d = -F + d.D W g; and d.(M + A) g - d.M g = d.A g.
If D W is symmetric, A = 0. If M >= 0, no term is positive. F >= sum d (g' - g)^2 / (2 l), if l is the largest slope of
s, as L* is then convex by 1 / l: so it is enough that no eigenvalue of W is below -1 / l.

Two steps. `V = sum d (L*(g') + L*(g) - b (g' + g)) - g'.M g` falls by F(z', g), z' = W g' + b, less (g'' - g).A g':
for symmetric D W it never rises, and it rests only where g'' = g. So rates that stay bounded, as those of tanh do, come
as close as one likes to cycles of one or two states; those of relu or a linear s may leave for infinity if |W| > 1.

Contraction. If l |W| < 1 in some norm, the distance from the only fixed point shrinks by that factor at every step.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import Literal

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.energy.recurrence import Recurrence
from mnemoscope.lenses.energy.symmetry import (
    MOST_UNEVEN,
    Symmetry,
    symmetric_up_to,
    symmetriser,
    symmetry,
    unevenness,
    within_rounding,
)
from mnemoscope.lenses.energy.terms import Energy

Kind = Literal["one-step", "two-step", "contraction", "none"]
TOLERANCE = 1e-6
"""Asymmetry up to this share of |W|: the function of the symmetric part is shown, but guaranteed only at rounding."""


@dataclass(frozen=True)
class Lyapunov:
    """A function of the rates, of one state or two states in a row, and why it falls; kind "none": why it need not."""

    recurrence: Recurrence
    kind: Kind
    why: str
    weights: Float[Tensor, " size"]
    """D; for contractions, what each unit's distance is divided by."""
    asymmetry: float
    guaranteed: bool = True
    """Whether it cannot rise, but by what rounding of the weights adds; else it may by what `change` tells."""
    lowest: float = 0.0
    """Lowest eigenvalue of the symmetric part, where no slope makes up for it and it is rounding; else 0."""
    factor: float = nan
    """Of a contraction: the distance shrinks to this share at every step, at least."""
    centre: Float[Tensor, " size"] | None = None
    """Of a contraction: the rates at rest."""
    euclidean: bool = True
    """Of a contraction: the norm; else the largest entry."""

    def energy(self, g: Float[Tensor, "time *batch size"]) -> Energy:
        """V along rates, (time, *batch); of two steps from the second state on."""
        if self.kind == "contraction":
            return Energy({"distance": self._distance(g)})
        L, push = self._conjugate(g), -(g * self.weights * self.recurrence.b).sum(-1)
        if self.kind == "two-step":
            product = -(g[1:] * (g[:-1] @ self._parts()[0])).sum(-1)
            return Energy({"L*(g)": L[1:] + L[:-1], "g'.W g": product, "b.g": push[1:] + push[:-1]})
        return Energy({"L*(g)": L, "g.W g / 2": -(g * (g @ self._parts()[0])).sum(-1) / 2, "b.g": push})

    def change(self, g: Float[Tensor, "time *batch size"]) -> Energy:
        """What the identity says each step of `energy` adds, by cause; for trajectories of the network."""
        if self.kind == "contraction":
            return Energy({"contraction": self._distance(g).diff(dim=0)})
        M, A = self._parts()
        if self.kind == "two-step":
            old, middle, new = g[:-2], g[1:-1], g[2:]
            return Energy(
                {"nonlinearity": -self._gap(middle, old), "asymmetry": ((new - old) * (middle @ A.mT)).sum(-1)}
            )
        d = g.diff(dim=0)
        return Energy(
            {
                "nonlinearity": -self._gap(g[:-1], g[:-1]),
                "symmetric part": -(d * (d @ M)).sum(-1) / 2,
                "asymmetry": (d * (g[:-1] @ A.mT)).sum(-1),
            }
        )

    def size(self, g: Float[Tensor, "time *batch size"]) -> Tensor:
        """What rounding of each `change` is measured against: the terms before and after; of a distance, the rates."""
        if self.kind == "contraction":
            assert self.centre is not None
            each = ((g.abs() + self.centre.abs()) / self.weights).sum(-1)
        else:
            each = self.energy(g).size
        return each[1:] + each[:-1]

    def slack(self, g: Float[Tensor, "time *batch size"]) -> Tensor:
        """The most that rounding of the weights can add to each change of a guaranteed function: |A| |d| |g|, and what
        an eigenvalue adds that should be 0.
        """
        if self.kind == "contraction" or not self.guaranteed:
            return torch.zeros_like(g[0, ..., 0]).expand(len(g) - 1 - (self.kind == "two-step"), *g.shape[1:-1])
        odd = float(torch.linalg.matrix_norm(self._parts()[1], 2))
        if self.kind == "two-step":
            return odd * (g[2:] - g[:-2]).norm(dim=-1) * g[1:-1].norm(dim=-1)
        d = g.diff(dim=0).norm(dim=-1)
        return odd * d * g[:-1].norm(dim=-1) + max(0.0, -self.lowest) * float(self.weights.max()) * d.square() / 2

    def _distance(self, g: Tensor) -> Tensor:
        assert self.centre is not None
        off = (g - self.centre) / self.weights
        return off.norm(dim=-1) if self.euclidean else off.abs().amax(-1)

    def _parts(self) -> tuple[Tensor, Tensor]:
        DW = self.weights[:, None] * self.recurrence.W
        return (DW + DW.mT) / 2, (DW - DW.mT) / 2

    def _conjugate(self, g: Tensor) -> Tensor:
        sigma = self.recurrence.sigma
        if not sigma.elementwise:
            return sigma.conjugate(g)
        return (self.weights * sigma.conjugate(g.unsqueeze(-1))).sum(-1)

    def _gap(self, source: Tensor, g: Tensor) -> Tensor:
        """F(W source + b, g)."""
        sigma, z = self.recurrence.sigma, self.recurrence.field(source)
        value = (self.weights * sigma.value(z.unsqueeze(-1))).sum(-1) if sigma.elementwise else sigma.value(z)
        return value + self._conjugate(g) - (self.weights * z * g).sum(-1)


def lyapunov_functions(recurrence: Recurrence, tolerance: float = TOLERANCE) -> list[Lyapunov]:
    """All that are known to exist, the one that says most first; else a single one of kind "none", which may rise.

    Args:
        recurrence: the network.
        tolerance: how large the antisymmetric part may be, relative to |W|, for W to count as symmetric. The energy of
            the symmetric part may then rise by as much as the antisymmetric one adds; `change` tells how much, and it
            is guaranteed to fall only where that is rounding of the weights.

    >>> W = torch.tensor([[0.0, -2.0], [-2.0, 0.0]])
    >>> [one.kind for one in lyapunov_functions(Recurrence.of(W))]
    ['two-step']
    >>> [one.kind for one in lyapunov_functions(Recurrence.of(W / 5))]
    ['one-step', 'two-step', 'contraction', 'contraction']

    """
    if not 0 <= tolerance < 1:
        raise ValueError(f"tolerance is a share of |W|, from 0 to below 1, but is {tolerance}.")
    plain = symmetry(recurrence.W)
    found = _symmetric(recurrence, plain, tolerance) + _contractions(recurrence, plain)
    return sorted(found, key=lambda one: not one.guaranteed) or [_none(recurrence, plain, tolerance)]


def _symmetric(recurrence: Recurrence, plain: Symmetry, tolerance: float) -> list[Lyapunov]:
    seen, name, rounding = plain, "W", within_rounding(recurrence.rounding)
    if plain.asymmetry > tolerance and recurrence.sigma.elementwise:
        weights = symmetriser(recurrence.W)
        if weights is not None:
            seen, name = symmetry(recurrence.W, weights), "D W, with positive weights D of the units,"
            rounding *= recurrence.size  # ratios of rounded entries, one after the other along the tree
    if not seen.asymmetry <= tolerance:  # also where it is NaN
        return []
    guaranteed = seen.asymmetry <= rounding
    left = symmetric_up_to(seen.asymmetry, guaranteed)
    slope = recurrence.lipschitz
    rounded = recurrence.size * recurrence.rounding * seen.norm  # what an eigenvalue may be that should be 0

    def function(kind: Kind, why: str) -> Lyapunov:
        lowest = seen.lowest if slope is None else 0.0
        return Lyapunov(recurrence, kind, why, seen.weights, seen.asymmetry, guaranteed, lowest)

    two = function("two-step", f"{name} is symmetric{left}: the energy of two states in a row falls by Fenchel's gap")
    if seen.lowest >= -rounded and (slope is None or seen.lowest >= -1 / slope):
        why = f"{name} is symmetric{left} and positive semi-definite (lowest eigenvalue {seen.lowest:.3g})"
    elif slope is not None and seen.lowest >= -1 / slope:
        why = (
            f"{name} is symmetric{left}, and its lowest eigenvalue, {seen.lowest:.3g}, is not below "
            f"-1 / (largest slope of {recurrence.sigma.extra_repr()}) = {-1 / slope:.3g}"
        )
    else:
        return [two]
    return [function("one-step", why), two]


def _contractions(recurrence: Recurrence, plain: Symmetry) -> list[Lyapunov]:
    slope = recurrence.lipschitz
    if slope is None:
        return []
    ones = torch.ones_like(recurrence.b)
    factor = slope * float(torch.linalg.matrix_norm(recurrence.W, 2))
    found = []
    if factor < 1:
        why = f"(largest slope) |W| = {factor:.4g} is below 1: there is one fixed point, and all states approach it"
        found.append((why, ones, factor, True))
    reach = slope * recurrence.W.abs()
    if recurrence.sigma.elementwise and float(torch.linalg.eigvals(reach).abs().max()) < 1:
        # v = (I - l |W|)^-1 1 >= 1 gives l |W| v = v - 1 <= (1 - 1 / max v) v, entry by entry
        v = torch.linalg.solve(torch.eye(len(ones), dtype=reach.dtype) - reach, ones)
        factor = float((reach @ v / v).max())
        if bool((v > 0).all()) and factor < 1:
            why = (
                f"the largest distance of a unit, each in its own measure, shrinks to {factor:.4g} or less at every "
                f"step, as the spectral radius of |W_ij| times the largest slope is below 1"
            )
            found.append((why, v, factor, False))
    centre = _rest(recurrence) if found else None
    return [
        Lyapunov(recurrence, "contraction", why, weights, plain.asymmetry, True, 0.0, factor, centre, euclidean)
        for why, weights, factor, euclidean in found
    ]


def _rest(recurrence: Recurrence) -> Tensor:
    """The fixed point of a contraction: some steps towards it, then Newton's, as I - J is never singular."""
    g = recurrence.step(torch.zeros_like(recurrence.b))
    for _ in range(1000):
        before, g = g, recurrence.step(g)
        if float((g - before).abs().max()) <= 1e-9 * (1 + float(g.abs().max())):
            break
    eye = torch.eye(recurrence.size, dtype=g.dtype)
    for _ in range(20):
        J = recurrence.sigma.jacobian(recurrence.field(g)) @ recurrence.W
        move = torch.linalg.solve(eye - J, recurrence.step(g) - g)
        g = g + move
        if float(move.abs().max()) <= 1e-15 * (1 + float(g.abs().max())):
            break
    return recurrence.step(g)


def _none(recurrence: Recurrence, plain: Symmetry, tolerance: float) -> Lyapunov:
    weighted = _unweighted(recurrence.W) if recurrence.sigma.elementwise else ""
    slope = recurrence.lipschitz
    size = float(torch.linalg.matrix_norm(recurrence.W, 2))
    far = "" if slope is None else f", and (largest slope) |W| = {slope * size:.3g} is not below 1"
    why = (
        f"W is not symmetric (antisymmetric part {plain.asymmetry:.2g} of |W|, counted from {tolerance:g} on){weighted}"
        f"{far}"
    )
    return Lyapunov(recurrence, "none", why, torch.ones_like(recurrence.b), plain.asymmetry, False)


def _unweighted(W: Tensor) -> str:
    uneven = unevenness(W)
    if uneven > MOST_UNEVEN:
        return f"; weights of its units were not tried, as they would differ by a factor of {uneven:.0e}"
    return " and no weights of its units make it so"
