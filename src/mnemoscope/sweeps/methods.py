"""How the points of a sweep are chosen, by name. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Method:
    """One way to choose points; what it is and whom to cite for it is in the registry (`registry.searches`)."""

    sampler: str = ""
    """Class in optuna.samplers (extra `sweep`); none: nothing that is told changes what is chosen."""
    counts: bool = False
    """Whether the sampler keeps count of its points in the storage, and draws at random where it cannot do better yet;
    else each point has a seed of its own."""
    options: Mapping[str, Any] = field(default_factory=dict)


METHODS = {
    "grid": Method(),
    "random": Method(),
    "tpe": Method("TPESampler", options={"constant_liar": True}),
    "gp": Method("GPSampler"),
    "cma-es": Method("CmaEsSampler", counts=True),
    "qmc": Method("QMCSampler", counts=True, options={"scramble": True}),
}
