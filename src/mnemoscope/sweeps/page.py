"""The HTML page of a sweep: the best runs, the table of points, and the objective against each field."""

from __future__ import annotations

from html import escape

from mnemoscope import registry
from mnemoscope.inspection.uses import uses_of_config
from mnemoscope.registry.citations import Use, cited
from mnemoscope.report import Section, render_document
from mnemoscope.report.markup import figure_markup, links_markup, table_markup
from mnemoscope.report.provenance import citation_section, provenance_section
from mnemoscope.sweeps.figure import draw_objective, draw_parallel
from mnemoscope.sweeps.results import PointResult, SweepResult, best_run
from mnemoscope.sweeps.search_space import short_text

MOST_ROWS = 200
"""Largest number of rows of the table on the page; summary.json has all."""
LISTED = 5
"""Number of the best points whose best runs are listed."""


def render_sweep(result: SweepResult, command: str = "") -> str:
    """Return the HTML page of a sweep; its links are relative to the folder of the sweep."""
    sections = [_table_section(result)]
    if result.best is not None:
        sections = [_best_section(result), *sections, _objective_section(result)]
        if len(result.sweep.over) > 1:
            sections.append(_parallel_section(result))
    return render_document(
        f"Sweep: {result.sweep.base.name}",
        _summary(result),
        [*sections, citation_section(_cites(result)), provenance_section(command)],
    )


def _table_section(result: SweepResult) -> Section:
    rows = [[short_text(value) for value in row.values()] for row in result.table()[:MOST_ROWS]]
    omitted = f" The first {MOST_ROWS} of {len(result.points)}." if len(result.points) > MOST_ROWS else ""
    table = table_markup("Points", list(result.table()[0]), rows)
    return Section("Points", f"Sorted by the mean over the seeds, the best first.{omitted}", table)


def _best_section(result: SweepResult) -> Section:
    links = [_link(result, point) for point in result.points[:LISTED] if point.value is not None]
    advice = f"<p>Inspect the best run: <code>mnemoscope inspect {escape(str(result.best_folder))}</code></p>"
    return Section("Best runs", "The best run of each of the best points.", links_markup(links) + advice)


def _objective_section(result: SweepResult) -> Section:
    objective, fields = result.sweep.objective, ", ".join(result.sweep.over)
    caption = (
        f"Every run; rings mark the best point. For a list of numbers the line is the mean {objective}, for a list of "
        f"names the dash."
    )
    figure = draw_objective(result.sweep, result.points)
    markup = figure_markup(figure, "fields", alt=f"{objective} against {fields}", caption=caption)
    return Section("Effect of each field", f"The {objective} against each field.", markup)


def _parallel_section(result: SweepResult) -> Section:
    objective, fields = result.sweep.objective, ", ".join(result.sweep.over)
    alt = f"One line per point through {fields} and its {objective}"
    caption = "The best point is on top, the best quarter in colour."
    markup = figure_markup(draw_parallel(result.sweep, result.points), "parallel", alt=alt, caption=caption)
    return Section("All fields together", "One line per point: its values and its result.", markup)


def _cites(result: SweepResult) -> list[str]:
    """Return the BibTeX keys of the runs and of the search method."""
    sweep, uses = result.sweep, [Use("search", result.sweep.method)]
    for point in result.points:
        uses += uses_of_config(sweep.config(point, sweep.seeds[0]))
    return list(cited(uses))


def _summary(result: SweepResult) -> str:
    sweep, best = result.sweep, result.best
    seeds = f", {len(sweep.seeds)} seeds each" if len(sweep.seeds) > 1 else ""
    done = f"{len(result.points)} of {sweep.point_count} points{seeds}: {registry.searches[sweep.method].summary}."
    outcome = "Every run diverged." if best is None else f"Best {sweep.objective} {short_text(best.value)}: {best}."
    failures = f"<p>{len(result.failed)} runs failed: {escape('; '.join(result.failed))}</p>" if result.failed else ""
    return f"<p>{escape(outcome)}</p><p>{escape(done)}</p>{failures}"


def _link(result: SweepResult, point: PointResult) -> tuple[str, str]:
    run = best_run(point.runs, result.sweep)
    assert run is not None  # the point has a value
    page = "page.html" if (result.folder / run.hash / "page.html").exists() else ""
    seed = f", seed {run.seed}" if len(result.sweep.seeds) > 1 else ""
    return f"{result.sweep.objective} {short_text(run.value)}: {point}{seed}", f"{run.hash}/{page}"
