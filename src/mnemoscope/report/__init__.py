"""Figures and the self-contained HTML page (needs the `report` extra)."""

from typing import TYPE_CHECKING

from mnemoscope.base.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from mnemoscope.report.document import Section, render_document
    from mnemoscope.report.page import NetworkPage, render_page, write_page
    from mnemoscope.report.registered_lenses import InspectedNetwork, lens_sections

__all__ = [
    "InspectedNetwork",
    "NetworkPage",
    "Section",
    "lens_sections",
    "render_document",
    "render_page",
    "write_page",
]

__getattr__ = lazy_attributes(__name__, __file__)


def __dir__() -> list[str]:
    return __all__
