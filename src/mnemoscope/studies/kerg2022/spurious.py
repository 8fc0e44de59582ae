"""Shapes with an irrelevant colour, in one image or in separate images (Kerg, 5.6 Fig 6, C.5 and C.6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mnemoscope.registry.citations import Source
from mnemoscope.replication.claims import Claim, Subject
from mnemoscope.replication.solving_study import changed_options
from mnemoscope.replication.study import Preset
from mnemoscope.studies.kerg2022.relational import (
    BASE,
    BASIC,
    BETTER,
    CAPTION,
    EXTREME,
    FEW_STEPS,
    HELD_OUT,
    OVER_M,
    TASKS,
    UNSEEN_SHAPES,
    VERY_GOOD,
    Contrast,
    RelationalStudy,
    make_contrast,
    make_grid,
    named,
    network_on,
)


def with_feature(feature: str) -> dict[str, dict[str, Any]]:
    """Return the four cognitive tests with a feature that is irrelevant for the answer."""
    return {f"{task} {feature}": changed_options(TASKS[task], {"spurious": feature}) for task in BASIC}


COLOURED, MIRRORED = with_feature("colour"), with_feature("mirror")
SEPARATED = {"same/diff separated": with_feature("separated")["same/diff separated"]}
WITHOUT = {f"{task} {feature}": task for feature in ("colour", "mirror", "separated") for task in BASIC}
"""Name of each task without its feature."""
M = {name: (EXTREME[WITHOUT[name]],) for name in (*COLOURED, *MIRRORED, *SEPARATED)}
ALL_M = dict.fromkeys(SEPARATED, (*HELD_OUT, 95, 98))
PLAIN = ("corelnet", "esbn")
LEARNED, RANDOM, SPARSE = (tuple(network + kind for network in PLAIN) for kind in ("", "-random", "-l1"))
L1 = {"RMTS": 5.0}
"""Strength of the L1 penalty where it is not 1 (Kerg, Fig 6)."""


def grid(tasks: Mapping[str, Mapping[str, Any]], plain: Sequence[str] = PLAIN) -> dict[Subject, dict[str, Any]]:
    """Return three variants of each plain network on each task, with the published strength of the penalty."""
    trials = {}
    for name, task in tasks.items():
        strength = L1.get(WITHOUT[name])
        penalty = {"cell_options": {"l1": strength}} if strength else {}
        sparse = {f"{network}-l1": {"cell": f"{network}-l1", **penalty} for network in plain}
        networks = named(*plain, *(f"{network}-random" for network in plain)) | sparse
        trials |= make_grid(networks, {name: task}, M)
    return trials


def falls(network: str) -> Contrast:
    """Return the contrast for the claim that a network degrades as more shapes are held out."""
    few, many = (network_on(network, "same/diff separated", m) for m in (0, 98))
    subject, source = network_on(network, "same/diff separated"), Source("kerg2022thesis", "C.6 Fig 4")
    claim = Claim(subject, "m 0 against m 98", "degrades as m increases", source, BETTER)
    return Contrast(claim, (few,), (many,))


CONTRASTS = (
    *(
        make_contrast(
            "a random encoder performs poorly",
            Source("kerg2022thesis", "5.6 and Fig 6"),
            task,
            *M[task],
            LEARNED,
            RANDOM,
            paired=True,
        )
        for task in COLOURED
    ),
    *(
        make_contrast(
            "even a learned encoder struggles, and often requires strong regularisation",
            Source("kerg2022thesis", "5.6 and Fig 6"),
            task,
            *M[task],
            SPARSE,
            LEARNED,
            paired=True,
        )
        for task in COLOURED
    ),
    falls("esbn"),
    falls("transformer"),
)


class Spurious(RelationalStudy):
    """Train networks on the four cognitive tests with shapes in random colours."""

    name = "spurious"
    title = "Colours that do not matter"
    question = "Does a network ignore, on unseen shapes, a feature that was irrelevant on seen shapes?"
    base = replace(BASE, name="spurious")
    tasks = COLOURED | MIRRORED | SEPARATED
    contrasts = CONTRASTS
    claims = (
        *(
            Claim(
                network_on("corelnet", "same/diff separated", m),
                UNSEEN_SHAPES[m == 0],
                "close to perfect",
                Source("kerg2022thesis", "C.6 Fig 4"),
                tolerance=VERY_GOOD,
            )
            for m in ALL_M["same/diff separated"]
        ),
        *(contrast.claim for contrast in CONTRASTS),
    )
    presets: Mapping[str, Preset] = {
        "smoke": Preset(
            "Smoke test: a few iterations on three tasks.",
            {
                "networks": make_grid(named("corelnet-l1"), {"RMTS colour": COLOURED["RMTS colour"]}, M)
                | make_grid(named("corelnet"), {"RMTS mirror": MIRRORED["RMTS mirror"]}, M)
                | make_grid(named("corelnet"), SEPARATED, {"same/diff separated": (0, 98)}),
                "changes": FEW_STEPS,
            },
        ),
        "cpu": Preset(
            "Colours, and colours in separate images, as published, with the most shapes held out (with separate "
            "images also fewer, down to none); ESBN, which is slow, with separate images only; and mirror images, "
            "which were not published; one seed.",
            {
                "networks": grid(COLOURED | MIRRORED, ("corelnet",))
                | make_grid(named("corelnet", "transformer"), SEPARATED, ALL_M)
                | make_grid(named("esbn"), SEPARATED, {"same/diff separated": (0, 98)}),
                "changes": {},
            },
        ),
        "paper": Preset(
            "As cpu, with ESBN on all tasks; ten seeds as published, on a GPU.",
            {
                "networks": grid(COLOURED)
                | grid(MIRRORED)
                | make_grid(named("corelnet", "esbn", "transformer"), SEPARATED, ALL_M),
                "changes": {"device": "cuda"},
            },
            tuple(range(10)),
        ),
    }
    cites = ("kerg2022", "webb2021", "vaswani2017")
    caption = CAPTION + OVER_M


STUDY = Spurious()
