"""The rules of the twenty tasks of Yang et al. 2019: when stimuli are shown, and what the response is.

Durations are in milliseconds: a tuple lists values of equal chance, a range is uniform.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mnemoscope.base.suggestions import did_you_mean

Kind = Literal["go", "anti", "decision", "match", "category"]
EPOCHS = ("fixation", "stimulus 1", "delay 1", "stimulus 2", "delay 2", "response")
RESPONSE = 500
"""Duration of the response."""

_BRIEF, _DELAY = (200, 400, 600), (200, 400, 800, 1600)


@dataclass(frozen=True)
class Rule:
    """One of the tasks: its kind, the modality that decides, the durations of its epochs, and what stays visible."""

    name: str
    kind: Kind
    durations: tuple[Sequence[int], ...]
    """Durations of the epochs before the response, in the order of `EPOCHS`; those that follow are skipped."""
    modality: int = 0
    """Modality that decides, 1 or 2; 0 for any, or for both together."""
    both: bool = False
    """Whether decisions show their stimuli in both modalities."""
    goes_on_match: bool = True
    """Whether a match calls for a response; otherwise a non-match does."""
    visible: int = 0
    """Stimulus that is shown during the response, 1 or 2; 0 for none."""
    cued: bool = True
    """Whether the fixation cue goes off at the response."""

    @property
    def delayed(self) -> bool:
        """Whether the rule has a delay between a stimulus and what needs it."""
        return len(self.durations) > 2

    @property
    def coherences(self) -> tuple[float, ...]:
        """Half the differences between the strengths of two stimuli that are to be compared."""
        return (0.08, 0.16, 0.32) if self.delayed else (0.01, 0.02, 0.04, 0.08)


def _timed(kind: Kind) -> list[Rule]:
    """Return the rules for one stimulus: with a cue, with a reaction to the stimulus, and with a delay."""
    name = {"go": "Go", "anti": "Anti"}[kind]
    return [
        Rule(name, kind, (range(300, 700), range(500, 1500)), visible=1),
        Rule(f"RT {name}", kind, (range(500, 2500),), visible=1, cued=False),
        Rule(f"Dly {name}", kind, ((300, 500, 700), _BRIEF, _DELAY)),
    ]


def _decisions(delayed: bool) -> list[Rule]:
    """Return the rules for two stimuli, shown together or in sequence."""
    together = (range(100, 400), (400, 800, 1600))
    apart = (_BRIEF, _BRIEF, _DELAY, _BRIEF, range(100, 300))
    durations, label = (apart, "Dly DM") if delayed else (together, "DM")
    return [
        Rule(f"{label} 1", "decision", durations, modality=1),
        Rule(f"{label} 2", "decision", durations, modality=2),
        Rule(f"Ctx {label} 1", "decision", durations, modality=1, both=True),
        Rule(f"Ctx {label} 2", "decision", durations, modality=2, both=True),
        Rule(f"MultSen {label}", "decision", durations, both=True),
    ]


def _match(name: str, kind: Kind, goes_on_match: bool) -> Rule:
    durations = (_BRIEF, _BRIEF, _DELAY)
    return Rule(name, kind, durations, goes_on_match=goes_on_match, visible=2, cued=False)


RULES: tuple[Rule, ...] = (
    *_timed("go"),
    *_timed("anti"),
    *_decisions(delayed=False),
    *_decisions(delayed=True),
    _match("DMS", "match", goes_on_match=True),
    _match("DNMS", "match", goes_on_match=False),
    _match("DMC", "category", goes_on_match=True),
    _match("DNMC", "category", goes_on_match=False),
)
"""The twenty tasks in the order of the paper; the number of a task is its rule input."""


def find_rules(text: str) -> list[int]:
    """Return the numbers of rules named in a list with commas, or of "all".

    >>> find_rules("Go, dms")
    [0, 16]
    """
    if text.strip().lower() == "all":
        return list(range(len(RULES)))
    numbers = {rule.name.lower(): number for number, rule in enumerate(RULES)}
    chosen = []
    for name in text.split(","):
        if name.strip().lower() not in numbers:
            names = [rule.name for rule in RULES]
            raise ValueError(
                f"There is no task {name.strip()!r}: choose from all, {', '.join(names)}.{did_you_mean(name, names)}"
            )
        chosen.append(numbers[name.strip().lower()])
    if len(set(chosen)) < len(chosen):
        raise ValueError(f"A task is named twice in {text!r}.")
    return chosen
