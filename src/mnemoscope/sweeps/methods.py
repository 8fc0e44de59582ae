"""How the points of a sweep are chosen, by name. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Method:
    """One way to choose points."""

    summary: str
    cites: tuple[str, ...] = ()
    sampler: str = ""
    """Class in optuna.samplers (extra `sweep`); none: nothing that is told changes what is chosen."""
    counts: bool = False
    """Whether the sampler keeps count of its points in the storage, and draws at random where it cannot do better yet;
    else each point has a seed of its own."""
    options: Mapping[str, Any] = field(default_factory=dict)


METHODS = {
    "grid": Method("every combination of the values"),
    "random": Method("values drawn at random, independent of each other", ("bergstra2012",)),
    "tpe": Method("Optuna's tree-structured Parzen estimator", ("bergstra2011", "akiba2019"), "TPESampler",
                  options={"constant_liar": True}),
    "gp": Method("Optuna's Gaussian processes", ("snoek2012", "akiba2019"), "GPSampler"),
    "cma-es": Method(
        "Optuna's covariance matrix adaptation, for two or more numbers",
        ("hansen2001", "akiba2019"), "CmaEsSampler", counts=True,
    ),
    "qmc": Method(
        "Optuna's scrambled Sobol sequence, more even than random",
        ("sobol1967", "akiba2019"), "QMCSampler", counts=True, options={"scramble": True},
    ),
}  # fmt: skip
