"""Which of two is larger: relations that have a direction (Kerg, chapter 7 Fig 2 and 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import sqrt
from pathlib import Path
from statistics import stdev
from typing import Any

import torch
from torch.nn.functional import one_hot

from mnemoscope.relational import CoRelNet
from mnemoscope.relational.similarity import Mixture
from mnemoscope.replication.agreement import Agreement, at_least, chosen, mean_share
from mnemoscope.replication.claims import EVERYTHING, Claim, Row, Subject
from mnemoscope.replication.learning_study import finite
from mnemoscope.replication.means import TWO_ERRORS
from mnemoscope.replication.study import Finished, Preset
from mnemoscope.replication.verdicts import Obstacle, not_compared
from mnemoscope.studies.kerg2022.notation import preset, thesis
from mnemoscope.studies.kerg2022.relational import CAPTION, RelationalStudy, over_seeds
from mnemoscope.studies.kerg2022.relational_claims import (
    NEAR_PERFECT,
    SEEDS,
    UNSEEN_SHAPES,
    VERY_GOOD,
    make_contrast,
)
from mnemoscope.studies.kerg2022.relational_grid import BASIC, FEW_STEPS, make_grid, network_on
from mnemoscope.training import load_model

SYMMETRIC = ("corelnet", "esbn")
ASYMMETRIC = ("corelnet-asymmetric", "esbn-asymmetric")
VARIANTS = ("corelnet", "corelnet-diff", "corelnet-mix")
NETWORKS = (*SYMMETRIC, *ASYMMETRIC, "corelnet-diff", "corelnet-mix", "transformer")
COMPARED = ("comparison", "transitive comparison")
CHANCE = chosen(
    0.45, 0.55, "our reading of 'cannot be learned': a guess, 50%, within 5 points", of_mean=True, seeds=SEEDS
)
VARYING = 0.05
"""Smallest standard deviation over seeds that counts as high."""
DIFFERENCE_WINS, WINNER_IS_ANSWER = "difference wins", "the winner tells the answer"
"""Results of a mixture: the share of problems in which it uses differences, and the share that can be solved from the
name of the winning rule alone. The mixture sees the objects in their order, so its choice of rule may carry the
answer."""
STATEMENTS: dict[str, tuple[str, Agreement]] = {
    "corelnet": ("cannot be learned", CHANCE),
    "esbn": ("cannot be learned", CHANCE),
    "corelnet-diff": ("solved", NEAR_PERFECT),
    "corelnet-mix": ("decent", VERY_GOOD),
}
"""Published statements about networks on both tasks, with our ranges; the source has numbers only in a figure."""
DEVIATION = "deviation over seeds"


def mixture_on(task: str) -> Subject:
    """Return the subject of the mixture on a task, with the most shapes held out."""
    return network_on("corelnet-mix", task)


class ComparisonStudy(RelationalStudy):
    """Train networks to decide which of two shapes is larger, and on tasks that ask whether shapes are the same."""

    name = "comparison"
    title = "Which of two is larger"
    question = (
        "Which networks can learn a relation that has a direction? Two normalised objects are each other's negative, "
        "so their products do not depend on the order, except for the bias of the normalisation; their differences do."
    )
    claims = (
        *(
            Claim(
                network_on(network, task),
                UNSEEN_SHAPES[0],
                statement,
                thesis("7.2, 7.3 and Fig 2"),
                agreement,
                by_construction=agreement is CHANCE,  # see the question
            )
            for network, (statement, agreement) in STATEMENTS.items()
            for task in COMPARED
        ),
        *(
            Claim(
                mixture_on(task),
                UNSEEN_SHAPES[0],
                "decent across a variety of tasks",
                thesis("7.3, Fig 2 and 3"),
                mean_share((1 + chance) / 2, "our reading of 'decent': halfway from a guess to perfect", SEEDS),
            )
            for task, chance in zip(BASIC, (0.5, 0.5, 0.25, 0.25), strict=True)
        ),
        Claim(
            EVERYTHING,
            "sensory input and relations together",
            "an idea for real tasks, without an experiment",
            thesis("7.1"),
            reason="an idea; it would be confirmed by a network with both that is better than CoRelNet on a real task",
        ),
        *(
            make_contrast(
                "an asymmetric similarity enhances the ability to learn the task",
                thesis("7.2 and Fig 2"),
                task,
                [directed],
                [symmetric],
            )
            for task in COMPARED
            for symmetric, directed in zip(SYMMETRIC, ASYMMETRIC, strict=True)
        ),
        *(
            make_contrast(
                "some similarity measures work well on some tasks, and worse on others",
                thesis("7.3, Fig 2 and 3"),
                task,
                ["corelnet"],
                ["corelnet-diff"],
            )
            for task in BASIC
        ),
        *(
            Claim(
                mixture_on(task),
                DEVIATION,
                "a high variance, as the competition depends on how it starts",
                thesis("7.3 and Fig 3"),
                at_least(VARYING, "our reading of 'high': ten times the error of a test, 0.5 points"),
            )
            for task in ("same/diff", "RMTS")
        ),
    )
    presets: Mapping[str, Preset] = {
        "smoke": preset(
            "Smoke test: a few iterations of three networks.",
            make_grid(VARIANTS, ["transitive comparison"]),
            **FEW_STEPS,
        ),
        "cpu": preset(
            "5,000 iterations, as in chapter 5; comparisons with all networks and a Transformer, the other tasks "
            "with CoRelNet's variants; five seeds.",
            make_grid(NETWORKS, COMPARED) | make_grid(VARIANTS, BASIC),
            seeds=5,
        ),
        "paper": preset(
            "All networks on all tasks, ten seeds as published, on a GPU.",
            make_grid(NETWORKS, COMPARED + BASIC),
            seeds=10,
            device="cuda",
        ),
    }
    cites = ("kerg2022", "webb2021", "vaswani2017")
    caption = (
        f"{CAPTION} Transitive: trained with small and medium shapes and with medium and large ones, tested with small "
        "and large ones."
    )

    def measure(self, run: Path) -> dict[str, Any]:
        return {**super().measure(run), **competition(run)}

    def contrast_rows(self, results: Sequence[Finished]) -> list[Row]:
        """Return the rows of the contrasts, and the deviation over the seeds of mixtures, if there are several."""
        rows = super().contrast_rows(results)
        for task in BASIC:
            trials = [run for run in finite(results) if run.trial.subject == mixture_on(task)]
            claim = self.find_claim(DEVIATION, mixture_on(task))
            if claim is not None and len(trials) > 1:
                rows.append(self.deviation_row(trials, claim))
        return rows

    def deviation_row(self, trials: Sequence[Finished], claim: Claim) -> Row:
        """Return the row for the deviation over the seeds, which is compared if other seeds would not change it."""
        values = [run.result[self.main_test] for run in trials]
        deviation, (low, high) = stdev(values), deviation_range(values)
        ours = f"{100 * deviation:.1f} points; other seeds may give {100 * low:.1f} to {100 * high:.1f}"
        row = self.compare(trials, claim, [deviation], ours)
        if row.verdict.compared and low < VARYING <= high:
            return replace(row, judgement=not_compared(Obstacle.UNDECIDED))
        return row

    def remark(self, trials: Sequence[Finished], key: str = "") -> str:
        """Return the usual remark, preceded by the competition of rules if the network is a mixture."""
        parts = [super().remark(trials, key)]
        shares = {
            name: [run.result[name] for run in finite(trials) if name in run.result]
            for name in (DIFFERENCE_WINS, WINNER_IS_ANSWER)
        }
        if shares[DIFFERENCE_WINS]:
            if shares[WINNER_IS_ANSWER]:
                parts.insert(0, f"the winner gives the answer in {over_seeds(shares[WINNER_IS_ANSWER])} of them")
            parts.insert(0, f"{DIFFERENCE_WINS} in {over_seeds(shares[DIFFERENCE_WINS])} of problems")
        return "; ".join(parts)


def deviation_range(values: Sequence[float]) -> tuple[float, float]:
    """Return the range of the deviation of all seeds, at two standard errors of a normal number to each side.

    >>> low, high = deviation_range([0.9, 0.92, 0.94])
    >>> round(low, 3), round(high, 3)
    (0.01, 0.132)
    """
    from scipy.stats import chi2  # takes a third of a second

    freedom = len(values) - 1
    ends = (float(chi2.isf(tail, freedom)) for tail in (TWO_ERRORS, 1 - TWO_ERRORS))
    low, high = (stdev(values) * sqrt(freedom / end) for end in ends)
    return low, high


def competition(run: Path) -> dict[str, float]:
    """Return `DIFFERENCE_WINS` and `WINNER_IS_ANSWER` of a mixture on unseen shapes; nothing for other networks."""
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
    best = (winners.mT @ answers).amax(1)  # for each rule: problems that it wins and that have its most frequent answer
    return {
        DIFFERENCE_WINS: round(winners[:, 1].mean().item(), 4),
        WINNER_IS_ANSWER: round(best.sum().item() / len(answers), 4),
    }


STUDY = ComparisonStudy()
