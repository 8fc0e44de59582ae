"""What relational networks compare, what their decoders read, and how well they keep unseen objects apart."""

from mnemoscope.analysis.relational.drift import Drift, auc, d_prime, drift
from mnemoscope.analysis.relational.generalisation import Generalisation, Trained
from mnemoscope.analysis.relational.looking import Relations, relations
from mnemoscope.analysis.relational.occlusion import Loss, Occlusion, log_odds, occlusion

__all__ = [
    "Drift",
    "Generalisation",
    "Loss",
    "Occlusion",
    "Relations",
    "Trained",
    "auc",
    "d_prime",
    "drift",
    "log_odds",
    "occlusion",
    "relations",
]
