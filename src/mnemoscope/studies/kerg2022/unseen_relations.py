"""Relations that are tested and were never trained (Kerg, 5.6 Fig 5, C.3, C.8 Fig 10, 11 and 13)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mnemoscope.replication.solving import changed_options
from mnemoscope.replication.study import Preset, Published
from mnemoscope.studies.kerg2022.relational import (
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
    Claim,
    Condition,
    RelationalStudy,
    claim,
    crossed,
    named,
)
from mnemoscope.tasks.relational import IdentityRules4

FOUR_OBJECTS = "identity rules 4"
OF_EACH_RULE = 32
"""Problems of a batch in the released code, which has as many for each rule that is trained: 224 for all seven."""
VARIANTS: dict[str, dict[str, Any]] = {
    f"{FOUR_OBJECTS} {variant}": changed_options(TASKS[FOUR_OBJECTS], {"variant": variant})
    | {"batch_size": OF_EACH_RULE * len(IdentityRules4(variant=variant).rules("train"))}
    for variant in ("missing", "flipped", "flipped missing", "without abaa", "without abab")
}
MISSING, FLIPPED, FLIPPED_MISSING, *ONE_MISSING = VARIANTS
NO_ABAB = ONE_MISSING[1]
UNSEEN: dict[str, dict[str, Any]] = {
    **{task: TASKS[task] for task in ("RMTS3", "same/diff 6", FOUR_OBJECTS)},
    MISSING: VARIANTS[MISSING],
}
"""Of Fig 5."""
FLIPS = {name: VARIANTS[name] for name in (FLIPPED, FLIPPED_MISSING)}
ALL = UNSEEN | VARIANTS
M = {**EXTREME, **dict.fromkeys(VARIANTS, EXTREME[FOUR_OBJECTS])}
AT_EXTREME = {task: (M[task],) for task in ALL}
OVER_ALL_M = {task: (*HELD_OUT, M[task]) for task in UNSEEN}
LEARNED, RANDOM = (tuple(name + kind for name in ("corelnet", "corelnet-t", "esbn")) for kind in ("", "-random"))
NETWORKS = named(*LEARNED, "predinet", "transformer")
FURTHER = ("mnm", "ntm", "lstm", "relation-network")
"""Of Fig 13."""
ALONE = crossed(named("corelnet", "corelnet-random"), {name: VARIANTS[name] for name in ONE_MISSING}, AT_EXTREME)
GRID = crossed(NETWORKS, UNSEEN | FLIPS, AT_EXTREME) | crossed(named(*RANDOM), UNSEEN, AT_EXTREME) | ALONE


def drops(network: str) -> Claim:
    """That a network is worse where base elements are missing."""
    whole, less = (Condition(network, task, M[task]) for task in (FOUR_OBJECTS, MISSING))
    quantity = f"{network}, m {M[MISSING]}: {FOUR_OBJECTS} against missing"
    words = "a drop in performance of all models"
    return Claim(Published(quantity, words, "Kerg, 5.6 and Fig 5", BETTER), (whole,), (less,))


def holds(less: str) -> Claim:
    """That CoRelNet is not worse where one base element is missing."""
    quantity = f"corelnet, m {M[less]}: {less} against {FOUR_OBJECTS}"
    one, whole = (Condition("corelnet", task, M[task]) for task in (less, FOUR_OBJECTS))
    because = (
        "no other rule of training repeats the second object alone, as every third test does" if less == NO_ABAB else ""
    )
    return Claim(Published(quantity, "no drop", "Kerg, 5.6", NO_WORSE, because=because), (one,), (whole,))


CLAIMS = (
    *(claim("CoRelNet outperforms ESBN and Transformer on all of these tasks", "Kerg, 5.6 and Fig 5", task, M[task],
            ["corelnet"], [other])
      for task in UNSEEN for other in ("esbn", "transformer")),
    *(claim(SIMPLE, "Kerg, 5.6 and Fig 5", task, M[task], ["corelnet"], ["corelnet-t"]) for task in UNSEEN),
    *(drops(network) for network in NETWORKS),
    *(holds(less) for less in ONE_MISSING),
    *(claim("a random encoder is often good on unseen relations too", "Kerg, 5.7 and Fig 5 right", task, M[task],
            [random], [learned], NO_WORSE)
      for task in UNSEEN for random, learned in zip(RANDOM, LEARNED, strict=True)),
)  # fmt: skip


class UnseenRelations(RelationalStudy):
    """Train networks on tasks whose tests have other shapes and other relations."""

    name = "unseen-relations"
    title = "Relations that were never trained"
    question = "Who is right where not only the shapes are new, but also the relations between them?"
    base = replace(BASE, name="unseen-relations")
    tasks = ALL
    unseen: Mapping[str, str] = {"test": "unseen shapes and relations"}
    claims = CLAIMS
    published = (
        Published(f"corelnet, RMTS3, m {M['RMTS3']}: unseen shapes and relations", "near perfect; a prototype: 99.5%",
                  f"Kerg, 5.6 and Fig 5; {PROTOTYPE}", agreeing=NEAR_PERFECT),
        Published(f"corelnet, {FOUR_OBJECTS}, m {M[FOUR_OBJECTS]}: unseen shapes and relations",
                  "near perfect; a prototype: 99.8%", f"Kerg, 5.6 and Fig 5; {PROTOTYPE}", agreeing=NEAR_PERFECT,
                  because="its encoder, as it is trained: with one that stays random nothing is missed"),
        Published(f"corelnet, same/diff 6, m {M['same/diff 6']}: unseen shapes and relations",
                  "a prototype: 83.3%, wrong where one triplet is aaa and the other aab", PROTOTYPE,
                  agreeing=(0.783, 0.883)),
        *(one.published for one in CLAIMS),
        *(Published(f"{task}, m {M[task]}", "bars alone", "Kerg, C.3 Fig 1", because=NO_NUMBERS)
          for task in (FLIPPED, FLIPPED_MISSING)),
    )  # fmt: skip
    presets: Mapping[str, Preset] = {
        "smoke": Preset("A few iterations of CoRelNet on three tasks: it shows that the machinery works.",
                        {"networks": crossed(named("corelnet"), {task: ALL[task] for task in
                                                                 ("RMTS3", "same/diff 6", FLIPPED_MISSING)},
                                             AT_EXTREME),
                         "changes": FEW_STEPS}),
        "cpu": Preset("As published, with the most shapes held out, but without ESBN and PrediNet, which are slow; two "
                      "seeds, and one of Transformer on the tasks of Fig 5.",
                      {"networks": crossed(named("corelnet", "corelnet-t"), UNSEEN | FLIPS, AT_EXTREME)
                       | crossed(named("corelnet-random", "corelnet-t-random", "transformer"), UNSEEN, AT_EXTREME)
                       | ALONE,
                       "changes": {}, "seeds": {"transformer": (0,)}}, (0, 1)),
        "held-out": Preset("Fewer shapes held out, down to none: CoRelNet, also with a random encoder; one seed.",
                           {"networks": crossed(named("corelnet", "corelnet-random"), UNSEEN, OVER_ALL_M),
                            "changes": {}}),
        "paper": Preset("As published, with the most shapes held out, ten seeds, on a GPU.",
                        {"networks": GRID, "changes": {"device": "cuda"}}, tuple(range(10))),
        "published": Preset("Fig 10, 11 and 13: all networks at all m, more of them at the largest; ten seeds, on a "
                            "GPU.",
                            {"networks": crossed(NETWORKS | named(*RANDOM), UNSEEN, OVER_ALL_M)
                             | crossed(named(*FURTHER), UNSEEN, AT_EXTREME),
                             "changes": {"device": "cuda"}}, tuple(range(10))),
    }  # fmt: skip
    cites = ("kerg2022", "webb2021", "shanahan2020", "vaswani2017")
    caption = CAPTION.replace("shapes", "shapes and relations") + OVER_M


STUDY = UnseenRelations()
