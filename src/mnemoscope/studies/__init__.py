"""One file per published table or figure: what was published, how to run it, side by side."""

from mnemoscope.studies.inspection import Inspection, Look, inspect_cell, inspect_run
from mnemoscope.studies.running import StudyResult, run_study
from mnemoscope.studies.study import Finished, Preset, Published, Row, Study, Trial

__all__ = [
    "Finished",
    "Inspection",
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
