"""Four cognitive tests on unseen shapes (Kerg, 5.6 Fig 3, C.8 Fig 6 and 13)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mnemoscope.registry.citations import Source
from mnemoscope.replication.claims import Claim, Subject
from mnemoscope.replication.study import Preset
from mnemoscope.studies.kerg2022.relational import (
    AND_PROTOTYPE,
    BASE,
    BASIC,
    CAPTION,
    DRIFTS,
    EXTREME,
    FEW_STEPS,
    HELD_OUT,
    NEAR_PERFECT,
    OVER_M,
    PROTOTYPE,
    SIMPLE,
    TASKS,
    UNSEEN_SHAPES,
    VERY_GOOD,
    RelationalStudy,
    at_extreme,
    make_contrast,
    make_grid,
    named,
    network_on,
)

RELATIONAL = ("corelnet", "corelnet-t", "esbn")
"""Networks whose decoder sees the similarities of objects, but not the objects."""
OTHERS = ("transformer", "predinet", "relation-network", "lstm")
RECURRENT = ("ntm", "mnm")
REMEDIES: dict[str, dict[str, Any]] = {
    "corelnet-random": {"cell": "corelnet-random"},
    "corelnet-segmented": {"cell": "corelnet", "cell_options": {"segmented": True}},
    "corelnet-cosine": {"cell": "corelnet", "schedule": "cosine"},
}
"""Remedies against drift. Long after the encoder separates the training shapes it continues to learn, and changes that
help five shapes may map others closer together. A random encoder is never trained. With a learning rate that falls to
0, the encoder changes less and less. With rows normalised separately, fewer objects influence the normalisation of
an object."""
PAIRS: dict[str, dict[str, Any]] = {"esbn-segmented": {"cell": "esbn", "cell_options": {"segmented": True}}}
"""ESBN with the pairs of RMTS normalised separately: normalised together it reaches 73%; Webb et al. report more."""
TOGETHER = "all its pairs are normalised together; see esbn-segmented of --preset paper"
DRIFTING = ("identity rules",)
"""Tasks in which the accuracy on unseen shapes falls again while that on seen shapes stays."""
STATEMENTS = {
    "corelnet": ("optimal", NEAR_PERFECT, "5.6 and Fig 3"),
    "corelnet-t": ("exceptionally well", VERY_GOOD, "5.6 and Fig 3"),
    "esbn": ("nearly perfect", VERY_GOOD, "5.6 and Fig 3: exceptionally well; nearly perfect in Webb et al. 2021"),
}
"""Published statements about networks on all four tasks, with our tolerances; numbers are only in figures."""
MEASURED: dict[tuple[str, str], tuple[str, tuple[float, float]]] = {
    ("corelnet", "same/diff"): ("100%", NEAR_PERFECT),
    ("corelnet", "RMTS"): ("100%", NEAR_PERFECT),
    ("corelnet", "dist3"): ("99.7 to 100%", NEAR_PERFECT),
    ("corelnet", "identity rules"): ("95.9, 97.3 and 99.9%", NEAR_PERFECT),
    ("corelnet-random", "identity rules"): ("100%", NEAR_PERFECT),
    ("esbn", "identity rules"): ("99.9%", VERY_GOOD),
    ("lstm", "identity rules"): ("60%", (0.5, 0.7)),
    ("transformer", "identity rules"): ("50%", (0.4, 0.6)),
    ("predinet", "identity rules"): ("32%", (0.22, 0.42)),
}
"""Accuracies of the prototype, with tolerances: 10 points up and down if the task was not learned."""


def _claims() -> tuple[Claim, ...]:
    claims = []
    for task in BASIC:
        for network in dict.fromkeys((*STATEMENTS, *(network for network, _ in MEASURED))):
            statement, tolerance, locus = STATEMENTS.get(network, ("", None, ""))
            measured, near = MEASURED.get((network, task), ("", None))
            value = "; ".join(part for part in (statement, f"a prototype: {measured}" if measured else "") if part)
            if not value:
                continue
            source = PROTOTYPE
            if locus:
                source = Source("kerg2022thesis", f"{locus}; {AND_PROTOTYPE}" if measured else locus)
            subject = network_on(network, task, EXTREME[task])
            reason = TOGETHER if (network, task) == ("esbn", "RMTS") else ""
            claims.append(Claim(subject, UNSEEN_SHAPES[0], value, source, tolerance or near, reason=reason))
    return tuple(claims)


CONTRASTS = (
    *(
        make_contrast(
            "exceptionally well, as opposed to models that rely on sensory details",
            Source("kerg2022thesis", "5.6 and Fig 3"),
            task,
            EXTREME[task],
            RELATIONAL,
            ("transformer", "relation-network", "lstm"),
        )
        for task in BASIC
    ),
    *(
        make_contrast(
            SIMPLE,
            Source("kerg2022thesis", "5.6"),
            task,
            EXTREME[task],
            ("corelnet",),
            (other,),
            reason=DRIFTS if task in DRIFTING else "",
        )
        for task in BASIC
        for other in ("esbn", "corelnet-t")
    ),
)
FOUR = {task: TASKS[task] for task in BASIC}
DRIFT = {task: TASKS[task] for task in DRIFTING}


def _grid(*networks: str) -> dict[Subject, dict[str, Any]]:
    """Return all tasks at their largest m, drifting ones with the remedies, RMTS also with separate normalisation."""
    rmts = {"RMTS": FOUR["RMTS"]}
    return (
        make_grid(named(*networks), FOUR, at_extreme(FOUR))
        | make_grid(REMEDIES, DRIFT, at_extreme(DRIFT))
        | make_grid(PAIRS, rmts, at_extreme(rmts))
    )


class Cognitive(RelationalStudy):
    """Train networks on four cognitive tests with most shapes held out."""

    name = "relational-cognitive"
    title = "Cognitive tests on unseen shapes"
    question = "Which networks learn a rule from a handful of shapes that also holds for unseen shapes?"
    base = replace(BASE, name="relational-cognitive")
    contrasts = CONTRASTS
    claims = (*_claims(), *(contrast.claim for contrast in CONTRASTS))
    watched: Mapping[str, Sequence[str]] = dict.fromkeys(DRIFTING, ("corelnet", *REMEDIES))
    presets: Mapping[str, Preset] = {
        "smoke": Preset(
            "Smoke test: a few iterations on two tasks.",
            {
                "networks": make_grid(named("corelnet"), {"RMTS": TASKS["RMTS"]}, {"RMTS": (50, 95)})
                | make_grid(named("corelnet"), DRIFT, at_extreme(DRIFT)),
                "changes": FEW_STEPS,
            },
        ),
        "cpu": Preset(
            "As published, with the most shapes held out, and identity rules also with remedies against drift; five "
            "seeds of CoRelNet, two of CoRelNet-T, one of the other networks, which are slow.",
            {
                "networks": _grid(*RELATIONAL, *OTHERS),
                "changes": {},
                "seeds": {"corelnet-t": (0, 1), **dict.fromkeys(("esbn", *PAIRS, *OTHERS), (0,))},
            },
            (0, 1, 2, 3, 4),
        ),
        "held-out": Preset(
            "Fewer shapes held out, down to none; one seed.",
            {
                "networks": make_grid(
                    named("corelnet", "transformer", "predinet"),
                    FOUR,
                    {task: (*HELD_OUT, EXTREME[task]) for task in FOUR},
                ),
                "changes": {},
            },
        ),
        "paper": Preset(
            "As cpu, with NTM and MNM; ten seeds as published, on a GPU.",
            {"networks": _grid(*RELATIONAL, *OTHERS, *RECURRENT), "changes": {"device": "cuda"}},
            tuple(range(10)),
        ),
        "published": Preset(
            "All networks at all m, ten seeds, on a GPU.",
            {
                "networks": make_grid(
                    named(*RELATIONAL, *OTHERS, *RECURRENT), FOUR, {task: (*HELD_OUT, EXTREME[task]) for task in FOUR}
                ),
                "changes": {"device": "cuda"},
            },
            tuple(range(10)),
        ),
    }
    cites = (
        "kerg2022",
        "webb2021",
        "webb2020",
        "shanahan2020",
        "santoro2017",
        "vaswani2017",
        "munkhdalai2019",
        "graves2014",
        "hochreiter1997",
    )
    caption = (
        f"{CAPTION}{OVER_M} Bottom: accuracy on unseen shapes during training, which may fall again; thin lines for "
        "seeds, thick lines for their median."
    )


STUDY = Cognitive()
