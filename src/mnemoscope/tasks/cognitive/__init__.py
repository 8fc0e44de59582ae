"""Trial-based tasks of cognitive neuroscience, with conditions and epochs."""

from mnemoscope.tasks.cognitive.decision import (
    ContextDecision as ContextDecision,
    PerceptualDecision as PerceptualDecision,
)
from mnemoscope.tasks.cognitive.environment import EnvironmentTask as EnvironmentTask
from mnemoscope.tasks.cognitive.multi_task import MultiTask as MultiTask
from mnemoscope.tasks.cognitive.ready_set_go import ReadySetGo as ReadySetGo
from mnemoscope.tasks.cognitive.response_task import ResponseTask as ResponseTask
from mnemoscope.tasks.cognitive.timeline import Trials as Trials
from mnemoscope.tasks.cognitive.trial_task import TrialTask as TrialTask
from mnemoscope.tasks.cognitive.working_memory import (
    AngleMemory as AngleMemory,
    DelayedMatch as DelayedMatch,
    ParametricMemory as ParametricMemory,
)
