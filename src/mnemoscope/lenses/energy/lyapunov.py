"""Lyapunov functions of `g' = s(W g + b)`, s = grad L: which exist, and why.

Let M = (D W + W^T D) / 2 and A = (D W - W^T D) / 2 for positive weights D of the units (1, unless s acts on each unit
alone), z = W g + b, and let `F(z, g) = sum d (L(z) + L*(g) - z g) >= 0` be Fenchel's gap, which is 0 where g = s(z).

One step. `V = sum d (L*(g) - b g) - g.M g / 2`; with d = g' - g,  V(g') - V(g) = -F(z, g) - d.M d / 2 + d.A g.
Proof. L*(g') = z.g' - L(z), so the sum changes by -F + D(z - b).d = -F + d.D W g; and d.(M + A) g - d.M g = d.A g.
If D W is symmetric, A = 0. If M >= 0, no term is positive. F >= sum d (g' - g)^2 / (2 l) if l is the largest slope of
s, as L* is then 1 / l strongly convex: so it suffices that no eigenvalue of W is below -1 / l.

Two steps. `V = sum d (L*(g') + L*(g) - b (g' + g)) - g'.M g` falls by F(z', g) - (g'' - g).A g', z' = W g' + b: for
symmetric D W it never rises, and it is constant only if g'' = g. So bounded rates, as those of tanh, converge to cycles
of one or two states; those of relu or a linear s may diverge if |W| > 1.

Contraction. If l |W| < 1 in some norm, the distance from the only fixed point shrinks by that factor at every step.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import Literal

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.energy.bounds import LowerBound, lower_bound
from mnemoscope.lenses.energy.recurrence import Recurrence
from mnemoscope.lenses.energy.symmetry import Symmetry, describe_asymmetry, symmetriser, why_no_weights, within_rounding
from mnemoscope.lenses.energy.terms import Energy
from mnemoscope.lenses.energy.trajectories import simulate
from mnemoscope.lenses.energy.weights import Weights

Rates = Float[Tensor, "time *batch size"]
Kind = Literal["one-step", "two-step", "contraction", "none"]
TOLERANCE = 1e-6
"""Asymmetry, as a share of |W|, up to which the function of the symmetric part is used by default. It is guaranteed to
fall only if the asymmetry is rounding."""


@dataclass(frozen=True)
class Lyapunov:
    """A function of the rates of one state or of two successive states, and why it falls, or may rise (kind "none")."""

    recurrence: Recurrence
    kind: Kind
    reason: str
    weights: Float[Tensor, " size"]
    """D; for a contraction, the unit of distance of each unit."""
    asymmetry: float
    """Antisymmetric part relative to |W|."""
    guaranteed: bool = True
    """Whether it cannot rise, except by rounding of the weights."""
    lowest: float = 0.0
    """Lowest eigenvalue of the symmetric part if it is negative by rounding and s has no largest slope; else 0."""
    factor: float = nan
    """Factor of a contraction: the distance shrinks at least to this share at every step."""
    centre: Float[Tensor, " size"] | None = None
    """Fixed point of a contraction."""
    euclidean: bool = True
    """Whether the distance of a contraction is Euclidean; else it is the largest entry."""

    @property
    def units(self) -> int:
        """Number of units."""
        return self.recurrence.size

    def step(self, g: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch size"]:
        """Return the next rates."""
        return self.recurrence.step(g)

    def run(self, start: Float[Tensor, "*batch size"], steps: int) -> Rates:
        """Return the rates over time, truncated before any of them diverges."""
        return simulate(lambda run: self.step(run[-1]), start, steps)

    def following(self, g: Rates) -> Float[Tensor, "steps *batch size"]:
        """Return the rates one step after each of these but the last."""
        return self.step(g[:-1])

    def energy(self, g: Rates) -> Energy:
        """Return V along rates, (time, *batch); for two steps from the second state on."""
        if self.kind == "contraction":
            return Energy({"distance": self._distance(g)})
        L, push = self._conjugate(g), -(g * self.weights * self.recurrence.b).sum(-1)
        if self.kind == "two-step":
            product = -(g[1:] * (g[:-1] @ self._parts()[0])).sum(-1)
            return Energy({"L*(g)": L[1:] + L[:-1], "g'.W g": product, "b.g": push[1:] + push[:-1]})
        return Energy({"L*(g)": L, "g.W g / 2": -(g * (g @ self._parts()[0])).sum(-1) / 2, "b.g": push})

    def change(self, g: Rates) -> Energy:
        """Return the change of `energy` in each step by cause, from the identity; for trajectories of the network."""
        if self.kind == "contraction":
            return Energy({"contraction": self._distance(g).diff(dim=0)})
        M, A = self._parts()
        if self.kind == "two-step":
            old, middle, new = g[:-2], g[1:-1], g[2:]
            odd = ((new - old) * (middle @ A.mT)).sum(-1)
            return Energy({"nonlinearity": -self._gap(middle, old), "asymmetry": odd})
        d = g.diff(dim=0)
        even, odd = -(d * (d @ M)).sum(-1) / 2, (d * (g[:-1] @ A.mT)).sum(-1)
        return Energy({"nonlinearity": -self._gap(g[:-1], g[:-1]), "symmetric part": even, "asymmetry": odd})

    def size(self, g: Rates) -> Tensor:
        """Return the scale of rounding of each `change`: the terms before and after it, or the rates for a distance."""
        if self.kind == "contraction":
            assert self.centre is not None
            size = ((g.abs() + self.centre.abs()) / self.weights).sum(-1)
        else:
            size = self.energy(g).size
        return size[1:] + size[:-1]

    def slack(self, g: Rates) -> Tensor | None:
        """Return the most that rounding of the weights can add to each change; None if descent does not depend on it.

        This is |A| |d| |g|, and the share of a negative eigenvalue that should be 0.
        """
        if self.kind == "contraction" or not self.guaranteed:
            return None
        odd = float(torch.linalg.matrix_norm(self._parts()[1], 2))
        if self.kind == "two-step":
            return odd * (g[2:] - g[:-2]).norm(dim=-1) * g[1:-1].norm(dim=-1)
        d = g.diff(dim=0).norm(dim=-1)
        return odd * d * g[:-1].norm(dim=-1) + max(0.0, -self.lowest) * float(self.weights.max()) * d.square() / 2

    def bound(self, g: Rates) -> LowerBound | None:
        """Return a lower bound; None if none is known.

        A one-step energy with unit weights has that of Xi Xi^T, the positive part of W: g.W g is at most g.Xi Xi^T g.
        """
        if self.kind == "contraction":
            return LowerBound(torch.zeros(()), True, "it is a distance")
        if self.kind != "one-step" or bool((self.weights != 1).any()):
            return None
        b = self.recurrence.b
        values, modes = torch.linalg.eigh((self.recurrence.W + self.recurrence.W.mT) / 2)
        Xi = modes * values.clamp_min(0).sqrt()
        weights = Weights.from_matrices(Xi, torch.zeros_like(Xi), self.recurrence.sigma, current=b)
        found = lower_bound(weights, torch.zeros_like(b))
        # If W has negative eigenvalues too, an unbounded positive part does not show that the energy is unbounded.
        return found if found.exists or bool(values[0] >= 0) else None

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
        """Return Fenchel's gap F(W source + b, g)."""
        sigma, z = self.recurrence.sigma, self.recurrence.field(source)
        value = (self.weights * sigma.value(z.unsqueeze(-1))).sum(-1) if sigma.elementwise else sigma.value(z)
        return value + self._conjugate(g) - (self.weights * z * g).sum(-1)


