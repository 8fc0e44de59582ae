"""The answer of the variable-binding lens: which variable is held where, and whether that explains the network."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor

from mnemoscope.base.array_types import Complex, Float
from mnemoscope.connectivity.signed_selection import SignedSelection, companion
from mnemoscope.lenses.storage import load_result, save_result
from mnemoscope.lenses.variables.angles import AngleError, angle_error
from mnemoscope.lenses.variables.basis import MemoryBasis
from mnemoscope.lenses.variables.causal import PASSED, REMOVED, CausalTest
from mnemoscope.lenses.variables.modes import Modes
from mnemoscope.lenses.variables.structure import Structure
from mnemoscope.lenses.variables.trials import Trials

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEPT = 0.5
"""Of their size, variables that last must have at the end, and no more than the inverse of it."""
Status = Literal["none", "untested", "refuted", "explained"]


@dataclass(frozen=True)
class Variables:
    """Variables that a network holds, with the evidence.

    `status` is "none" (no variables were found; `reason` says why), "untested" (found, but there was nothing to try
    them on), "refuted" (found, but the network does not behave as they say) or "explained" (it does, in every test).
    """

    name: str
    """The network."""
    method: str
    around: str
    """What was linearised: "rest" or "states"."""
    status: Status
    reason: str
    """Why, in a sentence."""
    fixed_point: Float[Tensor, " units"]
    """h*, where the network was linearised."""
    rest_outputs: Float[Tensor, " outputs"]
    """What the readout gives there."""
    modes: Modes
    found: Structure | None = None
    trials: Trials | None = None
    tests: tuple[CausalTest, ...] = ()

    def __len__(self) -> int:
        return self.variables

    @property
    def variables(self) -> int:
        """How many are held at a time, N; 0: none."""
        return 0 if self.found is None else self.found.basis.variables

    @property
    def size(self) -> int:
        """Elements of each, kappa."""
        return 0 if self.found is None else self.found.basis.size

    @property
    def basis(self) -> MemoryBasis:
        """Directions and duals."""
        return self._known().basis

    @property
    def F(self) -> Float[Tensor, "size memories"]:
        """F_emp: the next variable by the last N, the oldest first."""
        return self._known().F

    @property
    def selection(self) -> SignedSelection | None:
        """F_emp as a signed selection, if it is one."""
        return None if self.found is None else self.found.selection

    @property
    def Phi(self) -> Float[Tensor, "memories memories"]:
        """Phi_emp: how the memories interact, a shift with F_emp at its boundary."""
        return companion(self.F)

    @property
    def eigenvalues(self) -> Complex[Tensor, " modes"]:
        """Of the memory modes of the network."""
        return self.modes.kept

    @property
    def theory(self) -> Complex[Tensor, " modes"] | None:
        """The eigenvalues that the theory says these should have, from the cycles of F; None if F is no selection."""
        return None if self.selection is None else self.selection.eigenvalues()

    @property
    def angle_error(self) -> AngleError | None:
        """How far the angles of the memory modes' eigenvalues are from the theory's."""
        return None if self.theory is None else angle_error(self.eigenvalues, self.theory, above=0)

    @property
    def confidence(self) -> float:
        """The least of all scores, from 0 to 1: of decoding, and of the causal tests; 0 where there are none."""
        if self.trials is None or not self.tests:
            return 0.0
        scores = [self.trials.right if self.trials.bits else self.trials.r2, min(self.trials.kept, 1.0)]
        return max(min(*scores, *(test.score for test in self.tests)), 0.0)

    def decode(self, states: Float[Tensor, "*batch units"]) -> Float[Tensor, "*batch variables size"]:
        """What flat states hold, the oldest variable first."""
        found = self._known()
        return found.basis.read(states.to(self.fixed_point) - self.fixed_point) + self.rest_outputs[found.outputs]

    def write(
        self, states: Float[Tensor, "*batch units"], variable: int, values: Float[Tensor, "*batch size"]
    ) -> Float[Tensor, "*batch units"]:
        """Flat states with one variable replaced; 0 is the oldest. What is the same as one of its elements, where
        variables repeat each other, goes along, and all else stays as it was.
        """
        found = self._known()
        states = states.to(self.fixed_point)
        held = found.basis.read(states - self.fixed_point)
        # the mean of what is the same, so that nothing else is changed
        new = values.to(states) - self.rest_outputs[found.outputs]
        change = found.written(held, variable, new) - found.held(found.values(held))
        return states + found.basis.change(change)

    def summary(self) -> str:
        """In words."""
        lines = [f"{self.name}: {_VERDICTS[self.status]}.", f"  {self.reason}"]
        if self.modes.count:
            low, high = (float(edge) for edge in self.modes.kept.abs().aminmax())
            lines.append(
                f"  {self.modes.count} memory modes, |lambda| {low:.3f} to {high:.3f}; the next one scores at "
                f"least {self.modes.gap:.3g} times less."
            )
        if self.found is not None:
            profile = " ".join(str(rank) for rank in self.found.rank_profile.tolist())
            plural = "s" if self.variables > 1 else ""
            lines.append(f"  N = {self.variables} variable{plural} of {self.size}; rank of the readings {profile}.")
            if self.selection is not None:
                lines.append(f"  Next: {rule_in_words(self.selection)} (least cosine {self.found.worst_cosine:.3f}).")
            if self.angle_error is not None:
                lines.append(f"  Eigenvalues: {self.angle_error.summary()}.")
        if self.trials is not None:
            lines.append(
                f"  Decoded over {self.trials.decoded.shape[1]} trials of {self.trials.steps} steps: "
                f"{self.trials.right:.2%} of signs, R^2 {self.trials.r2:.3f}; {self.trials.kept:.1%} of their size is "
                f"left at the end."
            )
        for test in self.tests:
            changed = "" if isnan(test.changed) else f", {test.changed:.2%} of what should change"
            verb = "gone" if test.name == REMOVED else "as predicted"
            lines.append(f"  {test.name}: {test.agreement:.2%} {verb}{changed}.")
        return "\n".join(lines)

    def figure(self) -> Figure:
        """The wave of variables through the subspaces, and the evidence; needs the `report` extra."""
        from mnemoscope.lenses.variables.figure import draw_memories

        return draw_memories(self)

    def save(self, path: str | Path, *, states: bool = True) -> None:
        """Write to a `.safetensors` file; without the states of the trials it is much smaller."""
        tensors: dict[str, Tensor] = {"fixed_point": self.fixed_point, "rest_outputs": self.rest_outputs}
        flags: dict[str, Any] = {name: getattr(self, name) for name in _WORDS}
        flags |= {"tests": [asdict(test) for test in self.tests]}
        for prefix, part in (("modes", self.modes), ("found", self.found), ("trials", self.trials)):
            if part is None:
                continue
            for each in fields(part):
                value, key = getattr(part, each.name), f"{prefix}.{each.name}"
                if key == "trials.states" and not states:
                    value = value[:, :, :0]
                if isinstance(value, Tensor):
                    tensors[key] = value
                elif isinstance(value, MemoryBasis):
                    tensors |= {"found.vectors": value.vectors, "found.duals": value.duals}
                    flags["variables"] = value.variables
                elif isinstance(value, SignedSelection):
                    flags[key] = asdict(value)
                else:
                    flags[key] = value
        save_result(path, "variable memories", tensors, flags)

    @classmethod
    def load(cls, path: str | Path) -> Variables:
        """Read what `save` wrote."""
        tensors, flags = load_result(path, "variable memories", "variable memories")

        def part(prefix: str) -> dict[str, Any]:
            both = {**tensors, **flags}
            return {key.removeprefix(prefix): value for key, value in both.items() if key.startswith(prefix)}

        found = None
        if "variables" in flags:
            own = part("found.")
            own["basis"] = MemoryBasis(own.pop("vectors"), own.pop("duals"), flags["variables"])
            if own["selection"] is not None:
                rule = own["selection"]
                lists = (tuple(rule[name]) for name in ("lags", "elements", "signs"))
                own["selection"] = SignedSelection(rule["variables"], *lists)
            found = Structure(**own)
        trials = Trials(**part("trials.")) if "trials.states" in tensors else None
        tests = tuple(CausalTest(**test) for test in flags["tests"])
        return cls(
            **{name: flags[name] for name in _WORDS},
            fixed_point=tensors["fixed_point"],
            rest_outputs=tensors["rest_outputs"],
            modes=Modes(**part("modes.")),
            found=found,
            trials=trials,
            tests=tests,
        )

    def _known(self) -> Structure:
        if self.found is None:
            raise ValueError(f"No variables were found: {self.reason}")
        return self.found


_WORDS = ("name", "method", "around", "status", "reason")
_VERDICTS: dict[Status, str] = {
    "none": "no variables were found",
    "untested": "variables were found, but not tested",
    "refuted": "what looks like variables does not explain the network",
    "explained": "its variables are found, and explain what it does",
}


def judged(trials: Trials, tests: tuple[CausalTest, ...], near: str) -> tuple[Status, str]:
    """Whether the network behaves as its variables say, and a sentence that says how sure that is; `near` says what
    was linearised.
    """
    score, words = (trials.right, "signs") if trials.bits else (trials.r2, "variance")
    failed = [test.name for test in tests if not test.passed]
    over_time = trials.right_over_time if trials.bits else trials.r2_over_time
    early = float(over_time[trials.settled][: trials.number].mean())
    if early >= PASSED and not KEPT <= trials.kept <= 1 / KEPT:
        verb = "fade" if trials.kept < KEPT else "grow"
        return "refuted", (
            f"{near} The variables {verb}: after {trials.steps} steps they have {trials.kept:.3g} times their size."
        )
    if score < PASSED:
        return "refuted", f"{near} The directions found hold {max(score, 0):.1%} of the {words} of the variables."
    if failed:
        return "refuted", f"{near} The future was not as predicted when we tried to {', to '.join(failed)}."
    least = min(test.score for test in tests if test.name != REMOVED)
    gone = next(test.agreement for test in tests if test.name == REMOVED)
    verb = "are" if trials.bits else "is"
    return "explained", (
        f"{near} {score:.2%} of the {words} {verb} decoded over {trials.steps} steps, at least {least:.2%} of the "
        f"future is as predicted after {len(tests) - 1} interventions, and {gone:.2%} of it is gone with the memory."
    )


def rule_in_words(rule: SignedSelection) -> str:
    """A signed selection, element by element, or by its name."""
    if rule == SignedSelection.repeat_copy(rule.variables, rule.size):
        return f"x(t) = x(t - {rule.variables}), repeat copy"
    if rule.variables == rule.size and rule == SignedSelection.compose_copy(rule.size):
        return f"element i of x(t) is element i of x(t - {rule.size + 1} + i), compose copy"
    parts = [
        f"{'-' if sign < 0 else ''}x{element + 1}(t - {lag})"
        for lag, element, sign in zip(rule.lags, rule.elements, rule.signs, strict=True)
    ]
    return f"x(t) = ({', '.join(parts)})"
