"""Products of permutations, with one or more reflections for each letter (Siems et al. 2025)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mnemoscope.config.run_config import RunConfig, changed
from mnemoscope.registry.citations import Source
from mnemoscope.replication.agreement import at_least, at_most
from mnemoscope.replication.claims import Claim, Row, Subject, about
from mnemoscope.replication.learning_study import finite
from mnemoscope.replication.reduced_study import ReducedStudy
from mnemoscope.replication.study import Finished, Preset, Trial
from mnemoscope.training import evaluate_tasks, load_model

TRAINED, LONGER, GAIN = "accuracy at the trained length", "accuracy at four times the length", "gain by a second factor"
NEGATIVE, POSITIVE = "[-1, 1]", "[0, 1]"
FOUR_TIMES = 4
"""Length of the tests, in lengths of training; 512 letters after 128 in the source."""
PUBLISHED = RunConfig(
    "siems-words",
    task="word-problem",
    task_options={"group": "S3", "length": 128},
    cell="deltaproduct",
    cell_options={"heads": 8, "factors": 2, "beta_max": 2.0},
    hidden_size=256,
    optimiser="adamw",
    learning_rate=1e-3,
    weight_decay=1e-6,
    schedule="cosine",
    steps=4900,
    batch_size=2048,
    evaluate_every=100,
    evaluate_batches=1,
    checkpoint_every=100,
    threads=1,
)
"""The released settings: one layer, 8 heads of 32, 100 epochs of 100,000 words in batches of 2,048."""
SHORT: dict[str, Any] = {
    "name": "short-words",
    "hidden_size": 16,
    "batch_size": 64,
    "steps": 2000,
    "learning_rate": 1e-2,
    "clip": 1.0,
    "target_score": 0.999,
}
"""Words of 16 letters in place of 128, and 2 heads of 8 in place of 8 of 32; training ends when a batch is solved."""
EIGHT_HEADS: dict[str, Any] = {**SHORT, "name": "eight-heads", "hidden_size": 64}
"""8 heads of 8, as many as published: with 2, two factors seldom learned A5, and a failure of one proved nothing."""
TINY: dict[str, Any] = {"name": "tiny-words", "hidden_size": 8, "batch_size": 4, "steps": 4, "evaluate_every": 2}
LEARNS = at_least(0.99, "our reading of 'trains successfully': 99 of 100 products")
FAILS = at_most(0.5, "our reading of 'does not converge': at most half of the products; the sign alone gives a third")
EXTRAPOLATES = at_least(0.1, "our reading of 'improves': at least 10 points beyond the scatter of the seeds")
NO_STUDY = "not trained yet: three recurrences without the convolution of this library's blocks"


def siems(place: str, unread: bool = False) -> Source:
    """Return a place in Siems et al. 2025, arXiv 2502.10297."""
    return Source("siems2025", place, unread)


def _network(factors: int, values: str) -> str:
    return f"deltaproduct {factors} {values}"


README = siems("the example of its repository")
FIGURE = siems("networks of one and of three layers on groups", unread=True)


def _claims() -> list[Claim]:
    outcomes = {(1, NEGATIVE): FAILS, (2, NEGATIVE): LEARNS, (1, POSITIVE): FAILS, (2, POSITIVE): FAILS}
    words = {id(LEARNS): "trains successfully", id(FAILS): "does not converge"}
    claims = [
        Claim(about(_network(*setting), "S3"), TRAINED, words[id(outcome)], README, outcome)
        for setting, outcome in outcomes.items()
    ]
    claims += [
        Claim(about(_network(factors, NEGATIVE), group), TRAINED, "learned", FIGURE, LEARNS)
        for group, factors in (("S4", 2), ("A5", 2), ("S5", 4))
    ]
    claims += [
        Claim(about(_network(1, NEGATIVE), group), TRAINED, "not learned", FIGURE, FAILS)
        for group in ("S4", "A5", "S5")
    ]
    claims += [
        Claim(about("deltaproduct", "S3"), GAIN, "more factors extrapolate better", FIGURE, EXTRAPOLATES),
        Claim(
            about("deltaproduct 1 [-1, 1], three layers", "S3"),
            TRAINED,
            "learned",
            FIGURE,
            LEARNS,
            out_of_reach=NO_STUDY,
        ),
    ]
    return claims


def _networks(group: str, settings: Sequence[tuple[int, str]], heads: int, **changes: Any) -> dict[Subject, Any]:
    """Return DeltaProducts with numbers of factors and ranges of eigenvalues on a group."""
    length = changes.pop("length", PUBLISHED.task_options["length"])
    return {
        about(_network(factors, values), group): {
            **changes,
            "task_options": {"group": group, "length": length},
            "cell_options": {"heads": heads, "factors": factors, "beta_max": 2.0 if values == NEGATIVE else 1.0},
        }
        for factors, values in settings
    }


S3 = [(factors, values) for values in (NEGATIVE, POSITIVE) for factors in (1, 2)]
OTHERS = {
    "S4": [(1, NEGATIVE), (2, NEGATIVE)],
    "A5": [(1, NEGATIVE), (2, NEGATIVE)],
    "S5": [(1, NEGATIVE), (4, NEGATIVE)],
}


class WordProblems(ReducedStudy):
    """Train one layer with some reflections for each letter on the products of a group."""

    name = "word-problems"
    title = "Products of permutations"
    question = (
        "How many reflections for each letter does one layer need to compute products in a group? One reflection has "
        "real eigenvalues; two make a rotation."
    )
    score = "accuracy"
    score_in_words = TRAINED
    base = PUBLISHED
    reduced: Mapping[str, str] = {
        "short-words": "words of 16 letters, 2 heads of 8, at most 2,000 batches of 64",
        "eight-heads": "words of 16 letters, 8 heads of 8, at most 2,000 batches of 64",
    }
    unlike = "the layer alone, without its block, and new words in every batch"
    claims = tuple(_claims())
    presets: Mapping[str, Preset] = {
        "smoke": Preset(
            "A few iterations, to check that the code runs.",
            {"networks": _networks("S3", S3[:2], 1, length=4, **TINY), "changes": {}},
        ),
        "reduced": Preset(
            "16 letters in training and 64 in tests, one layer, at most 2,000 batches of 64, on one core; S3 by the "
            "recipe short-words, 2 heads of 8, and larger groups by the recipe eight-heads, 8 of 8. Three seeds.",
            {
                "networks": _networks("S3", S3, 2, length=16, **SHORT)
                | {
                    subject: network
                    for group, settings in OTHERS.items()
                    for subject, network in _networks(group, settings, 8, length=16, **EIGHT_HEADS).items()
                },
                "changes": {},
            },
            (0, 1, 2),
        ),
        "published": Preset(
            "128 letters in training and 512 in tests, one layer with 8 heads of 32, 4,900 batches of 2,048; three "
            "seeds, on a GPU.",
            {
                "networks": {
                    subject: network
                    for group, settings in {"S3": S3, **OTHERS}.items()
                    for subject, network in _networks(group, settings, 8).items()
                },
                "changes": {"device": "cuda"},
            },
            (0, 1, 2),
        ),
    }
    cites = ("siems2025", "merrill2024")

    def published_recipe(self, trial: Trial) -> RunConfig:
        group, cell = trial.settings["task_options"]["group"], trial.settings["cell_options"]
        return changed(PUBLISHED, {"task_options": {"group": group}, "cell_options": {**cell, "heads": 8}})

    def control(self, claim: Claim) -> tuple[Subject, str] | None:
        if claim.agreement is not FAILS:
            return None
        factors = {"S3": 2, **{group: settings[-1][0] for group, settings in OTHERS.items()}}[claim.subject.task]
        return about(_network(factors, NEGATIVE), claim.subject.task), TRAINED

    def measure(self, run: Path) -> dict[str, Any]:
        """Return the accuracy of new words, and of words four times as long."""
        model, task, config = load_model(run, training_device=True)
        tasks = {TRAINED: task, LONGER: task.at(FOUR_TIMES * task.longest_span)}
        scores = evaluate_tasks(model, tasks, sequences=256, batches=4, seed=config.seed)
        return {name: round(row["accuracy"], 5) for name, row in scores.items()}

    def measured_rows(self, results: Sequence[Finished]) -> list[Row]:
        rows = []
        for trials in self.groups(results):
            for quantity in (TRAINED, LONGER):
                values = [each.result[quantity] for each in finite(trials)]
                rows.append(self.row(trials, quantity, values, ".3f", self.remark(trials)))
        gain = self.claim(GAIN, about("deltaproduct", "S3"))
        sides = (about(_network(factors, NEGATIVE), "S3") for factors in (2, 1))
        contrast = self.contrast(results, gain, *sides, score=LONGER, comparisons=1, chance=1 / 6)
        return rows if contrast is None else [*rows, contrast]


STUDY = WordProblems()
