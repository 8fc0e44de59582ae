"""The framework of studies: claims, presets, trials, verdicts and the scoreboard."""

from typing import TYPE_CHECKING

from mnemoscope.base.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from mnemoscope.replication.computing import ComputedStudy
    from mnemoscope.replication.learning import LearningStudy
    from mnemoscope.replication.runner import StudyResult, run_study
    from mnemoscope.replication.study import Finished, Preset, Published, Row, Study, Trial

__all__ = [
    "ComputedStudy",
    "Finished",
    "LearningStudy",
    "Preset",
    "Published",
    "Row",
    "Study",
    "StudyResult",
    "Trial",
    "run_study",
]

__getattr__ = lazy_attributes(__name__, __file__)


def __dir__() -> list[str]:
    return __all__
