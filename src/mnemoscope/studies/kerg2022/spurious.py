"""Shapes with an irrelevant colour, in one image or in separate images (Kerg, 5.6 Fig 6, C.5 and C.6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mnemoscope.replication.claims import EVERYTHING, Claim, Subject, about
from mnemoscope.replication.study import Preset
from mnemoscope.studies.kerg2022.notation import preset, thesis
from mnemoscope.studies.kerg2022.relational import CAPTION, OVER_M, RelationalStudy
from mnemoscope.studies.kerg2022.relational_claims import (
    BETTER,
    UNSEEN_SHAPES,
    VERY_GOOD,
    Contrast,
    difference_of,
    make_contrast,
)
from mnemoscope.studies.kerg2022.relational_grid import BASIC, FEW_STEPS, HELD_OUT, make_grid, network_on

COLOURED, MIRRORED = (tuple(f"{task} {feature}" for task in BASIC) for feature in ("colour", "mirror"))
SEPARATED = "same/diff separated"
PLAIN = ("corelnet", "esbn")
LEARNED, RANDOM, SPARSE = (tuple(network + kind for network in PLAIN) for kind in ("", "-random", "-l1"))
FEWER = (*HELD_OUT, 95)
"""Smaller numbers of held-out shapes in separate images; the largest is 98."""


def _grid(tasks: Iterable[str], plain: Sequence[str] = PLAIN) -> dict[Subject, dict[str, Any]]:
    """Return three variants of each plain network on each task, with the published strength of the penalty (Fig 6)."""
    grid = make_grid([network + kind for kind in ("", "-random", "-l1") for network in plain], tasks)
    for subject, changes in grid.items():
        if subject.network in SPARSE and subject.task.startswith("RMTS"):
            changes["cell_options"] = {"l1": 5.0}  # instead of 1
    return grid


def _falls(network: str) -> Contrast:
    """Return the contrast for the claim that a network degrades as more shapes are held out."""
    few, many = (network_on(network, SEPARATED, m) for m in (0, 98))
    subject, quantity, statement = about(network, SEPARATED), "m 0 against m 98", "degrades as m increases"
    return Contrast(
        subject, quantity, statement, thesis("C.6 Fig 4"), difference_of(BETTER), first=(few,), second=(many,)
    )


class Spurious(RelationalStudy):
    """Train networks on the four cognitive tests with shapes in random colours."""

    name = "spurious"
    title = "Colours that do not matter"
    question = "Does a network ignore, on unseen shapes, a feature that was irrelevant on seen shapes?"
    claims = (
        *(
            Claim(
                network_on("corelnet", SEPARATED, m),
                UNSEEN_SHAPES[m == 0],
                "close to perfect",
                thesis("C.6 Fig 4"),
                VERY_GOOD,
            )
            for m in (*FEWER, 98)
        ),
        *(
            make_contrast(statement, thesis("5.6 and Fig 6"), task, first, second, paired=True, averaged=True)
            for statement, first, second in (
                ("a random encoder performs poorly", LEARNED, RANDOM),
                ("even a learned encoder struggles, and often requires strong regularisation", SPARSE, LEARNED),
            )
            for task in COLOURED
        ),
        Claim(
            EVERYTHING,
            "training on several tasks, or on a curriculum, against spurious features",
            "an avenue to explore, without an experiment",
            thesis("7.4"),
            reason="an idea; it would be confirmed by an encoder that ignores colours after such training, and not "
            "without it",
        ),
        _falls("esbn"),
        _falls("transformer"),
    )
    presets: Mapping[str, Preset] = {
        "smoke": preset(
            "Smoke test: a few iterations on three tasks.",
            make_grid(["corelnet-l1"], ["RMTS colour"])
            | make_grid(["corelnet"], ["RMTS mirror"])
            | make_grid(["corelnet"], [SEPARATED], fewer=[0]),
            **FEW_STEPS,
        ),
        "cpu": preset(
            "Colours, and colours in separate images, as published, with the most shapes held out (with separate "
            "images also fewer, down to none); ESBN, which is slow, with separate images only; and mirror images, "
            "which were not published; one seed.",
            _grid(COLOURED + MIRRORED, ["corelnet"])
            | make_grid(["corelnet", "transformer"], [SEPARATED], FEWER)
            | make_grid(["esbn"], [SEPARATED], fewer=[0]),
        ),
        "paper": preset(
            "As cpu, with ESBN on all tasks; ten seeds as published, on a GPU.",
            _grid(COLOURED + MIRRORED) | make_grid(["corelnet", "esbn", "transformer"], [SEPARATED], FEWER),
            seeds=10,
            device="cuda",
        ),
    }
    cites = ("kerg2022", "webb2021", "vaswani2017")
    caption = CAPTION + OVER_M


STUDY = Spurious()
