"""The page of a sweep: the best run, the table, the objective against what varies."""

from __future__ import annotations

from html import escape
from typing import Any

from mnemoscope import registry
from mnemoscope.inspection.uses import uses_of_config
from mnemoscope.registry.citations import Use, cited
from mnemoscope.report import Section, render_document
from mnemoscope.report.markup import figure_markup, links_markup, table_markup
from mnemoscope.report.provenance import citation_section, provenance_section
from mnemoscope.sweeps.drawing import against_each_field, parallel
from mnemoscope.sweeps.results import PointResult, SweepResult, best_run
from mnemoscope.sweeps.sweep import Point

MOST_ROWS = 200
"""Of the table on the page; summary.json has all."""
LISTED = 5
"""Best points whose runs are listed."""


def render_sweep(result: SweepResult, command: str = "") -> str:
    """The page as text; it lies in the folder of the sweep."""
    sweep, best = result.sweep, result.best
    rows = [[_text(value) for value in row.values()] for row in result.table()[:MOST_ROWS]]
    left = f" The first {MOST_ROWS} of {len(result.points)}." if len(result.points) > MOST_ROWS else ""
    table = table_markup("Points", list(result.table()[0]), rows)
    sections = [Section("Points", f"The best first; the mean over the seeds counts.{left}", table)]
    if best is not None:
        listed = links_markup([_link(result, point) for point in result.points[:LISTED] if point.value is not None])
        sections.insert(0, Section("Best runs", "Of each of the best points, its best run.", listed + _look(result)))
        caption = (
            f"Every run; a ring marks the best point. Over a list of values, the line is their mean {sweep.objective}."
        )
        figure = against_each_field(sweep, result.points)
        sections.append(Section(
            "What varies", f"The {sweep.objective} against each field.",
            figure_markup(figure, "fields", alt=f"{sweep.objective} against {', '.join(sweep.over)}", caption=caption),
        ))  # fmt: skip
        if len(sweep.over) > 1:
            figure = parallel(sweep, result.points)
            sections.append(Section(
                "All fields together", "A line for each point: its values, and what came of them.",
                figure_markup(figure, "parallel", alt=f"A line for each point through {', '.join(sweep.over)} and its "
                      f"{sweep.objective}", caption="The best point is on top, the best quarter in colour."),
            ))  # fmt: skip
    return render_document(
        f"Sweep: {sweep.base.name}",
        _summary(result),
        [*sections, citation_section(_cites(result)), provenance_section(command)],
    )


def _cites(result: SweepResult) -> list[str]:
    """Of all that was run, and of the method."""
    sweep, uses = result.sweep, [Use("search", result.sweep.method)]
    for point in result.points:
        uses += uses_of_config(sweep.config(Point(point.number, point.values), sweep.seeds[0]))
    return list(cited(uses))


def _summary(result: SweepResult) -> str:
    sweep, best = result.sweep, result.best
    seeds = f", {len(sweep.seeds)} seeds each" if len(sweep.seeds) > 1 else ""
    done = f"{len(result.points)} of {sweep.number} points{seeds}: {registry.searches[sweep.method].summary}."
    told = "No run stayed finite." if best is None else f"Best {sweep.objective} {_text(best.value)}: {_values(best)}."
    lost = f"<p>{len(result.failed)} runs failed: {escape('; '.join(result.failed))}</p>" if result.failed else ""
    return f"<p>{escape(told)}</p><p>{escape(done)}</p>{lost}"


def _link(result: SweepResult, point: PointResult) -> tuple[str, str]:
    run = best_run(point.runs, result.sweep)
    assert run is not None  # the point has a value
    page = "page.html" if (result.folder / run.hash / "page.html").exists() else ""
    seed = f", seed {run.seed}" if len(result.sweep.seeds) > 1 else ""
    return f"{result.sweep.objective} {_text(run.value)}: {_values(point)}{seed}", f"{run.hash}/{page}"


def _look(result: SweepResult) -> str:
    best = result.best
    run = None if best is None else best_run(best.runs, result.sweep)
    if run is None:
        return ""
    return f"<p>Look at it: <code>mnemoscope inspect {escape(str(result.folder / run.hash))}</code></p>"


def _values(point: PointResult) -> str:
    return ", ".join(f"{name} {_text(value)}" for name, value in point.values.items())


def _text(value: Any) -> str:
    return "none" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
