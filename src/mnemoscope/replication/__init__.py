"""The framework of studies: claims, presets, trials, verdicts and the scoreboard."""

from typing import TYPE_CHECKING

from mnemoscope.base.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from mnemoscope.replication.claims import (
        EVERYTHING as EVERYTHING,
        Claim as Claim,
        Row as Row,
        Subject as Subject,
        about as about,
    )
    from mnemoscope.replication.computed_study import ComputedStudy as ComputedStudy
    from mnemoscope.replication.learning_study import LearningStudy as LearningStudy
    from mnemoscope.replication.runner import StudyResult as StudyResult, run_study as run_study
    from mnemoscope.replication.study import Finished as Finished, Preset as Preset, Study as Study, Trial as Trial
    from mnemoscope.replication.verdicts import Verdict as Verdict

__getattr__, __dir__ = lazy_attributes(__name__, __file__)
