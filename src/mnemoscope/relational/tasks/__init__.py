"""Relational tasks over drawn images: which rule holds among objects that were never seen before."""

from mnemoscope.relational.tasks.basic import RMTS, IdentityRules, MatchToSample, SameDifferent
from mnemoscope.relational.tasks.distribution import DistributionOfN
from mnemoscope.relational.tasks.shape_task import HeldOut, ShapeTask
from mnemoscope.relational.tasks.shapes import shapes
from mnemoscope.relational.tasks.task import RelationalTask

__all__ = [
    "RMTS",
    "DistributionOfN",
    "HeldOut",
    "IdentityRules",
    "MatchToSample",
    "RelationalTask",
    "SameDifferent",
    "ShapeTask",
    "shapes",
]
