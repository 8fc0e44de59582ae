"""The framework of studies: claims, presets, trials, verdicts and the scoreboard."""

from typing import TYPE_CHECKING

from mnemoscope.base.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from mnemoscope.replication.claims import EVERYTHING, Claim, Row, Subject, Verdict, about
    from mnemoscope.replication.computed_study import ComputedStudy
    from mnemoscope.replication.learning_study import LearningStudy
    from mnemoscope.replication.runner import StudyResult, run_study
    from mnemoscope.replication.study import Finished, Preset, Study, Trial

__all__ = [
    "EVERYTHING",
    "Claim",
    "ComputedStudy",
    "Finished",
    "LearningStudy",
    "Preset",
    "Row",
    "Study",
    "StudyResult",
    "Subject",
    "Trial",
    "Verdict",
    "about",
    "run_study",
]

__getattr__ = lazy_attributes(__name__, __file__)


def __dir__() -> list[str]:
    return __all__
