"""The answer of the variables lens: which variable is held where, and whether that explains the network."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from math import isnan
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from mnemoscope.base.array_types import Complex, Float
from mnemoscope.connectivity.signed_selection import SignedSelection, companion
from mnemoscope.lenses.result import Flags, Result
from mnemoscope.lenses.variables.angles import AngleError, angle_error
from mnemoscope.lenses.variables.basis import MemoryBasis
from mnemoscope.lenses.variables.interventions import REMOVED, CausalTest
from mnemoscope.lenses.variables.modes import Modes
from mnemoscope.lenses.variables.structure import Structure
from mnemoscope.lenses.variables.trials import Trials

Status = Literal["none", "untested", "refuted", "explained"]
_VERDICTS: dict[Status, str] = {
    "none": "no variables were found",
    "untested": "variables were found, but not tested",
    "refuted": "variables were found, but they do not explain its behaviour",
    "explained": "variables were found, and they explain its behaviour",
}


@dataclass(frozen=True, repr=False)
class Variables(Result):
    """Variables that a network holds, with the evidence.

    `status` is "none" (no variables were found; `reason` gives the cause), "untested" (found, but without trials to
    test them on), "refuted" (found, but a test failed) or "explained" (found, and every test passed).
    """

    noun: ClassVar[str] = "the variables of a network"
    drawn_by: ClassVar[str] = "draw_variables"
    former_kinds: ClassVar[tuple[str, ...]] = ("variable memories",)
    former_fields: ClassVar[dict[str, str]] = {
        **{f"found.{field.name}": f"structure.{field.name}" for field in fields(Structure)},
        **{f"found.{name}": f"structure.basis.{name}" for name in ("vectors", "duals")},
        "variables": "structure.basis.variables",
        "trials.silent": "trials.input_steps",
    }

    name: str
    """Description of the network."""
    method: str
    """Method that found the bases: "modes" or "published"."""
    around: str
    """Point of linearisation: "rest" or "states"."""
    status: Status
    reason: str
    """Reason for the status, in a sentence."""
    fixed_point: Float[Tensor, " units"]
    """h*, the point of linearisation."""
    rest_outputs: Float[Tensor, " outputs"]
    """Outputs at h*."""
    modes: Modes
    structure: Structure | None = None
    trials: Trials | None = None
    tests: tuple[CausalTest, ...] = ()

    def __len__(self) -> int:
        return self.variables

    @property
    def variables(self) -> int:
        """Number of variables held at a time, N; 0 if none were found."""
        return 0 if self.structure is None else self.structure.basis.variables

    @property
    def size(self) -> int:
        """Elements of each variable, kappa."""
        return 0 if self.structure is None else self.structure.basis.size

    @property
    def basis(self) -> MemoryBasis:
        """Directions that hold the variables, and their duals."""
        return self._known().basis

    @property
    def F(self) -> Float[Tensor, "size memories"]:
        """F_emp: the next variable as a linear map of the last N, oldest first."""
        return self._known().F

    @property
    def selection(self) -> SignedSelection | None:
        """F_emp as a signed selection; None if it deviates from one by more than the noise explains."""
        return None if self.structure is None else self.structure.selection

    @property
    def Phi(self) -> Float[Tensor, "memories memories"]:
        """Phi_emp: the interaction of the memories, a shift with F_emp at its boundary."""
        return companion(self.F)

    @property
    def eigenvalues(self) -> Complex[Tensor, " modes"]:
        """Eigenvalues of the memory modes."""
        return self.modes.memory_eigenvalues

    @property
    def theory(self) -> Complex[Tensor, " modes"] | None:
        """Eigenvalues that the theory predicts from the cycles of F; None if F is no signed selection."""
        return None if self.selection is None else self.selection.eigenvalues()

    @property
    def angle_error(self) -> AngleError | None:
        """Angle error between the eigenvalues of the memory modes and those of the theory."""
        return None if self.theory is None else angle_error(self.eigenvalues, self.theory, above=0)

    @property
    def confidence(self) -> float:
        """Lowest score of decoding and of the causal tests, from 0 to 1; 0 without tests."""
        if self.trials is None or not self.tests:
            return 0.0
        decoding = self.trials.sign_accuracy if self.trials.bits else self.trials.r2
        scores = [decoding, min(self.trials.retention, 1.0), *(test.score for test in self.tests)]
        return max(min(scores), 0.0)

    def decode(self, states: Float[Tensor, "*batch units"]) -> Float[Tensor, "*batch variables size"]:
        """Return the variables that flat states hold, oldest first."""
        structure = self._known()
        held = structure.basis.read(states.to(self.fixed_point) - self.fixed_point)
        return held + self.rest_outputs[structure.outputs]

    def write(
        self, states: Float[Tensor, "*batch units"], variable: int, values: Float[Tensor, "*batch size"]
    ) -> Float[Tensor, "*batch units"]:
        """Return flat states with one variable replaced; 0 is the oldest.

        If variables depend on each other, those that depend on this one change with it: copies of its elements take
        the new values, too. Everything else stays the same.
        """
        structure = self._known()
        states = states.to(self.fixed_point)
        held = structure.basis.read(states - self.fixed_point)
        new = values.to(states) - self.rest_outputs[structure.outputs]
        # relative to the free values, so that nothing that does not depend on the variable changes
        change = structure.replace(held, variable, new) - structure.expand(structure.free_values(held))
        return states + structure.basis.embed(change)

    def summary(self) -> str:
        """Return the result in lines: verdict, modes, structure, decoding and tests."""
        lines = [f"{self.name}: {_VERDICTS[self.status]}.", f"  {self.reason}"]
        if self.modes.count:
            low, high = (float(edge) for edge in self.eigenvalues.abs().aminmax())
            modes = f"{self.modes.count} memory mode{'s' * (self.modes.count > 1)}"
            uncertain = "" if self.modes.clear else ", so that their number is uncertain"
            lines.append(
                f"  {modes}, |lambda| {low:.3f} to {high:.3f}; the next score is at least {self.modes.gap:.3g} times "
                f"lower after {self.modes.steps} steps{uncertain}."
            )
        if self.structure is not None:
            profile = " ".join(str(rank) for rank in self.structure.rank_profile.tolist())
            variables, elements = ("s" * (number > 1) for number in (self.variables, self.size))
            lines.append(
                f"  N = {self.variables} variable{variables} of {self.size} element{elements}; rank of the readings "
                f"{profile}."
            )
            lines.append(f"  {describe_interaction(self)}")
            if self.angle_error is not None:
                lines.append(f"  Eigenvalues: {self.angle_error.summary()}.")
        if self.trials is not None:
            if self.trials.inputs_add_up:
                lines.append("  While inputs arrive, they are added to F of the variables held.")
            signs = f"{self.trials.sign_accuracy:.2%} of signs, " if self.trials.bits else ""
            lines.append(
                f"  Decoded over {self.trials.decoded.shape[1]} trials of {self.trials.steps} steps: {signs}R^2 "
                f"{self.trials.r2:.3f}; {self.trials.retention:.1%} of their size is left at the end."
            )
        lines += map(_describe_test, self.tests)
        if self.status == "explained" and self.variables == 1:
            lines.append(
                "  Not tested: whether a later input replaces the variable (a flip-flop) or is added (an integrator)."
            )
        return "\n".join(lines)

    def save(self, path: str | Path, *, states: bool = True) -> Path:
        """Write one `.safetensors` file, and return its path; without the states of the trials it is much smaller."""
        result = self
        if self.trials is not None and not states:
            result = replace(self, trials=replace(self.trials, states=self.trials.states[:, :, :0]))
        return super(Variables, result).save(path)

    def pack(self) -> tuple[dict[str, Tensor], Flags]:
        tensors, flags = super(Variables, replace(self, tests=())).pack()
        return tensors, flags | {"tests": [asdict(test) for test in self.tests]}

    @classmethod
    def unpack(cls, tensors: dict[str, Tensor], flags: Flags) -> Variables:
        flags = dict(flags)
        rule: dict[str, Any] = flags.pop("found.selection", None) or {}  # earlier versions saved it as one flag
        flags |= {f"structure.selection.{name}": flag for name, flag in rule.items()}
        tests = tuple(CausalTest(**test) for test in flags.pop("tests"))
        return replace(super().unpack(_with_mixing(tensors), flags), tests=tests)

    def _known(self) -> Structure:
        if self.structure is None:
            raise ValueError(f"No variables were found: {self.reason}")
        return self.structure


def _with_mixing(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of a file with `mixing` in place of the group and the sign of each reading, if it has these.

    Earlier versions knew copies of a reading only, in one group.
    """
    name = next((name for name in tensors if name.endswith(".groups")), None)
    if name is None:
        return tensors
    groups, signs = tensors[name].long(), tensors[name.replace(".groups", ".group_signs")]
    rows = torch.arange(len(groups))
    mixing = torch.zeros(len(groups), int(groups.max()) + 1, dtype=torch.float64)
    mixing[rows, groups] = signs.double()
    return {key: tensor for key, tensor in tensors.items() if ".group" not in key} | {"structure.mixing": mixing}


