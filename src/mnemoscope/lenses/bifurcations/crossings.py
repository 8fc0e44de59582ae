"""Crossings of -1 and of complex pairs: no other branch takes part in them, the eigenvalues alone tell."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from scipy.optimize import brentq

from mnemoscope.lenses.bifurcations.branch_tracker import Follower
from mnemoscope.lenses.bifurcations.branches import Node, Track
from mnemoscope.lenses.bifurcations.continuation_points import Place
from mnemoscope.lenses.bifurcations.events import Bifurcation, Happening
from mnemoscope.lenses.bifurcations.leading import growth, leading_eigenvalues

REAL = 1e-6
"""An eigenvalue with a smaller imaginary part counts as real."""


def other_crossings(follower: Follower, number: int, track: Track) -> list[Bifurcation]:
    """Crossings of -1 and of complex pairs, by the number of unstable directions between counted places."""
    found = []
    ends = [end.place for end in (track.born, track.died) if end is not None]
    sides = [node for pair in track.crossings for node in pair]
    counted = [node for node in [*track.nodes, *ends, *sides] if node.unstable >= 0 and node.index != 0]
    counted.sort(key=lambda node: node.at)
    for a, b in pairwise(counted):
        if a.unstable == b.unstable or a.index != b.index:
            continue
        mode, most = sorted((a.unstable, b.unstable))
        while mode < most:
            before, after, value = _locate(follower, a, b, mode)
            track.nodes += [side for side in (before, after) if side is not a and side is not b]
            name, crossing = _named(value, follower.tracer.system(a.at).continuous)
            found.append(
                Bifurcation(name, crossing, (Happening("crossed", number, before.at, after.at, before, after),))
            )
            mode += 2 if crossing != "-1" else 1  # complex values, and crossings that keep the index, come in pairs
    return found


def _locate(follower: Follower, a: Node, b: Node, mode: int) -> tuple[Node, Node, complex]:
    """Places before and after the eigenvalue that is `mode`-th by growth becomes (un)stable, and its value there.

    Growth in descending order is continuous in the parameter, whatever the eigenvalues do; it has a root in between.
    """
    tracer, start = follower.tracer, follower.place_of(a)
    values: dict[float, complex] = {}

    def place(at: float) -> Place:
        way = None if start is None else tracer.advance(start, at)
        if way is None or not way.arrived:
            raise RuntimeError
        return way.end

    def excess(at: float) -> float:
        system = tracer.system(at)
        leading, _ = leading_eigenvalues(place(at).jacobian, system.continuous)
        last = min(mode, len(leading) - 1)  # where fewer are returned, the last one is stable, and so is this one
        values[at] = complex(leading[last])
        return float(growth(leading, system.continuous)[last])

    try:
        solution: Any = brentq(excess, a.at, b.at, xtol=tracer.tolerance / 4)
        root = float(solution)
        low, high = max(a.at, root - tracer.tolerance / 2), min(b.at, root + tracer.tolerance / 2)
        before = a if low == a.at else follower.node(place(low), count=True)
        after = b if high == b.at else follower.node(place(high), count=True)
    except (RuntimeError, ValueError):  # the branch could not be followed here: then the bracket is all that is known
        return a, b, complex("nan")
    return before, after, values[min(values, key=lambda at: abs(at - root))]


def _named(value: complex, continuous: bool) -> tuple[str, str]:
    """The bifurcation in which this eigenvalue crosses, and what it crosses."""
    if value != value:
        return "unknown", "unknown"
    if abs(value.imag) > REAL:
        return ("Hopf", "imaginary pair") if continuous else ("Neimark-Sacker", "complex pair")
    if not continuous and value.real < 0:
        return "flip", "-1"
    return "double", "0 twice" if continuous else "+1 twice"
