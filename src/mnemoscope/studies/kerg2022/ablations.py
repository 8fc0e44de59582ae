"""What relational networks need: no sight of the objects, symmetry, and an encoder, learned or not (Kerg, Fig 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mnemoscope.replication.study import Finished, Preset, Published, Row
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
    Claim,
    RelationalStudy,
    at_extreme,
    claim,
    crossed,
    named,
)

PLAIN = ("corelnet", "corelnet-t", "esbn")
KINDS = {
    "sensory": ("degrades where encoded objects reach the decoder too", "Kerg, 5.6 and Fig 4 left", BETTER),
    "asymmetric": ("a symmetric dot product is essential", "Kerg, 5.6 and Fig 4 middle", BETTER),
    "random": ("maintained by a random encoder", "Kerg, 5.6 and Fig 4 right", NO_WORSE),
}
"""Ablations, what is said of each, and what agrees: of plain less ablated networks, or of random less plain ones."""


def ablated(kind: str) -> tuple[str, ...]:
    """The three networks with that change."""
    return tuple(f"{network}-{kind}" for network in PLAIN)


def _claim(kind: str, task: str) -> Claim:
    words, source, agreeing = KINDS[kind]
    better, worse = (ablated(kind), PLAIN) if kind == "random" else (PLAIN, ablated(kind))
    return claim(words, source, task, EXTREME[task], better, worse, agreeing, paired=True)


CLAIMS = tuple(_claim(kind, task) for kind in KINDS for task in BASIC)
SENSORY = dict(zip(BASIC, CLAIMS, strict=False))
"""The claims of the first kind."""
LEAST = "task that suffers least from sensory input"
FOUR = {task: TASKS[task] for task in BASIC}
NETWORKS = named(*PLAIN, *(network for kind in KINDS for network in ablated(kind)))


class Ablations(RelationalStudy):
    """Train CoRelNet, CoRelNet-T and ESBN with parts changed on the four cognitive tests."""

    name = "ablations"
    title = "What relational networks need"
    question = "What lets a network be right on shapes never seen: objects hidden from its decoder, symmetry, learning?"
    base = replace(BASE, name="ablations")
    claims = CLAIMS
    published = (
        *(one.published for one in CLAIMS),
        Published(LEAST, "dist3", "Kerg, 5.8 and Fig 4 left", agreeing=(1, 1)),
    )
    presets: Mapping[str, Preset] = {
        "smoke": Preset("A few iterations of CoRelNet on one task: it shows that the machinery works.",
                        {"networks": crossed(named("corelnet", *(f"corelnet-{kind}" for kind in KINDS)),
                                             {"same/diff": TASKS["same/diff"]}, at_extreme(["same/diff"])),
                         "changes": FEW_STEPS}),
        "cpu": Preset("As published, with the most shapes held out, but without ESBN, which is slow; two seeds.",
                      {"networks": crossed({name: network for name, network in NETWORKS.items()
                                            if not name.startswith("esbn")}, FOUR, at_extreme(FOUR)),
                       "changes": {}}, (0, 1)),
        "paper": Preset("As cpu, with ESBN, ten seeds as published, on a GPU.",
                        {"networks": crossed(NETWORKS, FOUR, at_extreme(FOUR)), "changes": {"device": "cuda"}},
                        tuple(range(10))),
        "published": Preset("Fig 7 to 9: the same at all m.",
                            {"networks": crossed(NETWORKS, FOUR, {task: (*HELD_OUT, EXTREME[task]) for task in FOUR}),
                             "changes": {"device": "cuda"}}, tuple(range(10))),
    }  # fmt: skip
    cites = ("kerg2022", "webb2021", "webb2020")
    caption = CAPTION + OVER_M

    def claimed(self, results: Sequence[Finished]) -> list[Row]:
        sides = {task: self.sides(results, one) for task, one in SENSORY.items()}
        lost = {task: found.gain for task, found in sides.items() if found is not None}
        if len(lost) < len(SENSORY):
            return super().claimed(results)
        least = min(lost, key=lambda task: lost[task])
        ours = f"{least}, {100 * lost[least]:.1f} points"
        return [*super().claimed(results),
                self.compared(results, self.stated(LEAST), LEAST, [float(least == "dist3")], ours, "")]  # fmt: skip


STUDY = Ablations()
