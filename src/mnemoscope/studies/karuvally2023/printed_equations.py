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


def _eq_35(system: System) -> tuple[Tensor, Tensor]:
    """Return the printed change of the second term of the energy, -L, and the true one."""
    change = system.sigma.value(system.following()) - system.sigma.value(system.x)
    return change, -change


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


EQUATIONS: dict[str, tuple[Callable[[System], tuple[Tensor, Tensor]], str, str]] = {
    "Eq 25": (_eq_25, "Eq 14 with V_h substituted", ""),
    "Eq 28": (_eq_28, "the energy of Eq 25 at time t", "its third term has the other sign"),
    "Eq 35": (_eq_35, "the change of the second term, -L", "it lacks a minus sign"),
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
        found: dict[str, float] = dict.fromkeys((*EQUATIONS, "Eq 58 with J(sigma)"), 0.0)
        equations = {name: sides for name, (sides, _, _) in EQUATIONS.items()}
        for _ in range(case["states"]):
            numbers = [torch.randn(*shape, generator=generator).double() for shape in ((6, 4), (4, 4), (6,), (6,))]
            system = System(numbers[0] / 2, numbers[1] / 2, make_lagrangian(case["sigma"]), *numbers[2:])
            for name, sides in (equations | {"Eq 58 with J(sigma)": _eq_58_with_jacobian}).items():
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
            if equation == "Eq 58":
                corrected = max(finished.result["difference"]["Eq 58 with J(sigma)"] for finished in results)
                remark = f"{remark}; with J(sigma) in place of H(sigma) {corrected:.1e}"
            rows.append(self.compare(results, claim, measured, f"{max(measured):.1e}", remark))
        return rows


STUDY = EnergyEquations()
