"""Ablations of relational networks: sensory input, asymmetric similarity, random encoder (Kerg, Fig 4)."""

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
    make_contrast,
    make_grid,
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
"""Ablations, each with the published statement, its source and the tolerance.

The tolerance is for the accuracy of plain minus ablated networks; for "random", of random minus plain networks."""


def ablated(kind: str, networks: Sequence[str] = PLAIN) -> tuple[str, ...]:
    """Return the names of the networks with an ablation."""
    return tuple(f"{network}-{kind}" for network in networks)


def _networks(plain: Sequence[str]) -> dict[str, dict[str, Any]]:
    return named(*plain, *(network for kind in KINDS for network in ablated(kind, plain)))


def _contrast(kind: str, task: str) -> Contrast:
    statement, source, tolerance = KINDS[kind]
    better, worse = (ablated(kind), PLAIN) if kind == "random" else (PLAIN, ablated(kind))
    return make_contrast(statement, source, task, EXTREME[task], better, worse, tolerance, paired=True)


CONTRASTS = tuple(_contrast(kind, task) for kind in KINDS for task in BASIC)
SENSORY = dict(zip(BASIC, CONTRASTS, strict=False))
"""Contrasts of the first ablation, by task."""
LEAST = "task that suffers least from sensory input"
FOUR = {task: TASKS[task] for task in BASIC}
NETWORKS = _networks(PLAIN)


class Ablations(RelationalStudy):
    """Train ablated CoRelNet, CoRelNet-T and ESBN on the four cognitive tests."""

    name = "ablations"
    title = "What relational networks need"
    question = (
        "What lets a network solve tasks with unseen shapes: a decoder that does not see the objects, a symmetric "
        "similarity, or a learned encoder?"
    )
    base = replace(BASE, name="ablations")
    contrasts = CONTRASTS
    claims = (
        *(contrast.claim for contrast in CONTRASTS),
        Claim(EVERYTHING, LEAST, "dist3", Source("kerg2022thesis", "5.8 and Fig 4 left"), tolerance=(1, 1)),
    )
    presets: Mapping[str, Preset] = {
        "smoke": Preset(
            "Smoke test: a few iterations of CoRelNet on one task.",
            {
                "networks": make_grid(
                    named("corelnet", *(f"corelnet-{kind}" for kind in KINDS)),
                    {"same/diff": TASKS["same/diff"]},
                    at_extreme(["same/diff"]),
                ),
                "changes": FEW_STEPS,
            },
        ),
        "cpu": Preset(
            "As published, with the most shapes held out, but without ESBN, which is slow; two seeds.",
            {"networks": make_grid(_networks(("corelnet", "corelnet-t")), FOUR, at_extreme(FOUR)), "changes": {}},
            (0, 1),
        ),
        "paper": Preset(
            "As cpu, with ESBN; ten seeds as published, on a GPU.",
            {"networks": make_grid(NETWORKS, FOUR, at_extreme(FOUR)), "changes": {"device": "cuda"}},
            tuple(range(10)),
        ),
        "published": Preset(
            "Fig 7 to 9: as paper, at all m.",
            {
                "networks": make_grid(NETWORKS, FOUR, {task: (*HELD_OUT, EXTREME[task]) for task in FOUR}),
                "changes": {"device": "cuda"},
            },
            tuple(range(10)),
        ),
    }
    cites = ("kerg2022", "webb2021", "webb2020")
    caption = CAPTION + OVER_M

    def contrast_rows(self, results: Sequence[Finished]) -> list[Row]:
        """Return the rows of the contrasts, and the task that suffers least from sensory input."""
        measured = {task: self.measure_contrast(results, contrast) for task, contrast in SENSORY.items()}
        lost = {task: result.gain for task, result in measured.items() if result is not None}
        if len(lost) < len(SENSORY):
            return super().contrast_rows(results)
        least = min(lost, key=lambda task: lost[task])
        ours = f"{least}, {100 * lost[least]:.1f} points"
        return [
            *super().contrast_rows(results),
            self.compare(results, self.claim(LEAST), [float(least == "dist3")], ours),
        ]


STUDY = Ablations()
