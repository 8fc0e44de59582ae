"""Search methods by name: how the points of a sweep are chosen. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Method:
    """A search method. Its summary and the works to cite are in the registry (`registry.searches`)."""

    sampler: str = ""
    """Class in optuna.samplers (extra `sweep`); "": the points do not depend on earlier results."""
    counts: bool = False
    """Whether the sampler counts its points in the storage, and draws at random until it has enough of them. Any other
    sampler gets a new seed for each point."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the sampler."""


METHODS = {
    "grid": Method(),
    "random": Method(),
    "tpe": Method("TPESampler", options={"constant_liar": True}),
    "gp": Method("GPSampler"),
    "cma-es": Method("CmaEsSampler", counts=True),
    "qmc": Method("QMCSampler", counts=True, options={"scramble": True}),
}
"""Search methods by name."""
