"""Which lenses apply to a network, in which order, and the page they make."""

from typing import TYPE_CHECKING

from mnemoscope.base.lazy_imports import on_first_use

if TYPE_CHECKING:
    from mnemoscope.inspection.run import Inspection, Look, inspect_cell, inspect_run

__all__ = ["Inspection", "Look", "inspect_cell", "inspect_run"]

__getattr__ = on_first_use(__name__, __file__)


def __dir__() -> list[str]:
    return __all__
