"""Tests with relations that were not trained (Kerg, 5.6 Fig 5, C.3, C.8 Fig 10, 11 and 13)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mnemoscope.registry.citations import Source
from mnemoscope.replication.claims import Claim
from mnemoscope.replication.solving_study import changed_options
from mnemoscope.replication.study import Preset
from mnemoscope.studies.kerg2022.relational import (
    AND_PROTOTYPE,
    BASE,
    BETTER,
    CAPTION,
    EXTREME,
    FEW_STEPS,
    HELD_OUT,
    NEAR_PERFECT,
    NO_NUMBERS,
    NO_WORSE,
    OVER_M,
    PROTOTYPE,
    SIMPLE,
    TASKS,
    Contrast,
    RelationalStudy,
    make_contrast,
    make_grid,
    named,
    network_on,
)
from mnemoscope.tasks.relational import IdentityRules4

FOUR_OBJECTS = "identity rules 4"
UNSEEN = ("unseen shapes and relations", "unseen relations")
"""Name of the tested accuracy, and its name if no shapes are held out."""
PROBLEMS_PER_RULE = 32
"""Problems per trained rule in a batch of the released code: 224 for all seven rules."""
VARIANTS: dict[str, dict[str, Any]] = {
    f"{FOUR_OBJECTS} {variant}": changed_options(TASKS[FOUR_OBJECTS], {"variant": variant})
    | {"batch_size": PROBLEMS_PER_RULE * len(IdentityRules4(variant=variant).rules("train"))}
    for variant in ("missing", "flipped", "flipped missing", "without abaa", "without abab")
}
MISSING, FLIPPED, FLIPPED_MISSING, *ONE_MISSING = VARIANTS
NO_ABAB = ONE_MISSING[1]
UNSEEN_TASKS: dict[str, dict[str, Any]] = {
    **{task: TASKS[task] for task in ("RMTS3", "same/diff 6", FOUR_OBJECTS)},
    MISSING: VARIANTS[MISSING],
}
"""Tasks of Fig 5."""
FLIPS = {name: VARIANTS[name] for name in (FLIPPED, FLIPPED_MISSING)}
ALL = UNSEEN_TASKS | VARIANTS
M = {**EXTREME, **dict.fromkeys(VARIANTS, EXTREME[FOUR_OBJECTS])}
AT_EXTREME = {task: (M[task],) for task in ALL}
OVER_ALL_M = {task: (*HELD_OUT, M[task]) for task in UNSEEN_TASKS}
LEARNED, RANDOM = (tuple(name + kind for name in ("corelnet", "corelnet-t", "esbn")) for kind in ("", "-random"))
NETWORKS = named(*LEARNED, "predinet", "transformer")
FURTHER = ("mnm", "ntm", "lstm", "relation-network")
"""Networks that only Fig 13 shows."""
ALONE = make_grid(named("corelnet", "corelnet-random"), {name: VARIANTS[name] for name in ONE_MISSING}, AT_EXTREME)
GRID = (
    make_grid(NETWORKS, UNSEEN_TASKS | FLIPS, AT_EXTREME) | make_grid(named(*RANDOM), UNSEEN_TASKS, AT_EXTREME) | ALONE
)


def drops(network: str) -> Contrast:
    """Return the contrast for the claim that a network is worse if base elements are missing."""
    complete, missing = (network_on(network, task, M[task]) for task in (FOUR_OBJECTS, MISSING))
    statement, source = "a drop in performance of all models", Source("kerg2022thesis", "5.6 and Fig 5")
    subject = network_on(network, "", M[MISSING])
    claim = Claim(subject, f"{FOUR_OBJECTS} against missing", statement, source, BETTER)
    return Contrast(claim, (complete,), (missing,))


def holds(variant: str) -> Contrast:
    """Return the contrast for the claim that CoRelNet is no worse if one base element is missing."""
    missing, complete = (network_on("corelnet", task, M[task]) for task in (variant, FOUR_OBJECTS))
    reason = ""
    if variant == NO_ABAB:
        reason = "no other training rule repeats only the second object, as one third of the tests do"
    subject, source = network_on("corelnet", "", M[variant]), Source("kerg2022thesis", "5.6")
    claim = Claim(subject, f"{variant} against {FOUR_OBJECTS}", "no drop", source, NO_WORSE, reason=reason)
    return Contrast(claim, (missing,), (complete,))


CONTRASTS = (
    *(
        make_contrast(
            "CoRelNet outperforms ESBN and Transformer on all of these tasks",
            Source("kerg2022thesis", "5.6 and Fig 5"),
            task,
            M[task],
            ["corelnet"],
            [other],
        )
        for task in UNSEEN_TASKS
        for other in ("esbn", "transformer")
    ),
    *(
        make_contrast(SIMPLE, Source("kerg2022thesis", "5.6 and Fig 5"), task, M[task], ["corelnet"], ["corelnet-t"])
        for task in UNSEEN_TASKS
    ),
    *(drops(network) for network in NETWORKS),
    *(holds(variant) for variant in ONE_MISSING),
    *(
        make_contrast(
            "a random encoder is often good on unseen relations too",
            Source("kerg2022thesis", "5.7 and Fig 5 right"),
            task,
            M[task],
            [random],
            [learned],
            NO_WORSE,
        )
        for task in UNSEEN_TASKS
        for random, learned in zip(RANDOM, LEARNED, strict=True)
    ),
)


class UnseenRelations(RelationalStudy):
    """Train networks on tasks that are tested with other shapes and other relations."""

    name = "unseen-relations"
    title = "Relations that were never trained"
    question = "Which networks solve tasks in which both the shapes and the relations between them are new?"
    base = replace(BASE, name="unseen-relations")
    tasks = ALL
    unseen: Mapping[str, tuple[str, str]] = {"test": UNSEEN}
    contrasts = CONTRASTS
    claims = (
        Claim(
            network_on("corelnet", "RMTS3", M["RMTS3"]),
            UNSEEN[0],
            "near perfect; a prototype: 99.5%",
            Source("kerg2022thesis", f"5.6 and Fig 5; {AND_PROTOTYPE}"),
            tolerance=NEAR_PERFECT,
        ),
        Claim(
            network_on("corelnet", FOUR_OBJECTS, M[FOUR_OBJECTS]),
            UNSEEN[0],
            "near perfect; a prototype: 99.8%",
            Source("kerg2022thesis", f"5.6 and Fig 5; {AND_PROTOTYPE}"),
            tolerance=NEAR_PERFECT,
            reason="the training of its encoder: a fixed random encoder solves it",
        ),
        Claim(
            network_on("corelnet", "same/diff 6", M["same/diff 6"]),
            UNSEEN[0],
            "a prototype: 83.3%, wrong where one triplet is aaa and the other aab",
            PROTOTYPE,
            tolerance=(0.783, 0.883),
        ),
        *(contrast.claim for contrast in CONTRASTS),
        *(
            Claim(
                network_on("", task, M[task]),
                UNSEEN[0],
                "bars alone",
                Source("kerg2022thesis", "C.3 Fig 1"),
                reason=NO_NUMBERS,
            )
            for task in (FLIPPED, FLIPPED_MISSING)
        ),
    )
    presets: Mapping[str, Preset] = {
        "smoke": Preset(
            "Smoke test: a few iterations of CoRelNet on three tasks.",
            {
                "networks": make_grid(
                    named("corelnet"),
                    {task: ALL[task] for task in ("RMTS3", "same/diff 6", FLIPPED_MISSING)},
                    AT_EXTREME,
                ),
                "changes": FEW_STEPS,
            },
        ),
        "cpu": Preset(
            "As published, with the most shapes held out, but without ESBN and PrediNet, which are slow; two "
            "seeds, and one of Transformer, on the tasks of Fig 5 only.",
            {
                "networks": make_grid(named("corelnet", "corelnet-t"), UNSEEN_TASKS | FLIPS, AT_EXTREME)
                | make_grid(named("corelnet-random", "corelnet-t-random", "transformer"), UNSEEN_TASKS, AT_EXTREME)
                | ALONE,
                "changes": {},
                "seeds": {"transformer": (0,)},
            },
            (0, 1),
        ),
        "held-out": Preset(
            "Fewer shapes held out, down to none: CoRelNet with a learned and with a random encoder; one seed.",
            {"networks": make_grid(named("corelnet", "corelnet-random"), UNSEEN_TASKS, OVER_ALL_M), "changes": {}},
        ),
        "paper": Preset(
            "As published, with the most shapes held out, ten seeds, on a GPU.",
            {"networks": GRID, "changes": {"device": "cuda"}},
            tuple(range(10)),
        ),
        "published": Preset(
            "Fig 10, 11 and 13: all networks of Fig 5 at all m, others at the largest m; ten seeds, on a GPU.",
            {
                "networks": make_grid(NETWORKS | named(*RANDOM), UNSEEN_TASKS, OVER_ALL_M)
                | make_grid(named(*FURTHER), UNSEEN_TASKS, AT_EXTREME),
                "changes": {"device": "cuda"},
            },
            tuple(range(10)),
        ),
    }
    cites = ("kerg2022", "webb2021", "shanahan2020", "vaswani2017")
    caption = CAPTION.replace("shapes", "shapes and relations") + OVER_M


STUDY = UnseenRelations()
