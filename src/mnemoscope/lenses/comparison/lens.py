"""The comparison lens: distances between networks or recordings, with null distributions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, Literal

import numpy as np
import torch
from torch import Generator, Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.progress import show_slow, slow_bar
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.base.validation import check_whole, is_number
from mnemoscope.cells import Lengths
from mnemoscope.lenses.comparison.activity import Inputs, lengths_of, read_systems
from mnemoscope.lenses.comparison.methods import GEOMETRIES, Dynamical, Geometry, InputDriven, Method
from mnemoscope.lenses.comparison.operators import (
    default_delays,
    default_rank,
    principal_embeddings,
)
from mnemoscope.lenses.comparison.result import Comparison
from mnemoscope.lenses.comparison.surrogates import SURROGATES, draw_surrogate
from mnemoscope.lenses.comparison.topology import compare_topology
from mnemoscope.lenses.recording import Recording

SCORES = {
    "dsa": ("angular", "euclidean", "wasserstein"),
    "input-dsa": ("angular", "euclidean"),
    "procrustes": ("angular", "euclidean"),
    "cka": ("angular", "euclidean"),
    "topology": ("matching",),
}
"""Scores of each method; the first one is the default."""
TOGETHER = 5
"""Draws whose alignments are computed in one batch."""
NULLS = {"dsa": "shuffle", "input-dsa": "shuffle", "procrustes": "shift", "cka": "shift", "topology": "points"}
"""Default null distribution of each method."""


@show_slow("comparison")
def compare(
    systems: Sequence[Any],
    inputs: Inputs = None,
    *,
    method: Literal["dsa", "input-dsa", "procrustes", "cka", "topology"] = "dsa",
    names: Sequence[str] | None = None,
    groups: Sequence[str] | None = None,
    score: Literal["angular", "euclidean", "wasserstein", "matching"] | None = None,
    delays: int | None = None,
    interval: int = 1,
    rank: int | None = None,
    ridge: float = 1e-8,
    starts: int = 8,
    null: Literal["shift", "shuffle", "phase", "points", "inputs"] | None = None,
    draws: int = 20,
    lengths: Lengths | None = None,
    seed: int = 0,
) -> Comparison:
    """Compare networks, or recordings, or both: their dynamics, their geometry or their fixed points.

    Args:
        systems: two or more networks, recordings, or arrays of activity (time, trials, units), with NaN after the end
            of a trial. Systems may differ in their numbers of units.
        inputs: trials (time, trials, features) on which all networks are run, in the layout of each network, or a list
            with the inputs of each system. For "topology": constant inputs (inputs, features), zeros by default, such
            as the values of a stimulus in order.
        method: "dsa" compares linear operators of the delay-embedded activity up to an orthogonal matrix (Ostrow et al.
            2023), "input-dsa" operators of state and input together (Huang et al. 2025). "procrustes" and "cka" compare
            the states at the same steps of the same trials. "topology" compares numbers, kinds, time constants and
            connections of fixed points.
        names: name of each system; by default its number.
        groups: group of each system, such as "gru" and "lstm", where the systems of a group differ in their seeds.
        score: "angular", the default, or "euclidean", for operators and states of norm 1 (of InputDSA: not scaled);
            for DSA also "wasserstein", the mean squared distance of matched eigenvalues.
        delays: number of delays of DSA, and number of past and of future steps of InputDSA. By default 10, or a
            third of the shortest trial.
        interval: steps between two delays of DSA.
        rank: size of the operators. By default each system has as many coordinates as lie above noise and keep 99.99%
            of its variance, 10 at most.
        ridge: penalty of the regression.
        starts: random starts of an alignment in DSA, in addition to four that come from eigenvalues.
        null: surrogates of the null distribution: "shuffle", the steps of each trial in random order; "shift", trials
            exchanged and shifted in time; "phase", units with random phases; for "topology": "points" drawn from those
            of all networks, or "inputs" exchanged.
        draws: number of surrogates, and of random halves of the data; 0 for none. Shares below 0.05 need 19 or more.
        lengths: number of steps of each trial of the networks.
        seed: seed of surrogates, halves, starts and searches.

    The same rotation, seen by other units, and a rotation of another speed:

    >>> import mnemoscope as ms
    >>> time = torch.arange(60.0, dtype=torch.float64)[:, None] + torch.arange(8.0)
    >>> slow = torch.stack([(0.2 * time).sin(), (0.2 * time).cos()], 2)
    >>> fast = torch.stack([(0.5 * time).sin(), (0.5 * time).cos()], 2)
    >>> mixed = slow @ torch.tensor([[0.6, 0.8, 0.0], [-0.8, 0.6, 1.0]], dtype=torch.float64)
    >>> found = compare([slow, mixed, fast], names=["slow", "mixed", "fast"])
    >>> [verdict for verdict in found.verdicts.values()]
    ['same', 'unrelated', 'unrelated']

    """
    systems = list(systems)
    if len(systems) < 2:
        raise ValueError(f"A comparison needs two systems or more, but {len(systems)} was given.")
    if method not in SCORES:
        raise ValueError(f"method must be one of {', '.join(SCORES)}, but is {method!r}.")
    scored = score or SCORES[method][0]
    kind = null or NULLS[method]
    _check(method, scored, kind, interval, starts, draws, ridge)
    if names is not None and len(set(names)) < len(names):
        raise ValueError(f"Every system needs a name of its own, but the names are {', '.join(map(str, names))}.")
    labels = _labels("names", names, len(systems)) or tuple(str(number) for number in range(len(systems)))
    facts: dict[str, Any] = {"groups": _labels("groups", groups, len(systems)), "method": method, "score": scored}
    if method == "topology":
        return Comparison(
            names=labels, seed=seed, **facts, **compare_topology(systems, inputs, labels, kind, draws, seed)
        )
    recordings = read_systems(systems, inputs, lengths)
    chosen, features, settings = _method(method, scored, recordings, delays, interval, rank, ridge, starts, seed)
    distances, details = _all_pairs(chosen, features)
    generator = seeded_generator(seed)
    return Comparison(
        names=labels,
        distances=distances,
        seed=seed,
        **facts,
        **details,
        **settings,
        **_null(chosen, features, recordings, kind, draws, generator),
        **_halves(chosen, recordings, method, draws, generator),
    )


def _check(method: str, score: str, null: str, interval: int, starts: int, draws: int, ridge: float) -> None:
    if score not in SCORES[method]:
        raise ValueError(f"{method} has the scores {', '.join(SCORES[method])}, but {score!r} was given.")
    kinds = ("points", "inputs") if method == "topology" else tuple(SURROGATES)
    if null not in kinds:
        raise ValueError(f"{method} has the null distributions {', '.join(kinds)}, but {null!r} was given.")
    check_whole(1, interval=interval)
    check_whole(0, starts=starts, draws=draws)
    if not is_number(ridge) or ridge < 0:
        raise ValueError(f"ridge must be 0 or positive, but is {ridge!r}.")


def _labels(what: str, given: Sequence[str] | None, number: int) -> tuple[str, ...]:
    if given is None:
        return ()
    if len(given) != number:
        raise ValueError(f"There are {number} systems, but {len(given)} {what}.")
    return tuple(str(label) for label in given)


def _method(
    method: str,
    score: str,
    recordings: list[Recording],
    delays: int | None,
    interval: int,
    rank: int | None,
    ridge: float,
    starts: int,
    seed: int,
) -> tuple[Method, list[Any], dict[str, Any]]:
    """Return the method with its settings, the feature of each recording, and the settings that the result keeps."""
    numbers = range(len(recordings))
    if method in GEOMETRIES:
        _check_correspondence(recordings)
        geometry = Geometry(GEOMETRIES[method], score)
        return geometry, geometry.features(recordings, numbers), {}
    if method == "input-dsa" and any(recording.inputs is None for recording in recordings):
        raise ValueError("InputDSA needs the inputs of every system: pass inputs=..., one for all or a list.")
    delays = _delays(recordings) if delays is None else delays
    check_whole(1, delays=delays, **({} if rank is None else {"rank": rank}))
    largest = delays * max(recording.size for recording in recordings)
    if rank is not None and rank > largest:
        raise ValueError(f"rank={rank} exceeds {largest}, the number of delays times that of the units: lower it.")
    embeddings = []
    if method == "dsa" or rank is None:
        embeddings = principal_embeddings([recording.activity for recording in recordings], delays, interval, rank)
    ranks = [default_rank(embedding) for embedding in embeddings] if rank is None else [rank] * len(recordings)
    settings: dict[str, Any] = {"delays": delays, "rank": max(ranks)}
    if method == "input-dsa":
        driven = InputDriven(delays, max(ranks), ridge, score)
        return driven, driven.features(recordings, numbers), settings
    kept = [each.variance(number) for each, number in zip(embeddings, ranks, strict=True)]
    settings["variance"] = torch.from_numpy(np.array(kept))
    settings["ranks"] = tuple(ranks)
    dynamical = Dynamical(delays, interval, tuple(ranks), ridge, score, starts, seed)
    return dynamical, dynamical.read(embeddings, numbers), settings


def _delays(recordings: list[Recording]) -> int:
    lengths = torch.cat([lengths_of(recording) for recording in recordings])
    return default_delays(int(lengths[lengths > 0].min()))  # a trial without any step has none to embed


def _check_correspondence(recordings: list[Recording]) -> None:
    first = recordings[0].present
    for number, recording in enumerate(recordings):
        if recording.present.shape != first.shape or not torch.equal(recording.present, first):
            raise ValueError(
                f"Procrustes and CKA compare states at the same steps of the same trials, but system {number} has "
                f"other steps or trials than system 0. Average its trials by condition, or use method='dsa'."
            )


def _all_pairs(method: Method, features: list[Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the matrix of distances, and matrices of further numbers by name."""
    pairs = list(combinations(range(len(features)), 2))
    values, details = method.distances([features[i] for i, _ in pairs], [features[j] for _, j in pairs])
    return _square(values, len(features), 0.0), {
        name: _square(each, len(features), 1.0 if name == "agreement" else 0.0) for name, each in details.items()
    }


