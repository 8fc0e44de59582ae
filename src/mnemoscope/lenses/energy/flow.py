"""When the energy of the three populations in continuous time falls, and the function that falls where it does not.

`dE/dt = -T_f V_f'.J_f V_f' - T_h V_h'.J_h V_h' - alpha_c (Xi Phi sigma_h).V_d'`: E falls where V_d does not move, or
does not act. For a linear sigma_h, c = alpha_c Phi^T Xi^T V_d and S = sqrt(alpha_s) alpha_c Xi Phi Xi^T,
`V = E + |c|^2 / 2 + V_d.S V_d / 2` has, with V_h = sqrt(alpha_s) Xi^T g + c - T_h V_h' and g = V_d + T_d V_d',

    dV/dt = -T_f V_f'.J_f V_f' - T_h |V_h'|^2 - T_d V_d'.S V_d' + T_h c'.V_h' + V_d.A V_d',

A the antisymmetric part of S. If that is 0, the three before are a quadratic form in V_h' and V_d', never positive if
`T_d S >= T_h K K^T / 4`, K = alpha_c Xi Phi (complete the square). With T_h = T_d = 0 only the first term is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells.episodic import EpisodicMemory, EpisodicState
from mnemoscope.lenses.energy.symmetry import symmetric_up_to, symmetry, within_rounding
from mnemoscope.lenses.energy.terms import Energy, flow_energy, flow_energy_rate
from mnemoscope.lenses.energy.weights import Weights

FlowKind = Literal["frozen", "settling", "none"]


@dataclass(frozen=True)
class FlowGuarantee:
    """Which function falls, "frozen": E itself, "settling": V; why; and the asymmetry of S, where it was looked at."""

    kind: FlowKind
    why: str
    asymmetry: float = float("nan")
    guaranteed: bool = True
    """Whether it cannot rise, but by what rounding of the weights adds."""
    lowest: float = 0.0
    """The lowest eigenvalue of T_d S - T_h K K^T / 4, if it is rounding below 0; else 0."""


def flow_guarantee(memory: EpisodicMemory, weights: Weights, tolerance: float) -> FlowGuarantee:
    """Of the memory as it is; `tolerance`: the asymmetry, relative to S, up to which V is looked at instead of E."""
    if memory.T_d == float("inf"):
        return FlowGuarantee("frozen", "V_d is frozen (T_d is infinite), and L_f and L_h are convex")
    K = weights.alpha_c * weights.Xi @ weights.Phi
    if not K.any():
        return FlowGuarantee("frozen", "alpha_c Xi Phi is 0, so that V_d does not act, and L_f and L_h are convex")
    moves = "V_d moves and calls for other memories, and its term, -alpha_c (Xi Phi sigma_h).V_d', has either sign"
    if not weights.linear:
        return FlowGuarantee("none", f"{moves}; sigma_h is not linear", guaranteed=False)
    S = coupling(weights)
    seen = symmetry(S)
    if seen.asymmetry > tolerance:
        why = f"{moves}; Xi Phi Xi^T is not symmetric (antisymmetric part {seen.asymmetry:.2g})"
        return FlowGuarantee("none", why, seen.asymmetry, False)
    sure = seen.asymmetry <= within_rounding(weights.rounding, weights.features)
    symmetric = f"Xi Phi Xi^T is symmetric{symmetric_up_to(seen.asymmetry, sure)}"
    if memory.T_h == memory.T_d == 0:
        why = f"V_h and V_d follow at once, and {symmetric}: a network of Hopfield's kind"
        return FlowGuarantee("settling", why, seen.asymmetry, sure)
    M = memory.T_d * (S + S.mT) / 2
    lowest = float(torch.linalg.eigvalsh(M - memory.T_h * K @ K.mT / 4)[0])
    if memory.T_d > 0 and lowest >= -weights.features * weights.rounding * memory.T_d * seen.norm:
        why = f"{symmetric}, and positive enough for the time that V_h takes: T_d S >= T_h K K^T / 4"
        return FlowGuarantee("settling", why, seen.asymmetry, sure, min(lowest, 0.0))
    why = f"{moves}; {symmetric}, but not positive enough for the time that V_h takes"
    return FlowGuarantee("none", why, seen.asymmetry, False)


def coupling(weights: Weights) -> Float[Tensor, "features features"]:
    """`S = sqrt(alpha_s) alpha_c Xi Phi Xi^T`, by which V_d acts on V_f."""
    return weights.alpha_s**0.5 * weights.alpha_c * weights.shared()


def flow_terms(weights: Weights, kind: FlowKind, states: EpisodicState) -> Energy:
    """The terms of E, or of V where that is what falls."""
    energy = flow_energy(weights, *states)
    if kind != "settling":
        return energy
    c = weights.called(states.V_d)
    own = (states.V_d * (states.V_d @ coupling(weights))).sum(-1) / 2
    return Energy({**energy.terms, "delayed": c.square().sum(-1) / 2 + own})


def flow_rates(
    memory: EpisodicMemory, weights: Weights, kind: FlowKind, states: EpisodicState, velocities: EpisodicState
) -> Energy:
    """dE/dt by the population that moves; or dV/dt, as it is written above, which near rest keeps its digits."""
    rates = flow_energy_rate(weights, states, velocities, memory.T_f, memory.T_h)
    if kind != "settling":
        return rates
    M, A = _parts(weights)
    d, h = velocities.V_d, velocities.V_h
    settled = memory.T_h * (weights.called(d) * h).sum(-1) - memory.T_d * (d * (d @ M)).sum(-1)
    terms = {**rates.terms, "V_d": settled}
    return Energy({**terms, "asymmetry": (states.V_d * (d @ A.mT)).sum(-1)} if A.any() else terms)


def flow_sizes(
    memory: EpisodicMemory, weights: Weights, kind: FlowKind, states: EpisodicState, velocities: EpisodicState
) -> Float[Tensor, "*batch"]:
    """What rounding of each rate is measured against: its terms before any of them cancel each other."""
    rates = flow_energy_rate(weights, states, velocities, memory.T_f, memory.T_h)
    d, moved = velocities.V_d.abs(), weights.called(velocities.V_d).norm(dim=-1)
    size = rates["V_f"].abs() + rates["V_h"].abs()
    if kind == "frozen":
        return size
    if kind == "settling":
        M, A = _parts(weights)
        size = size + memory.T_h * moved * velocities.V_h.norm(dim=-1) + (states.V_d.abs() * (d @ A.mT.abs())).sum(-1)
        return size + memory.T_d * (d * (d @ M.abs())).sum(-1)
    # V_d' is itself a difference: of what it follows and where it is, or of what V_f is driven to and V_f
    f = velocities.V_f.abs() + 2 * states.V_f.abs() / memory.T_f
    fired = weights.sigma_f(states.V_f)
    slope = weights.sigma_f.jacobian(states.V_f).abs()
    parts = (fired.abs() + states.V_d.abs()) / memory.T_d if memory.T_d > 0 else (slope @ f.unsqueeze(-1)).squeeze(-1)
    called = abs(weights.alpha_c) * parts @ (weights.Xi @ weights.Phi).abs()
    return size + (called * weights.sigma_h(states.V_h).abs()).sum(-1)


def flow_slack(
    memory: EpisodicMemory, weights: Weights, found: FlowGuarantee, states: EpisodicState, velocities: EpisodicState
) -> Float[Tensor, "*batch"] | None:
    """The most that rounding of the weights can add to each rate of V; None where descent does not rest on them."""
    if found.kind != "settling" or not found.guaranteed:
        return None
    odd = float(torch.linalg.matrix_norm(_parts(weights)[1], 2))
    d = velocities.V_d.norm(dim=-1)
    return odd * states.V_d.norm(dim=-1) * d - found.lowest * d.square()


def _parts(weights: Weights) -> tuple[Tensor, Tensor]:
    """The symmetric and the antisymmetric part of S."""
    S = coupling(weights)
    return (S + S.mT) / 2, (S - S.mT) / 2
