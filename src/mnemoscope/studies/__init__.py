"""One file per published table or figure: what was published, how to run it, side by side."""

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