def _square(values: Tensor, number: int, diagonal: float) -> Float[Tensor, "systems systems"]:
    square = np.full((number, number), diagonal)
    for (i, j), value in zip(combinations(range(number), 2), values.tolist(), strict=True):
        square[i, j] = square[j, i] = value
    return torch.from_numpy(square)


def _null(
    method: Method, features: list[Any], recordings: list[Recording], kind: str, draws: int, generator: Generator
) -> dict[str, Any]:
    """Return the distances between each system and surrogates of each later one."""
    if not draws:
        return {}
    number, pairs = len(recordings), list(combinations(range(len(recordings)), 2))
    values = []
    for together in _rounds(draws, "surrogates"):
        surrogates = [draw_surrogate(each, kind, generator) for _ in range(together) for each in recordings]
        drawn = method.features(surrogates, [*range(number)] * together)
        first = [features[i] for _ in range(together) for i, _ in pairs]
        second = [drawn[number * draw + j] for draw in range(together) for _, j in pairs]
        values.append(method.distances(first, second)[0].reshape(together, len(pairs)))
    squares = torch.stack([_square(row, number, torch.nan) for row in torch.cat(values)])
    return {"null": squares, "null_kind": kind}


def _halves(method: Method, recordings: list[Recording], name: str, draws: int, generator: Generator) -> dict[str, Any]:
    """Return the distances between halves of the same system, and between halves of different systems."""
    parts = min(recording.size if name in GEOMETRIES else recording.trials for recording in recordings)
    if not draws or parts < 2:
        return {}
    number, pairs = len(recordings), list(combinations(range(len(recordings)), 2))
    alone = [(i, i) for i in range(number)]
    rows = []
    for together in _rounds(draws, "halves"):
        halves = [method.halves(each, generator) for _ in range(together) for each in recordings]
        numbers = [*range(number)] * together
        one, other = (method.features([pair[side] for pair in halves], numbers) for side in (0, 1))
        compared = [(draw + i, draw + j) for draw in range(0, len(halves), number) for i, j in (*alone, *pairs)]
        first, second = [one[i] for i, _ in compared], [other[j] for _, j in compared]
        rows.append(method.distances(first, second)[0].reshape(together, number + len(pairs)))
    values = torch.cat(rows)
    between = torch.stack([_square(row, number, torch.nan) for row in values[:, number:]])
    return {"within": values[:, :number].clone(), "between": between}


def _rounds(draws: int, description: str) -> Iterator[int]:
    """Return the number of draws that are computed together in each round, behind a progress bar."""
    for start in slow_bar(range(0, draws, TOGETHER), description, shown=True):
        yield min(TOGETHER, draws - start)
