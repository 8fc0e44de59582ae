"""Figures and the self-contained HTML page (needs the `report` extra)."""

from typing import TYPE_CHECKING

from mnemoscope.base.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from mnemoscope.report.document import Section as Section, render_document as render_document
    from mnemoscope.report.page import NetworkPage as NetworkPage, render_page as render_page, write_page as write_page
    from mnemoscope.report.registered_lenses import InspectedNetwork as InspectedNetwork, lens_sections as lens_sections

__getattr__, __dir__ = lazy_attributes(__name__, __file__)
