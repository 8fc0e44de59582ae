"""Four cognitive tests on unseen shapes (Kerg, 5.6 Fig 3, C.8 Fig 6 and 13)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mnemoscope.replication.agreement import Agreement, chosen
from mnemoscope.replication.claims import Claim, Subject
from mnemoscope.replication.study import Preset
from mnemoscope.studies.kerg2022 import relational_claims as claims_about
from mnemoscope.studies.kerg2022.notation import preset, thesis
from mnemoscope.studies.kerg2022.relational import CAPTION, OTHER_NETWORKS, OVER_M, RelationalStudy
from mnemoscope.studies.kerg2022.relational_claims import (
    CURVES,
    NEAR_PERFECT,
    VERY_GOOD,
    make_contrast,
    over_m,
    over_tasks,
)
from mnemoscope.studies.kerg2022.relational_grid import BASIC, FEW_STEPS, HELD_OUT, make_grid, network_on

RELATIONAL = ("corelnet", "corelnet-t", "esbn")
"""Networks whose decoder sees the similarities of objects, but not the objects."""
OTHERS = ("transformer", "predinet", "relation-network", "lstm")
SENSORY = ("transformer", "relation-network", "lstm")
"""Networks that see the objects, of which the text names three."""
RECURRENT = ("ntm", "mnm")
BASELINES = (*RECURRENT, "lstm", "relation-network")
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
"""Published statements about networks on all four tasks, with our ranges; numbers are only in figures."""
TEN_POINTS = "ten points up and down: the task was not learned"
MEASURED: dict[tuple[str, str], tuple[str, Agreement]] = {
    ("corelnet-random", "identity rules"): ("100%", NEAR_PERFECT),
    ("lstm", "identity rules"): ("60%", chosen(0.5, 0.7, TEN_POINTS, of_mean=True)),
    ("transformer", "identity rules"): ("50%", chosen(0.4, 0.6, TEN_POINTS, of_mean=True)),
    ("predinet", "identity rules"): ("32%", chosen(0.22, 0.42, TEN_POINTS, of_mean=True)),
}
"""Accuracies of the prototype, about which nothing was published."""


def _claims() -> Iterator[Claim]:
    for task in BASIC:
        for network in dict.fromkeys((*STATEMENTS, *(network for network, _ in MEASURED))):
            subject, quantity = network_on(network, task), claims_about.UNSEEN_SHAPES[0]
            if network in STATEMENTS:
                statement, agreement, locus = STATEMENTS[network]
                reason = TOGETHER if (network, task) == ("esbn", "RMTS") else ""
                yield Claim(subject, quantity, statement, thesis(locus), agreement, reason=reason)
            elif (network, task) in MEASURED:
                measured, agreement = MEASURED[network, task]
                yield Claim(subject, quantity, f"a prototype: {measured}", claims_about.PROTOTYPE, agreement)


def _grid(*networks: str) -> dict[Subject, dict[str, Any]]:
    """Return all tasks, drifting ones also with the remedies, and RMTS also with separate normalisation."""
    return make_grid(networks, BASIC) | make_grid(REMEDIES, DRIFTING) | make_grid(PAIRS, ["RMTS"])


class Cognitive(RelationalStudy):
    """Train networks on four cognitive tests with most shapes held out."""

    name = "relational-cognitive"
    title = "Cognitive tests on unseen shapes"
    question = "Which networks learn a rule from a handful of shapes that also holds for unseen shapes?"
    claims = (
        *_claims(),
        *(
            make_contrast(
                "exceptionally well, as opposed to models that rely on sensory details",
                thesis("5.6 and Fig 3"),
                task,
                RELATIONAL,
                SENSORY,
            )
            for task in BASIC
        ),
        *(
            over_tasks(claims_about.SIMPLE, thesis("5.6"), "all four tasks", BASIC, "corelnet", other)
            for other in ("esbn", "corelnet-t")
        ),
        *(
            over_m(f"{CURVES}{statement}", thesis("C.8 Fig 6"), task, networks, falls=falls)
            for statement, networks, falls in (
                ("networks that see relations alone keep their accuracy", RELATIONAL, False),
                ("networks that see the objects lose accuracy", SENSORY, True),
            )
            for task in BASIC
        ),
        *(make_contrast(claims_about.BASELINES, thesis("C.8 Fig 13"), task, ["corelnet"], BASELINES) for task in BASIC),
    )
    watched: Mapping[str, Sequence[str]] = dict.fromkeys(DRIFTING, ("corelnet", *REMEDIES))
    presets: Mapping[str, Preset] = {
        "smoke": preset(
            "Smoke test: a few iterations on two tasks.",
            make_grid(["corelnet"], ["RMTS"], fewer=[50]) | make_grid(["corelnet"], DRIFTING),
            **FEW_STEPS,
        ),
        "cpu": preset(
            "As published, with the most shapes held out, and identity rules also with remedies against drift; five "
            "seeds of CoRelNet, two of CoRelNet-T, one of the other networks, which are slow.",
            _grid(*RELATIONAL, *OTHERS),
            seeds=5,
            fewer_seeds={"corelnet-t": 2, **dict.fromkeys(("esbn", *PAIRS, *OTHERS), 1)},
        ),
        "held-out": preset(
            "Fewer shapes held out, down to none; one seed.",
            make_grid(["corelnet", "transformer", "predinet"], BASIC, HELD_OUT),
        ),
        "paper": preset(
            "As cpu, with NTM and MNM; ten seeds as published, on a GPU.",
            _grid(*RELATIONAL, *OTHERS, *RECURRENT),
            seeds=10,
            device="cuda",
        ),
        "published": preset(
            "All networks at all m, ten seeds, on a GPU.",
            make_grid(RELATIONAL + OTHERS + RECURRENT, BASIC, HELD_OUT),
            seeds=10,
            device="cuda",
        ),
    }
    cites = ("kerg2022", "webb2021", "webb2020", "shanahan2020", *OTHER_NETWORKS)
    caption = (
        f"{CAPTION}{OVER_M} Bottom: accuracy on unseen shapes during training, which may fall again; thin lines for "
        "seeds, thick lines for their median."
    )


STUDY = Cognitive()
