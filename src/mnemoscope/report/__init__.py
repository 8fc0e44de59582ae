"""Figures and the self-contained HTML page (needs the `report` extra)."""

from typing import TYPE_CHECKING

from mnemoscope.base.lazy_imports import on_first_use

if TYPE_CHECKING:
    from mnemoscope.report.frame import Section, render_frame
    from mnemoscope.report.lens import Looked, lens_sections
    from mnemoscope.report.page import NetworkPage, render_page, write_page

__all__ = ["Looked", "NetworkPage", "Section", "lens_sections", "render_frame", "render_page", "write_page"]

__getattr__ = on_first_use(__name__, __file__)


def __dir__() -> list[str]:
    return __all__
