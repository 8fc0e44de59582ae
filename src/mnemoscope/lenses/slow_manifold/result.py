"""The result of the slow-manifold lens: the shape of the memory, its drift, and how long it holds a value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import expm1, inf, isfinite, log, log1p, nan, pi, sqrt
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.lenses.fixed_points.result import FixedPoints
from mnemoscope.lenses.result import Result

NAMED = ("line", "ring", "plane", "sphere", "torus")
"""Topologies of a continuous slow manifold that are distinguished."""

EULER = {"ring": 0, "sphere": 2, "torus": 0}
"""Euler characteristic of closed manifolds: the sum of the indices of all rest points (Poincaré & Hopf)."""

WEAKEST = 1e-6
"""Largest share per step by which the drift may seem to shrink differences where it does not."""


@dataclass(frozen=True, repr=False)
class SlowManifold(Result):
    """A set of states on which a network moves so slowly that it holds a value there.

    The truth value of the result is True if a continuous manifold was found; `reason` explains a failure. Positions,
    drift and errors describe the largest group of states, the manifold. Errors are shares of its `range`.
    """

    noun: ClassVar[str] = "a slow manifold"
    drawn_by: ClassVar[str] = "draw_slow_manifold"

    kept: Bool[Tensor, " starts"]
    """Which starts became as slow as `speed`."""
    diverged: int
    """Number of starts that left to infinity or became undefined."""
    states: Float[Tensor, "kept size"]
    """The settled state of each start that was kept."""
    speeds: Float[Tensor, " kept"]
    """Length of the next step from each of them."""
    speed: float
    """Largest speed of a state that counts as slow, per step."""
    speed_chosen: bool
    """Whether `speed` was chosen by the lens."""
    settling: int
    """Steps that all starts settled for."""
    plateau: bool
    """Whether the speeds were constant by then; otherwise fast motion may be left in the drift."""
    size_kept: float
    """Spread of the settled states, as a share of that of the starts: near 0 if all contract to one point."""
    size_kept_longer: float
    """Spread of the settled states, as a share of that after half of the settling."""
    reason: str
    """Why no continuous slow manifold is claimed; empty if one is."""
    filled: Float[Tensor, "filled size"]
    """Slow states found in gaps between the settled ones, which help to see the shape."""
    group: Int[Tensor, " kept"]
    """Separate group of each state, from the largest to the smallest; 0 is the manifold."""
    topologies: tuple[str, ...]
    """Topology of each group: point, line, ring, plane, sphere, torus or undecided."""
    dimensions: tuple[int, ...]
    """Dimension of each group."""
    doubts: tuple[str, ...]
    """Why the topology of a group is undecided; may be empty."""
    agreement: float
    """Share of random subsamples of the manifold's states that have the same topology."""
    diameter: float
    """Largest distance between two states of the manifold."""
    gap: float
    """Widest gap between neighbouring landmarks of the manifold, as a share of its diameter."""
    loops: Float[Tensor, "loops 2"]
    """Longest bars of persistent homology in degree 1, (birth, death) as shares of the diameter."""
    hollows: Float[Tensor, "hollows 2"]
    """Longest bars in degree 2; empty for a curve."""
    range: float
    """Length of a line or ring; diameter of a surface."""
    positions: Float[Tensor, "members dims"]
    """Coordinates of the manifold's states, kept and filled: arc length on a curve, otherwise the state itself."""
    drift: Float[Tensor, "members dims"]
    """Motion along the manifold in one step, in these coordinates."""
    curve: Float[Tensor, "vertices size"]
    """Vertices of the line or ring in order; empty for other shapes."""
    rests: Float[Tensor, " rests"]
    """Positions of the fixed points on a line or ring, in order."""
    rests_stable: Bool[Tensor, " rests"]
    """Whether the drift leads towards each of them."""
    delays: tuple[int, ...]
    """Delays in steps at which errors are given; empty if nothing was found."""
    predicted: Float[Tensor, " delays"]
    """Mean error that the drift predicts."""
    measured: Float[Tensor, " delays"]
    """Mean error of the network itself."""
    bound: Float[Tensor, " delays"]
    """Upper bound of the error: delay times largest drift (Ságodi et al. 2024)."""
    tolerance: float
    """Error at which a value counts as lost."""
    lifetime: float
    """Predicted delay at which the mean error reaches the tolerance; infinite if it never does."""
    noise: float = nan
    """Standard deviation of the noise per step and number of the state."""
    diffusion: float = nan
    """Predicted variance along the manifold that a step of this noise adds, in units of the state."""
    diffusion_measured: float = nan
    """The same, from the spread of simulated states."""
    fixed_points: FixedPoints | None = None
    """Fixed points near the manifold."""
    dt: float | None = None
    """Length of a step of a flow; None for a map."""
    window: int = 1
    """Steps over which states are averaged: the network oscillates around the value that it holds; 1 if it does not."""
    doubtful: Float[Tensor, " doubtful"] = field(default_factory=lambda: torch.zeros(0, dtype=torch.float64))
    """Positions on a line or ring at which the estimated drift changes sign, but no fixed point was found."""
    shorter_steps: int | None = None
    """The `steps` that describe a memory too short to count, which the states pass on their way; None without one."""
    stretch: float = nan
    """Largest factor per step by which the drift stretches small differences along the manifold; below 1 it shrinks
    them everywhere."""

    def __bool__(self) -> bool:
        return not self.reason

    def __len__(self) -> int:
        """Return the number of starts that were kept."""
        return len(self.states)

    @property
    def topology(self) -> str:
        """Topology of the manifold, or "none"."""
        return self.topologies[0] if self else "points" if self.isolated > 1 else "none"

    @property
    def dimension(self) -> int:
        """Dimension of the manifold; 0 without a manifold."""
        return self.dimensions[0] if self else 0

    @property
    def isolated(self) -> int:
        """Number of isolated points at which states rest or creep."""
        return self.topologies.count("point")

    @property
    def share(self) -> float:
        """Share of the starts that end on the manifold; 0 without a manifold."""
        return float((self.group == 0).sum()) / len(self.kept) if self else 0.0

    @property
    def consistent(self) -> bool:
        """Whether the network moves as the drift predicts: errors within a factor of 2, or below a percent."""
        larger, smaller = torch.maximum(self.predicted, self.measured), torch.minimum(self.predicted, self.measured)
        return bool(((larger <= 2 * smaller) | (larger <= 0.01)).all())

    @property
    def rests_alternate(self) -> bool:
        """Whether stable and unstable rests alternate along a line or ring, as they must if none is missing."""
        stable = self.rests_stable
        following = torch.cat([stable[1:], stable[:1]]) if self.topology == "ring" else stable[1:]
        return bool((stable[: len(following)] != following).all())

    @property
    def restores(self) -> bool:
        """Whether the drift pulls all values together, as it can only on a line or plane with at most one rest."""
        rests = len(self.doubtful) + (0 if self.fixed_points is None else len(self.fixed_points))
        return self.topology in ("line", "plane") and rests <= 1 and self.stretch < 1 - WEAKEST

    @property
    def noise_lifetime(self) -> float:
        """Delay up to which the mean error that noise adds stays below the tolerance.

        It is infinite if noise never adds as much, and NaN if it was not examined. The error that noise adds is the
        distance d between a noisy value and one without noise. Noise adds the variance D to it in a step, the
        `diffusion`, and the drift changes it by at most the factor a, the `stretch`, or 1 if that is below 1 without
        `restores`. So d is no larger on average than in an autoregressive process (Ornstein & Uhlenbeck in discrete
        time) with the variance

            V(k) = D (1 + a^2 + ... + a^(2 k - 2)) = D (a^(2 k) - 1) / (a^2 - 1),

        which is D k for a = 1 and stays below D / (1 - a^2) for a < 1. On a curve its mean is sqrt(2 V / pi), and on a
        surface at most sqrt(V). The lifetime is the k at which this is the tolerance. It is exact for Gaussian noise
        and a linear drift; for any other drift it is a lower bound, as far as no state between the 40 that were
        examined has a larger stretch.
        """
        if not isfinite(self.diffusion) or not isfinite(self.stretch):
            return nan
        variance = (self.tolerance * self.range / self._mean_of_noise) ** 2
        if self.diffusion == 0 or self.noise_limit <= self.tolerance:
            return inf
        rate = self._noise_rate
        if rate == 0:
            return variance / self.diffusion
        return log1p(variance * expm1(rate) / self.diffusion) / rate

    @property
    def noise_limit(self) -> float:
        """Share of the range that the mean error by noise never exceeds; infinite unless the drift restores."""
        if not self.restores:
            return inf
        return self._mean_of_noise * sqrt(self.diffusion / -expm1(self._noise_rate)) / self.range

    def noise_errors(self, delays: np.ndarray) -> np.ndarray:
        """Return the mean error that noise adds after each delay, as in `noise_lifetime`, as shares of the range."""
        rate = self._noise_rate
        with np.errstate(over="ignore"):
            variance = self.diffusion * (np.expm1(rate * delays) / expm1(rate) if rate else delays)
        return self._mean_of_noise * np.sqrt(variance) / self.range

    @property
    def _noise_rate(self) -> float:
        """Logarithm of a^2 in `noise_lifetime`."""
        rate = 2 * log(max(self.stretch, 1e-12))
        return rate if self.restores else max(0.0, rate)

    @property
    def _mean_of_noise(self) -> float:
        """Largest mean length of Gaussian noise of variance 1 along the manifold."""
        return sqrt(2 / pi) if self.positions.shape[1] == 1 else 1.0

    @property
    def unit(self) -> str:
        """Unit of time."""
        return "steps" if self.dt is None else f"steps of {self.dt:g}"

    @property
    def verdict(self) -> str:
        """One sentence on the shape of the memory, for the head of a page."""
        if not self:
            return f"No slow manifold: {self.reason}."
        name = f"a {self.topology}" if self.topology in NAMED else f"a set of dimension {self.dimension}"
        text = f"{_share(self.share)} of {len(self.kept)} starts settle on a slow manifold, {name}, "
        if not self.consistent:
            return f"{text}but the network does not move on it as its drift predicts: how long it lasts is unknown."
        if self.lifetime == inf:
            return f"{text}on which the mean error of a value stays below {self.tolerance:.0%} of its range."
        held = f"for about {_digits(self.lifetime)} {self.unit}"
        return f"{text}which holds a value to {self.tolerance:.0%} of its range {held}."

    def error_text(self, error: float) -> str:
        """Return an error as degrees of a ring, or as a percentage of the range."""
        return f"{360 * error:.2g}°" if self.topology == "ring" else f"{error:.2%}"

    def summary(self) -> str:
        """Return the shape, the evidence for it, the drift and the errors, in sentences."""
        return " ".join(sentence for sentence in _sentences(self) if sentence)


