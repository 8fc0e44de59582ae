"""The map of the episodic memory and the recurrent network conjugate to it; stored, spurious and metastable memories.

Karuvally et al. 2023 define these memories in sections 1 and 2 and prove the conjugacy in section 4, without numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Complex
from mnemoscope.lenses import Dynamics, FixedPoints, classify_memories, find_fixed_points
from mnemoscope.registry.citations import Source
from mnemoscope.replication.agreement import at_least, at_most, exactly
from mnemoscope.replication.claims import EVERYTHING, Claim, Row, about, unpublished
from mnemoscope.replication.computed_study import ComputedStudy, spread
from mnemoscope.replication.study import Finished, Preset
from mnemoscope.studies.karuvally2023.sequence_recall import cyclic_memory
from mnemoscope.studies.karuvally2023.variable_binding import PAPER

ERROR, ALONE, MULTIPLIERS = "error of s f = g s", "fixed points of one system only", "difference of multipliers"
STORED, SPURIOUS, METASTABLE = "share of columns of Xi that are stable", "spurious memories", "metastable memories"
NEAR = 1e-6
"""Largest distance between two fixed points that are the same."""
GAINS = (0.0, 0.1, 0.2, 0.3, 0.4)
"""Strengths of Phi."""


def _cases(features: int, memories: int, networks: int, gains: Sequence[float] = GAINS) -> dict[str, Any]:
    cases = {
        about(gain=gain, label=f"gain {gain:g}"): {
            "gain": gain,
            "features": features,
            "memories": memories,
            "beta": 2.0,
            "networks": networks,
        }
        for gain in gains
    }
    return {"cases": cases}


class ConjugateMemories(ComputedStudy):
    """Find the fixed points of both systems for random memories, match them, and classify them."""

    name = "conjugate-memories"
    title = "Conjugate systems and kinds of memories"
    question = "Do the episodic memory and its recurrent network share their memories, and are all of them stored ones?"
    claims = (
        Claim(
            EVERYTHING,
            ERROR,
            "0",
            PAPER("section 4, Eq 12"),
            at_most(1e-12, "equal up to rounding in float64"),
            by_construction=True,
        ),
        Claim(EVERYTHING, ALONE, "none: all dynamical properties are shared", PAPER("section 4"), exactly(0)),
        Claim(
            EVERYTHING,
            MULTIPLIERS,
            "0: all dynamical properties are shared",
            PAPER("section 4"),
            at_most(NEAR, "the precision of the fixed points"),
        ),
        Claim(
            about(gain=0.0, label="gain 0"),
            STORED,
            "all, if the columns of Xi, which section 2 calls stored memories, are memories as section 1 defines them",
            Source("mnemoscope", "follows from sections 1 and 2 of Karuvally et al. 2023"),
            exactly(1.0, "each column has a stable fixed point that is nearer to it than to all others together"),
            reason="random columns overlap, and some that overlap with another by half or more are lost",
        ),
        Claim(
            EVERYTHING,
            SPURIOUS,
            "exist",
            PAPER("section 2"),
            at_least(1, "at least one in each network: a stable state that is not stored, for example -xi"),
            by_construction=True,  # tanh is odd, so that -xi is stable where xi is
        ),
        Claim(
            EVERYTHING,
            METASTABLE,
            "exist",
            PAPER("section 1"),
            at_least(1, "at least one among all networks: it is left, but holds for more than ten steps"),
        ),
    )
    presets: Mapping[str, Preset] = {
        "smoke": Preset("One network of 6 features without Phi.", _cases(6, 2, 1, (0.0,))),
        "cpu": Preset(
            "Ten networks of 12 features and 3 memories for each of five gains; a minute.", _cases(12, 3, 10)
        ),
        "paper": Preset("The same with 50 networks for each gain.", _cases(12, 3, 50)),
    }
    cites = ("karuvally2023",)
    lenses = ("fixed-points", "memory-classes")

    def compute(self, generator: torch.Generator, **case: Any) -> dict[str, Any]:
        error, alone, apart, kinds, overlaps = 0.0, 0, 0.0, [], []
        for _ in range(case["networks"]):
            shape = case["features"], case["memories"]
            patterns = 2.0 * torch.randint(0, 2, shape, generator=generator).double() - 1
            memory = cyclic_memory(patterns, case["gain"], case["beta"])
            states = torch.randn(100, case["features"], generator=generator).double()
            no_input = torch.zeros_like(states)
            with torch.no_grad():
                potentials, rates = memory.discrete(), memory.conjugate()
                mapped = memory.sigma_f(potentials(no_input, states))
                error = max(error, float((mapped - rates(no_input, memory.sigma_f(states))).abs().max()))
            first, second = (find_fixed_points(Dynamics(system)) for system in (potentials, rates))
            unmatched, difference = _compare(first, second, memory.sigma_f(first.states))
            alone, apart = alone + unmatched, max(apart, difference)
            overlaps.append(float((patterns.mT @ patterns).fill_diagonal_(0).abs().max() / case["features"]))
            kinds.append(dict(Counter(name.split()[0] for name in classify_memories(memory, first).names)))
        return {"error": error, "alone": alone, "multipliers": apart, "kinds": kinds, "overlaps": overlaps}

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        kinds = [kind for finished in results for kind in finished.result["kinds"]]
        every = [self.claim(quantity) for quantity in (ERROR, ALONE, MULTIPLIERS, SPURIOUS, METASTABLE)]
        errors, alone, apart = (
            [finished.result[key] for finished in results] for key in ("error", "alone", "multipliers")
        )
        spurious = [sum(kind.get(name, 0) for name in ("reversed", "mixture", "unrelated")) for kind in kinds]
        metastable = sum(kind.get("metastable", 0) for kind in kinds)
        holders = f"in {sum('metastable' in kind for kind in kinds)} of {len(kinds)} networks"
        reversed_only = sum(kind.get("reversed", 0) for kind in kinds)
        remark = f"{reversed_only} are -xi, {sum(spurious) - reversed_only} mixtures or unrelated to the memories"
        rows = [
            self.compare(results, every[0], errors, f"{max(errors):.1e}", "s is tanh"),
            self.compare(results, every[1], alone, str(sum(alone)), f"{len(kinds)} networks"),
            self.compare(results, every[2], apart, f"{max(apart):.1e}", "all multipliers of each fixed point"),
            self.compare(results, every[3], spurious, f"{sum(spurious)} ({spread(spurious)} per network)", remark),
            self.compare(results, every[4], [metastable], str(metastable), holders),
        ]
        for finished in results:
            memories = finished.trial.settings["memories"]
            shares = [kind.get("stored", 0) / memories for kind in finished.result["kinds"]]
            name, ours = f"{finished.trial.name}: {STORED}", f"{sum(shares) / len(shares):.0%}"
            pairs = [*zip(shares, finished.result["overlaps"], strict=True)]
            groups = {"all": [o for share, o in pairs if share == 1], "not all": [o for share, o in pairs if share < 1]}
            remark = "largest overlap of two columns " + ", ".join(
                f"{spread(values, '.2g')} where {group} are" for group, values in groups.items() if values
            )
            claim = self.find_claim(STORED, finished.trial.subject)
            rows.append(
                unpublished(name, ours, remark)
                if claim is None
                else self.compare([finished], claim, shares, ours, remark, name)
            )
        return rows


def _compare(first: FixedPoints, second: FixedPoints, images: Tensor) -> tuple[int, float]:
    """Return the number of unmatched points, and the largest difference of a multiplier between matched ones."""
    close = torch.cdist(images, second.states) < NEAR
    unmatched = int((~close.any(1)).sum() + (~close.any(0)).sum())
    one, other = (torch.linalg.eigvals(points.jacobians) for points in (first, second))
    differences = [spectral_difference(one[i], other[j]) for i, j in close.nonzero().tolist()]
    return unmatched, max(differences, default=0.0)


def spectral_difference(first: Complex[Tensor, " size"], second: Complex[Tensor, " size"]) -> float:
    """Return the largest distance between two sets of eigenvalues, paired so that the distances are small together.

    >>> round(spectral_difference(torch.tensor([2.0, 1j]), torch.tensor([1j, 2.5])), 6)
    0.5
    """
    from scipy.optimize import linear_sum_assignment  # takes a third of a second

    distances = (first[:, None] - second).abs()
    return float(distances[linear_sum_assignment(distances.numpy())].max())


STUDY = ConjugateMemories()
