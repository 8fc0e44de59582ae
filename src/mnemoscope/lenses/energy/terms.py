"""Energies of the episodic memory, split into named terms.

Equations are those of Karuvally et al. 2023 ("paper") and of their notes on the energy ("notes"). The notes leave open
whether Eq 25 falls; `bregman` answers it.

With g = sigma_f(x), `x.g - L_f(x)` is the convex conjugate L_f*(g) by Legendre, and likewise for the memories.
With V_h at rest (T_h -> 0), `V_h = sqrt(alpha_s) Xi^T g + alpha_c Phi^T Xi^T y`, the last three terms of Eq 3 add up to
-L_h(V_h), so the discrete energy is `E = L_f*(g) - L_h(V_h)` for all nonlinearities and strengths; for a linear
sigma_h, with L_h = |V_h|^2 / 2, this is Eq 25 of the notes. A constant current u into V_f adds -u.g to either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Literal, get_args

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.energy.weights import Features, Memories, Weights

Populations = tuple[Features, Memories, Features]
"""V_f, V_h and V_d, or their velocities."""
Variant = Literal["exact", "printed 28", "printed 35", "printed 45"]
VARIANTS: tuple[Variant, ...] = get_args(Variant)
_SIGNS: dict[Variant, tuple[int, ...]] = {
    "exact": (1, -1, -1, -1, -1),  # Eq 25 = 26
    "printed 28": (1, -1, 1, -1, -1),  # and 29
    "printed 35": (1, 1, -1, -1, -1),  # adds the change of log cosh instead of subtracting it
    "printed 45": (1, -1, 1, 1, 1),  # and 47
}
_NAMES = ("x.g", "L_f", "g.Xi Xi^T g / 2", "g.Xi Phi^T Xi^T y", "|Phi^T Xi^T y|^2 / 2")


@dataclass(frozen=True)
class Energy:
    """A sum of named terms of one shape: an energy, or with rates of change as terms, the rate of an energy."""

    terms: Mapping[str, Float[Tensor, "*batch"]]

    @property
    def total(self) -> Float[Tensor, "*batch"]:
        """The sum of the terms."""
        return self.stacked.sum(0)

    @property
    def size(self) -> Float[Tensor, "*batch"]:
        """Sum of the absolute values of the terms, the scale of rounding errors."""
        return self.stacked.abs().sum(0)

    @property
    def stacked(self) -> Tensor:
        """The terms as one tensor, with the terms in the first dimension."""
        return torch.stack(list(self.terms.values()))

    def __getitem__(self, name: str) -> Float[Tensor, "*batch"]:
        if name not in self.terms:
            raise KeyError(f"There is no term {name!r}; there are {', '.join(self.terms)}.")
        return self.terms[name]


def flow_energy(weights: Weights, V_f: Features, V_h: Memories, V_d: Features) -> Energy:
    """Return the energy of the three populations (paper, Eq 3; notes, Eq 2).

    >>> weights = Weights.from_matrices(torch.eye(2), torch.eye(2), "tanh")
    >>> V_f, V_h, V_d = torch.randn(3, 2, dtype=torch.float64)
    >>> list(flow_energy(weights, V_f, V_h, V_d).terms)
    ['features', 'memories', 'recall', 'episodes']
    """
    g, p = weights.sigma_f(V_f), weights.sigma_h(V_h)
    terms = {
        "features": (V_f * g).sum(-1) - weights.sigma_f.value(V_f),
        "memories": (V_h * p).sum(-1) - weights.sigma_h.value(V_h),
        "recall": -sqrt(weights.alpha_s) * (g @ weights.Xi * p).sum(-1),
        "episodes": -(weights.delayed_drive(V_d) * p).sum(-1),
    }
    return _with_current(terms, weights, g)


def flow_energy_rate(weights: Weights, states: Populations, velocities: Populations, T_f: float, T_h: float) -> Energy:
    """Return dE/dt along the flow, split by the population that moves (V_f, V_h, V_d).

    `dE/dV_f = J_f (V_f - sqrt(alpha_s) Xi sigma_h - u) = -T_f J_f V_f'` and likewise for V_h: both lower E, since the
    Hessians J of convex Lagrangians are positive. V_d follows no gradient of E: `-alpha_c (Xi Phi sigma_h).V_d'` has
    either sign. A population with T = 0 is at equilibrium with the others, so its gradient and its term vanish. The
    velocities V_f' and V_h' must be those of the flow.
    """
    (V_f, V_h, _), (dV_f, dV_h, dV_d) = states, velocities
    rates = {
        "V_f": -T_f * _curvature(weights.sigma_f.jacobian(V_f), dV_f),
        "V_h": -T_h * _curvature(weights.sigma_h.jacobian(V_h), dV_h),
        "V_d": -(weights.delayed_drive(dV_d) * weights.sigma_h(V_h)).sum(-1),
    }
    return Energy(rates)


def _with_current(terms: dict[str, Tensor], weights: Weights, g: Tensor) -> Energy:
    return Energy({**terms, "u.g": -(g @ weights.current)} if weights.current.any() else terms)


def _curvature(J: Tensor, v: Tensor) -> Tensor:
    return (v * (J @ v.unsqueeze(-1)).squeeze(-1)).sum(-1)


def map_energy(weights: Weights, x: Features, y: Features, variant: Variant = "exact") -> Energy:
    """Return the energy of the discrete memory at V_f = x, V_d = y (notes, Eq 25 = 26), or a printed variant.

    For a linear sigma_h it has the five terms of Eq 25; else the last three are one, -L_h(V_h). The printed variants
    differ in signs: Eq 28 and 29 in the third term, Eq 35 in that of L_f, Eq 45 and 47 in the last three.

    >>> weights = Weights.from_matrices(torch.eye(2), torch.tensor([[0.0, 1.0], [-1.0, 0.0]]), "tanh")
    >>> x = torch.tensor([0.8, 0.1]).double()
    >>> round(map_energy(weights, x, torch.tanh(x)).total.item(), 4)
    -0.2054
    """
    if variant not in VARIANTS:
        raise ValueError(f"Unknown variant {variant!r}; choose one of {', '.join(VARIANTS)}.")
    g = weights.sigma_f(x)
    features = (x * g).sum(-1), weights.sigma_f.value(x)
    if not weights.linear:
        if variant != "exact":
            raise ValueError(f"{variant!r} is printed for a linear sigma_h, but it is {weights.sigma_h.extra_repr()}.")
        terms = {"x.g": features[0], "L_f": -features[1], "L_h": -weights.sigma_h.value(weights.memory_drive(g, y))}
        return _with_current(terms, weights, g)
    by_features, by_delayed = sqrt(weights.alpha_s) * g @ weights.Xi, weights.delayed_drive(y)
    hidden = by_features.square().sum(-1) / 2, (by_features * by_delayed).sum(-1), by_delayed.square().sum(-1) / 2
    signed = (sign * term for sign, term in zip(_SIGNS[variant], (*features, *hidden), strict=True))
    return _with_current(dict(zip(_NAMES, signed, strict=True)), weights, g)


def rates_energy(weights: Weights, g: Features, y: Features) -> Energy:
    """Return `map_energy` as a function of the rates g = sigma_f(V_f); infinite if no V_f has these rates.

    >>> weights = Weights.from_matrices(torch.eye(2), torch.eye(2), "logistic")
    >>> x, y = torch.randn(2, 5, 2, dtype=torch.float64)
    >>> energies = map_energy(weights, x, y).total, rates_energy(weights, torch.sigmoid(x), y).total
    >>> torch.allclose(*energies)
    True
    """
    terms = {"L_f*(g)": weights.sigma_f.conjugate(g), "-L_h(V_h)": -weights.sigma_h.value(weights.memory_drive(g, y))}
    return _with_current(terms, weights, g)
