"""What relational networks need: no sight of the objects, symmetry, and an encoder, learned or not (Kerg, Fig 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mnemoscope.registry.citations import Source
from mnemoscope.replication.claims import EVERYTHING, Claim, Row
from mnemoscope.replication.study import Finished, Preset
from mnemoscope.studies.kerg2022.relational import (
    BASE,
    BASIC,
    BETTER,
    CAPTION,
    EXTREME,
    FEW_STEPS,
    HELD_OUT,
    NO_WORSE,
    OVER_M,
    TASKS,
    Contrast,
    RelationalStudy,
    at_extreme,
    contrast,
    crossed,
    named,
)

PLAIN = ("corelnet", "corelnet-t", "esbn")
KINDS = {
    "sensory": (
        "degrades where encoded objects reach the decoder too",
        Source("kerg2022thesis", "5.6 and Fig 4 left"),
        BETTER,
    ),
    "asymmetric": ("a symmetric dot product is essential", Source("kerg2022thesis", "5.6 and Fig 4 middle"), BETTER),
    "random": ("maintained by a random encoder", Source("kerg2022thesis", "5.6 and Fig 4 right"), NO_WORSE),
}
"""Ablations, what is said of each, and what agrees: of plain less ablated networks, or of random less plain ones."""


def ablated(kind: str, networks: Sequence[str] = PLAIN) -> tuple[str, ...]:
    """Return the networks with that change."""
    return tuple(f"{network}-{kind}" for network in networks)


def _networks(plain: Sequence[str]) -> dict[str, dict[str, Any]]:
    return named(*plain, *(network for kind in KINDS for network in ablated(kind, plain)))


def _contrast(kind: str, task: str) -> Contrast:
    words, source, agreeing = KINDS[kind]
    better, worse = (ablated(kind), PLAIN) if kind == "random" else (PLAIN, ablated(kind))
    return contrast(words, source, task, EXTREME[task], better, worse, agreeing, paired=True)


CONTRASTS = tuple(_contrast(kind, task) for kind in KINDS for task in BASIC)
SENSORY = dict(zip(BASIC, CONTRASTS, strict=False))
"""The claims of the first kind."""
LEAST = "task that suffers least from sensory input"
FOUR = {task: TASKS[task] for task in BASIC}
NETWORKS = _networks(PLAIN)


class Ablations(RelationalStudy):
    """Train CoRelNet, CoRelNet-T and ESBN with parts changed on the four cognitive tests."""

    name = "ablations"
    title = "What relational networks need"
    question = "What lets a network be right on shapes never seen: objects hidden from its decoder, symmetry, learning?"
    base = replace(BASE, name="ablations")
    contrasts = CONTRASTS
    claims = (
        *(one.claim for one in CONTRASTS),
        Claim(EVERYTHING, LEAST, "dist3", Source("kerg2022thesis", "5.8 and Fig 4 left"), tolerance=(1, 1)),
    )
    presets: Mapping[str, Preset] = {
        "smoke": Preset(
            "A few iterations of CoRelNet on one task: it shows that the machinery works.",
            {
                "networks": crossed(
                    named("corelnet", *(f"corelnet-{kind}" for kind in KINDS)),
                    {"same/diff": TASKS["same/diff"]},
                    at_extreme(["same/diff"]),
                ),
                "changes": FEW_STEPS,
            },
        ),
        "cpu": Preset(
            "As published, with the most shapes held out, but without ESBN, which is slow; two seeds.",
            {"networks": crossed(_networks(("corelnet", "corelnet-t")), FOUR, at_extreme(FOUR)), "changes": {}},
            (0, 1),
        ),
        "paper": Preset(
            "As cpu, with ESBN, ten seeds as published, on a GPU.",
            {"networks": crossed(NETWORKS, FOUR, at_extreme(FOUR)), "changes": {"device": "cuda"}},
            tuple(range(10)),
        ),
        "published": Preset(
            "Fig 7 to 9: the same at all m.",
            {
                "networks": crossed(NETWORKS, FOUR, {task: (*HELD_OUT, EXTREME[task]) for task in FOUR}),
                "changes": {"device": "cuda"},
            },
            tuple(range(10)),
        ),
    }
    cites = ("kerg2022", "webb2021", "webb2020")
    caption = CAPTION + OVER_M

    def claimed(self, results: Sequence[Finished]) -> list[Row]:
        sides = {task: self.sides(results, one) for task, one in SENSORY.items()}
        lost = {task: found.gain for task, found in sides.items() if found is not None}
        if len(lost) < len(SENSORY):
            return super().claimed(results)
        least = min(lost, key=lambda task: lost[task])
        ours = f"{least}, {100 * lost[least]:.1f} points"
        return [
            *super().claimed(results),
            self.compare(results, self.claim(LEAST), LEAST, [float(least == "dist3")], ours, ""),
        ]


STUDY = Ablations()