def describe_interaction(result: Variables) -> str:
    """Return which rule F is, or which it is not, and what decides it: deviation, rounding and the error on trials."""
    structure, errors = result.structure, None if result.trials is None else result.trials.rule_errors
    assert structure is not None
    off = "" if errors is None else f" (error of the predictions {errors.selection:.2g}, of F {errors.F:.2g})"
    deviation = f"{structure.deviation:.2g}"
    if structure.selection is not None:
        within = structure.deviation <= structure.rounding
        why = ", which rounding explains" if within else f", but predicts the trials no better{off}"
        return f"Rule: {describe_rule(structure.selection)}. F deviates from it by {deviation}{why}."
    if structure.nearest is None:
        return "Rule: x(t) = F [x(t - N), ..., x(t - 1)]. F is no signed selection, nor near one."
    tested = "" if errors is not None else "; without trials, it is not known whether noise explains it"
    return (
        f"Rule: x(t) = F [x(t - N), ..., x(t - 1)]. The nearest signed selection, {describe_rule(structure.nearest)}, "
        f"deviates by {deviation}, and rounding explains {structure.rounding:.1g}{off}{tested}."
    )


def describe_rule(rule: SignedSelection) -> str:
    """Return a signed selection as an equation, followed by its name if it is a known one."""
    if rule == SignedSelection.repeat_copy(rule.variables, rule.size):
        return f"x(t) = x(t - {rule.variables}), repeat copy"
    if rule.variables == rule.size and rule == SignedSelection.compose_copy(rule.size):
        return f"element i of x(t) is element i of x(t - {rule.size + 1} + i), compose copy"
    elements = [
        f"{'-' if sign < 0 else ''}x{element + 1}(t - {lag})"
        for lag, element, sign in zip(rule.lags, rule.elements, rule.signs, strict=True)
    ]
    return f"x(t) = ({', '.join(elements)})"


def _describe_test(test: CausalTest) -> str:
    if test.name == REMOVED:
        return f"  {test.name}: {test.agreement:.2%} of the future is lost."
    changed = "" if isnan(test.changed) else f" ({test.changed:.2%} of the outputs that should change)"
    return f"  {test.name}: {test.agreement:.2%} as predicted{changed}."
