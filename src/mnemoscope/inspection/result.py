"""The result of an inspection: what the lenses found, and where it was written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mnemoscope.inspection.attention import AttentionFindings
from mnemoscope.inspection.problems import ProblemFindings
from mnemoscope.inspection.relations import RelationFindings
from mnemoscope.inspection.tape import TapeFindings
from mnemoscope.lenses import FixedPoints, SlowManifold, Variables
from mnemoscope.lenses.tape import UniformFixedPoints


@dataclass(frozen=True)
class Inspection:
    """Findings of the lenses, and their page. Results are saved next to it, as `page.<name>.safetensors`."""

    page: Path
    fixed_points: FixedPoints | None = None
    """None for a relational network, a network that attends to its past, and a large Turing machine, which has
    `uniform_fixed_points` instead."""
    slow_manifold: SlowManifold | None = None
    """The slow manifold on which most states of the network settle, if there is one."""
    variables: Variables | None = None
    """Variables of a network trained on variable binding, if they could be found."""
    attention: AttentionFindings | None = None
    """For a network that attends to its past: attention, kept states, and gradients of the loss."""
    tape: TapeFindings | None = None
    """For a Turing machine: its tape, and gradients of the loss."""
    uniform_fixed_points: UniformFixedPoints | None = None
    """For a large Turing machine: fixed points at which all slots are equal."""
    problems: ProblemFindings | None = None
    """For a relational network: its answers."""
    relations: RelationFindings | None = None
    """For a relational network: what it compares, what its decoder reads, and how well it separates unseen objects."""

    @property
    def saved(self) -> Path | None:
        """The file of the fixed points."""
        return None if self.fixed_points is None else self.page.with_name(f"{self.page.stem}.fixed_points.safetensors")

    def summary(self) -> str:
        """Return the findings in sentences."""
        findings = (
            self.fixed_points,
            self.slow_manifold,
            self.uniform_fixed_points,
            self.attention,
            self.tape,
            self.problems,
        )
        return " ".join(finding.summary() for finding in findings if finding is not None)
