"""How a page is written: the document and its templates, the markup of figures and tables, and the format of numbers.

`page.py` puts the page of a network together: its fixed points, the sections of other lenses, the training curve and
the citations. A new section does not belong here but in `inspection`. All of this needs the `report` extra.
"""

from typing import TYPE_CHECKING

from mnemoscope.base.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from mnemoscope.report.document import Section as Section, render_document as render_document
    from mnemoscope.report.page import (
        InspectedNetwork as InspectedNetwork,
        NetworkPage as NetworkPage,
        lens_sections as lens_sections,
        render_page as render_page,
        sentences as sentences,
        write_page as write_page,
    )

__getattr__, __dir__ = lazy_attributes(__name__, __file__)
