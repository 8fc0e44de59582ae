"""Lenses on relational networks: relations, occlusion, drift and generalisation."""

from mnemoscope.lenses.relations.drift import (
    ConfusedPair as ConfusedPair,
    Drift as Drift,
    auc as auc,
    d_prime as d_prime,
    measure_drift as measure_drift,
)
from mnemoscope.lenses.relations.generalisation import (
    Generalisation as Generalisation,
    TrainedNetwork as TrainedNetwork,
)
from mnemoscope.lenses.relations.lens import record_relations as record_relations
from mnemoscope.lenses.relations.occlusion import (
    Occlusion as Occlusion,
    OcclusionLoss as OcclusionLoss,
    log_odds as log_odds,
    measure_occlusion as measure_occlusion,
)
from mnemoscope.lenses.relations.result import Relations as Relations
