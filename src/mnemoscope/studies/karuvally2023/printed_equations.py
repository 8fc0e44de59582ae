"""Equations of the notes on the energy of the episodic memory, as printed, against automatic differentiation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mnemoscope.cells.lagrangians import Lagrangian, make_lagrangian
from mnemoscope.registry.citations import Source
from mnemoscope.replication.agreement import at_most
from mnemoscope.replication.claims import EVERYTHING, Claim, Row, about
from mnemoscope.replication.computed_study import ComputedStudy
from mnemoscope.replication.study import Finished, Preset

NOTES = partial(Source, "energy_notes")
ROUNDING = 1e-9
"""Largest relative difference between two sides that are equal up to rounding in float64."""


class System(NamedTuple):
    """A memory and two states."""

    Xi: Tensor
    Phi: Tensor
    sigma: Lagrangian
    x: Tensor
    """V_f at one step."""
    y: Tensor
    """V_d."""

    def stored(self) -> Tensor:
        """Return Xi Xi^T."""
        return self.Xi @ self.Xi.mT

    def called(self) -> Tensor:
        """Return Xi Phi^T Xi^T."""
        return self.Xi @ self.Phi.mT @ self.Xi.mT

    def following(self) -> Tensor:
        """Return V_f at the next step (Eq 27, 44)."""
        return self.stored() @ self.sigma(self.x) + self.called() @ self.y


def _energy(system: System, x: Tensor, stored: float = -0.5, called: float = -1.0) -> Tensor:
    """Return Eq 25 with other factors of its third and fourth term."""
    g, y = system.sigma(x), system.y
    last = (system.Phi.mT @ system.Xi.mT @ y).square().sum() / 2
    return x @ g - system.sigma.value(x) + stored * g @ system.stored() @ g + called * g @ system.called() @ y - last


def _before_substitution(system: System) -> Tensor:
    """Return Eq 14, in which V_h is a variable, at V_h = Xi^T g + Phi^T Xi^T V_d."""
    g, Xi, Phi, y = system.sigma(system.x), system.Xi, system.Phi, system.y
    V_h = Xi.mT @ g + Phi.mT @ Xi.mT @ y
    return system.x @ g - system.sigma.value(system.x) + V_h @ V_h / 2 - g @ Xi @ V_h - y @ Xi @ Phi @ V_h


def _eq_25(system: System) -> tuple[Tensor, Tensor]:
    return _energy(system, system.x), _before_substitution(system)


def _eq_28(system: System) -> tuple[Tensor, Tensor]:
    return _energy(system, system.x, stored=0.5), _before_substitution(system)


def _eq_30(system: System) -> tuple[Tensor, Tensor]:
    """Return the printed first term of the energy at the next step, by the present state, and the true one."""
    g, next_x = system.sigma(system.x), system.following()
    printed = (g @ system.stored() + system.y @ system.called().mT) @ system.sigma(next_x)
    return printed, next_x @ system.sigma(next_x)


def _eq_31(system: System) -> tuple[Tensor, Tensor]:
    """Return the printed third term, which repeats Eq 30, and the reading of it that is nearer: Eq 18 or Eq 29."""
    printed, next_x = _eq_30(system)[0], system.following()
    g = system.sigma(next_x)
    by_18 = -g @ (system.stored() @ g + system.called() @ system.y)
    by_29 = g @ system.stored() @ g / 2
    return printed, min(by_18, by_29, key=lambda term: float((printed - term).abs() / term.abs()))


def _eq_35(system: System) -> tuple[Tensor, Tensor]:
    """Return the printed change of the second term of the energy, -L, and the true one."""
    change = system.sigma.value(system.following()) - system.sigma.value(system.x)
    return change, -change


def _eq_39(system: System) -> tuple[Tensor, Tensor]:
    """Return the printed change of the fourth term for tanh, by an identity of tanh, and the true one."""
    next_x, weights = system.following(), system.called() @ system.y
    product = torch.tanh(next_x) * torch.tanh(system.x)
    printed = -(torch.tanh(next_x - system.x) * (1 - product)) @ weights
    return printed, -(torch.tanh(next_x) - torch.tanh(system.x)) @ weights


def _eq_42(system: System, logarithms: float = 1.0) -> tuple[Tensor, Tensor]:
    """Return the printed change of the energy while V_d is kept at sigma(V_f), and the true one."""
    system = system._replace(y=system.sigma(system.x))
    next_x, S, C, sigma = system.following(), system.stored(), system.called(), system.sigma
    g, next_g = sigma(system.x), sigma(next_x)
    printed = g @ S @ next_g - system.x @ g + logarithms * (sigma.value(next_x) - sigma.value(system.x))
    printed = printed - next_g @ S @ next_g / 2 + g @ S @ g / 2 + g @ C @ g
    return printed, _energy(system, next_x) - _energy(system, system.x)


def _eq_42_with_minus(system: System) -> tuple[Tensor, Tensor]:
    return _eq_42(system, logarithms=-1.0)


def _eq_43(system: System) -> tuple[Tensor, Tensor]:
    """Return the printed sum in another order, and Eq 42."""
    expected = _eq_42(system)[0]
    system = system._replace(y=system.sigma(system.x))
    next_x, S, C, sigma = system.following(), system.stored(), system.called(), system.sigma
    g, next_g = sigma(system.x), sigma(next_x)
    printed = (g - next_g) @ S @ next_g / 2 + g @ S @ (g + next_g) / 2 - system.x @ g
    return printed + sigma.value(next_x) - sigma.value(system.x) + g @ C @ g, expected


def _eq_49(system: System) -> tuple[Tensor, Tensor]:
    printed = system.x @ _jacobian(system.sigma, system.x)
    return printed, _gradient(lambda x: x @ system.sigma(x) - system.sigma.value(x), system.x)


def _eq_52(system: System) -> tuple[Tensor, Tensor]:
    second = _second(system)
    printed = _jacobian(system.sigma, system.x).mT + torch.einsum("i,ijk->jk", system.x, second)
    return printed, _hessian(lambda x: x @ system.sigma(x) - system.sigma.value(x), system.x)


def _eq_57(system: System) -> tuple[Tensor, Tensor]:
    J, g, S = _jacobian(system.sigma, system.x), system.sigma(system.x), system.stored()
    second = _second(system)
    printed = J.mT @ S @ J + torch.einsum("i,ijk->jk", S @ g, second)
    return printed, _hessian(lambda x: system.sigma(x) @ S @ system.sigma(x) / 2, system.x)


def _eq_58(system: System) -> tuple[Tensor, Tensor]:
    """Return the printed y^T Xi Phi Xi^T H(sigma), read with the diagonal of H, and the gradient of the fourth term."""
    second = _second(system)
    printed = (system.called() @ system.y) * torch.einsum("iii->i", second)
    return printed, _gradient(lambda x: system.sigma(x) @ system.called() @ system.y, system.x)


def _eq_58_with_jacobian(system: System) -> tuple[Tensor, Tensor]:
    printed = (system.called() @ system.y) @ _jacobian(system.sigma, system.x)
    return printed, _eq_58(system)[1]


def _jacobian(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    return torch.func.jacrev(function)(x)


def _hessian(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    return torch.func.jacrev(torch.func.jacrev(function))(x)


def _second(system: System) -> Tensor:
    """Return the second derivatives of sigma at V_f, (features, features, features)."""
    return torch.func.jacrev(torch.func.jacrev(system.sigma))(system.x)


def _gradient(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    return torch.func.grad(function)(x)


CORRECTED: dict[str, tuple[str, Callable[[System], tuple[Tensor, Tensor]]]] = {
    "Eq 42": ("with a minus before the logarithms", _eq_42_with_minus),
    "Eq 58": ("with J(sigma) in place of H(sigma)", _eq_58_with_jacobian),
}
"""Readings of equations that are wrong as printed, which are measured too."""
EQUATIONS: dict[str, tuple[Callable[[System], tuple[Tensor, Tensor]], str, str]] = {
    "Eq 25": (_eq_25, "Eq 14 with V_h substituted", ""),
    "Eq 28": (_eq_28, "the energy of Eq 25 at time t", "its third term has the other sign"),
    "Eq 30": (_eq_30, "the first term at the next step", ""),
    "Eq 31": (_eq_31, "the third term at the next step", "it repeats Eq 30"),
    "Eq 35": (_eq_35, "the change of the second term, -L", "it lacks a minus sign"),
    "Eq 39": (_eq_39, "the change of the fourth term, for tanh", ""),
    "Eq 42": (_eq_42, "the change of the energy while V_d is kept", "its logarithms lack a minus sign, as in Eq 35"),
    "Eq 43": (_eq_43, "Eq 42 in another order", ""),
    "Eq 49": (_eq_49, "the gradient of the first two terms", ""),
    "Eq 52": (_eq_52, "the Hessian of the first two terms", ""),
    "Eq 57": (_eq_57, "the Hessian of the third term", ""),
    "Eq 58": (_eq_58, "the gradient of the fourth term", "H(sigma) must be J(sigma)"),
}
"""For each equation: its two sides, its meaning, and its error where it has one."""


class EnergyEquations(ComputedStudy):
    """Compare both sides of the printed equations at random states."""

    name = "energy-equations"
    title = "Equations of the notes on the energy"
    question = "Which of the printed equations hold?"
    claims = tuple(
        Claim(
            EVERYTHING,
            f"{equation}: largest relative difference",
            f"equal: {meaning}",
            NOTES(equation),
            at_most(ROUNDING, "equal up to rounding in float64"),
            reason=reason,
            by_construction=not reason,
        )
        for equation, (_, meaning, reason) in EQUATIONS.items()
    )
    presets: Mapping[str, Preset] = {
        "smoke": Preset("Three states.", {"cases": {about("tanh"): {"sigma": "tanh", "states": 3}}}),
        "cpu": Preset(
            "30 random memories with 6 features, 4 memories, for each of three activations; seconds.",
            {"cases": {about(name): {"sigma": name, "states": 30} for name in ("tanh", "logistic", "softmax")}},
        ),
        "paper": Preset(
            "The same with 300 random memories.",
            {"cases": {about(name): {"sigma": name, "states": 300} for name in ("tanh", "logistic", "softmax")}},
        ),
    }
    cites = ("karuvally2023",)

    def compute(self, generator: torch.Generator, **case: Any) -> dict[str, Any]:
        equations = {name: sides for name, (sides, _, _) in EQUATIONS.items()}
        equations |= {f"{name} {reading}": sides for name, (reading, sides) in CORRECTED.items()}
        found = dict.fromkeys(equations, 0.0)
        for _ in range(case["states"]):
            numbers = [torch.randn(*shape, generator=generator).double() for shape in ((6, 4), (4, 4), (6,), (6,))]
            system = System(numbers[0] / 2, numbers[1] / 2, make_lagrangian(case["sigma"]), *numbers[2:])
            for name, sides in equations.items():
                left, right = sides(system)
                found[name] = max(found[name], float((left - right).norm() / right.norm()))
        return {"difference": found}

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        rows = []
        for claim, equation in zip(self.claims, EQUATIONS, strict=True):
            measured = [finished.result["difference"][equation] for finished in results]
            remark = ", ".join(
                f"{finished.trial.name} {value:.1e}" for finished, value in zip(results, measured, strict=True)
            )
            if equation in CORRECTED:
                reading = CORRECTED[equation][0]
                corrected = max(finished.result["difference"][f"{equation} {reading}"] for finished in results)
                remark = f"{remark}; {reading} {corrected:.1e}"
            rows.append(self.compare(results, claim, measured, f"{max(measured):.1e}", remark))
        return rows


STUDY = EnergyEquations()
