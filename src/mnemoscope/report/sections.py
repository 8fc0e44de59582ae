"""Sections that any page may have: a plain table, links, how to cite, how it was made."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from html import escape
from importlib.metadata import version
from typing import TYPE_CHECKING

from mnemoscope.base.version import __version__
from mnemoscope.drawing.svg import inline
from mnemoscope.registry.citations import ALWAYS, bibtex
from mnemoscope.report.frame import Section, fill

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plain_table(caption: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markup of a table of texts; the first of each row is its heading."""
    return fill("plain_table.html", caption=caption, headings=headings, rows=rows)


def drawn(figure: Figure, name: str, *, alt: str, caption: str) -> str:
    """Markup of a figure with a caption of plain text; `name` and `alt` as of `inline`."""
    svg = inline(figure, name, alt=alt)
    return f'<figure class="drawn">{svg}<figcaption class="small">{escape(caption)}</figcaption></figure>'


def links(targets: Sequence[tuple[str, str]]) -> str:
    """Markup of a list of (text, address)."""
    return fill("links.html", links=targets)


def citing(cites: Sequence[str]) -> Section:
    """The BibTeX of what a page rests on; mnemoscope itself and PyTorch are added."""
    text = bibtex([*cites, *ALWAYS])
    return Section("How to cite", "What this page rests on, as BibTeX.", fill("copy.html", name="bibtex", text=text))


def making(command: str, lead: str = "") -> Section:
    """The command and the versions that made a page."""
    versions = [("mnemoscope", __version__), ("python", platform.python_version())]
    versions += [(name, version(name)) for name in ("torch", "numpy", "plotly")]
    usual = "The same command with the same versions makes the same page." if command else "The versions in use."
    html = fill("made.html", command=command, versions=versions)
    return Section("How this page was made", lead or usual, html)
