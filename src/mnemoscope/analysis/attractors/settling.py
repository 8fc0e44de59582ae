"""The attractor lens: what a system comes to from many starts, told by its rest, its returns and its exponents."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.analysis.attractors.exponents import checked_system, lyapunov_spectrum
from mnemoscope.analysis.attractors.lyapunov import kaplan_yorke
from mnemoscope.analysis.attractors.maps import iterated
from mnemoscope.analysis.attractors.tangents import drawn_starts
from mnemoscope.analysis.attractors.verdict import Attractors, Kind
from mnemoscope.analysis.attractors.watching import ALIKE, Watched, watch
from mnemoscope.analysis.dynamics import Dynamics
from mnemoscope.analysis.fixed_points import MARGIN, FixedPoints, Status
from mnemoscope.analysis.projection import principal_projection
from mnemoscope.analysis.search import find_fixed_points
from mnemoscope.analysis.starts import StartStrategy
from mnemoscope.cells import State
from mnemoscope.shapes import Complex

NEAR = 0.05
"""A start is at an attractor that Newton's method finds within this share of the extent of all states."""
AT_REST = 1e-6
"""It is there already, and need not be seen to come nearer, within this share."""
CREEPING = 1e-3
"""A step shorter than this share of the typical one is a creep."""
ALIGNING = 100
"""Steps in which tangent vectors find their directions."""
CERTAIN = 3.0
"""An exponent has a sign that is so many standard errors away from 0."""
ZERO = 5.0
"""An exponent counts as 0 if a difference grew or shrank by less than so many e-foldings in all that was watched: along
a closed curve or torus it comes and goes, but within bounds, so that the exponent falls as 1 / time."""
WORK = 4e7
"""Numbers times vectors: large networks have fewer trajectories whose exponents are taken, but at least 8."""
DRAWN = 300
"""Steps of each attractor that are drawn."""


@dataclass
class _Found:
    """One attractor, as it is put together."""

    kind: Kind
    state: Tensor
    starts: list[int]
    period: float = float("nan")
    dimension: float = float("nan")
    exponents: list[list[float]] = field(default_factory=list)
    errors: list[list[float]] = field(default_factory=list)
    note: str = ""


def attractors(
    dynamics: Dynamics,
    starts: int | State | StartStrategy = 32,
    *,
    transient: int = 1000,
    steps: int = 1000,
    longest: int = 64,
    patience: int = 4,
    count: int = 6,
    dt: float | None = None,
    seed: int = 0,
) -> Attractors:
    """Where a system goes if it is left alone at its constant input: points, cycles, circles, tori, chaos, or away.

    Each start is followed for `transient` steps and watched for `steps` more. It is called

    - a point attractor, where Newton's method finds a stable fixed point nearby that it comes nearer to;
    - part of a continuous attractor, where it is at rest at one of at least three marginal fixed points;
    - a slow manifold, where it creeps on, a thousand times slower than systems start, and is not there yet;
    - a cycle, where its states come again after at most `longest` steps, and do so on a stable cycle nearby;
    - by its Lyapunov exponents otherwise, if the halves of what was watched look alike: chaos where one is positive
      beyond its error, an invariant circle where one cannot be told from 0, a torus where more cannot;
    - undecided in all other cases, such as transients that have not ended, with the reason.

    Starts that are undecided, and chaotic ones where others settle, are followed `patience` times longer before the
    last word. A longer chaotic transient still cannot be told from chaos: chaos means as long as it was watched.

    Args:
        dynamics: a map, or a flow, which is taken in Runge-Kutta steps of length `dt`.
        starts: how many random starts, states, or a strategy.
        transient: steps before it is looked at.
        steps: steps in which it is watched, and in which exponents are then taken.
        longest: the longest period of a cycle that is looked for.
        patience: how many times longer doubtful starts are followed; 0 for not at all.
        count: how many exponents.
        dt: length of a step of a flow.
        seed: of the starts.

    >>> import mnemoscope as ms
    >>> turn = torch.tensor([[0.6, -0.8], [0.8, 0.6]], dtype=torch.float64)
    >>> def circling(x, h):
    ...     return 1.2 * (h @ turn.T) / (1 + h.square().sum(1, keepdim=True)).sqrt()
    >>> print(attractors(ms.Dynamics(ms.adapt(circling, state_size=2)), 4).verdict)
    Left alone, the system runs round a closed curve, which no whole number of steps closes (all of 4 starts).

    """
    system = checked_system(dynamics, dt)
    least = 4 * longest
    sizes = (("transient", transient, 0), ("longest", longest, 2), ("steps", steps, max(40, least)))
    for name, value, low in (*sizes, ("patience", patience, 0), ("count", count, 1)):
        if isinstance(value, bool) or not isinstance(value, int) or value < low:
            why = f", 4 times the longest period of {longest}" if name == "steps" else ""
            raise ValueError(f"{name} must be a whole number, {low} or more{why}, but is {value!r}.")
    begin = drawn_starts(dynamics, starts, torch.Generator().manual_seed(seed))
    seen = watch(system, begin, transient, steps)
    known = (longest, min(count, system.size), dt, seed)
    answer = _Judge(dynamics, system, seen, *known).answer()
    doubtful = _doubtful(answer)
    if not doubtful or not patience:
        return answer
    later = watch(system, seen.states[doubtful], patience * (transient + steps), steps)
    return _Judge(dynamics, system, seen.updated(doubtful, later), *known).answer()