def _sentences(result: SlowManifold) -> Iterator[str]:
    starts = len(result.kept)
    if not result:
        yield result.verdict
        return
    yield _shape_sentence(result, starts)
    yield (
        f"It keeps {result.size_kept:.3g} of the spread of the starts after {result.settling} steps, and "
        f"{result.size_kept_longer:.3g} of that after half as many; slow means at most {result.speed:.2g} per step"
        + (" (chosen)." if result.speed_chosen else ".")
    )
    if result.window > 1:
        yield (
            f"The states oscillate around the value that they hold: all this describes their means over "
            f"{result.window} steps."
        )
    if not result.plateau:
        yield "The speeds were still falling at the end, so the drift may be overestimated: settle longer."
    if result.topology == "undecided":
        yield f"Its shape is undecided: {result.doubts[0]}."
    yield from _drift_sentences(result)
    others = len(result.topologies) - 1
    if others:
        members = int((result.group > 0).sum())
        yield f"{members} further state{'s' * (members > 1)} form {others} separate group{'s' * (others > 1)}."
    fast = starts - result.diverged - len(result)
    if fast:
        yield f"{fast} of {starts} starts stay faster."
    if result.diverged:
        yield f"{result.diverged} of {starts} starts diverged."


def _shape_sentence(result: SlowManifold, starts: int) -> str:
    members = int((result.group == 0).sum())
    kind = f"a {result.topology}" if result.topology in NAMED else f"a set of dimension {result.dimension}"
    evidence = [f"widest gap {result.gap:.2f} of its diameter"]
    if len(result.loops):
        evidence.append(f"longest bar in H1 {float(result.loops[0, 1] - result.loops[0, 0]):.2f}")
    if len(result.hollows):
        evidence.append(f"in H2 {float(result.hollows[0, 1] - result.hollows[0, 0]):.2f}")
    evidence.append(f"{result.agreement:.0%} of subsamples agree")
    return f"{members} of {starts} starts settle on a slow manifold, {kind} ({', '.join(evidence)})."


