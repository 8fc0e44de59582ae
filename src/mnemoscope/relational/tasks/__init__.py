"""Relational tasks over drawn images: which rule holds among objects that were never seen before."""

from mnemoscope.relational.tasks.basic import RMTS, Completion, IdentityRules, MatchToSample, SameDifferent
from mnemoscope.relational.tasks.comparison import Comparison
from mnemoscope.relational.tasks.distribution import DistributionOfN
from mnemoscope.relational.tasks.drawing import draw_samples, picture
from mnemoscope.relational.tasks.game_objects import Objects, game_objects
from mnemoscope.relational.tasks.games import RelationalGame
from mnemoscope.relational.tasks.published import PUBLISHED
from mnemoscope.relational.tasks.shape_task import HeldOut, ShapeTask
from mnemoscope.relational.tasks.shapes import shapes
from mnemoscope.relational.tasks.task import RelationalTask
from mnemoscope.relational.tasks.unseen import RMTS3, IdentityRules4, SameDifferent6

__all__ = [
    "PUBLISHED",
    "RMTS",
    "RMTS3",
    "Comparison",
    "Completion",
    "DistributionOfN",
    "HeldOut",
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
