"""Bifurcations as events with a sentence each."""

from __future__ import annotations

from math import floor, log10

from mnemoscope.lenses.bifurcations.events import Bifurcation, BranchEvent
from mnemoscope.lenses.bifurcations.result import CLOSE, Event


def as_event(bifurcation: Bifurcation, size: int, tolerance: float, symmetric: bool) -> Event:
    """Return the event of a bifurcation of states of `size` numbers; a `symmetric` family is odd, F(-x) = -F(x)."""
    low, high = _bracket(bifurcation)
    change = bifurcation.changes[0].kind if bifurcation.changes else "changed stability"
    sentence = f"{_location(low, high, tolerance)} {_description(bifurcation, size, symmetric)}"
    return Event(change, bifurcation.name, bifurcation.crossing, low, high, _branches(bifurcation), sentence)


def _branches(bifurcation: Bifurcation) -> tuple[int, ...]:
    """Return the branches in order; the branch that the others leave comes first, except in a multiple one."""
    first, *others = dict.fromkeys(event.branch for event in bifurcation.events)
    return tuple(sorted((first, *others))) if bifurcation.name == "multiple" else (first, *sorted(others))


def _bracket(bifurcation: Bifurcation) -> tuple[float, float]:
    """Return the parameters between which it happens. A point surely exists where it was found, but may be lost early.

    Points that vanish together do so after the last point of any of them; the nearest bracket beyond it is valid.
    """
    events = [event for event in bifurcation.events if event.kind != "passed"]
    if bifurcation.changes and bifurcation.changes[0].kind == "vanished":
        low = max(event.low for event in events)
        return low, min(event.high for event in events if event.high > low)
    high = min(event.high for event in events)
    return max(event.low for event in events if event.low < high), high


def _location(low: float, high: float, tolerance: float) -> str:
    digits = max(0, 1 - floor(log10(tolerance)))
    if high - low > CLOSE * tolerance:
        return f"Between {low:.{digits}f} and {high:.{digits}f}"
    return f"At {round(0.5 * (low + high), digits) + 0.0:.{digits}f}"


def _description(bifurcation: Bifurcation, size: int, symmetric: bool) -> str:
    changes = bifurcation.changes
    numbers = ", ".join(str(event.branch) for event in changes)
    kinds = " and ".join(_kind(event.point.unstable, size) for event in changes)
    verb = {"appeared": "appear", "vanished": "vanish"}[changes[0].kind] if changes else ""
    main = bifurcation.events[0]
    if bifurcation.name == "saddle-node":
        return f"two points {verb}, {kinds} (saddle-node, branches {numbers})."
    if bifurcation.name == "multiple":
        return _multiple(bifurcation, verb)
    if bifurcation.name == "pitchfork":
        unresolved = "or a fold next to it, closer than the tolerance resolves"
        if main.kind == "passed":
            return f"two points {verb} next to branch {main.branch}, {kinds} (pitchfork, {unresolved})."
        invariant = symmetric and float(main.point.state.abs().max()) < 1e-6  # the symmetry x -> -x maps it to itself
        reason = "as the symmetry x -> -x requires" if invariant else unresolved
        return f"{_change_of_stability(main, size)} and two points {verb} next to it, {kinds} (pitchfork, {reason})."
    if bifurcation.name == "transcritical":
        return (
            f"two branches cross and exchange their stability: {_change_of_stability(main, size)}, "
            f"{_change_of_stability(bifurcation.events[1], size)} (transcritical)."
        )
    if changes:
        return (
            f"{kinds} {verb}{'es' if verb == 'vanish' else 's'} (branch {numbers}), but no point of opposite index was "
            f"found that does so too, as there must be if states are bounded."
        )
    change = _change_of_stability(main, size)
    if bifurcation.name == "unknown":
        return (
            f"{change}: an eigenvalue crosses {bifurcation.crossing}, but the branches that must meet it there were "
            f"not found."
        )
    meaning = {
        "flip": "an eigenvalue crosses -1 (flip: a cycle of two states is near)",
        "Neimark-Sacker": "a complex pair crosses the unit circle (Neimark-Sacker: an oscillation is near)",
        "Hopf": "a complex pair crosses the imaginary axis (Hopf: an oscillation is near)",
        "double": f"two real eigenvalues cross {bifurcation.crossing.split()[0]} together",
    }[bifurcation.name]
    return f"{change}: {meaning}."


def _multiple(bifurcation: Bifurcation, verb: str) -> str:
    changes, missing = bifurcation.changes, bifurcation.missing_index
    passing = len({event.branch for event in bifurcation.events} - {event.branch for event in changes})
    counts = (passing, passing + len(changes))
    before, after = counts if changes[0].kind == "appeared" else counts[::-1]
    sentence = (
        f"several branches meet at one point, to within the tolerance: {before} before, {after} after "
        f"(multiple, branches {', '.join(map(str, _branches(bifurcation)))})."
    )
    if missing:
        sign = "+1" if missing > 0 else "-1"
        sentence += f" At least {abs(missing)} more of index {sign} must {verb} too and was not found."
    return sentence


def _change_of_stability(event: BranchEvent, size: int) -> str:
    before, after = event.point.unstable, event.after.unstable if event.after is not None else -1
    return f"branch {event.branch}, {_kind(before, size)}, becomes {_kind(after, size)}"


def _kind(unstable: int, size: int) -> str:
    if unstable < 0:
        return "a point"
    if unstable == 0:
        return "a stable point"
    if unstable == size:
        return "an unstable point"
    return f"a saddle with {unstable} unstable direction{'s' * (unstable > 1)}"
