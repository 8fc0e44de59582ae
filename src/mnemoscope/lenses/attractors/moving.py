"""Starts that neither rest nor repeat: chaos, circles and tori, by their Lyapunov exponents."""

from __future__ import annotations

from torch import Tensor

from mnemoscope.lenses.attractors.exponents import lyapunov_spectrum
from mnemoscope.lenses.attractors.judgement import Judgement
from mnemoscope.lenses.attractors.lyapunov import kaplan_yorke
from mnemoscope.lenses.attractors.sameness import Visits
from mnemoscope.lenses.attractors.verdict import Kind

ALIGNING = 100
"""Steps in which tangent vectors find their directions."""
CERTAIN = 3.0
"""An exponent has a sign that is so many standard errors away from 0."""
ZERO = 5.0
"""An exponent counts as 0 if a difference grew or shrank by less than so many e-foldings in all that was watched: along
a closed curve or torus it comes and goes, but within bounds, so that the exponent falls as 1 / time."""
WORK = 4e7
"""Numbers times vectors: large networks have fewer trajectories whose exponents are taken, but at least 8."""


def judge_moving(judgement: Judgement) -> None:
    """All that is left."""
    seen = judgement.seen
    restless = [row for row in judgement.left if not seen.stationary[row]]
    if restless:
        judgement.undecided(restless, "the transient has not ended")
    if not judgement.left:
        return
    most = max(8, int(WORK / (judgement.system.size**2 * judgement.count)))
    rows, beyond = judgement.left[:most], judgement.left[most:]
    spectrum = lyapunov_spectrum(
        judgement.dynamics,
        judgement.count,
        judgement.steps,
        ALIGNING,
        seen.states[rows],
        dt=judgement.dt,
        seed=judgement.seed,
    )
    late = spectrum.blocks[:, spectrum.blocks.shape[1] // 2 :, 0].mean(1).tolist()
    moving = _Moving(judgement)
    for place, row in enumerate(rows):
        moving.judge(row, spectrum.exponents[place], spectrum.errors[place], late[place])
    for row in beyond:
        if not moving.joins(row, Kind.CIRCLE, Kind.TORUS, Kind.CHAOS):
            judgement.undecided([row], "its exponents were not taken, as there are too many such starts")


class _Moving:
    def __init__(self, judgement: Judgement) -> None:
        self.judgement, self.visits = judgement, Visits(judgement.seen)
        self.floor = ZERO / (judgement.steps * (judgement.dt or 1.0))

    def judge(self, row: int, values: Tensor, errors: Tensor, late: float) -> None:
        """One start, by its exponents, and by the leading one of the second half."""
        kind_or_why = self._kind(row, values, errors, late)
        if isinstance(kind_or_why, str):
            self.judgement.undecided([row], kind_or_why)
            return
        kind, dimension = kind_or_why
        if not self.joins(row, kind):
            turn = self.judgement.seen.return_time(row) * (self.judgement.dt or 1.0)
            period = turn if kind == Kind.CIRCLE else float("nan")
            self.judgement.take(kind, [row], dimension=dimension, period=period)
        one = next(one for one in self.judgement.of(kind) if row in one.starts)
        one.exponents.append(values.tolist())
        one.errors.append(errors.tolist())

    def joins(self, row: int, *kinds: Kind) -> bool:
        """Whether a start moves on the same set of states as one that is known."""
        for one in self.judgement.of(*kinds):
            same = self.visits.same_chaos if one.kind == Kind.CHAOS else self.visits.same_curve
            if same(row, one.starts[0]):
                self.judgement.join(one, [row])
                return True
        return False

    def _kind(self, row: int, values: Tensor, errors: Tensor, late: float) -> tuple[Kind, float] | str:
        """The kind and its dimension, or why it cannot be told."""
        floor = self.floor
        if values.isnan().any():
            return "it, or its Jacobian, left to infinity or became undefined (NaN) after it had seemed to stay"
        certain = values.abs() > CERTAIN * errors
        # within the bounds, but so even that it looks like slow growth: neither 0 for certain nor not 0
        slight = certain & (values.abs() > floor / ZERO)
        zero = (values.abs() <= floor) & ~slight
        shrinks = (values < -floor) & certain
        before = shrinks.cumsum(0) == 0  # those that decide: all that come before the first that shrinks for certain
        neutral = int((zero & before).sum())
        if float(values[0]) > floor and bool(certain[0]):
            if late > 0.5 * float(values[0]):
                return Kind.CHAOS, kaplan_yorke(values, self.judgement.system.size)
            return "differences grew at first and then no more: the transient has not ended"
        if bool((before & ~zero).any()):
            return "an exponent is near 0, and its sign not certain: watch it for more steps"
        if not neutral:
            longest = self.judgement.longest
            return f"nearby states come together, but on no fixed point and no cycle of up to {longest} steps"
        if neutral == len(values):
            return "no direction shrinks among those computed, and no exponent tells whether the motion does"
        if not bool(self.judgement.seen.returns[row]):
            return "differences neither grow nor shrink, but the state has not returned"
        if neutral == 1:
            return Kind.CIRCLE, 1.0
        if bool((zero & before & (2 * CERTAIN * errors > floor)).any()):
            # a 0 of steady motion is so from block to block; large errors are of an exponent not yet known
            return "several exponents are near 0, but not known well: watch it for more steps"
        return Kind.TORUS, float(neutral)
