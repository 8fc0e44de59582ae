"""Markup from the templates of this package: plots, figures, tables and lists of links."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from mnemoscope.base.lazy_imports import import_report_extra
from mnemoscope.drawing.axes import Figure
from mnemoscope.drawing.svg import inline_svg


@dataclass(frozen=True)
class LegendEntry:
    """A button above a plot that shows and hides the traces with this tag."""

    tag: str
    label: str
    colour: str
    """A colour of the page: a key of `PALETTE`, or "path" or "ink"."""
    symbol: str


def render_template(template: str, **values: Any) -> str:
    """Return a template of this package with its values filled in; values are escaped unless they are markup."""
    return _environment().get_template(template).render(**values)


def plot_markup(
    name: str, spec: Mapping[str, Any], *, alt: str, legend: Iterable[LegendEntry] = (), notes: Sequence[str] = ()
) -> str:
    """Return the markup of a figure given as plain data, in the manner of plotly, `{"data": [...], "layout": {...}}`.

    Colours such as `"var(--stable)"` are those of the page and follow its light or dark theme. A trace may carry
    `meta = {"tags": [...]}` for the legend, and `{"ring": True}` if it marks the selected point.
    """
    return render_template("plot.html", name=name, spec=spec, alt=alt, legend=list(legend), notes=notes)


def figure_markup(figure: Figure, name: str, *, alt: str, caption: str = "") -> str:
    """Return the markup of a matplotlib figure with a caption in plain text; `name` and `alt` as in `inline_svg`."""
    below = f'<figcaption class="small">{escape(caption)}</figcaption>' if caption else ""
    return f'<figure class="drawn">{inline_svg(figure, name, alt=alt)}{below}</figure>'


def table_markup(caption: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return the markup of a table of texts; the first cell of each row is its heading."""
    return render_template("table.html", caption=caption, headings=headings, rows=rows)


def links_markup(targets: Sequence[tuple[str, str]]) -> str:
    """Return the markup of a list of links, given as (text, address)."""
    return render_template("links.html", links=targets)


def check_report_extra() -> None:
    """Raise now if the `report` extra, which writing a page needs, is not installed."""
    for module in ("jinja2", "matplotlib.figure"):
        import_report_extra(module)


def escaped_already(markup: str) -> Any:
    """Mark a text as markup, so that templates do not escape it."""
    return import_report_extra("markupsafe").Markup(markup)


def read_resource(name: str) -> str:
    """Return the text of a file of this package."""
    return (files("mnemoscope.report") / name).read_text(encoding="utf-8")


@cache
def _environment() -> Any:
    jinja2 = import_report_extra("jinja2")
    return jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: read_resource(f"templates/{name}")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
