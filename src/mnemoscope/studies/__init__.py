"""One file per published table or figure: what was published, how to run it, side by side."""

from typing import TYPE_CHECKING

from mnemoscope.lazy import on_first_use

if TYPE_CHECKING:
    from mnemoscope.studies.computing import ComputedStudy
    from mnemoscope.studies.inspection import Inspection, Look, inspect_cell, inspect_run
    from mnemoscope.studies.learning import LearningStudy
    from mnemoscope.studies.running import StudyResult, run_study
    from mnemoscope.studies.study import Finished, Preset, Published, Row, Study, Trial

__all__ = [
    "ComputedStudy",
    "Finished",
    "Inspection",
    "LearningStudy",
    "Look",
    "Preset",
    "Published",
    "Row",
    "Study",
    "StudyResult",
    "Trial",
    "inspect_cell",
    "inspect_run",
    "run_study",
]

__getattr__ = on_first_use(__name__, __file__)


def __dir__() -> list[str]:
    return __all__
