"""One self-contained HTML page per network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.fixed_points.figure import groups
from mnemoscope.lenses.fixed_points.result import FixedPoints
from mnemoscope.report.curve import training_curve
from mnemoscope.report.eigenvalues import eigenvalue_plane
from mnemoscope.report.frame import Section, fill, render_frame
from mnemoscope.report.sections import citing, making
from mnemoscope.report.states import state_space
from mnemoscope.report.table import point_table
from mnemoscope.report.words import SYMBOLS, ends, lead, number, verdict


@dataclass(frozen=True)
class NetworkPage:
    """What the page of a network shows. All text is plain and is escaped."""

    title: str
    fixed_points: FixedPoints | None = None
    """None where they are not looked for; `lead` says why."""
    facts: Sequence[tuple[str, str]] = ()
    """(label, value): cell, size, parameters, task, seed and so on."""
    trajectories: Float[Tensor, "time batch size"] | None = None
    curve: Sequence[Mapping[str, Any]] | None = None
    """Lines of `metrics.jsonl`: step, train_loss (on the training stream), loss (on test batches) and scores."""
    baseline: float | None = None
    """The loss of the best network without memory, or of who guesses."""
    cites: Sequence[str] = ()
    """Keys into `citations.BIBTEX`; mnemoscope itself is added."""
    command: str = ""
    """How this page was made."""
    sections: Sequence[Section] = ()
    """What further lenses have to say; shown before the training curve."""
    lead: str = ""
    """The first sentences of a page without fixed points; with them they are told by the points."""
    baseline_is: str = "without memory"
    """How the baseline is come to, in words (`Task.baseline_is`)."""
    lenses: Sequence[str] = ()
    """Names of the lenses that the page shows something of, for `mnemoscope cite`."""


def write_page(path: str | Path, page: NetworkPage) -> Path:
    """Write the page as one HTML file that opens without a network or a server, and return its path."""
    html = render_page(page)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(html, encoding="utf-8")
    return path


def render_page(page: NetworkPage) -> str:
    """The page as text."""
    sections = [] if page.fixed_points is None else _of_points(page.fixed_points, page.trajectories)
    sections += page.sections
    if page.curve:
        sections.append(training_curve(page.curve, page.baseline, page.baseline_is))
    sections += [citing(page.cites), making(page.command)]
    return render_frame(page.title, _summary(page), sections, page.lenses)


def _of_points(fp: FixedPoints, trajectories: Float[Tensor, "time batch size"] | None) -> list[Section]:
    found = len(fp) > 0 or (fp.slow is not None and len(fp.slow) > 0)
    sections: list[Section] = []
    if found or trajectories is not None:
        sections.append(state_space(fp, trajectories))
    if len(fp):
        sections.append(eigenvalue_plane(fp))
    if found:
        sections.append(point_table(fp))
    return sections


def _summary(page: NetworkPage) -> str:
    fp = page.fixed_points
    if fp is None:
        return fill("summary_without_points.html", lead=page.lead, facts=page.facts)
    slow = fp.slow if fp.slow is not None and len(fp.slow) else None
    return fill(
        "summary.html",
        facts=page.facts,
        lead=lead(fp),
        groups=groups(fp),
        symbols=SYMBOLS,
        slow=0 if slow is None else len(slow),
        slow_q="" if slow is None else number(float(slow.q.min())),
        worst_q=number(float(fp.q.max())) if len(fp) else "",
        verdict=verdict(fp),
        ends=ends(fp),
        starts=0 if fp.starts is None else len(fp.starts),
    )
