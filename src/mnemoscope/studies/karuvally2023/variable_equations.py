"""Equations of the theory of variable binding, as printed, against runs of the networks that they describe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.replication.agreement import Agreement, at_least, at_most
from mnemoscope.replication.claims import EVERYTHING, Claim, Row, about
from mnemoscope.replication.computed_study import ComputedStudy
from mnemoscope.replication.study import Finished, Preset
from mnemoscope.studies.karuvally2023.variable_binding import PAPER

EQUAL = at_most(1e-9, "equal up to rounding in float64")
LINEAR = at_most(0.1, "the remainder is of second order: at most a tenth of a distance of 0.001")
NEAR = 1e-3
"""Distance from the fixed point at which the linearisation is tested."""
OUTPUTS = 3
"""Outputs that are tested, in rounds of as many as there are inputs."""


class Statement(NamedTuple):
    """Statement of an equation, and its error, if any."""

    quantity: str
    value: str
    place: str
    agreement: Agreement
    error: str = ""


STATEMENTS = {
    "Eq 23": Statement("relative error of the outputs", "repeat copy", "section 9, Eq 23", EQUAL),
    "Eq 31": Statement("relative error of the state after the inputs", "equal", "section 9, Eq 31", EQUAL),
    "Eq 32": Statement(
        "relative error of the later states",
        "equal",
        "section 9, Eq 32",
        EQUAL,
        "its index is one subspace too high: without the 1 that it adds, it is exact",
    ),
    "Eq 33": Statement(
        "step that the first output begins at",
        "one of the inputs, which are numbered from 1",
        "section 10, Eq 33",
        at_least(1, "the first input"),
        "its index is one step too early: the first output would begin at step 0",
    ),
    "Eq 34": Statement(
        "relative error of the outputs",
        "analogous to compose copy",
        "section 10, Eq 34",
        EQUAL,
        "the last subspace is composed while inputs still arrive in it, so that no indices make a linear network with "
        "this W_uh solve the task",
    ),
    "Eq 35": Statement(
        "relative error near a fixed point",
        "of second order",
        "section 11, Eq 35",
        LINEAR,
        "its right side must have h(t) in place of h(t + 1)",
    ),
}
CORRECTED = {"Eq 32": "without the added 1", "Eq 34": "with corrected indices", "Eq 35": "with h(t)"}
"""Readings of equations that are wrong as printed, which are measured too."""


class Binding(NamedTuple):
    """A linear network whose state is the sum of `number` subspaces of `width` features, in a random basis."""

    number: int
    width: int
    basis: Float[Tensor, "features memories"]
    """The columns are psi_1, psi_2, ..."""

    @property
    def dual(self) -> Float[Tensor, "memories features"]:
        """The rows are psi^1, psi^2, ..."""
        return torch.linalg.pinv(self.basis)

    def shift(self) -> Float[Tensor, "memories memories"]:
        """Return the first sum of Phi: each subspace takes the content of the next one."""
        return torch.diag(torch.ones((self.number - 1) * self.width, dtype=self.basis.dtype), self.width)

    def run(self, Phi: Tensor, inputs: Float[Tensor, "inputs width"], steps: int) -> Float[Tensor, "steps features"]:
        """Return the states h(1), h(2), ... of `h(t) = Phi h(t-1) + Psi_s u(t)`, Phi in the basis of memories."""
        recurrent, write = self.basis @ Phi @ self.dual, self.basis[:, -self.width :]
        state, states = torch.zeros_like(self.basis[:, 0]), []
        for step in range(steps):
            state = recurrent @ state + (write @ inputs[step] if step < len(inputs) else 0.0)
            states.append(state)
        return torch.stack(states)

    def read(self, states: Float[Tensor, "steps features"]) -> Float[Tensor, "steps width"]:
        """Return the last subspace, `Psi_s^* h`."""
        return states @ self.dual[-self.width :].mT

    def bound(self, inputs: Float[Tensor, "inputs width"], subspaces: Sequence[int]) -> Float[Tensor, " features"]:
        """Return the state in which each subspace, numbered from 1 and beyond the last from the first again, holds an
        input.
        """
        contents = torch.zeros(self.number, self.width, dtype=self.basis.dtype)
        for content, subspace in zip(inputs, subspaces, strict=True):
            contents[(subspace - 1) % self.number] += content
        return self.basis @ contents.flatten()


def random_binding(number: int, width: int, generator: torch.Generator) -> Binding:
    """Return subspaces with a random basis; the state has a quarter more features than they need."""
    memories = number * width
    return Binding(number, width, torch.randn(memories + memories // 4, memories, generator=generator).double())


def repeat_copy(binding: Binding) -> Tensor:
    """Return Phi of Eq 23: the content of the first subspace goes to the last."""
    Phi, width = binding.shift(), binding.width
    Phi[-width:, :width] += torch.eye(width, dtype=Phi.dtype)
    return Phi


def compose_copy(binding: Binding, *, corrected: bool) -> Tensor:
    """Return Phi of Eq 34, whose printed index of psi is 0 for the first element, which is left out.

    Corrected, element i of the new content is element i of subspace i.
    """
    Phi, width, first = binding.shift(), binding.width, (binding.number - 1) * binding.width
    for element in range(width):
        source = element * width + element if corrected else element - 1
        if source >= 0:
            Phi[first + element, source] += 1
    return Phi


def composed(inputs: Float[Tensor, "inputs width"], steps: int) -> Float[Tensor, "steps width"]:
    """Return the outputs of compose copy: element i of x(t) is that of x(t - s - 1 + i), for s inputs."""
    known, count = list(inputs), len(inputs)
    for _ in range(steps):
        known.append(torch.stack([known[len(known) - count + i][i] for i in range(count)]))
    return torch.stack(known[count:])


def _relative(found: Tensor, true: Tensor) -> float:
    return float((found - true).norm() / true.norm())


def repeated_errors(count: int, width: int, generator: torch.Generator) -> dict[str, float]:
    """Return the errors of the equations about repeat copy in a random network with random inputs."""
    binding = random_binding(count, width, generator)
    inputs = torch.randn(count, width, generator=generator).double()
    steps = (1 + OUTPUTS) * count
    states = binding.run(repeat_copy(binding), inputs, steps)
    numbers = range(1, count + 1)

    def later(added: int) -> Tensor:
        """Return h(s + 1), h(s + 2), ... by Eq 32, with a number added to that of each subspace; printed, it is 1."""
        return torch.stack(
            [
                binding.bound(inputs, [(number - t - 1) % count + 1 + added for number in numbers])
                for t in range(1, steps - count + 1)
            ]
        )

    return {
        "Eq 23": _relative(binding.read(states), inputs.repeat(1 + OUTPUTS, 1)),
        "Eq 31": _relative(binding.bound(inputs, numbers), states[count - 1]),
        "Eq 32": _relative(later(1), states[count:]),
        "Eq 32 corrected": _relative(later(0), states[count:]),
    }


def composed_errors(count: int, generator: torch.Generator) -> dict[str, float]:
    """Return the errors of the network of Eq 34, which needs as many elements as inputs."""
    binding = random_binding(count, count, generator)
    inputs = torch.randn(count, count, generator=generator).double()
    targets = composed(inputs, OUTPUTS * count)
    errors = {}
    for name, corrected in (("Eq 34", False), ("Eq 34 corrected", True)):
        states = binding.run(compose_copy(binding, corrected=corrected), inputs, (1 + OUTPUTS) * count)
        errors[name] = _relative(binding.read(states[count:]), targets)
    return errors


def linear_errors(units: int, generator: torch.Generator) -> dict[str, float]:
    """Return the errors of Eq 35 for `h(t + 1) = tanh(W h(t) + b)` near a fixed point h*."""
    matrix = torch.randn(units, units, generator=generator).double() * 0.8 / units**0.5
    rest = torch.tanh(torch.randn(units, generator=generator).double())
    bias = rest.atanh() - matrix @ rest
    before = rest + NEAR * torch.nn.functional.normalize(torch.randn(units, generator=generator).double(), dim=0)
    after = torch.tanh(matrix @ before + bias)
    jacobian = (1 - rest.square())[:, None] * matrix
    return {
        "Eq 35": _relative(jacobian @ (after - rest), after - rest),
        "Eq 35 corrected": _relative(jacobian @ (before - rest), after - rest),
    }


class VariableEquations(ComputedStudy):
    """Compare the printed equations with runs of linear networks in random bases."""

    name = "variable-equations"
    title = "Equations of the theory of variable binding"
    question = "Which of the printed equations on repeat copy, compose copy and linearisation hold?"
    claims = tuple(
        Claim(
            EVERYTHING,
            f"{equation}: {statement.quantity}",
            statement.value,
            PAPER(statement.place),
            statement.agreement,
            reason=statement.error,
            by_construction=not statement.error,
        )
        for equation, statement in STATEMENTS.items()
    )
    presets: Mapping[str, Preset] = {
        "smoke": Preset("Two networks of three variables.", {"cases": {about(s=3): {"inputs": 3, "networks": 2}}}),
        "cpu": Preset(
            "30 random networks for each of 3, 5 and 8 variables; seconds.",
            {"cases": {about(s=count): {"inputs": count, "networks": 30} for count in (3, 5, 8)}},
        ),
        "paper": Preset(
            "The same with 300 networks.",
            {"cases": {about(s=count): {"inputs": count, "networks": 300} for count in (3, 5, 8)}},
        ),
    }
    cites = ("karuvally2023",)

    def compute(self, generator: torch.Generator, **case: Any) -> dict[str, Any]:
        """Return the largest error of each equation over the networks; of those that are wrong, the smallest."""
        count, found = case["inputs"], dict[str, list[float]]()
        for _ in range(case["networks"]):
            errors = repeated_errors(count, count, generator) | composed_errors(count, generator)
            for name, error in (errors | linear_errors(count**2, generator)).items():
                found.setdefault(name, []).append(error)
        wrong = {name for name, statement in STATEMENTS.items() if statement.error}
        return {name: min(errors) if name in wrong else max(errors) for name, errors in found.items()} | {
            "Eq 33": first_step_of_output(count)
        }

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        rows = []
        for claim, equation in zip(self.claims, STATEMENTS, strict=True):
            measured = [finished.result[equation] for finished in results]
            ours = ", ".join(f"{value:.2g}" for value in measured)
            remark = ", ".join(finished.trial.name for finished in results)
            if equation in CORRECTED:
                corrected = max(finished.result[f"{equation} corrected"] for finished in results)
                remark = f"{remark}; {CORRECTED[equation]} {corrected:.1e}"
            rows.append(self.compare(results, claim, measured, ours, remark))
        return rows


def first_step_of_output(count: int) -> int:
    """Return the step to which Eq 33 refers in the first element of the first output.

    >>> first_step_of_output(5)
    0
    """
    t, i = count + 1, 1
    return t - count - 2 + i


STUDY = VariableEquations()
