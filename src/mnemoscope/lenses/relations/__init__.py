"""What relational networks compare, what their decoders read, and how well they keep unseen objects apart."""

from mnemoscope.lenses.relations.drift import Confused, Drift, auc, d_prime, measure_drift
from mnemoscope.lenses.relations.generalisation import Generalisation, Trained
from mnemoscope.lenses.relations.lens import Relations, record_relations
from mnemoscope.lenses.relations.occlusion import Loss, Occlusion, log_odds, measure_occlusion

__all__ = [
    "Confused",
    "Drift",
    "Generalisation",
    "Loss",
    "Occlusion",
    "Relations",
    "Trained",
    "auc",
    "d_prime",
    "log_odds",
    "measure_drift",
    "measure_occlusion",
    "record_relations",
]
