"""Which lenses apply to a network, in which order, and the page that they make."""

from typing import TYPE_CHECKING

from mnemoscope.base.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from mnemoscope.inspection.cell import inspect_cell as inspect_cell
    from mnemoscope.inspection.options import InspectionOptions as InspectionOptions
    from mnemoscope.inspection.result import Inspection as Inspection
    from mnemoscope.inspection.run import inspect_run as inspect_run

__getattr__, __dir__ = lazy_attributes(__name__, __file__)