def _doubtful(answer: Attractors) -> list[int]:
    """Starts that are undecided, and chaotic ones where others come to something simpler: a transient, perhaps."""
    kinds = answer.kind_of_starts
    settled = any(kind < Kind.CHAOS for kind in kinds)
    return [row for row, kind in enumerate(kinds) if kind == Kind.UNDECIDED or (kind == Kind.CHAOS and settled)]


class _Judge:
    """Takes the starts one kind after the other; what is left in the end is undecided."""

    def __init__(
        self, dynamics: Dynamics, system: Dynamics, seen: Watched, longest: int, count: int, dt: float | None, seed: int
    ) -> None:
        self.dynamics, self.system, self.seen = dynamics, system, seen
        self.longest, self.count, self.dt, self.seed = longest, count, dt, seed
        self.steps = len(seen.path) - 1
        self.found: list[_Found] = []
        self.left = list(range(len(seen.states)))

    def answer(self) -> Attractors:
        seen = self.seen
        self._take(Kind.DIVERGED, seen.diverged.nonzero()[:, 0].tolist())
        with torch.no_grad():
            self._points()
            self._creeping()
            if not self.dynamics.continuous:
                self._cycles()
            self._moving()
        assert not self.left
        return self._result()

    def _take(self, kind: Kind, rows: list[int], **known: Any) -> None:
        if rows:
            self.found.append(_Found(kind, self.seen.states[rows[0]], list(rows), **known))
            self.left = [row for row in self.left if row not in rows]

    def _undecided(self, rows: list[int], note: str) -> None:
        same = next((one for one in self.found if one.kind == Kind.UNDECIDED and one.note == note), None)
        if same is None:
            self._take(Kind.UNDECIDED, rows, note=note)
        else:
            same.starts += rows
            self.left = [row for row in self.left if row not in rows]

    def _points(self) -> None:
        """Starts that come to rest."""
        seen, extent = self.seen, self.seen.extent
        slows = (seen.last_step <= 0.3 * seen.step_before) | (seen.last_step <= 10 * CREEPING * seen.speed)
        rows = [row for row in self.left if slows[row]]
        if not rows:
            return
        chosen, which = _distinct(seen.states[rows], AT_REST * extent)
        fp = find_fixed_points(self.system, seen.states[rows][chosen], seed=self.seed)
        assert fp.starts is not None
        marginal: dict[int, list[int]] = {}
        resting: dict[int, list[int]] = {}
        unstable: list[int] = []
        values: dict[int, Complex[Tensor, " size"]] = {}
        for row, group in zip(rows, which, strict=True):
            if fp.starts.status[group] != Status.FIXED:
                continue
            point = int(fp.starts.point[group])
            here = fp.states[point].to(seen.states)
            now, before = float((seen.states[row] - here).norm()), float((seen.before[row] - here).norm())
            if now > NEAR * extent or (now > AT_REST * extent and now > 0.9 * before):
                continue
            if point not in values:
                values[point] = _eigenvalues(fp.jacobians[point])
            largest = float(values[point][0].abs().log())
            if largest < -MARGIN:
                resting.setdefault(point, []).append(row)
            elif now <= AT_REST * extent and largest <= MARGIN:
                marginal.setdefault(point, []).append(row)
            elif now <= AT_REST * extent and float(seen.last_step[row]) <= AT_REST * seen.speed:
                unstable.append(row)
        for point, own in resting.items():
            self._take_point(fp, point, own, values[point])
        self._take_marginal(fp, marginal, values)
        if unstable:
            self._undecided(unstable, "it rests at a fixed point that is not stable, and any push would move it on")

    def _take_point(self, fp: FixedPoints, point: int, rows: list[int], values: Tensor, note: str = "") -> None:
        growth = (values.abs().log() / (self.dt or 1.0))[: self.count].tolist()
        self._take(Kind.POINT, rows, dimension=0.0, exponents=[growth], errors=[[0.0] * len(growth)], note=note)
        self.found[-1].state = fp.states[point].to(self.seen.states)

    def _take_marginal(self, fp: FixedPoints, rests: dict[int, list[int]], values: dict[int, Tensor]) -> None:
        """Many marginal points are a continuous attractor; one or two may be anything."""
        if len(rests) < 3:
            for point, own in rests.items():
                self._take_point(
                    fp, point, own, values[point], "marginal: the linearisation does not say that it attracts"
                )
            return
        growth = torch.stack([values[point].abs().log()[: self.count] for point in rests])
        neutral = (growth.abs() <= MARGIN).sum(1).double().median()
        mean = (growth.mean(0) / (self.dt or 1.0)).tolist()
        rows = sorted(row for own in rests.values() for row in own)
        known = {"dimension": float(neutral), "exponents": [mean], "errors": [[0.0] * len(mean)]}
        self._take(Kind.CONTINUOUS, rows, **known)
        extent = self.seen.extent
        others = [row for row in self.left if float(self.seen.last_step[row]) <= AT_REST * self.seen.speed]
        spots = fp.states[list(rests)].to(self.seen.states)
        for row in others:  # beyond those that were refined
            if float((spots - self.seen.states[row]).norm(dim=1).min()) <= extent:
                self.found[-1].starts.append(row)
                self.left.remove(row)

    def _creeping(self) -> None:
        seen = self.seen
        slow = (seen.last_step <= CREEPING * seen.speed) & (seen.straight | (seen.length <= AT_REST * seen.extent))
        rows = [row for row in self.left if slow[row]]
        faster = [row for row in rows if float(seen.last_step[row]) > 1.05 * float(seen.step_before[row])]
        if faster:
            self._undecided(faster, "it is speeding up after a slow passage, and has not arrived")
        self._take(Kind.SLOW, [row for row in rows if row not in faster])

    def _cycles(self) -> None:
        """Starts whose states come again, on a stable cycle nearby."""
        seen = self.seen
        repeats = seen.repeats(2 * self.longest)
        for row in list(self.left):
            k = int(repeats[row])
            if not k or self._joins_cycle(row):
                continue
            fold = iterated(self.system, k)
            exact = float(fold.residual(seen.states[row : row + 1]).norm()) <= 1e-9 * float(seen.spread[row])
            fp = find_fixed_points(fold, seen.states[row : row + 1], seed=self.seed)
            away = (fp.states.to(seen.states) - seen.states[row]).norm(dim=1)
            if len(fp) and float(away[0]) <= NEAR * float(seen.spread[row]):
                state, J = fp.states[0].to(seen.states), fp.jacobians[0]
            elif exact:
                state, J = seen.states[row], fold.jacobian(seen.states[row : row + 1])[0]
            else:
                continue
            growth = _eigenvalues(J).abs().log()
            if float(growth[0]) >= -MARGIN and not (exact and float(growth[0]) <= MARGIN):
                continue
            note = "" if float(growth[0]) < -MARGIN else "one of many: a push does not fade"
            period = self._least_period(state, k)
            own = (growth / k)[: self.count].tolist()
            known = {"period": float(period), "dimension": 0.0, "exponents": [own], "errors": [[0.0] * len(own)]}
            same = next(
                (f for f in self.found if f.kind == Kind.CYCLE and note and f.note and f.period == period), None
            )
            if same is not None:
                same.starts.append(row)
                self.left.remove(row)
            else:
                self._take(Kind.CYCLE, [row], **known, note=note)
                self.found[-1].state = state

    def _joins_cycle(self, row: int) -> bool:
        """Whether the last state of a start lies at a cycle that is known already."""
        for one in self.found:
            if one.kind == Kind.CYCLE and not one.note:
                orbit = self._orbit(one.state, int(one.period))
                if float((orbit - self.seen.states[row]).norm(dim=1).min()) <= 1e-2 * float(self.seen.spread[row]):
                    one.starts.append(row)
                    self.left.remove(row)
                    return True
        return False

    def _least_period(self, state: Tensor, k: int) -> int:
        orbit = self._orbit(state, k)
        away = (orbit - state).norm(dim=1)
        width = float((orbit - orbit.mean(0)).norm(dim=1).max())
        return next((m for m in range(1, k) if k % m == 0 and float(away[m]) <= 1e-6 * width), k)

    def _orbit(self, state: Tensor, number: int) -> Tensor:
        orbit = [state[None]]
        for _ in range(number - 1):
            orbit.append(self.system(orbit[-1]))
        return torch.cat(orbit)

    def _moving(self) -> None:
        """What neither rests nor repeats: by its exponents."""
        seen = self.seen
        restless = [row for row in self.left if not seen.stationary[row]]
        if restless:
            self._undecided(restless, "the transient has not ended")
        if not self.left:
            return
        most = max(8, int(WORK / (self.system.size**2 * self.count)))
        rows, beyond = self.left[:most], self.left[most:]
        spectrum = lyapunov_spectrum(
            self.dynamics, self.count, self.steps, ALIGNING, seen.states[rows], dt=self.dt, seed=self.seed
        )
        halves = spectrum.blocks[:, spectrum.blocks.shape[1] // 2 :, 0]
        floor = ZERO / (self.steps * (self.dt or 1.0))
        for place, row in enumerate(rows):
            values, errors = spectrum.exponents[place], spectrum.errors[place]
            self._judge_moving(row, values, errors, floor, float(halves[place].mean()))
        for row in beyond:
            if not self._joins(row):
                self._undecided([row], "its exponents were not taken, as there are too many such starts")

    def _judge_moving(self, row: int, values: Tensor, errors: Tensor, floor: float, late: float) -> None:
        """One start, by its exponents, and by the leading one of the second half."""
        if values.isnan().any():
            self._undecided([row], "it left to infinity after it had seemed to stay")
            return
        certain = values.abs() > CERTAIN * errors
        # within the bounds, but so even that it looks like slow growth: neither 0 for certain nor not 0
        slight = certain & (values.abs() > floor / ZERO)
        zero = (values.abs() <= floor) & ~slight
        shrinks = (values < -floor) & certain
        before = shrinks.cumsum(0) == 0  # those that decide: all that come before the first that shrinks for certain
        neutral = int((zero & before).sum())
        if float(values[0]) > floor and bool(certain[0]):
            if late > 0.5 * float(values[0]):
                self._join(Kind.CHAOS, row, values, errors, kaplan_yorke(values, self.system.size))
            else:
                self._undecided([row], "differences grew at first and then no more: the transient has not ended")
        elif bool((before & ~zero).any()):
            self._undecided([row], "an exponent is near 0, and its sign not certain: watch it for more steps")
        elif not neutral:
            self._undecided(
                [row], f"nearby states come together, but on no fixed point and no cycle of up to {self.longest} steps"
            )
        elif neutral == len(values):
            self._undecided([row], "no direction shrinks among those computed: the motion keeps its amplitude")
        elif not bool(self.seen.returns()[row]):
            self._undecided([row], "differences neither grow nor shrink, but the state has not returned")
        elif neutral == 1:
            time = self.seen.return_time(row) * (self.dt or 1.0)
            self._join(Kind.CIRCLE, row, values, errors, 1.0, time)
        elif bool((zero & before & (2 * CERTAIN * errors > floor)).any()):
            # a 0 of steady motion is so from block to block; large errors are of an exponent not yet known
            self._undecided([row], "several exponents are near 0, but not known well: watch it for more steps")
        else:
            self._join(Kind.TORUS, row, values, errors, float(neutral))

    def _join(
        self, kind: Kind, row: int, values: Tensor, errors: Tensor, dimension: float, period: float = float("nan")
    ) -> None:
        one = next((one for one in self.found if one.kind == kind and self._alike(row, one.starts[0])), None)
        if one is None:
            self._take(kind, [row], dimension=dimension, period=period)
            one = self.found[-1]
        else:
            one.starts.append(row)
            self.left.remove(row)
        one.exponents.append(values.tolist())
        one.errors.append(errors.tolist())

    def _joins(self, row: int) -> bool:
        """Whether a start moves as one whose exponents are known."""
        for one in self.found:
            if one.kind in (Kind.CIRCLE, Kind.TORUS, Kind.CHAOS) and self._alike(row, one.starts[0]):
                one.starts.append(row)
                self.left.remove(row)
                return True
        return False

    def _alike(self, row: int, other: int) -> bool:
        """Whether two starts move about the same mean, and as far from it."""
        apart = float((self.seen.centre[row] - self.seen.centre[other]).norm())
        widths = sorted((float(self.seen.spread[row]), float(self.seen.spread[other])))
        chance = CERTAIN * float(self.seen.centre_error[[row, other]].norm())
        return apart <= max(ALIKE * widths[0], chance) and widths[0] >= (1 - ALIKE) * widths[1]

    def _result(self) -> Attractors:
        order = sorted(self.found, key=lambda one: (one.kind, -len(one.starts)))
        member = torch.zeros(len(self.seen.states), dtype=torch.int64)
        for number, one in enumerate(order):
            member[one.starts] = number
        values = [torch.tensor(one.exponents or [[float("nan")] * self.count], dtype=torch.float64) for one in order]
        errors = [torch.tensor(one.errors or [[float("nan")] * self.count], dtype=torch.float64) for one in order]
        states = torch.stack([one.state for one in order])
        paths, labels = self._paths(states)
        return Attractors(
            kinds=torch.tensor([int(one.kind) for one in order]),
            member=member,
            states=states.cpu(),
            periods=torch.tensor([one.period for one in order], dtype=torch.float64),
            dimensions=torch.tensor([one.dimension for one in order], dtype=torch.float64),
            exponents=torch.stack([own.mean(0) for own in values]),
            errors=torch.stack([own.square().sum(0).sqrt() / len(own) for own in errors]),
            notes=tuple(one.note for one in order),
            paths=paths,
            labels=labels,
            steps=self.steps,
            dt=self.dt,
        )

    def _paths(self, states: Tensor) -> tuple[Tensor, tuple[str, ...]]:
        """The way on from each state, projected; one that has left to infinity stays where it is."""
        kept = torch.tensor(
            [one.kind != Kind.DIVERGED for one in sorted(self.found, key=lambda f: (f.kind, -len(f.starts)))]
        )
        with torch.no_grad():
            way = [states]
            for _ in range(DRAWN - 1):
                way.append(torch.where(kept[:, None].to(states.device), self.system(way[-1]), way[-1]))
        whole = torch.stack(way).cpu()  # (time, attractors, size)
        none = states.new_zeros(0).cpu()
        size = self.system.size
        nothing = FixedPoints(none.reshape(0, size), none, none.reshape(0, size, size), none.long(), False, False)
        project = principal_projection(nothing, whole[:, kept] if bool(kept.any()) else whole)
        return torch.from_numpy(project(whole.double().numpy())).transpose(0, 1).contiguous(), project.labels


def _distinct(states: Tensor, distance: float) -> tuple[list[int], list[int]]:
    """Rows that stand for all within `distance`, and which of them each state belongs to."""
    chosen: list[int] = []
    which = []
    for row in range(len(states)):
        gaps = (states[chosen] - states[row]).norm(dim=1) if chosen else states.new_zeros(0)
        if len(gaps) and float(gaps.min()) <= distance:
            which.append(int(gaps.argmin()))
        else:
            which.append(len(chosen))
            chosen.append(row)
    return chosen, which


def _eigenvalues(J: Tensor) -> Complex[Tensor, " size"]:
    """By modulus, largest first."""
    values = np.linalg.eigvals(J.cpu().double().numpy())
    return torch.from_numpy(values[np.argsort(-np.abs(values), kind="stable")].astype(complex))
