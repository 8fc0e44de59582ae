"""Which of two is larger: relations that have a direction (Kerg, chapter 7 Fig 2 and 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import stdev
from typing import Any

import torch
from torch.nn.functional import one_hot

from mnemoscope.relational import CoRelNet
from mnemoscope.relational.similarity import Mixture
from mnemoscope.replication.learning import finite
from mnemoscope.replication.study import Finished, Preset, Published, Row
from mnemoscope.studies.kerg2022.relational import (
    BASE,
    BASIC,
    CAPTION,
    EXTREME,
    FEW_STEPS,
    NEAR_PERFECT,
    PROTOTYPE,
    TASKS,
    VERY_GOOD,
    Condition,
    RelationalStudy,
    at_extreme,
    claim,
    crossed,
    named,
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
SOURCE = f"Kerg, 7.2, 7.3 and Fig 2; {PROTOTYPE}"


CLAIMS = (
    *(claim("an asymmetric similarity enhances the ability to learn the task", "Kerg, 7.2 and Fig 2", task, M,
            [directed], [symmetric])
      for task in COMPARED for symmetric, directed in zip(SYMMETRIC, ASYMMETRIC, strict=True)),
    *(claim("some similarity measures work well on some tasks, and worse on others", "Kerg, 7.3, Fig 2 and 3", task,
            EXTREME[task], ["corelnet"], ["corelnet-diff"])
      for task in BASIC),
)  # fmt: skip


def varies(task: str) -> str:
    """The quantity by which the seeds of a mixture differ.

    >>> varies("RMTS")
    'corelnet-mix, RMTS, m 95: deviation over seeds'
    """
    return f"{Condition('corelnet-mix', task, EXTREME[task]).name}: deviation over seeds"


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
    claims = CLAIMS
    published = (
        *(Published(f"{network}, {task}, m {M}: unseen shapes", words, SOURCE, agreeing)
          for network, (words, agreeing) in TOLD.items() for task in COMPARED),
        *(Published(f"corelnet-mix, {task}, m {EXTREME[task]}: unseen shapes", "decent across a variety of tasks",
                    "Kerg, 7.3, Fig 2 and 3") for task in BASIC),
        *(one.published for one in CLAIMS),
        *(Published(varies(task), "a high variance, as the competition depends on how it starts", "Kerg, 7.3 and Fig 3",
                    (VARYING, 1.0)) for task in ("same/diff", "RMTS")),
    )  # fmt: skip
    presets: Mapping[str, Preset] = {
        "smoke": Preset("A few iterations of three networks: it shows that the machinery works.",
                        {"networks": crossed(named("corelnet", "corelnet-diff", "corelnet-mix"),
                                             {"transitive comparison": COMPARED["transitive comparison"]},
                                             {"transitive comparison": (M,)}),
                         "changes": FEW_STEPS}),
        "cpu": Preset("5,000 iterations, as in chapter 5; comparisons with all networks and a Transformer, other tasks "
                      "with CoRelNet's variants; five seeds.",
                      {"networks": crossed(named(*OF_CHAPTER_7, "transformer"), COMPARED, HELD_OUT)
                       | crossed(named("corelnet", "corelnet-diff", "corelnet-mix"), BASIC_TASKS,
                                 at_extreme(BASIC)), "changes": {}}, (0, 1, 2, 3, 4)),
        "paper": Preset("All networks on all tasks, ten seeds as published, on a GPU.",
                        {"networks": crossed(named(*OF_CHAPTER_7, "transformer"), COMPARED, HELD_OUT)
                         | crossed(named(*OF_CHAPTER_7, "transformer"), BASIC_TASKS, at_extreme(BASIC)),
                         "changes": {"device": "cuda"}}, tuple(range(10))),
    }  # fmt: skip
    cites = ("kerg2022", "webb2021", "vaswani2017")
    caption = f"{CAPTION} Transitive: trained with small and medium, medium and large; tested with small and large."

    def look(self, run: Path) -> dict[str, Any]:
        return {**super().look(run), **competition(run)}

    def claimed(self, results: Sequence[Finished]) -> list[Row]:
        """Also how much the seeds of mixtures differ, where there are several."""
        rows = super().claimed(results)
        for task in BASIC:
            own = [one for one in finite(results) if Condition.of(one.trial)[:2] == ("corelnet-mix", task)]
            stated = next((one for one in self.published if one.quantity == varies(task)), None)
            if stated is not None and len(own) > 1:
                found = stdev(one.result[next(iter(self.unseen))] for one in own)
                rows.append(self.compared(own, stated, stated.quantity, [found], f"{100 * found:.1f} points", ""))
        return rows

    def remark(self, own: Sequence[Finished], key: str = "") -> str:
        said = super().remark(own, key)
        shares = [one.result[WINS] for one in finite(own) if WINS in one.result]
        if not shares:
            return said
        wins = f"{WINS} in {over_seeds(shares)} of problems"
        told = [one.result[TELLS] for one in finite(own) if TELLS in one.result]
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
        winners = mixture.winners(network.see(scenes.images, scenes.objects))
    answers = one_hot(labels.flatten()).to(winners.dtype)  # (problems, choices)
    best = (winners.mT @ answers).amax(1)  # of each rule, the problems it won whose answer is the most frequent one
    return {WINS: round(winners[:, 1].mean().item(), 4), TELLS: round(best.sum().item() / len(answers), 4)}


STUDY = ComparisonStudy()