def lyapunov_functions(recurrence: Recurrence, tolerance: float = TOLERANCE) -> list[Lyapunov]:
    """Return all known Lyapunov functions, the most informative first; else one of kind "none", which may rise.

    Args:
        recurrence: the network.
        tolerance: largest antisymmetric part, relative to |W|, with which W counts as symmetric. The energy of the
            symmetric part may then rise by the contribution of the antisymmetric part, which `change` returns; it is
            guaranteed to fall only if that part is rounding of the weights.

    >>> W = torch.tensor([[0.0, -2.0], [-2.0, 0.0]])
    >>> [function.kind for function in lyapunov_functions(Recurrence.from_matrix(W))]
    ['two-step']
    >>> [function.kind for function in lyapunov_functions(Recurrence.from_matrix(W / 5))]
    ['one-step', 'two-step', 'contraction', 'contraction']

    """
    if not 0 <= tolerance < 1:
        raise ValueError(f"tolerance is a share of |W|, from 0 to below 1, but is {tolerance}.")
    plain = Symmetry.from_matrix(recurrence.W)
    found = _symmetric(recurrence, plain, tolerance) + _contractions(recurrence, plain)
    return sorted(found, key=lambda function: not function.guaranteed) or [_none(recurrence, plain, tolerance)]


def _symmetric(recurrence: Recurrence, plain: Symmetry, tolerance: float) -> list[Lyapunov]:
    symmetry, name, rounding = plain, "W", within_rounding(recurrence.rounding)
    if plain.asymmetry > tolerance and recurrence.sigma.elementwise:
        weights = symmetriser(recurrence.W)
        if weights is not None:
            symmetry = Symmetry.from_matrix(recurrence.W, weights)
            name = "D W, with positive weights D of the units,"
            rounding *= recurrence.size  # D multiplies ratios of rounded entries along a path of the tree
    if not symmetry.asymmetry <= tolerance:  # also if it is NaN
        return []
    guaranteed = symmetry.asymmetry <= rounding
    symmetric = f"{name} is symmetric{describe_asymmetry(symmetry.asymmetry, guaranteed)}"
    slope = recurrence.lipschitz
    rounded = recurrence.size * recurrence.rounding * symmetry.norm  # largest rounding error of an eigenvalue

    def function(kind: Kind, reason: str) -> Lyapunov:
        lowest = symmetry.lowest if slope is None else 0.0
        return Lyapunov(recurrence, kind, reason, symmetry.weights, symmetry.asymmetry, guaranteed, lowest)

    two_step = function("two-step", f"{symmetric}: the energy of two successive states falls by Fenchel's gap")
    if symmetry.lowest >= -rounded and (slope is None or symmetry.lowest >= -1 / slope):
        reason = f"{symmetric} and positive semi-definite (lowest eigenvalue {symmetry.lowest:.3g})"
    elif slope is not None and symmetry.lowest >= -1 / slope:
        reason = (
            f"{symmetric}, and its lowest eigenvalue, {symmetry.lowest:.3g}, is not below "
            f"-1 / (largest slope of {recurrence.sigma.extra_repr()}) = {-1 / slope:.3g}"
        )
    else:
        return [two_step]
    return [function("one-step", reason), two_step]