def _drift_sentences(result: SlowManifold) -> Iterator[str]:
    if len(result.delays):
        errors = "; ".join(
            f"{delay} {result.unit}: {result.error_text(float(p))} predicted, {result.error_text(float(m))} measured"
            for delay, p, m in zip(result.delays, result.predicted, result.measured, strict=True)
        )
        yield f"Mean error of a held value after {errors}."
    if not result.consistent:
        yield "The network does not move as its drift predicts, so the lifetime is not reliable: settle longer."
    yield _rest_sentence(result)
    share = f"{result.tolerance:.0%} of the range"
    yield (
        f"The predicted error never reaches {share}."
        if result.lifetime == inf
        else f"The predicted error reaches {share} after about {_digits(result.lifetime)} {result.unit}."
    )
    yield _noise_sentence(result)


def _noise_sentence(result: SlowManifold) -> str:
    """Return how much noise adds to the error, which the drift limits or increases."""
    if not result.diffusion > 0 or not isfinite(result.stretch):
        return ""
    simulated = f"simulated spread: {sqrt(result.diffusion_measured / result.diffusion):.2f} of the predicted one"
    added = f"The mean error that noise of {result.noise:.2g} per step adds stays below"
    if result.noise_lifetime == inf:
        return f"{added} {result.noise_limit:.2%} of the range, since the drift pulls values back ({simulated})."
    text = f"{added} {result.tolerance:.0%} of the range for at least {_digits(result.noise_lifetime)} {result.unit}"
    if result.noise_lifetime * result._noise_rate > 0.1:
        text += f", although the drift stretches differences by up to {result.stretch - 1:.2%} per step"
    return f"{text} ({simulated})."


