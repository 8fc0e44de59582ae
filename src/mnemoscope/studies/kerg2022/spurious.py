"""Shapes with a colour that does not matter, in one image and apart (Kerg, 5.6 Fig 6, C.5 and C.6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mnemoscope.replication.solving import changed_options
from mnemoscope.replication.study import Preset, Published
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
    VERY_GOOD,
    Claim,
    Condition,
    RelationalStudy,
    claim,
    crossed,
    named,
    words_at,
)


def with_feature(feature: str) -> dict[str, dict[str, Any]]:
    """The four cognitive tests with a feature that says nothing of the answer."""
    return {f"{task} {feature}": changed_options(TASKS[task], {"spurious": feature}) for task in BASIC}


COLOURED, MIRRORED = with_feature("colour"), with_feature("mirror")
SEPARATED = {"same/diff separated": with_feature("separated")["same/diff separated"]}
M = {name: (EXTREME[name.rpartition(" ")[0]],) for name in (*COLOURED, *MIRRORED, *SEPARATED)}
ALL_M = dict.fromkeys(SEPARATED, (*HELD_OUT, 95, 98))
LEARNED, RANDOM, SPARSE = (("corelnet" + kind, "esbn" + kind) for kind in ("", "-random", "-l1"))
L1 = {"RMTS": 5.0}
"""Strength of the penalty where it is not 1 (Kerg, Fig 6)."""


def grid(tasks: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Six networks on each task, with the strength of the penalty that was published for it."""
    found = {}
    for name, task in tasks.items():
        strength = L1.get(name.rpartition(" ")[0])
        sparse = {"cell_options": {"l1": strength}} if strength else {}
        networks = named(*LEARNED, *RANDOM) | {network: {"cell": network, **sparse} for network in SPARSE}
        found |= crossed(networks, {name: task}, M)
    return found


def falls(network: str) -> Claim:
    """That a network is worse where more shapes are held out."""
    few, many = (Condition(network, "same/diff separated", m) for m in (0, 98))
    quantity = f"{network}, same/diff separated: m 0 against m 98"
    return Claim(Published(quantity, "degrades as m increases", "Kerg, C.6 Fig 4", BETTER), (few,), (many,))


CLAIMS = (
    *(claim("a random encoder performs poorly", "Kerg, 5.6 and Fig 6", task, *M[task], LEARNED, RANDOM,
            paired=True)
      for task in COLOURED),
    *(claim("even a learned encoder struggles, and often requires strong regularisation", "Kerg, 5.6 and Fig 6",
            task, *M[task], SPARSE, LEARNED, paired=True)
      for task in COLOURED),
    falls("esbn"),
    falls("transformer"),
)  # fmt: skip


class Spurious(RelationalStudy):
    """Train networks on the four cognitive tests with shapes in random colours."""

    name = "spurious"
    title = "Colours that do not matter"
    question = "Does a network ignore on unseen shapes what never mattered on seen ones?"
    base = replace(BASE, name="spurious")
    tasks = COLOURED | MIRRORED | SEPARATED
    claims = CLAIMS
    published = (
        *(Published(f"corelnet, same/diff separated, m {m}: {words_at('unseen shapes', m)}", "close to perfect",
                    "Kerg, C.6 Fig 4", agreeing=VERY_GOOD) for m in ALL_M["same/diff separated"]),
        *(one.published for one in CLAIMS),
    )  # fmt: skip
    presets: Mapping[str, Preset] = {
        "smoke": Preset("A few iterations on three tasks: it shows that the machinery works.",
                        {"networks": crossed(named("corelnet-l1"), {"RMTS colour": COLOURED["RMTS colour"]}, M)
                         | crossed(named("corelnet"), {"RMTS mirror": MIRRORED["RMTS mirror"]}, M)
                         | crossed(named("corelnet"), SEPARATED, {"same/diff separated": (0, 98)}),
                         "changes": FEW_STEPS}),
        "cpu": Preset("Colours, and colours in images of their own, as published, with the most shapes held out (and "
                      "of separated ones fewer, down to none), ESBN with separated ones alone, as it is slow; and, not "
                      "published, mirror images; one seed.",
                      {"networks": {name: one for name, one in grid(COLOURED | MIRRORED).items()
                                    if not name.startswith("esbn")}
                       | crossed(named("corelnet", "transformer"), SEPARATED, ALL_M)
                       | crossed(named("esbn"), SEPARATED, {"same/diff separated": (0, 98)}), "changes": {}}),
        "paper": Preset("As cpu, with ESBN everywhere, ten seeds as published, on a GPU.",
                        {"networks": grid(COLOURED) | grid(MIRRORED)
                         | crossed(named("corelnet", "esbn", "transformer"), SEPARATED, ALL_M),
                         "changes": {"device": "cuda"}}, tuple(range(10))),
    }  # fmt: skip
    cites = ("kerg2022", "webb2021", "vaswani2017")
    caption = CAPTION + OVER_M


STUDY = Spurious()
