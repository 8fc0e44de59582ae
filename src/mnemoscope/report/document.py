"""The HTML document of a page: a title, a summary, and sections below each other.

A lens adds a `Section`; it does not need a template:

    html = render_template("mine.html", rows=rows)           # or any other markup
    html = plot_markup("mine", spec, alt="What it shows.")   # a figure as plain data
    Section("My lens", "The finding in one sentence.", html)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mnemoscope.base.version import __version__
from mnemoscope.drawing.palette import PALETTE
from mnemoscope.report.markup import escaped_already, read_resource, render_template


@dataclass(frozen=True)
class Section:
    """One part of a page. `title` and `lead` are plain text and are escaped; `html` is markup and is not."""

    title: str
    lead: str
    html: str
    part: str = ""
    """Heading of the part of the page that the section belongs to; sections of a part follow each other."""


LENSES_META = "mnemoscope:lenses"
"""Name of the `meta` element that lists the lenses of a page."""


def render_document(title: str, summary: str, sections: Sequence[Section], lenses: Sequence[str] = ()) -> str:
    """Return a complete HTML document that loads nothing else.

    Args:
        title: plain text.
        summary: markup for the head of the page.
        sections: the rest of the page. The script of plots is embedded if any section holds one.
        lenses: names of the lenses that the page shows; `lenses_shown` reads them back.

    """
    has_plots = any('class="plot"' in section.html for section in sections)
    return render_template(
        "document.html",
        title=title,
        summary=escaped_already(summary),
        sections=[
            (anchor, section.title, section.lead, escaped_already(section.html), section.part)
            for anchor, section in _with_anchors(sections)
        ],
        palette=PALETTE,
        style=escaped_already(read_resource("page.css")),
        script=escaped_already(read_resource("page.js")),
        plots=escaped_already(read_resource("plots.js")) if has_plots else None,
        version=__version__,
        lenses=(LENSES_META, " ".join(lenses)),
    )


def lenses_shown(page: str) -> list[str] | None:
    """Return the names of the lenses that a page shows; None if the text is not such a page or is truncated."""
    meta = re.search(rf'<meta name="{LENSES_META}" content="([^"]*)">', page)
    return meta[1].split() if meta is not None and page.rstrip().endswith("</html>") else None


def _with_anchors(sections: Sequence[Section]) -> Iterator[tuple[str, Section]]:
    """Yield each section with a unique id made from its title."""
    taken: set[str] = set()
    for section in sections:
        base = re.sub(r"[^a-z0-9]+", "-", section.title.lower()).strip("-") or "section"
        anchor, number = base, 2
        while anchor in taken:
            anchor, number = f"{base}-{number}", number + 1
        taken.add(anchor)
        yield anchor, section
