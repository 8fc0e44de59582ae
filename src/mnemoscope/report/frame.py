"""The frame of a page: a title, a summary, and sections one below the other. A lens adds a section, and no template.

html = fill("mine.html", rows=rows)                  # or any markup made by other means
html = plot("mine", spec, alt="What is to be seen")  # a plotly figure as plain data
Section("My lens", "What it tells, in a sentence.", html)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from mnemoscope.base.lazy_imports import need
from mnemoscope.base.version import __version__
from mnemoscope.drawing.palette import PALETTE


@dataclass(frozen=True)
class Section:
    """One part of a page. `title` and `lead` are plain text and are escaped; `html` is markup and is not."""

    title: str
    lead: str
    html: str


@dataclass(frozen=True)
class LegendEntry:
    """A button beside a plot that shows and hides the traces with this tag."""

    tag: str
    label: str
    colour: str
    """A colour of the page: a key of `PALETTE`, or "path" or "ink"."""
    symbol: str


LENSES = "mnemoscope:lenses"
"""Name of the `meta` element that has the names of a page's lenses."""


def render_frame(title: str, summary: str, sections: Sequence[Section], lenses: Sequence[str] = ()) -> str:
    """A whole HTML document that needs nothing but itself.

    `title` is plain text, `summary` is markup for the head of the page, `sections` are the rest. The plotly script is
    embedded, once, if any of them holds a `plot`. `lenses` are written down for `lenses_of`.
    """
    plots = any('class="plot"' in section.html for section in sections)
    return fill(
        "frame.html",
        title=title,
        summary=_safe(summary),
        sections=[(name, one.title, one.lead, _safe(one.html)) for name, one in _named(sections)],
        palette=PALETTE,
        style=_safe(_read("page.css")),
        script=_safe(_read("page.js")),
        plotly=_safe(need("plotly.offline").get_plotlyjs()) if plots else None,
        version=__version__,
        lenses=(LENSES, " ".join(lenses)),
    )


def lenses_of(page: str) -> list[str] | None:
    """The lenses that a page says it shows; None of a text that is no such page, or is cut short."""
    said = re.search(rf'<meta name="{LENSES}" content="([^"]*)">', page)
    return said[1].split() if said is not None and page.rstrip().endswith("</html>") else None


def plot(
    name: str, spec: Mapping[str, Any], *, alt: str, legend: Iterable[LegendEntry] = (), notes: Sequence[str] = ()
) -> str:
    """Markup of a plotly figure given as plain data, `{"data": [...], "layout": {...}}`.

    Colours may be `"var(--stable)"` and the like: the page's own, which follow its light or dark ground. A trace may
    carry `meta = {"tags": [...]}` for the legend, and `{"ring": True}` if it marks the selected point.
    """
    return fill("plot.html", name=name, spec=spec, alt=alt, legend=list(legend), notes=notes)


def fill(template: str, **values: Any) -> str:
    """A template of this package, filled in; every value is escaped unless it is markup already."""
    return _environment().get_template(template).render(**values)


def check_extra() -> None:
    """Raise at once if a page could not be written later."""
    for module in ("jinja2", "plotly.offline", "matplotlib.figure"):
        need(module)


@cache
def _environment() -> Any:
    jinja2 = need("jinja2")
    return jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: _read(f"templates/{name}")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _read(name: str) -> str:
    return (files("mnemoscope.report") / name).read_text(encoding="utf-8")


def _safe(markup: str) -> Any:
    return need("markupsafe").Markup(markup)


def _named(sections: Sequence[Section]) -> Iterable[tuple[str, Section]]:
    """Each section with an id of its own, made from its title."""
    taken: set[str] = set()
    for section in sections:
        base = re.sub(r"[^a-z0-9]+", "-", section.title.lower()).strip("-") or "section"
        name, number = base, 2
        while name in taken:
            name, number = f"{base}-{number}", number + 1
        taken.add(name)
        yield name, section
