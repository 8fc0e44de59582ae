"""Figures and the self-contained HTML page (needs the `report` extra)."""

from mnemoscope.report.frame import Section, render_frame
from mnemoscope.report.lens import Looked, lens_sections
from mnemoscope.report.page import NetworkPage, render_page, write_page

__all__ = ["Looked", "NetworkPage", "Section", "lens_sections", "render_frame", "render_page", "write_page"]
