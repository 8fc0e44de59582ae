"""Which of two is larger: relations that have a direction (Kerg, chapter 7 Fig 2 and 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import stdev
from typing import Any

import torch
from torch.nn.functional import one_hot

from mnemoscope.registry.citations import Source
from mnemoscope.relational import CoRelNet
from mnemoscope.relational.similarity import Mixture
from mnemoscope.replication.claims import Claim, Row, Subject
from mnemoscope.replication.learning import finite
from mnemoscope.replication.study import Finished, Preset
from mnemoscope.studies.kerg2022.relational import (
    AND_PROTOTYPE,
    BASE,
    BASIC,
    CAPTION,
    EXTREME,
    FEW_STEPS,
    NEAR_PERFECT,
    TASKS,
    UNSEEN_SHAPES,
    VERY_GOOD,
    RelationalStudy,
    at_extreme,
    contrast,
    crossed,
    named,
    network_on,
    over_seeds,
)
from mnemoscope.training import load_model

SYMMETRIC = ("corelnet", "esbn")
ASYMMETRIC = ("corelnet-asymmetric", "esbn-asymmetric")
OF_CHAPTER_7 = (*SYMMETRIC, *ASYMMETRIC, "corelnet-diff", "corelnet-mix")
COMPARED: dict[str, dict[str, Any]] = {
    "comparison": {"task": "comparison"},
    "transitive comparison": {"task": "comparison", "task_options": {"transitive": True}},
}
BASIC_TASKS = {task: TASKS[task] for task in BASIC}
M = 95
"""Shapes held out of comparisons: the source does not say how many, nor how large a small, medium and large one is."""
HELD_OUT = dict.fromkeys(COMPARED, (M,))
CHANCE = (0.45, 0.55)
ABOVE_CHANCE = (0.6, 1.0)
VARYING = 0.05
"""A deviation over seeds from which on it is called high."""
WINS, TELLS = "difference wins", "the winner tells the answer"
"""Shares of the problems in which a mixture reads differences, and in which one who knows nothing but the rule that
won would be right: the winner is chosen from the objects in their order, so that it may be the answer by itself."""
TOLD: dict[str, tuple[str, tuple[float, float]]] = {
    "corelnet": ("cannot be learned; a prototype: 50%", CHANCE),
    "esbn": ("cannot be learned", CHANCE),
    "corelnet-asymmetric": ("better than CoRelNet; a prototype: 97 to 100%", VERY_GOOD),
    "esbn-asymmetric": ("better than ESBN", ABOVE_CHANCE),
    "corelnet-diff": ("solved; a prototype: 100%", NEAR_PERFECT),
    "corelnet-mix": ("decent; a prototype: 99 to 100%", VERY_GOOD),
}
"""What is said of networks on both tasks; the numbers stand in a figure alone."""
SOURCE = Source("kerg2022thesis", f"7.2, 7.3 and Fig 2; {AND_PROTOTYPE}")


CONTRASTS = (
    *(
        contrast(
            "an asymmetric similarity enhances the ability to learn the task",
            Source("kerg2022thesis", "7.2 and Fig 2"),
            task,
            M,
            [directed],
            [symmetric],
        )
        for task in COMPARED
        for symmetric, directed in zip(SYMMETRIC, ASYMMETRIC, strict=True)
    ),
    *(
        contrast(
            "some similarity measures work well on some tasks, and worse on others",
            Source("kerg2022thesis", "7.3, Fig 2 and 3"),
            task,
            EXTREME[task],
            ["corelnet"],
            ["corelnet-diff"],
        )
        for task in BASIC
    ),
)


DEVIATION = "deviation over seeds"


def mixture_on(task: str) -> Subject:
    """Return the trials of the mixture on a task, with the most shapes held out."""
    return network_on("corelnet-mix", task, EXTREME[task])


class ComparisonStudy(RelationalStudy):
    """Train networks to tell which of two shapes is larger, and on tasks that ask whether shapes are the same."""

    name = "comparison"
    title = "Which of two is larger"
    question = (
        "Who can learn a relation that has a direction? Normalised, two objects are each other's negative, so that "
        "products of them are the same in either order, but for what the normalisation's bias adds; differences are "
        "not."
    )
    base = replace(BASE, name="comparison", task="comparison")
    tasks: Mapping[str, Mapping[str, Any]] = COMPARED | BASIC_TASKS
    contrasts = CONTRASTS
    claims = (
        *(
            Claim(network_on(network, task, M), UNSEEN_SHAPES[0], words, SOURCE, tolerance)
            for network, (words, tolerance) in TOLD.items()
            for task in COMPARED
        ),
        *(
            Claim(
                mixture_on(task),
                UNSEEN_SHAPES[0],
                "decent across a variety of tasks",
                Source("kerg2022thesis", "7.3, Fig 2 and 3"),
            )
            for task in BASIC
        ),
        *(one.claim for one in CONTRASTS),
        *(
            Claim(
                mixture_on(task),
                DEVIATION,
                "a high variance, as the competition depends on how it starts",
                Source("kerg2022thesis", "7.3 and Fig 3"),
                (VARYING, 1.0),
            )
            for task in ("same/diff", "RMTS")
        ),
    )
    presets: Mapping[str, Preset] = {
        "smoke": Preset(
            "A few iterations of three networks: it shows that the machinery works.",
            {
                "networks": crossed(
                    named("corelnet", "corelnet-diff", "corelnet-mix"),
                    {"transitive comparison": COMPARED["transitive comparison"]},
                    {"transitive comparison": (M,)},
                ),
                "changes": FEW_STEPS,
            },
        ),
        "cpu": Preset(
            "5,000 iterations, as in chapter 5; comparisons with all networks and a Transformer, other tasks "
            "with CoRelNet's variants; five seeds.",
            {
                "networks": crossed(named(*OF_CHAPTER_7, "transformer"), COMPARED, HELD_OUT)
                | crossed(named("corelnet", "corelnet-diff", "corelnet-mix"), BASIC_TASKS, at_extreme(BASIC)),
                "changes": {},
            },
            (0, 1, 2, 3, 4),
        ),
        "paper": Preset(
            "All networks on all tasks, ten seeds as published, on a GPU.",
            {
                "networks": crossed(named(*OF_CHAPTER_7, "transformer"), COMPARED, HELD_OUT)
                | crossed(named(*OF_CHAPTER_7, "transformer"), BASIC_TASKS, at_extreme(BASIC)),
                "changes": {"device": "cuda"},
            },
            tuple(range(10)),
        ),
    }
    cites = ("kerg2022", "webb2021", "vaswani2017")
    caption = f"{CAPTION} Transitive: trained with small and medium, medium and large; tested with small and large."

    def measure(self, run: Path) -> dict[str, Any]:
        return {**super().measure(run), **competition(run)}

    def claimed(self, results: Sequence[Finished]) -> list[Row]:
        """Also how much the seeds of mixtures differ, where there are several."""
        rows = super().claimed(results)
        for task in BASIC:
            trials = [one for one in finite(results) if one.trial.subject == mixture_on(task)]
            claim = self.find_claim(DEVIATION, mixture_on(task))
            if claim is not None and len(trials) > 1:
                found = stdev(one.result[next(iter(self.unseen))] for one in trials)
                rows.append(self.compare(trials, claim, claim.name, [found], f"{100 * found:.1f} points"))
        return rows

    def remark(self, trials: Sequence[Finished], key: str = "") -> str:
        said = super().remark(trials, key)
        shares = [one.result[WINS] for one in finite(trials) if WINS in one.result]
        if not shares:
            return said
        wins = f"{WINS} in {over_seeds(shares)} of problems"
        told = [one.result[TELLS] for one in finite(trials) if TELLS in one.result]
        return "; ".join([wins, *([f"{TELLS} in {over_seeds(told)} of them"] if told else []), said])


def competition(run: Path) -> dict[str, float]:
    """`WINS` and `TELLS` of a trained mixture, on unseen shapes; nothing for other networks."""
    model, task, config = load_model(run)
    network = getattr(model, "network", None)
    mixture = getattr(network, "similarity", None)
    if not isinstance(network, CoRelNet) or not isinstance(mixture, Mixture):
        return {}
    scenes, labels, _ = task.batch(512, config.seed, 0, "test")
    network.eval()
    with torch.no_grad():
        winners = mixture.winners(network.encode(scenes.images, scenes.objects))
    answers = one_hot(labels.flatten()).to(winners.dtype)  # (problems, choices)
    best = (winners.mT @ answers).amax(1)  # of each rule, the problems it won whose answer is the most frequent one
    return {WINS: round(winners[:, 1].mean().item(), 4), TELLS: round(best.sum().item() / len(answers), 4)}


STUDY = ComparisonStudy()
