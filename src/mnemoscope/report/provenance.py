"""The sections at the end of every page: how to cite it, and how it was made."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import version

from mnemoscope.base.version import __version__
from mnemoscope.registry.citations import ALWAYS, bibtex
from mnemoscope.report.document import Section
from mnemoscope.report.markup import render_template


def citation_section(cites: Sequence[str]) -> Section:
    """Return the BibTeX of the sources of a page; mnemoscope and PyTorch are added."""
    html = render_template("copyable.html", name="bibtex", text=bibtex([*cites, *ALWAYS]))
    return Section("How to cite", "The sources of this page, as BibTeX.", html)


def provenance_section(command: str, lead: str = "") -> Section:
    """Return the command and the versions that made a page."""
    versions = [("mnemoscope", __version__), ("python", platform.python_version())]
    versions += [(name, version(name)) for name in ("torch", "numpy")]
    default = "The same command with the same versions makes the same page." if command else "The versions in use."
    html = render_template("provenance.html", command=command, versions=versions)
    return Section("How this page was made", lead or default, html)
