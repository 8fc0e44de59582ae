"""Lenses on relational networks: relations, occlusion, drift and generalisation."""

from mnemoscope.lenses.relations.drift import ConfusedPair, Drift, measure_drift
from mnemoscope.lenses.relations.generalisation import Generalisation, TrainedNetwork
from mnemoscope.lenses.relations.lens import record_relations
from mnemoscope.lenses.relations.occlusion import Occlusion, OcclusionLoss, log_odds, measure_occlusion
from mnemoscope.lenses.relations.result import Relations
from mnemoscope.lenses.relations.separation import auc, d_prime

__all__ = [
    "ConfusedPair",
    "Drift",
    "Generalisation",
    "Occlusion",
    "OcclusionLoss",
    "Relations",
    "TrainedNetwork",
    "auc",
    "d_prime",
    "log_odds",
    "measure_drift",
    "measure_occlusion",
    "record_relations",
]
