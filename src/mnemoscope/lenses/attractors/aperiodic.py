"""Classification of starts that neither rest nor repeat: invariant circles, tori and chaos, by Lyapunov exponents."""

from __future__ import annotations

from torch import Tensor

from mnemoscope.lenses.attractors.classification import Classification
from mnemoscope.lenses.attractors.invariant_sets import VisitedSets
from mnemoscope.lenses.attractors.lyapunov import lyapunov_spectrum
from mnemoscope.lenses.attractors.lyapunov_result import kaplan_yorke
from mnemoscope.lenses.attractors.result import Kind

ALIGNING = 100
"""Steps in which tangent vectors align with their directions."""
CERTAIN = 3.0
"""Standard errors away from 0 at which the sign of an exponent is certain."""
ZERO = 5.0
"""An exponent counts as 0 if a perturbation grew or shrank by less than this many e-foldings in the whole window: along
a closed curve or torus it varies within bounds, so that the exponent falls as 1 / time."""
WORK = 4e7
"""State size squared times vectors times trajectories: large networks get exponents of fewer starts, but at least 8."""


def classify_aperiodic(classification: Classification) -> None:
    """Classify all remaining starts."""
    trajectories = classification.trajectories
    transient = [row for row in classification.remaining if not trajectories.stationary[row]]
    classification.mark_undecided(transient, "the transient has not ended")
    if not classification.remaining:
        return
    most = max(8, int(WORK / (classification.system.size**2 * classification.count)))
    rows, beyond = classification.remaining[:most], classification.remaining[most:]
    spectrum = lyapunov_spectrum(
        classification.dynamics,
        classification.count,
        classification.steps,
        ALIGNING,
        trajectories.states[rows],
        dt=classification.dt,
        seed=classification.seed,
        progress=classification.progress,
    )
    late = spectrum.blocks[:, spectrum.blocks.shape[1] // 2 :, 0].mean(1).tolist()
    classifier = _AperiodicClassifier(classification)
    for number, row in enumerate(rows):
        classifier.classify(row, spectrum.exponents[number], spectrum.errors[number], late[number])
    for row in beyond:
        if not classifier.assign(row, Kind.CIRCLE, Kind.TORUS, Kind.CHAOS):
            classification.mark_undecided([row], "its exponents were not computed, as there are too many such starts")


class _AperiodicClassifier:
    def __init__(self, classification: Classification) -> None:
        self.classification, self.sets = classification, VisitedSets(classification.trajectories)
        self.floor = ZERO / (classification.steps * (classification.dt or 1.0))
        """Largest exponent that counts as 0."""

    def classify(self, row: int, values: Tensor, errors: Tensor, late: float) -> None:
        """Classify one start by its exponents and by the leading exponent of the second half of the window."""
        kind_or_reason = self._kind(row, values, errors, late)
        if isinstance(kind_or_reason, str):
            self.classification.mark_undecided([row], kind_or_reason)
            return
        kind, dimension = kind_or_reason
        if not self.assign(row, kind):
            return_time = self.classification.trajectories.return_time(row) * (self.classification.dt or 1.0)
            period = return_time if kind == Kind.CIRCLE else float("nan")
            self.classification.add(kind, [row], dimension=dimension, period=period)
        attractor = next(attractor for attractor in self.classification.of_kind(kind) if row in attractor.starts)
        attractor.exponents.append(values.tolist())
        attractor.errors.append(errors.tolist())

    def assign(self, row: int, *kinds: Kind) -> bool:
        """Assign a start to a known attractor if it visits the same set of states; return whether it does."""
        for attractor in self.classification.of_kind(*kinds):
            same = self.sets.same_chaotic_set if attractor.kind == Kind.CHAOS else self.sets.same_curve
            if same(row, attractor.starts[0]):
                self.classification.assign(attractor, [row])
                return True
        return False

    def _kind(self, row: int, values: Tensor, errors: Tensor, late: float) -> tuple[Kind, float] | str:
        """Return the kind of attractor and its dimension, or the reason why neither is known."""
        floor = self.floor
        if values.isnan().any():
            return "it, or its Jacobian, left to infinity or became undefined (NaN) after it had seemed to stay"
        certain = values.abs() > CERTAIN * errors
        # Within the bounds, but so steady that it looks like slow growth: neither certainly 0 nor certainly nonzero.
        slight = certain & (values.abs() > floor / ZERO)
        zero = (values.abs() <= floor) & ~slight
        shrinks = (values < -floor) & certain
        before = shrinks.cumsum(0) == 0  # the exponents before the first that is certainly negative decide
        neutral = int((zero & before).sum())
        if float(values[0]) > floor and bool(certain[0]):
            if late > 0.5 * float(values[0]):
                return Kind.CHAOS, kaplan_yorke(values, self.classification.system.size)
            return "differences grew at first and then no more: the transient has not ended"
        if bool((before & ~zero).any()):
            return "an exponent is near 0 and its sign is uncertain: simulate more steps"
        if not neutral:
            longest = self.classification.max_period
            return f"nearby states converge, but to no fixed point and to no cycle of up to {longest} steps"
        if neutral == len(values):
            return "none of the computed directions shrinks, so the exponents do not show whether the motion does"
        if not bool(self.classification.trajectories.returns[row]):
            return "differences neither grow nor shrink, but the state has not returned"
        if neutral == 1:
            return Kind.CIRCLE, 1.0
        if bool((zero & before & (2 * CERTAIN * errors > floor)).any()):
            # In quasi-periodic motion a zero exponent is zero in every block; a large error means it is not known yet.
            return "several exponents are near 0, but not known precisely: simulate more steps"
        return Kind.TORUS, float(neutral)
