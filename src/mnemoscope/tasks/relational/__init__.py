"""Relational tasks on generated images: which rule holds among objects that training never showed."""

from mnemoscope.tasks.relational.basic import (
    RMTS as RMTS,
    Completion as Completion,
    DistributionOfN as DistributionOfN,
    IdentityRules as IdentityRules,
    MatchToSample as MatchToSample,
    SameDifferent as SameDifferent,
)
from mnemoscope.tasks.relational.comparison import Comparison as Comparison
from mnemoscope.tasks.relational.figure import draw_samples as draw_samples, picture as picture
from mnemoscope.tasks.relational.games import RelationalGame as RelationalGame
from mnemoscope.tasks.relational.published import PUBLISHED as PUBLISHED
from mnemoscope.tasks.relational.scene_objects import Objects as Objects, game_objects as game_objects
from mnemoscope.tasks.relational.shape_images import shapes as shapes
from mnemoscope.tasks.relational.shape_task import HeldOutShapes as HeldOutShapes, ShapeTask as ShapeTask
from mnemoscope.tasks.relational.task import RelationalTask as RelationalTask
from mnemoscope.tasks.relational.unseen import (
    RMTS3 as RMTS3,
    IdentityRules4 as IdentityRules4,
    SameDifferent6 as SameDifferent6,
)
