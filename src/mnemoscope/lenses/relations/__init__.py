"""What relational networks compare, what their decoders read, and how well they keep unseen objects apart."""

from mnemoscope.lenses.relations.drift import Confused, Drift, auc, d_prime, drift_of
from mnemoscope.lenses.relations.generalisation import Generalisation, Trained
from mnemoscope.lenses.relations.lens import Relations, relations_of
from mnemoscope.lenses.relations.occlusion import Loss, Occlusion, log_odds, occlusion_of

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
    "drift_of",
    "log_odds",
    "occlusion_of",
    "relations_of",
]
