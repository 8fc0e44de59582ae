"""Descent in continuous time: when the energy of the three populations falls, and which function falls otherwise.

`dE/dt = -T_f V_f'.J_f V_f' - T_h V_h'.J_h V_h' - alpha_c (Xi Phi sigma_h).V_d'`: E falls if V_d does not move, or does
not act. For a linear sigma_h, c = alpha_c Phi^T Xi^T V_d and S = sqrt(alpha_s) alpha_c Xi Phi Xi^T,
`V = E + |c|^2 / 2 + V_d.S V_d / 2` has, with V_h = sqrt(alpha_s) Xi^T g + c - T_h V_h' and g = V_d + T_d V_d',

    dV/dt = -T_f V_f'.J_f V_f' - T_h |V_h'|^2 - T_d V_d'.S V_d' + T_h c'.V_h' + V_d.A V_d',

with A the antisymmetric part of S. If A is 0, the three middle terms are a quadratic form in V_h' and V_d', which is
never positive if `T_d S >= T_h K K^T / 4`, K = alpha_c Xi Phi (complete the square). With T_h = T_d = 0 only the first
term is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells.episodic import EpisodicMemory, EpisodicState
from mnemoscope.lenses.energy.symmetry import Symmetry, describe_asymmetry, within_rounding
from mnemoscope.lenses.energy.terms import Energy, flow_energy, flow_energy_rate
from mnemoscope.lenses.energy.weights import Weights


@dataclass(frozen=True)
class FlowEnergy:
    """The function that falls along the flow of a memory, and why, or E if none is known (kind "none")."""

    memory: EpisodicMemory
    weights: Weights
    kind: Literal["frozen", "settling", "none"]
    """"frozen": E falls; "settling": V falls; "none": E may rise."""
    reason: str = ""
    asymmetry: float = float("nan")
    """Relative antisymmetric part of S; NaN if it plays no role."""
    guaranteed: bool = True
    """Whether the function cannot rise, except by rounding of the weights."""
    lowest: float = 0.0
    """Lowest eigenvalue of T_d S - T_h K K^T / 4 if it is negative by rounding; else 0."""

    def terms(self, states: EpisodicState) -> Energy:
        """Return the terms of E, or of V if V is the function that falls."""
        energy = flow_energy(self.weights, *states)
        settled = {"delayed": self.weights.settled_energy(states.V_d)} if self.kind == "settling" else {}
        return Energy({**energy.terms, **settled})

    def rates(self, states: EpisodicState, velocities: EpisodicState) -> Energy:
        """Return dE/dt by the population that moves, or dV/dt in the form above, which is accurate near rest."""
        memory, weights = self.memory, self.weights
        rates = flow_energy_rate(weights, states, velocities, memory.T_f, memory.T_h)
        if self.kind != "settling":
            return rates
        M, A = _parts(weights)
        d, h = velocities.V_d, velocities.V_h
        settled = memory.T_h * (weights.delayed_drive(d) * h).sum(-1) - memory.T_d * (d * (d @ M)).sum(-1)
        terms = {**rates.terms, "V_d": settled}
        return Energy({**terms, "asymmetry": (states.V_d * (d @ A.mT)).sum(-1)} if A.any() else terms)

    def sizes(self, states: EpisodicState, velocities: EpisodicState) -> Float[Tensor, "*batch"]:
        """Return the scale of the rounding error of each rate: the sum of its absolute terms before they cancel."""
        memory, weights = self.memory, self.weights
        rates = flow_energy_rate(weights, states, velocities, memory.T_f, memory.T_h)
        d, moved = velocities.V_d.abs(), weights.delayed_drive(velocities.V_d).norm(dim=-1)
        size = rates["V_f"].abs() + rates["V_h"].abs()
        if self.kind == "frozen":
            return size
        if self.kind == "settling":
            M, A = _parts(weights)
            odd = (states.V_d.abs() * (d @ A.mT.abs())).sum(-1)
            size = size + memory.T_h * moved * velocities.V_h.norm(dim=-1) + odd
            return size + memory.T_d * (d * (d @ M.abs())).sum(-1)
        # V_d' is itself a difference: of the rates and V_d, or, if it follows instantaneously, of V_f and its drive
        if memory.T_d > 0:
            parts = (weights.sigma_f(states.V_f).abs() + states.V_d.abs()) / memory.T_d
        else:
            f = velocities.V_f.abs() + 2 * states.V_f.abs() / memory.T_f
            parts = (weights.sigma_f.jacobian(states.V_f).abs() @ f.unsqueeze(-1)).squeeze(-1)
        called = abs(weights.alpha_c) * parts @ (weights.Xi @ weights.Phi).abs()
        return size + (called * weights.sigma_h(states.V_h).abs()).sum(-1)

    def slack(self, states: EpisodicState, velocities: EpisodicState) -> Float[Tensor, "*batch"] | None:
        """Return the most that rounding of the weights can add to each rate; None if descent does not depend on it."""
        if self.kind != "settling" or not self.guaranteed:
            return None
        odd = float(torch.linalg.matrix_norm(_parts(self.weights)[1], 2))
        d = velocities.V_d.norm(dim=-1)
        return odd * states.V_d.norm(dim=-1) * d - self.lowest * d.square()


def flow_function(memory: EpisodicMemory, weights: Weights, tolerance: float) -> FlowEnergy:
    """Return the function that falls; `tolerance`: relative asymmetry of S up to which V replaces E."""
    function = partial(FlowEnergy, memory, weights)
    if memory.T_d == float("inf"):
        return function("frozen", "V_d is frozen (T_d is infinite), and L_f and L_h are convex")
    K = weights.alpha_c * weights.Xi @ weights.Phi
    if not K.any():
        return function("frozen", "alpha_c Xi Phi is 0, so V_d does not act, and L_f and L_h are convex")
    moves = "V_d moves and calls for other memories, and its term, -alpha_c (Xi Phi sigma_h).V_d', has either sign"
    if not weights.linear:
        return function("none", f"{moves}; sigma_h is not linear", guaranteed=False)
    S = weights.coupling()
    symmetry = Symmetry.from_matrix(S)
    asymmetry = symmetry.asymmetry
    if asymmetry > tolerance:
        reason = f"{moves}; Xi Phi Xi^T is not symmetric (antisymmetric part {asymmetry:.2g})"
        return function("none", reason, asymmetry, False)
    sure = asymmetry <= within_rounding(weights.rounding, weights.features)
    symmetric = f"Xi Phi Xi^T is symmetric{describe_asymmetry(asymmetry, sure)}"
    if memory.T_h == memory.T_d == 0:
        reason = f"V_h and V_d follow instantaneously, and {symmetric}: a Hopfield network"
        return function("settling", reason, asymmetry, sure)
    M = memory.T_d * (S + S.mT) / 2
    lowest = float(torch.linalg.eigvalsh(M - memory.T_h * K @ K.mT / 4)[0])
    if memory.T_d > 0 and lowest >= -weights.features * weights.rounding * memory.T_d * symmetry.norm:
        reason = f"{symmetric}, and positive enough for the time constant of V_h: T_d S >= T_h K K^T / 4"
        return function("settling", reason, asymmetry, sure, min(lowest, 0.0))
    reason = f"{moves}; {symmetric}, but not positive enough for the time constant of V_h"
    return function("none", reason, asymmetry, False)


def _parts(weights: Weights) -> tuple[Tensor, Tensor]:
    """Return the symmetric and the antisymmetric part of S."""
    S = weights.coupling()
    return (S + S.mT) / 2, (S - S.mT) / 2
