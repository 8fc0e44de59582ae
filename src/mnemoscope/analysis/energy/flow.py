"""When the energy of the three populations in continuous time falls, and the function that falls where it does not.

`dE/dt = -T_f V_f'.J_f V_f' - T_h V_h'.J_h V_h' - alpha_c (Xi Phi sigma_h).V_d'`: E falls where V_d does not move, or
does not act. For a linear sigma_h, c = alpha_c Phi^T Xi^T V_d and S = sqrt(alpha_s) alpha_c Xi Phi Xi^T,
`V = E + |c|^2 / 2 + V_d.S V_d / 2` has, with V_h = sqrt(alpha_s) Xi^T g + c - T_h V_h' and g = V_d + T_d V_d',

    dV/dt = -T_f V_f'.J_f V_f' - T_h |V_h'|^2 - T_d V_d'.S V_d' + T_h c'.V_h',

if S is symmetric: the last three are a quadratic form in V_h' and V_d', which is never positive if
`T_d S >= T_h K K^T / 4`, K = alpha_c Xi Phi (complete the square). With T_h = T_d = 0 only the first term is left.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from mnemoscope.analysis.energy.symmetry import symmetry
from mnemoscope.analysis.energy.terms import Energy, flow_energy, flow_energy_rate
from mnemoscope.analysis.energy.weights import Weights
from mnemoscope.cells.episodic import EpisodicMemory, EpisodicState
from mnemoscope.shapes import Float

FlowKind = Literal["frozen", "settling", "none"]


def flow_guarantee(memory: EpisodicMemory, weights: Weights, tolerance: float) -> tuple[FlowKind, str, float]:
    """Which function falls, "frozen": E itself, "settling": V; why; and the asymmetry of S, where it was looked at."""
    if memory.T_d == float("inf"):
        return "frozen", "V_d is frozen (T_d is infinite), and L_f and L_h are convex", float("nan")
    K = weights.alpha_c * weights.Xi @ weights.Phi
    if not K.any():
        return "frozen", "alpha_c Xi Phi is 0, so that V_d does not act, and L_f and L_h are convex", float("nan")
    moves = "V_d moves and calls for other memories, and its term, -alpha_c (Xi Phi sigma_h).V_d', has either sign"
    if not weights.linear:
        return "none", f"{moves}; sigma_h is not linear", float("nan")
    S = coupling(weights)
    seen = symmetry(S)
    if seen.asymmetry > tolerance:
        return (
            "none",
            f"{moves}; Xi Phi Xi^T is not symmetric (antisymmetric part {seen.asymmetry:.2g})",
            seen.asymmetry,
        )
    if memory.T_h == memory.T_d == 0:
        return (
            "settling",
            "V_h and V_d follow at once, and Xi Phi Xi^T is symmetric: a network of Hopfield's kind",
            (seen.asymmetry),
        )
    lowest = float(torch.linalg.eigvalsh(memory.T_d * (S + S.mT) / 2 - memory.T_h * K @ K.mT / 4)[0])
    if memory.T_d > 0 and lowest >= -tolerance * float(torch.linalg.matrix_norm(S, 2)) * memory.T_d:
        why = "Xi Phi Xi^T is symmetric, and positive enough for the time that V_h takes: T_d S >= T_h K K^T / 4"
        return "settling", why, seen.asymmetry
    return (
        "none",
        f"{moves}; Xi Phi Xi^T is symmetric, but not positive enough for the time that V_h takes",
        seen.asymmetry,
    )


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
    """dE/dt or dV/dt, by the population that moves."""
    rates = flow_energy_rate(weights, states, velocities, memory.T_f, memory.T_h)
    if kind != "settling":
        return rates
    S = coupling(weights)
    d, moved = velocities.V_d, weights.called(velocities.V_d)
    delayed = (weights.called(states.V_d) * moved).sum(-1) + (states.V_d * (d @ S)).sum(-1)
    return Energy({**rates.terms, "V_d": rates["V_d"] + delayed})
