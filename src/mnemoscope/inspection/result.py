"""The result of an inspection: what the lenses found, and the page that shows it."""

from __future__ import annotations

import webbrowser
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from tempfile import mkdtemp

from mnemoscope.base.files import refuse_link
from mnemoscope.inspection.attention import AttentionFindings
from mnemoscope.inspection.intervention import Interventions
from mnemoscope.inspection.problems import ProblemFindings
from mnemoscope.inspection.relations import RelationFindings
from mnemoscope.inspection.tape import TapeFindings
from mnemoscope.inspection.trials import TrialFindings
from mnemoscope.lenses import (
    Behaviour,
    FixedPoints,
    GradientNorms,
    Influence,
    Loops,
    MeasuredInfluence,
    MemoryCapacity,
    RecallInterference,
    SlowManifold,
    SpanScores,
    Transitions,
    Variables,
)
from mnemoscope.lenses.result import Result
from mnemoscope.lenses.tape import UniformFixedPoints
from mnemoscope.report import NetworkPage, render_page, write_page


@dataclass(frozen=True, repr=False)
class Inspection:
    """Findings of the lenses. `save` writes them as a page, `show` opens it, and a notebook displays the main ones."""

    content: NetworkPage
    """Content of the page."""
    results: Mapping[str, Result] = field(default_factory=dict)
    """All results by name; `save` writes each next to the page, as `<page>.<name>.safetensors`."""
    default_page: Path | None = None
    """Where `save` writes the page of a run: `page.html` in its folder."""
    behaviour: Behaviour | None = None
    """Answers of the network on the given inputs, or on the test trials of its task."""
    spans: SpanScores | None = None
    """Accuracy of a run at several delays, lengths or numbers of items, if its task has such a setting."""
    influence: Influence | None = None
    """How much past inputs matter for outputs, if there are inputs and the network has affine layers."""
    measured_influence: MeasuredInfluence | None = None
    """How much an input changes later outputs and states, if there are inputs."""
    capacity: MemoryCapacity | None = None
    """Measured memory capacity; None for a network with attention or a tape, or if it takes long."""
    transitions: Transitions | None = None
    """Operators by which each input changes the state, if there are inputs and layers that are affine in it."""
    fixed_points: FixedPoints | None = None
    """Fixed points in the first context. None for a relational network, a network that attends to its past, and a large
    Turing machine, which has `uniform_fixed_points` instead."""
    contexts: Mapping[str, FixedPoints] = field(default_factory=dict)
    """Fixed points in every context, by its name, if contexts were given."""
    slow_manifold: SlowManifold | None = None
    """The slow manifold on which most states of the network settle, if there is one."""
    gradients: GradientNorms | None = None
    """How much of the loss reaches each step, if targets were given; for a run, before and after training."""
    variables: Variables | None = None
    """Variables of a network trained on variable binding, if they could be found."""
    loops: Loops | None = None
    """Loops in which a network trained on text ends when it reads its own characters."""
    trials: TrialFindings | None = None
    """For a trial-based task: by which mechanism the network holds a value, in each context."""
    interference: RecallInterference | None = None
    """Recall of a network trained on key-value recall, predicted from interference, if its layers are affine."""
    interventions: Interventions | None = None
    """Interventions on a given variable, or on the class that the task of a run makes it hold, each beside random
    subspaces."""
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

    def summary(self) -> str:
        """Return the findings in sentences."""
        findings = (
            self.behaviour,
            self.spans,
            self.influence,
            self.measured_influence,
            self.transitions,
            self.trials,
            self.fixed_points,
            self.slow_manifold,
            self.interference,
            self.interventions,
            self.uniform_fixed_points,
            self.loops,
            self.attention,
            self.tape,
            self.problems,
        )
        return " ".join(finding.summary() for finding in findings if finding is not None)

    def save(self, path: str | Path | None = None) -> Path:
        """Write the page as one HTML file, and the results next to it; return the path of the page."""
        if path is None:
            if self.default_page is None:
                raise ValueError('Name the page: save("page.html").')
            path = self.default_page
            refuse_link(path)
        page = Path(path)
        page.parent.mkdir(parents=True, exist_ok=True)
        for name, result in self.results.items():
            result.save(saved_result(page, name))
        return write_page(page, self.content)

    def show(self) -> Path:
        """Open the page in a browser; it is written to a temporary folder, whose path is returned."""
        page = write_page(Path(mkdtemp(prefix="mnemoscope-")) / "page.html", self.content)
        webbrowser.open(page.as_uri())
        return page

    def html(self) -> str:
        """Return the page as text."""
        return render_page(self.content)

    def __repr__(self) -> str:
        return f"Inspection({self.summary()})"

    def _repr_html_(self) -> str:
        """Return the main findings with their figures, for notebooks."""
        main = [self.behaviour, self.slow_manifold or self.fixed_points, self.variables]
        shown = "".join(result._repr_html_() for result in main if result is not None)
        return f"<h3>{escape(self.content.title)}</h3>{shown or f'<p>{escape(self.summary())}</p>'}"


def saved_result(page: Path, name: str) -> Path:
    """Return where `save` writes a result next to a page."""
    return page.with_name(f"{page.stem}.{name}.safetensors")
