"""The page of a network: one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from mnemoscope import registry
from mnemoscope.base.array_types import Float
from mnemoscope.base.files import write_output
from mnemoscope.cells import Cell
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.figure import groups
from mnemoscope.lenses.fixed_points.result import FixedPoints
from mnemoscope.lenses.slow_manifold.result import SlowManifold
from mnemoscope.report.document import Section, render_document
from mnemoscope.report.eigenvalues import eigenvalue_section
from mnemoscope.report.fixed_points import completeness_verdict, fixed_point_section, headline
from mnemoscope.report.markup import render_template
from mnemoscope.report.numbers import format_number
from mnemoscope.report.plots import SYMBOLS
from mnemoscope.report.provenance import citation_section, provenance_section
from mnemoscope.report.state_space import state_space_section
from mnemoscope.report.training_curve import training_section

WHAT, HOW_LONG, HOW, ABOUT = "What it does", "How long it remembers", "How it remembers", "About this page"
"""Parts of a page, in order."""


@dataclass(frozen=True)
class NetworkPage:
    """Content of the page of a network. All text is plain and is escaped."""

    title: str
    fixed_points: FixedPoints | None = None
    """None if no search was made; `lead` gives the reason."""
    facts: Sequence[tuple[str, str]] = ()
    """(label, value) pairs: cell, size, parameters, task, seed and so on."""
    trajectories: Float[Tensor, "time batch size"] | None = None
    curve: Sequence[Mapping[str, Any]] | None = None
    """Lines of `metrics.jsonl`: step, train_loss (on the training stream), loss (on test batches) and scores."""
    baseline: float | None = None
    """The loss of the best network without memory, or of guessing."""
    cites: Sequence[str] = ()
    """Keys into `citations.BIBTEX`; mnemoscope and PyTorch are added."""
    command: str = ""
    """The command that made this page."""
    sections: Sequence[Section] = ()
    """Sections of further lenses, shown before the training curve."""
    lead: str = ""
    """Sentences on how the network solves its task, or why there are no fixed points. Those on fixed points follow."""
    baseline_label: str = "without memory"
    """How the baseline is reached: "without memory" or "by guessing" (`Task.baseline_label`)."""
    lenses: Sequence[str] = ()
    """Names of the lenses on the page, for `mnemoscope cite`."""
    slow_manifold: SlowManifold | None = None
    """The slow manifold on which most states settle, for the first sentences."""
    behaviour: str = ""
    """How the network behaves on trials, and for how long inputs matter, in sentences that come before all others."""
    behaviour_sections: Callable[[], Sequence[Section]] = list
    """Function that returns the sections on what the network does, which come first. It draws their figures."""
    duration_sections: Callable[[], Sequence[Section]] = list
    """The same on how long it remembers, which come next; then come those on how."""
    origin: str = ""
    """A sentence on where the trajectories start; none is needed for those of trials."""


@dataclass(frozen=True)
class InspectedNetwork:
    """A network after the search for its fixed points: the argument of a lens that adds sections to the page."""

    cell: Cell
    dynamics: Dynamics
    """The cell at a constant input, in float64."""
    fixed_points: FixedPoints
    trajectories: Float[Tensor, "time batch size"]
    """Flat states that the network visited, on its task or from random states."""


def lens_sections(
    network: InspectedNetwork, wanted: Callable[[str], bool] = lambda name: True
) -> dict[str, list[Section]]:
    """Return the sections of every wanted lens that has any, by its name; `Entry.sections` names the functions."""
    chosen = [entry for entry in registry.lenses if entry.sections and wanted(entry.name)]
    made = {entry.name: list(entry.load_sections()(network)) for entry in chosen}
    return {name: sections for name, sections in made.items() if sections}


def write_page(path: str | Path, page: NetworkPage) -> Path:
    """Write the page as one HTML file that opens without a network or a server, and return its path."""
    html = render_page(page)
    write_output(path, html.encode())
    return Path(path)


def render_page(page: NetworkPage) -> str:
    """Return the page as text."""
    mechanism, rest = [*page.sections], [citation_section(page.cites), provenance_section(page.command)]
    if page.fixed_points is not None:
        mechanism = [*_fixed_point_sections(page.fixed_points, page.trajectories, page.origin), *mechanism]
    if page.curve:
        rest = [training_section(page.curve, page.baseline, page.baseline_label), *rest]
    parts = {WHAT: page.behaviour_sections(), HOW_LONG: page.duration_sections(), HOW: mechanism, ABOUT: rest}
    if not parts[WHAT] and not parts[HOW_LONG]:  # nothing to set apart
        parts = {"": [*mechanism, *rest]}
    sections = [replace(section, part=part) for part, chosen in parts.items() for section in chosen]
    return render_document(page.title, _summary(page), sections, page.lenses)


def _fixed_point_sections(
    fp: FixedPoints, trajectories: Float[Tensor, "time batch size"] | None, origin: str
) -> list[Section]:
    found = len(fp) > 0 or (fp.slow is not None and len(fp.slow) > 0)
    return [
        *([state_space_section(fp, trajectories, origin)] if found or trajectories is not None else []),
        *([eigenvalue_section(fp)] if len(fp) else []),
        *([fixed_point_section(fp)] if found else []),
    ]


def _summary(page: NetworkPage) -> str:
    fp = page.fixed_points
    if fp is None:
        return render_template(
            "summary_without_points.html", lead=sentences(page.behaviour, page.lead), facts=page.facts
        )
    slow = fp.slow if fp.slow is not None and len(fp.slow) else None
    return render_template(
        "summary.html",
        facts=page.facts,
        lead=sentences(page.behaviour, page.lead, headline(fp, page.slow_manifold)),
        groups=groups(fp),
        symbols=SYMBOLS,
        slow=0 if slow is None else len(slow),
        slow_q="" if slow is None else format_number(float(slow.q.min())),
        worst_q=format_number(float(fp.q.max())) if len(fp) else "",
        verdict=completeness_verdict(fp),
        ends=[] if fp.starts is None else list(fp.starts.counts().items()),
        starts=0 if fp.starts is None else len(fp.starts),
    )


def sentences(*texts: str) -> str:
    """Join texts, without the empty ones."""
    return " ".join(text for text in texts if text)
