"""The conditions of trials of the twenty tasks: angles and strengths of two stimuli, and the response that is right.

A condition is a column: the rule, the angles of both stimuli in degrees, and the strength of each stimulus in each
modality, which is 0 where it is not shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.tasks.cognitive.trial_task import Conditions, choose
from mnemoscope.tasks.cognitive.yang_rules import RULES, Rule

STRENGTHS = {(s, m): f"strength {s} in modality {m}" for s in (1, 2) for m in (1, 2)}
"""Names of the columns, by stimulus and modality."""
CATEGORY_ANGLES = tuple(18.0 + 36 * number for number in range(10))
"""Angles of stimuli whose category, below or above 180 degrees, is compared."""
DECISION_OFFSETS, MATCH_OFFSETS = (90.0, 270.0), (20.0, 340.0)
"""Least and greatest angle from the first to the second stimulus, for decisions and for a non-match."""


def has(rules: Float[Tensor, " trials"], test: Callable[[Rule], bool]) -> Bool[Tensor, " trials"]:
    """Return which trials have a rule that passes a test."""
    return torch.tensor([test(rule) for rule in RULES])[rules.long()]


def draw_conditions(rules: Sequence[int], locations: int, trials: int, generator: torch.Generator) -> Conditions:
    """Draw conditions of trials of the given rules; angles are among `locations`, or anywhere if it is 0."""

    def uniform(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(trials, generator=generator, dtype=torch.float64)

    def offsets(low: float, high: float) -> Tensor:
        if not locations:
            return uniform(low, high)
        return choose([a for a in _angles(locations) if low <= a <= high], trials, generator)

    rule = choose(rules, trials, generator)
    compared, categories = has(rule, lambda each: each.kind == "match"), has(rule, lambda each: each.kind == "category")
    first = choose(_angles(locations), trials, generator) if locations else uniform(0, 360)
    first = torch.where(categories, choose(CATEGORY_ANGLES, trials, generator), first)
    match = torch.randint(2, (trials,), generator=generator).bool()
    offset = torch.where(compared & match, 0.0, offsets(*MATCH_OFFSETS))
    offset = torch.where(has(rule, lambda each: each.kind == "decision"), offsets(*DECISION_OFFSETS), offset)
    second = torch.where(categories, choose(CATEGORY_ANGLES, trials, generator), (first + offset) % 360)
    evidence = {m: _evidence(rule, trials, generator) for m in (1, 2)}
    means = {m: uniform(0.8, 1.2) for m in (1, 2)}
    strengths = _decision_strengths(rule, means, evidence)
    split = {s: uniform(0.2, 0.8) * choose([-0.5, 0.5], trials, generator) for s in (1, 2)}
    summed = has(rule, lambda each: each.both and not each.modality)
    for s in (1, 2):  # both modalities show parts of the same strength
        whole = means[1] + (3 - 2 * s) * evidence[1]
        for m in (1, 2):
            strengths[s, m] = torch.where(summed, whole * (1 + (3 - 2 * m) * split[s]), strengths[s, m])
    shown = {s: choose([1, 2], trials, generator) for s in (1, 2)}
    return _columns(rule, first, second, strengths, shown)


def grid_conditions(combinations: Mapping[str, Float[Tensor, " combinations"]]) -> Conditions:
    """Return the conditions of combinations of rule, angle and choice, with the strongest evidence.

    Choice 1 calls for a response to the first stimulus, or is a match; for choice 0 the second stimulus is stronger,
    or differs. Choice 0 is left out for rules with a single stimulus. Where categories are compared, an angle stands
    for the nearest one with a category: 0 and 180 degrees are between the two.
    """
    single = has(combinations["rule"], lambda rule: rule.kind in ("go", "anti"))
    kept = ~single | (combinations["choice"] == 1)
    rule, first, choice = (combinations[name][kept] for name in ("rule", "angle", "choice"))
    decides = has(rule, lambda each: each.kind == "decision")
    first = torch.where(has(rule, lambda each: each.kind == "category"), first % 360 // 36 * 36 + 18, first)
    second = torch.where(decides | (choice == 0), (first + 180) % 360, first)
    strongest = torch.tensor([rule.coherences[-1] for rule in RULES], dtype=torch.float64)[rule.long()]
    evidence = {}
    for m in (1, 2):
        attended = has(rule, lambda each, m=m: each.modality in (0, m))
        evidence[m] = strongest * (2 * choice - 1) * attended
    means = {m: torch.ones_like(first) for m in (1, 2)}
    shown = {s: torch.ones_like(first) for s in (1, 2)}
    return _columns(rule, first, second, _decision_strengths(rule, means, evidence), shown)


def response_angle(conditions: Conditions) -> Float[Tensor, " trials"]:
    """Return the angle of the right response in degrees, NaN where a network must go on fixating."""
    rule, first, second = (conditions[name] for name in ("rule", "angle 1", "angle 2"))
    attended = {m: has(rule, lambda each, m=m: each.modality in (0, m)) for m in (1, 2)}
    total = {s: torch.stack([conditions[STRENGTHS[s, m]] * attended[m] for m in (1, 2)]).sum(0) for s in (1, 2)}
    category = has(rule, lambda each: each.kind == "category")
    match = torch.where(category, (first < 180) == (second < 180), first == second)
    goes = match == has(rule, lambda each: each.goes_on_match)
    by_kind = {
        "go": first,
        "anti": (first + 180) % 360,
        "decision": torch.where(total[1] > total[2], first, second),
        "match": torch.where(goes, second, torch.nan),
        "category": torch.where(goes, second, torch.nan),
    }
    angle = torch.full_like(first, torch.nan)
    for kind, angles in by_kind.items():
        angle = torch.where(has(rule, lambda each, kind=kind: each.kind == kind), angles, angle)
    return angle


def _angles(locations: int) -> list[float]:
    return [360 * number / locations for number in range(locations)]


def _evidence(rule: Tensor, trials: int, generator: torch.Generator) -> Float[Tensor, " trials"]:
    """Draw half the signed difference between the strengths of two stimuli."""
    brief, delayed = (
        choose(next(r.coherences for r in RULES if r.kind == "decision" and r.delayed == late), trials, generator)
        for late in (False, True)
    )
    return torch.where(has(rule, lambda each: each.delayed), delayed, brief) * choose([-1, 1], trials, generator)


def _decision_strengths(
    rule: Tensor, means: Mapping[int, Tensor], evidence: Mapping[int, Tensor]
) -> dict[tuple[int, int], Tensor]:
    """Return mean plus or minus evidence, in the modalities that the rule shows."""
    strengths = {}
    for m in (1, 2):
        shown = has(rule, lambda each, m=m: each.kind == "decision" and (each.both or each.modality == m))
        strengths[1, m], strengths[2, m] = ((means[m] + sign * evidence[m]) * shown for sign in (1, -1))
    return strengths


def _columns(
    rule: Tensor,
    first: Tensor,
    second: Tensor,
    strengths: Mapping[tuple[int, int], Tensor],
    shown: Mapping[int, Tensor],
) -> Conditions:
    """Return the columns; stimuli that are not compared by strength have strength 1 in the modality `shown`."""
    single = has(rule, lambda each: each.kind in ("go", "anti"))
    decides = has(rule, lambda each: each.kind == "decision")
    columns = {"rule": rule, "angle 1": first, "angle 2": torch.where(single, torch.nan, second)}
    for (s, m), name in STRENGTHS.items():
        plain = (shown[s] == m).double() * (~single if s == 2 else 1)
        columns[name] = torch.where(decides, strengths[s, m], plain)
    return columns
