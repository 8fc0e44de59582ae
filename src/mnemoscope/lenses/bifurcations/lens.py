"""The bifurcation lens: tracks the fixed points of a family of systems over its parameter, without gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite

import torch

from mnemoscope.base.progress import show_slow
from mnemoscope.base.validation import check_whole
from mnemoscope.lenses.bifurcations.branch_tracker import BranchTracker
from mnemoscope.lenses.bifurcations.branches import BranchPoint
from mnemoscope.lenses.bifurcations.detection import detect_bifurcations
from mnemoscope.lenses.bifurcations.events import Bifurcation
from mnemoscope.lenses.bifurcations.families import Family, InputFamily, WeightFamily, increasing_parameters
from mnemoscope.lenses.bifurcations.predictor_corrector import PredictorCorrector
from mnemoscope.lenses.bifurcations.result import BifurcationDiagram
from mnemoscope.lenses.bifurcations.snapshots import SnapshotSearch, StartsAt
from mnemoscope.lenses.bifurcations.summary import as_event
from mnemoscope.lenses.dynamics import Dynamics

TOLERANCE = 1e-4
"""Default tolerance as a share of the range of the parameter."""
SNAPSHOTS = 9
"""Evenly spread snapshots along a family of inputs."""


@show_slow("bifurcations")
def track_fixed_points(
    family: Family,
    at: Sequence[float] | None = None,
    *,
    starts: StartsAt = "adaptive",
    tolerance: float | None = None,
    eigenvalues: int = 6,
    count_at: Sequence[float] | None = None,
    seed: int = 0,
    progress: bool = False,
    parameter: str | None = None,
) -> BifurcationDiagram:
    """Track all fixed points of a family over its parameter, and locate the bifurcations (Jang, section 6.1).

    Points are continued from snapshot to snapshot, with shorter steps where they turn or meet. At each snapshot a
    search from fresh starts looks for new points, which are continued back to their birth, through earlier snapshots if
    necessary. Near each bifurcation the points that it must have are searched as well. What happens and is undone
    between two snapshots leaves no trace and is missed: a pair that appears and vanishes, a point that loses its
    stability and regains it.

    Args:
        family: a function from a parameter to the system there; `interpolate_weights(cells, at)` and
            `interpolate_inputs(cell, inputs)` make such functions.
        at: parameters of the snapshots, increasing. The family is evaluated between them as well. By default
            those of `interpolate_weights`; of `interpolate_inputs` those of the given inputs and at least 9 evenly
            spread ones.
        starts: starts of the search at each snapshot: states (starts, size), a strategy, "adaptive", or a function that
            returns states for a parameter (trajectories of that snapshot, say). Midpoints of the points found are
            added.
        tolerance: how precisely events are located in the parameter; 1e-4 of the range by default.
        eigenvalues: how many leading eigenvalues are kept at each point; for large states as many as were needed to
            count, at least one stable one.
        count_at: the snapshots at which unstable directions are counted, for states so large that eigenvalues take long
            (more than 300 numbers); all by default. Crossings of +1 show in the index in any case.
        seed: seed of the strategies that draw at random.
        progress: show a progress bar.
        parameter: name of the parameter for figures: "gain", "training step"; by default that of the family.

    >>> import mnemoscope as ms
    >>> def family(gain):
    ...     return ms.Dynamics(ms.adapt(lambda x, h: torch.tanh(gain * h), state_size=1, bounds=(-1, 1)))
    >>> diagram = ms.track_fixed_points(family, [0.5, 1.3, 2.0])
    >>> [(event.name, round(event.at, 3), event.branches) for event in diagram.events]
    [('pitchfork', 1.0, (0, 1, 2))]

    """
    if not callable(family) or isinstance(family, Dynamics):
        raise TypeError(
            f"family must be a function from a parameter to a Dynamics, but is a {type(family).__name__}; "
            f"interpolate_weights(cells, at) makes one from snapshots of a cell."
        )
    parameters = increasing_parameters(_snapshots(family) if at is None else at)
    parameter = parameter or (family.parameter if isinstance(family, InputFamily) else "parameter")
    check_whole(1, eigenvalues=eigenvalues)
    check_whole(0, seed=seed)
    if tolerance is not None and not isinstance(tolerance, int | float):
        raise TypeError(f"tolerance must be a number in units of the parameter, or None, but is {tolerance!r}.")
    tolerance = _checked_tolerance(tolerance, parameters)
    if count_at is not None and not isinstance(count_at, Sequence):
        raise TypeError(f"count_at must be a list of snapshots, or None for all, but is {count_at!r}.")
    unknown = set(count_at or ()) - set(parameters)
    if unknown:
        raise ValueError(f"count_at names parameters that are no snapshots: {sorted(unknown)}.")
    counted = tuple(count_at is None or place in count_at for place in parameters)
    continuation = PredictorCorrector(family, tolerance)
    snapshots = SnapshotSearch(continuation, list(parameters), starts, seed)
    tracker = BranchTracker(snapshots, eigenvalues=eigenvalues, counted=counted, progress=progress)
    if continuation.system(parameters[0]).dtype != torch.float64:
        raise ValueError(
            "Bifurcations are located by differences far below the rounding of float32: let the family make systems in "
            "float64, Dynamics(..., dtype=torch.float64), which is the default."
        )
    with torch.no_grad():
        symmetric = all(_is_odd(continuation.system(end)) for end in (parameters[0], parameters[-1]))
        tracker.run()
        found = detect_bifurcations(tracker)
    return replace(_diagram(tracker, found, symmetric), parameter=parameter)


def _snapshots(family: Family) -> list[float]:
    """Return the parameters of the snapshots of a family; between given inputs also evenly spread ones."""
    if isinstance(family, WeightFamily):
        return [*family.at]
    if not isinstance(family, InputFamily):
        raise ValueError("Pass the parameters of the snapshots, at=[...]: this family does not have any.")
    low, high = family.at[0], family.at[-1]
    even = [low + (high - low) * step / (SNAPSHOTS - 1) for step in range(SNAPSHOTS)]
    even[-1] = high
    apart = (high - low) / (4 * SNAPSHOTS)
    return sorted([*family.at, *(place for place in even if min(abs(place - given) for given in family.at) > apart)])


def _checked_tolerance(tolerance: float | None, parameters: tuple[float, ...]) -> float:
    """Return the tolerance or its default; raise unless it fits the parameters."""
    span = parameters[-1] - parameters[0]
    tolerance = TOLERANCE * span if tolerance is None else float(tolerance)
    if not (isfinite(tolerance) and 0 < tolerance < span):
        raise ValueError(f"tolerance must be positive and below the range of {span:g}, but is {tolerance:g}.")
    if tolerance < 1e-12 * max(abs(parameters[0]), abs(parameters[-1])):
        raise ValueError(f"tolerance {tolerance:g} is below the rounding of the parameter {parameters[-1]:g}.")
    return tolerance


def _diagram(tracker: BranchTracker, found: list[Bifurcation], symmetric: bool) -> BifurcationDiagram:
    first = tracker.continuation.system(tracker.parameters[0])
    rows = [(number, point) for number, branch in enumerate(tracker.branches) for point in _ordered(branch.points)]
    points = [point for _, point in rows]
    leading = min(tracker.eigenvalues, first.size)
    eigenvalues = torch.full((len(rows), leading), complex("nan"), dtype=torch.complex128)
    for row, point in enumerate(points):
        if point.eigenvalues is not None:
            values = torch.from_numpy(point.eigenvalues[:leading])
            eigenvalues[row, : len(values)] = values
    tolerance = tracker.continuation.tolerance
    events = [as_event(bifurcation, first.size, tolerance, symmetric) for bifurcation in found]
    unexplained = [f"Not explained: {event.sentence}" for event in events if event.name == "unknown"]
    return BifurcationDiagram(
        snapshots=torch.tensor(tracker.parameters, dtype=torch.float64),
        at=torch.tensor([point.at for point in points], dtype=torch.float64),
        states=torch.stack([point.state for point in points]) if points else torch.zeros(0, first.size).double(),
        branch=torch.tensor([number for number, _ in rows], dtype=torch.int64),
        snapshot=torch.tensor([point.snapshot for point in points], dtype=torch.int64),
        index=torch.tensor([point.index for point in points], dtype=torch.int64),
        unstable=torch.tensor([point.unstable for point in points], dtype=torch.int64),
        eigenvalues=eigenvalues,
        q=torch.tensor([point.q for point in points], dtype=torch.float64),
        bounded=torch.tensor(tracker.bounded),
        events=tuple(events),
        notes=(*dict.fromkeys(tracker.notes), *unexplained),
        tolerance=tolerance,
        continuous=first.continuous,
        symmetric=symmetric,
        rate=first.rate,
    )


def _ordered(points: list[BranchPoint]) -> list[BranchPoint]:
    """Return the points in the order of the parameter; of two at one parameter, the one of the snapshot."""
    kept: dict[float, BranchPoint] = {}
    for point in points:
        if point.at not in kept or point.snapshot >= 0:
            kept[point.at] = point
    return [kept[at] for at in sorted(kept)]


def _is_odd(system: Dynamics) -> bool:
    """Return whether F(-x) = -F(x) at some random states."""
    generator = torch.Generator().manual_seed(0)
    states = system.clamp(torch.randn(8, system.size, generator=generator, dtype=system.dtype).to(system.device))
    mirrored = system.clamp(-states)
    states = -mirrored
    images, mirrored_images = system(states), system(mirrored)
    if not bool(torch.isfinite(images).all()):
        return False
    return bool(((images + mirrored_images).abs() <= 1e-10 * images.abs().clamp_min(1)).all())
