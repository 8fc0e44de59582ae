"""Relational tasks on generated images: which rule holds among objects that training never showed."""

from mnemoscope.tasks.relational.basic import RMTS, Completion, IdentityRules, MatchToSample, SameDifferent
from mnemoscope.tasks.relational.comparison import Comparison
from mnemoscope.tasks.relational.distribution import DistributionOfN
from mnemoscope.tasks.relational.figure import draw_samples, picture
from mnemoscope.tasks.relational.games import RelationalGame
from mnemoscope.tasks.relational.published import PUBLISHED
from mnemoscope.tasks.relational.scene_objects import Objects, game_objects
from mnemoscope.tasks.relational.shape_images import shapes
from mnemoscope.tasks.relational.shape_task import HeldOutShapes, ShapeTask
from mnemoscope.tasks.relational.task import RelationalTask
from mnemoscope.tasks.relational.unseen import RMTS3, IdentityRules4, SameDifferent6

__all__ = [
    "PUBLISHED",
    "RMTS",
    "RMTS3",
    "Comparison",
    "Completion",
    "DistributionOfN",
    "HeldOutShapes",
    "IdentityRules",
    "IdentityRules4",
    "MatchToSample",
    "Objects",
    "RelationalGame",
    "RelationalTask",
    "SameDifferent",
    "SameDifferent6",
    "ShapeTask",
    "draw_samples",
    "game_objects",
    "picture",
    "shapes",
]
