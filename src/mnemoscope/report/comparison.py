"""The page of a comparison: one self-contained HTML file with its figure and a table of all pairs."""

from __future__ import annotations

from html import escape
from pathlib import Path

from mnemoscope.base.files import write_output
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE
from mnemoscope.lenses.comparison.figure import UNITS
from mnemoscope.lenses.comparison.result import Comparison
from mnemoscope.registry import lenses
from mnemoscope.report.document import Section, render_document
from mnemoscope.report.markup import figure_markup, table_markup
from mnemoscope.report.provenance import citation_section, provenance_section


def write_comparison_page(result: Comparison, path: Path, command: str = "") -> None:
    """Write the summary, the figure and the verdicts of a comparison."""
    write_output(path, render_comparison(result, command).encode())


def render_comparison(result: Comparison, command: str = "") -> str:
    """Return the page of a comparison; `command` is the command line that made it."""
    drawn = result.figure(COLOUR, font_size=PAGE_FONT_SIZE)
    alt = "Matrix of distances, map of the systems, and null distributions."
    figure = figure_markup(drawn, "comparison", alt=alt)
    sections = [
        Section("Distances", "How far the systems are apart, and where each lies among the others.", figure),
        Section("Pairs", "What the distance of each pair shows.", _pair_table(result)),
    ]
    if result.signatures:
        rows = list(zip(result.names, result.signatures, strict=True))
        table = table_markup("Fixed points at each input", ["network", "fixed points"], rows)
        sections.append(Section("Fixed points", "Numbers and kinds at each constant input.", table))
    sections += [provenance_section(command), citation_section(lenses["comparison"].cites)]
    return render_document("Comparison", f"<p>{escape(result.summary())}</p>", sections, ["comparison"])


def _pair_table(result: Comparison) -> str:
    rows = []
    for (first, second), verdict in result.verdicts.items():
        i, j = result.names.index(first), result.names.index(second)
        shares = [
            f"{float(share[i, j]):.2f}" if share is not None else "-" for share in (result.p_similar, result.overlap)
        ]
        rows.append([f"{first}, {second}", f"{float(result.distances[i, j]):.3f}", verdict, *shares])
    headings = ["systems", UNITS[result.score], "verdict", "share of surrogates as close", "overlap with halves of one"]
    return table_markup("All pairs", headings, rows)
