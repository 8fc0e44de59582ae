"""Bifurcations in words."""

from __future__ import annotations

from math import floor, log10

from mnemoscope.lenses.bifurcations.events import Bifurcation, Happening
from mnemoscope.lenses.bifurcations.evolution import CLOSE, Event


def told(one: Bifurcation, size: int, tolerance: float, symmetric: bool) -> Event:
    """The event of a bifurcation among states of this size; `symmetric` says whether the family is odd."""
    low, high = _bracket(one)
    change = one.changes[0].kind if one.changes else "changed stability"
    where = _where(low, high, tolerance)
    return Event(
        change, one.name, one.crossing, low, high, _branches(one),
        f"{where} {_words(one, size, symmetric)}",
    )  # fmt: skip


def _branches(one: Bifurcation) -> tuple[int, ...]:
    """The branches in order; first of all, but for a multiple one, that which the others leave."""
    first, *others = dict.fromkeys(part.track for part in one.parts)
    return tuple(sorted((first, *others))) if one.name == "multiple" else (first, *sorted(others))


def _bracket(one: Bifurcation) -> tuple[float, float]:
    """Between which parameters it happens. A point is surely there where it was seen, and lost perhaps too early.

    What vanishes together does so after the last place where any of it was seen; the nearest bracket beyond holds.
    """
    own = [part for part in one.parts if part.kind != "stayed"]
    if one.changes and one.changes[0].kind == "vanished":
        low = max(part.low for part in own)
        return low, min(part.high for part in own if part.high > low)
    high = min(part.high for part in own)
    return max(part.low for part in own if part.low < high), high


def _where(low: float, high: float, tolerance: float) -> str:
    digits = max(0, 1 - floor(log10(tolerance)))
    if high - low > CLOSE * tolerance:
        return f"Between {low:.{digits}f} and {high:.{digits}f}"
    return f"At {round(0.5 * (low + high), digits) + 0.0:.{digits}f}"


def _words(one: Bifurcation, size: int, symmetric: bool) -> str:
    changes = one.changes
    numbers = ", ".join(str(part.track) for part in changes)
    kinds = " and ".join(_kind(part.node.unstable, size) for part in changes)
    verb = {"appeared": "appear", "vanished": "vanish"}[changes[0].kind] if changes else ""
    if one.name == "saddle-node":
        return f"two points {verb}, {kinds} (saddle-node, branches {numbers})."
    if one.name == "multiple":
        return _multiple(one, verb)
    if one.name == "pitchfork":
        main = one.parts[0]
        near = "or a fold beside it, nearer than can be told"
        if main.kind == "stayed":
            return f"two points {verb} beside branch {main.track}, {kinds} (pitchfork, {near})."
        own_image = symmetric and float(main.node.state.abs().max()) < 1e-6  # only then x -> -x asks for it
        why = "as the symmetry x -> -x asks for" if own_image else near
        return f"{_turn(main, size)} and two points {verb} beside it, {kinds} (pitchfork, {why})."
    if one.name == "transcritical":
        return (
            f"two branches cross and exchange their stability: {_turn(one.parts[0], size)}, "
            f"{_turn(one.parts[1], size)} (transcritical)."
        )
    if changes:
        verb = "vanishes" if verb == "vanish" else "appears"
        return (
            f"{kinds} {verb} (branch {numbers}), but no point of opposite index was found that does so too, as there "
            f"must be where states are bounded."
        )
    turn = _turn(one.parts[0], size)
    if one.name == "unknown":
        return f"{turn}: an eigenvalue crosses {one.crossing}, but the branches that must meet it there were not found."
    meaning = {
        "flip": "an eigenvalue crosses -1 (flip: a cycle of two states is near)",
        "Neimark-Sacker": "a complex pair crosses the unit circle (Neimark-Sacker: an oscillation is near)",
        "Hopf": "a complex pair crosses the imaginary axis (Hopf: an oscillation is near)",
        "double": f"two real eigenvalues cross {one.crossing.split()[0]} together",
    }[one.name]
    return f"{turn}: {meaning}."


def _multiple(one: Bifurcation, verb: str) -> str:
    passing = len({part.track for part in one.parts} - {part.track for part in one.changes})
    counts = (passing, passing + len(one.changes))
    before, after = counts if one.changes[0].kind == "appeared" else counts[::-1]
    said = (
        f"several branches meet at one point, as far as can be told: {before} before, {after} after "
        f"(multiple, branches {', '.join(map(str, _branches(one)))})."
    )
    if one.lacking:
        less = abs(one.lacking)
        said += f" At least {less} more of index {'+1' if one.lacking > 0 else '-1'} must {verb} too and was not found."
    return said


def _turn(part: Happening, size: int) -> str:
    before, after = part.node.unstable, part.after.unstable if part.after is not None else -1
    return f"branch {part.track}, {_kind(before, size)}, becomes {_kind(after, size)}"


def _kind(up: int, size: int) -> str:
    if up < 0:
        return "a point"
    if up == 0:
        return "a stable point"
    if up == size:
        return "an unstable point"
    return f"a saddle with {up} unstable direction{'s' * (up > 1)}"