def _contractions(recurrence: Recurrence, plain: Symmetry) -> list[Lyapunov]:
    slope = recurrence.lipschitz
    if slope is None:
        return []
    ones = torch.ones_like(recurrence.b)
    factor = slope * float(torch.linalg.matrix_norm(recurrence.W, 2))
    found = []
    if factor < 1:
        reason = f"(largest slope) |W| = {factor:.4g} is below 1: there is one fixed point, and all states approach it"
        found.append((reason, ones, factor, True))
    reach = slope * recurrence.W.abs()
    if recurrence.sigma.elementwise and float(torch.linalg.eigvals(reach).abs().max()) < 1:
        # v = (I - l |W|)^-1 1 >= 1 gives l |W| v = v - 1 <= (1 - 1 / max v) v, entry by entry
        v = torch.linalg.solve(torch.eye(len(ones), dtype=reach.dtype) - reach, ones)
        factor = float((reach @ v / v).max())
        if bool((v > 0).all()) and factor < 1:
            reason = (
                f"the largest weighted distance of a unit shrinks to {factor:.4g} or less at every step, as the "
                f"spectral radius of |W_ij| times the largest slope is below 1"
            )
            found.append((reason, v, factor, False))
    centre = _fixed_point(recurrence) if found else None
    return [
        Lyapunov(recurrence, "contraction", reason, weights, plain.asymmetry, True, 0.0, factor, centre, euclidean)
        for reason, weights, factor, euclidean in found
    ]


def _fixed_point(recurrence: Recurrence) -> Tensor:
    """Return the fixed point of a contraction: iterate towards it, then polish by Newton, as I - J is regular."""
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
    weighted = why_no_weights(recurrence.W) if recurrence.sigma.elementwise else ""
    slope = recurrence.lipschitz
    size = float(torch.linalg.matrix_norm(recurrence.W, 2))
    far = "" if slope is None else f", and (largest slope) |W| = {slope * size:.3g} is not below 1"
    reason = (
        f"W is not symmetric (antisymmetric part {plain.asymmetry:.2g} of |W|, tolerance {tolerance:g}){weighted}{far}"
    )
    return Lyapunov(recurrence, "none", reason, torch.ones_like(recurrence.b), plain.asymmetry, False)