def _rest_sentence(result: SlowManifold) -> str:
    """Return where a value rests: at fixed points, whose indices show whether some may be missing."""
    if not float(result.drift.norm(dim=1).max()) > 1e-11 * result.range:
        return "It does not drift: a continuous attractor, up to rounding."
    doubtful = len(result.doubtful)
    places = f"{doubtful} place{'s' * (doubtful > 1)}"
    if result.window > 1:
        return f"The mean drift changes sign at {places} (an estimate)." if doubtful else ""
    points = result.fixed_points
    if points is None or not len(points):
        return (
            f"The estimated drift changes sign at {places}, but no fixed point was found there."
            if doubtful
            else "No fixed point was found on it."
        )
    kinds = ", ".join(f"{number} {kind}" for kind, number in Counter(points.kind).most_common())
    text = f"It rests at {len(points)} fixed point{'s' * (len(points) > 1)} ({kinds})"
    expected = EULER.get(result.topology)
    total = int(points.index.sum())
    if expected is not None:
        sums = f"their indices sum to {total}"
        text += (
            f"; {sums}, as on a {result.topology}"
            if total == expected
            else (f"; {sums} instead of {expected} for a {result.topology}, so some were missed")
        )
    elif result.topology == "line" and not result.rests_alternate:
        text += "; stable and unstable ones do not alternate, so some were missed"
    return (
        f"{text}. The estimated drift changes sign at {places} more, where it is uncertain." if doubtful else f"{text}."
    )


def _digits(value: float) -> str:
    """Return a count to two significant digits."""
    return f"{float(f'{value:.2g}'):,.0f}" if value >= 10 else f"{value:.2g}"


def _share(share: float) -> str:
    return "All" if share > 0.995 else f"{share:.0%}"
