"""Tests with relations that were not trained (Kerg, 5.6 Fig 5, C.3, C.8 Fig 10, 11 and 13)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mnemoscope.replication.agreement import chosen
from mnemoscope.replication.claims import Claim, about
from mnemoscope.replication.study import Preset
from mnemoscope.studies.kerg2022 import relational_claims as claims_about
from mnemoscope.studies.kerg2022.notation import preset, thesis
from mnemoscope.studies.kerg2022.relational import CAPTION, OVER_M, RelationalStudy
from mnemoscope.studies.kerg2022.relational_claims import (
    BARS,
    BETTER,
    CURVES,
    NEAR_PERFECT,
    NO_WORSE,
    Contrast,
    difference_of,
    make_contrast,
    over_tasks,
)
from mnemoscope.studies.kerg2022.relational_grid import FEW_STEPS, HELD_OUT, make_grid, network_on

UNSEEN = ("unseen shapes and relations", "unseen relations")
"""Name of the tested accuracy, and its name if no shapes are held out."""
FOUR_OBJECTS = "identity rules 4"
MISSING, NO_ABAA, NO_ABAB, FLIPPED, FLIPPED_MISSING = (
    f"{FOUR_OBJECTS} {variant}" for variant in ("missing", "without abaa", "without abab", "flipped", "flipped missing")
)
TASKS = ("RMTS3", "same/diff 6", FOUR_OBJECTS, MISSING)
"""Tasks of Fig 5."""
ENHANCED = TASKS[:3]
"""Tasks of C.8 Fig 12."""
FLIPS = (FLIPPED, FLIPPED_MISSING)
LEARNED, RANDOM = (tuple(name + kind for name in ("corelnet", "corelnet-t", "esbn")) for kind in ("", "-random"))
NETWORKS = (*LEARNED, "predinet", "transformer")
FURTHER = ("mnm", "ntm", "lstm", "relation-network")
"""Networks that only Fig 13 shows."""
ALONE = make_grid(["corelnet", "corelnet-random"], (NO_ABAA, NO_ABAB))
FIG_5 = thesis("5.6 and Fig 5")


def _drops(network: str) -> Contrast:
    """Return the contrast for the claim that a network is worse if base elements are missing."""
    complete, missing = (network_on(network, task) for task in (FOUR_OBJECTS, MISSING))
    quantity, statement = f"{FOUR_OBJECTS} against missing", "a drop in performance of all models"
    subject = replace(missing, task="")
    return Contrast(subject, quantity, statement, FIG_5, difference_of(BETTER), first=(complete,), second=(missing,))


def _holds(variant: str, reason: str = "") -> Contrast:
    """Return the contrast for the claim that CoRelNet is no worse if one base element is missing."""
    missing, complete = (network_on("corelnet", task) for task in (variant, FOUR_OBJECTS))
    subject, quantity = replace(missing, task=""), f"{variant} against {FOUR_OBJECTS}"
    near, source = difference_of(NO_WORSE), thesis("5.6")
    return Contrast(subject, quantity, "no drop", source, near, reason=reason, first=(missing,), second=(complete,))


def _all_enhanced() -> Contrast:
    """Return the contrast for the claim that sensory input degrades the mean over three tasks."""
    plain, sensory = (
        tuple(network_on(network + kind, task) for task in ENHANCED for network in LEARNED) for kind in ("", "-sensory")
    )
    quantity = "relational networks against the same with sensory input"
    statement = f"{BARS}sensory input degrades accuracy"
    subject, source = about("", "RMTS3, same/diff 6 and identity rules 4"), thesis("C.8 Fig 12 left")
    return Contrast(subject, quantity, statement, source, difference_of(BETTER), first=plain, second=sensory)


class UnseenRelations(RelationalStudy):
    """Train networks on tasks that are tested with other shapes and other relations."""

    name = "unseen-relations"
    title = "Relations that were never trained"
    question = "Which networks solve tasks in which both the shapes and the relations between them are new?"
    unseen: Mapping[str, tuple[str, str]] = {"test": UNSEEN}
    claims = (
        Claim(
            network_on("corelnet", "RMTS3"),
            UNSEEN[0],
            "near perfect",
            FIG_5,
            NEAR_PERFECT,
        ),
        Claim(
            network_on("corelnet", FOUR_OBJECTS),
            UNSEEN[0],
            "near perfect",
            FIG_5,
            NEAR_PERFECT,
            reason="the training of its encoder: a fixed random encoder solves it",
        ),
        Claim(
            network_on("corelnet", "same/diff 6"),
            UNSEEN[0],
            "a prototype: 83.3%, wrong where one triplet is aaa and the other aab",
            claims_about.PROTOTYPE,
            chosen(0.783, 0.883, "five points up and down", of_mean=True),
        ),
        *(
            make_contrast(
                "CoRelNet outperforms ESBN and Transformer on all of these tasks", FIG_5, task, ["corelnet"], [other]
            )
            for task in TASKS
            for other in ("esbn", "transformer")
        ),
        over_tasks(claims_about.SIMPLE, FIG_5, "all four tasks", TASKS, "corelnet", "corelnet-t"),
        *(_drops(network) for network in NETWORKS),
        _holds(NO_ABAA),
        _holds(NO_ABAB, "no other training rule repeats only the second object, as one third of the tests do"),
        *(
            make_contrast(
                "a random encoder is often good on unseen relations too",
                thesis("5.7 and Fig 5 right"),
                task,
                RANDOM,
                LEARNED,
                NO_WORSE,
                paired=True,
                averaged=True,
            )
            for task in TASKS
        ),
        *(
            make_contrast(
                f"{CURVES}CoRelNet is better on unseen relations of seen shapes too",
                thesis("C.8 Fig 10"),
                task,
                ["corelnet"],
                ["esbn", "transformer"],
                m=0,
            )
            for task in TASKS
        ),
        *(
            make_contrast(
                f"{CURVES}a random encoder suffices at every m",
                thesis("C.8 Fig 11"),
                task,
                RANDOM,
                LEARNED,
                NO_WORSE,
                m=0,
                paired=True,
            )
            for task in TASKS
        ),
        _all_enhanced(),
        *(make_contrast(claims_about.BASELINES, thesis("C.8 Fig 13"), task, ["corelnet"], FURTHER) for task in TASKS),
        *(
            make_contrast(
                f"{BARS}CoRelNet outperforms ESBN and Transformer here too",
                thesis("C.3 Fig 1"),
                task,
                ["corelnet"],
                ["esbn", "transformer"],
            )
            for task in FLIPS
        ),
    )
    presets: Mapping[str, Preset] = {
        "smoke": preset(
            "Smoke test: a few iterations of CoRelNet on three tasks.",
            make_grid(["corelnet"], ("RMTS3", "same/diff 6", FLIPPED_MISSING)),
            **FEW_STEPS,
        ),
        "cpu": preset(
            "As published, with the most shapes held out, but without ESBN and PrediNet, which are slow; two "
            "seeds, and one of Transformer, on the tasks of Fig 5 only.",
            make_grid(["corelnet", "corelnet-t"], TASKS + FLIPS)
            | make_grid(["corelnet-random", "corelnet-t-random", "transformer"], TASKS)
            | ALONE,
            seeds=2,
            fewer_seeds={"transformer": 1},
        ),
        "held-out": preset(
            "Fewer shapes held out, down to none: CoRelNet with a learned and with a random encoder; one seed.",
            make_grid(["corelnet", "corelnet-random"], TASKS, HELD_OUT),
        ),
        "paper": preset(
            "As published, with the most shapes held out and with none, ten seeds, on a GPU.",
            make_grid(NETWORKS, TASKS + FLIPS)
            | make_grid([network for network in NETWORKS + RANDOM if network != "predinet"], TASKS, fewer=[0])
            | make_grid(FURTHER, TASKS)
            | make_grid([f"{network}-sensory" for network in LEARNED], ENHANCED)
            | ALONE,
            seeds=10,
            device="cuda",
        ),
        "published": preset(
            "Fig 10 and 11: all networks of Fig 5 at all m; ten seeds, on a GPU.",
            make_grid(NETWORKS + RANDOM, TASKS, HELD_OUT),
            seeds=10,
            device="cuda",
        ),
    }
    cites = ("kerg2022", "webb2021", "shanahan2020", "vaswani2017")
    caption = CAPTION.replace("shapes", "shapes and relations") + OVER_M


STUDY = UnseenRelations()
