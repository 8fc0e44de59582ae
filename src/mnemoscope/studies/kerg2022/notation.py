"""Short notation for the claims and the presets of the studies of the thesis (Kerg 2022)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mnemoscope.registry.citations import Source
from mnemoscope.replication.claims import Subject
from mnemoscope.replication.study import Preset

Networks = Mapping[Subject, dict[str, Any]] | Mapping[str, dict[str, Any]] | Mapping[Subject | str, dict[str, Any]]
"""Changes of the run configuration by subject, or by the name of a network."""

TINY: dict[str, Any] = {"hidden_size": 12, "steps": 10, "evaluate_every": 5}
"""Settings of a smoke test that takes seconds."""


def thesis(place: str) -> Source:
    """Return a place in the thesis."""
    return Source("kerg2022thesis", place)


def preset(
    summary: str,
    networks: Networks,
    seeds: int = 1,
    fewer_seeds: Mapping[str, int] | None = None,
    *,
    first_seed: int = 0,
    **changes: Any,
) -> Preset:
    """Return a preset of a study that trains networks; `changes` of the run configuration apply to all of them.

    `fewer_seeds` is the number of seeds of slow networks, by name.
    """
    all_seeds = tuple(range(first_seed, first_seed + seeds))
    seeds_of = {network: all_seeds[:number] for network, number in (fewer_seeds or {}).items()}
    return Preset(summary, {"networks": networks, "changes": changes, "seeds": seeds_of}, all_seeds)


def recipe(
    cell: str, learning_rate: float, smoothing: float, orthogonal: float | None = None, **cell_options: Any
) -> dict[str, Any]:
    """Return a row of A.1 Tables 1, 2 and 4: the learning rates, of the orthogonal part last, and RMSprop's smoothing.

    >>> recipe("exprnn", 5e-4, 0.99, 5e-5, init="cayley")["orthogonal_learning_rate"]
    5e-05
    """
    rates = {"learning_rate": learning_rate, "orthogonal_learning_rate": orthogonal}
    return {"cell": cell, "smoothing": smoothing, "cell_options": cell_options, **rates}
