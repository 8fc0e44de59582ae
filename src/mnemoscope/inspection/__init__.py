"""Which lenses apply to a network, in which order, and the page that they make."""

from typing import TYPE_CHECKING

from mnemoscope.base.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from mnemoscope.inspection.cell import inspect_cell
    from mnemoscope.inspection.options import InspectionOptions
    from mnemoscope.inspection.result import Inspection
    from mnemoscope.inspection.run import inspect_run

__all__ = ["Inspection", "InspectionOptions", "inspect_cell", "inspect_run"]

__getattr__ = lazy_attributes(__name__, __file__)


def __dir__() -> list[str]:
    return __all__
