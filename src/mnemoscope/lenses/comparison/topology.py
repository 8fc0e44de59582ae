"""Fixed points as the signature of a network: numbers, kinds, time constants and connections, at several inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import factorial, log10
from typing import Any

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.lenses.comparison.activity import inputs_of_each
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.lens import find_fixed_points
from mnemoscope.lenses.fixed_points.result import FixedPoints
from mnemoscope.lenses.fixed_points.starts import advance
from mnemoscope.lenses.recording import Recording

PUSH = 1e-3
"""Distance from a saddle, along its unstable direction, at which a trajectory starts."""
STEPS = 2000
"""Steps after which a trajectory must have reached a stable point."""
ARRIVED = 1e-2
"""Distance from a stable point, as a share of the distance between saddle and point, at which it is reached."""
LONGEST = 1e6
"""Time constants above this many steps count as equal."""


@dataclass(frozen=True)
class Point:
    """A fixed point, or all points of a continuum."""

    unstable: int
    """Number of unstable directions."""
    marginal: bool
    """Whether the linearisation is inconclusive, as on a line of points."""
    time_constant: float
    """Steps in which its slowest mode grows or decays by a factor e."""
    links: int
    """Number of stable points that the two branches of a saddle with one unstable direction reach; for a stable point,
    number of such branches that reach it."""

    @property
    def kind(self) -> str:
        if self.marginal:
            return "marginal"
        return "stable" if self.unstable == 0 else f"with {self.unstable} unstable"

    def cost(self, other: Point) -> float:
        """Return 1 for another kind of point, and at most 1/2 for other time constants and connections."""
        if (self.unstable, self.marginal) != (other.unstable, other.marginal):
            return 1.0
        decades = abs(log10(self.time_constant / other.time_constant))
        return 0.25 * min(1.0, decades) + 0.25 * (self.links != other.links)


Portrait = tuple[Point, ...]
"""The fixed points at one constant input."""


@torch.no_grad()
def compare_topology(
    systems: Sequence[Any], inputs: Any, names: Sequence[str], null: str, draws: int, seed: int
) -> dict[str, Any]:
    """Return the fields of a comparison of fixed points."""
    each = [_dynamics(system, given, name) for system, given, name in
            zip(systems, inputs_of_each(systems, inputs), names, strict=True)]  # fmt: skip
    number = len(each[0])
    if any(len(one) != number for one in each):
        raise ValueError("Fixed points are compared at corresponding inputs: pass as many for every network.")
    first = [[_portrait(dynamics, seed) for dynamics in one] for one in each]
    portraits = [[portrait for portrait, _ in one] for one in first]
    fields: dict[str, Any] = {
        "distances": _matrix(portraits, portraits),
        "signatures": tuple("; ".join(_in_words(portrait) for portrait in one) for one in portraits),
        "missing": tuple(name for name, one in zip(names, first, strict=True) if any(lost for _, lost in one)),
    }
    if draws:
        again = [[_portrait(dynamics, seed + 1)[0] for dynamics in one] for one in each]
        crossed = _matrix(portraits, again)
        fields |= {"within": crossed.diagonal()[None].clone(), "between": crossed.fill_diagonal_(torch.nan)[None]}
        surrogates = _exchanged(portraits, draws, seed) if null == "inputs" else _redrawn(portraits, draws, seed)
        if surrogates:
            distances = torch.stack([_matrix(portraits, other) for other in surrogates])
            distances.diagonal(dim1=1, dim2=2).fill_(torch.nan)
            fields |= {"null": distances, "null_kind": null}
    return fields


def portrait_distance(first: Portrait, second: Portrait) -> float:
    """Return the cost of the best matching of two sets of points, per point: 0 for equal sets, 1 for unlike ones.

    >>> stable, saddle = Point(0, False, 5.0, 1), Point(1, False, 5.0, 2)
    >>> portrait_distance((stable, stable, saddle), (stable,))
    0.66...
    """
    if not first or not second:
        return float(bool(first) != bool(second))
    costs = np.array([[a.cost(b) for b in second] for a in first])
    matched = costs[linear_sum_assignment(costs)].sum()
    return float(matched + abs(len(first) - len(second))) / max(len(first), len(second))


def _matrix(rows: list[list[Portrait]], columns: list[list[Portrait]]) -> Float[Tensor, "systems systems"]:
    """Return the mean distance over inputs of each system to each other one; the upper triangle, mirrored."""
    number = len(rows)
    square = torch.zeros(number, number, dtype=torch.float64)
    for i in range(number):
        for j in range(i, number):
            pairs = zip(rows[i], columns[j], strict=True)
            square[i, j] = square[j, i] = float(np.mean([portrait_distance(a, b) for a, b in pairs]))
    return square


def _dynamics(system: Any, inputs: Any, name: str) -> list[Dynamics]:
    """Return the network at each constant input."""
    if isinstance(system, Recording | Tensor | np.ndarray):
        raise ValueError(f"{name} is a recording, which has no fixed points: fit a network to it, or use method='dsa'.")
    if isinstance(system, Dynamics):
        if inputs is not None:
            raise ValueError(f"{name} is a Dynamics, which has its input: pass the network instead, or no inputs.")
        return [system]
    if inputs is None:
        return [Dynamics(system)]
    if inputs.dim() != 2:
        raise ValueError(
            f"Fixed points belong to constant inputs, (inputs, features), but the shape is {tuple(inputs.shape)}."
        )
    return [Dynamics(system, row) for row in inputs]


def _portrait(dynamics: Dynamics, seed: int) -> tuple[Portrait, bool]:
    """Return the points at one input, and whether some are certainly missing."""
    found = find_fixed_points(dynamics, seed=seed)
    slowest = found.time_constants.amax(1).nan_to_num(LONGEST, LONGEST).clamp(max=LONGEST).tolist()
    marginal = [kind == "marginal" for kind in found.kind]
    links = _links(dynamics, found)
    points = [
        Point(*facts) for facts in zip(found.unstable.tolist(), marginal, slowest, links, strict=True) if not facts[1]
    ]
    if any(marginal):  # their number is that of the starts: count a continuum once
        points.append(Point(0, True, LONGEST, 0))
    return tuple(points), found.may_be_complete is False


def _links(dynamics: Dynamics, found: FixedPoints) -> list[int]:
    """Return the number of connections of each point; trajectories start on both sides of each simple saddle."""
    kinds, unstable = found.kind, found.unstable.tolist()
    stable = [number for number, kind in enumerate(kinds) if kind == "stable"]
    saddles = [
        number
        for number, kind in enumerate(kinds)
        if kind in ("saddle", "unstable") and unstable[number] == 1 and found.eigenvalues[number, 0].imag == 0
    ]
    links = [0] * len(kinds)
    if not stable or not saddles or dynamics.continuous:
        return links
    states = found.states.to(dynamics.device)
    push = PUSH * found.eigenvectors[saddles, :, 0].real.to(states)
    ends = advance(dynamics, torch.cat([states[saddles] + push, states[saddles] - push]), STEPS)
    gaps = torch.cdist(ends, states[stable])
    scale = torch.cdist(states[saddles], states[stable]).repeat(2, 1)
    nearest = gaps.argmin(1, keepdim=True)
    arrived = gaps.gather(1, nearest) <= ARRIVED * scale.gather(1, nearest)
    targets = torch.where(arrived, nearest, -1)[:, 0].tolist()
    for target in targets:
        if target >= 0:
            links[stable[target]] += 1
    for place, number in enumerate(saddles):
        links[number] = len({targets[place], targets[place + len(saddles)]} - {-1})
    return links


def _redrawn(portraits: list[list[Portrait]], draws: int, seed: int) -> list[list[list[Portrait]]]:
    """Return portraits with as many points as before, each drawn from the points of all networks at all inputs."""
    generator = seeded_generator(seed)
    pool = [point for one in portraits for portrait in one for point in portrait]

    def draw(number: int) -> Portrait:
        return tuple(pool[place] for place in torch.randint(max(len(pool), 1), (number,), generator=generator).tolist())

    return [[[draw(len(portrait)) for portrait in one] for one in portraits] for _ in range(draws)]


def _exchanged(portraits: list[list[Portrait]], draws: int, seed: int) -> list[list[list[Portrait]]]:
    """Return the portraits in different orders of the inputs, without the given one."""
    generator, number, orders = seeded_generator(seed), len(portraits[0]), []
    while len(orders) < min(draws, factorial(number) - 1):
        order = torch.randperm(number, generator=generator).tolist()
        if order != list(range(number)) and order not in orders:
            orders.append(order)
    return [[[one[place] for place in order] for one in portraits] for order in orders]


def _in_words(portrait: Portrait) -> str:
    counts = Counter(point.kind for point in portrait)
    return ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items())) or "none"
