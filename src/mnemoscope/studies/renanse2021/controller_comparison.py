"""Controllers of a Turing machine compared (Renanse et al. 2021, section 7, mentions a Matrix LSTM)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import isfinite
from statistics import mean
from typing import Any

from mnemoscope.registry.citations import Source
from mnemoscope.replication.agreement import at_least, at_most, exactly
from mnemoscope.replication.claims import Claim, Row, about
from mnemoscope.replication.differences import measure_difference
from mnemoscope.replication.learning_study import by_name, finite
from mnemoscope.replication.study import Finished, Preset
from mnemoscope.replication.verdicts import UNKNOWN, Obstacle
from mnemoscope.studies.renanse2021 import tape
from mnemoscope.studies.renanse2021.tape import (
    LEARNING_NTM,
    MATNTM,
    MIXED,
    OURS,
    PAPER,
    SEEDS,
    TO_SOLVE,
    TapeStudy,
    sequences_to_solve,
)

MATRIX: dict[str, dict[str, Any]] = {
    "matrix rnn, 3 layers": {**MATNTM, "cell_options": {"controller": "rnn", "layers": 3}, **MIXED},
    "matrix rnn, 4 layers": {**MATNTM, "cell_options": {"controller": "rnn", "layers": 4}, **MIXED},
    "matrix lstm": {**MATNTM, "cell_options": {"controller": "lstm"}, **MIXED},
}
"""Controllers of 15 x 15 units at the published learning rate. A Matrix LSTM has four maps, hence as many parameters as
four layers. There is no curriculum: it would give harder sequences earlier to a machine that learns faster."""
EQUAL = ("matrix rnn, 4 layers", "matrix lstm")
"""Controllers with as many parameters; the first should have more wrong bits."""
VECTOR: dict[str, dict[str, Any]] = {
    "lstm": {**LEARNING_NTM, "cell_options": {"controller": "lstm"}},
    "feed-forward": {**LEARNING_NTM, "cell_options": {"controller": "feed-forward"}},
}
"""Both controllers of Graves et al. 2014, with 100 units."""
PUBLISHED: dict[str, dict[str, Any]] = {
    **{name: {**MATNTM, "cell_options": network["cell_options"]} for name, network in MATRIX.items()},
    **{
        name: {**tape.NTM, "cell_options": network["cell_options"], "batch_size": 1, "steps": 1_000_000}
        for name, network in VECTOR.items()
    },
}
"""Published recipes: Renanse et al. 2021 as in the study matrix-copy; Graves et al. 2014, Fig 3: a million
sequences."""
UNSTATED = "neither task, sizes nor iterations of that comparison are published"
BETTER = Claim(
    about("matrix lstm against matrix rnn"),
    "wrong bits, mean over training",
    "the Matrix LSTM performs far better; no number",
    PAPER("section 7"),
    agreement=at_least(
        0.0, "fewer wrong bits than with four layers, which have as many parameters, by more than two standard errors"
    ),
)
GRAVES = Source("graves2014", "section 4.1")
SOLVED = at_most(0.01, "our reading of 'solves it': one wrong bit in 100 sequences")
"""Range of wrong bits, of 8, that counts as solved."""

FASTER = Claim(
    about("lstm against feed-forward"),
    TO_SOLVE,
    "fewer; drawn only",
    GRAVES,
    at_least(0.0, "fewer by more than two standard errors"),
)


def _small(network: Mapping[str, Any], small: Mapping[str, Any]) -> dict[str, Any]:
    return {**network, **small, "task_options": {}, "cell_options": small["cell_options"] | network["cell_options"]}


class ControllerComparison(TapeStudy):
    """Train machines that differ only in their controller."""

    name = "controller-comparison"
    title = "Controllers of a Turing machine"
    question = "Does a machine learn to copy faster with a Matrix LSTM than with a Matrix RNN as its controller?"
    claims = (
        BETTER,
        tape.published_parameters("matrix rnn, 3 layers", 4121),
        Claim(
            about("feed-forward"),
            "parameters",
            17162,
            PAPER("section 7, about other works"),
            exactly(17162),
            reason=f"{UNKNOWN}; a controller of 100 units with one read and one write head for a memory of 128 x 20 "
            "has fewer",
            by_construction=True,
        ),
        Claim(about("feed-forward"), "wrong bits", "solves it", GRAVES, SOLVED),
        Claim(about("lstm"), "wrong bits", "solves it", GRAVES, SOLVED),
        FASTER,
    )
    base = replace(tape.BASE, name="controller-comparison")
    published_changes: Mapping[str, Mapping[str, Any]] = PUBLISHED
    reported_lengths = (40,)
    presets: Mapping[str, Preset] = {
        "smoke": tape.smoke(
            "three small machines with up to two items",
            {
                "matrix rnn, 3 layers": _small(MATRIX["matrix rnn, 3 layers"], tape.SMALL["matntm"]),
                "matrix lstm": _small(MATRIX["matrix lstm"], tape.SMALL["matntm"]),
                "feed-forward": _small(VECTOR["feed-forward"], tape.SMALL_NTM),
            },
            longest=2,
        ),
        "cpu": Preset(
            "Sizes as published; RMSprop with momentum 0.9 at 0.0001 for matrices, as published, and at 0.0003 for "
            "vectors; at most 4,000 iterations of 16 sequences of mixed lengths; five seeds. At most 15 minutes of one "
            "core for each machine.",
            {"networks": MATRIX | VECTOR, "changes": {**OURS, "steps": 4000}},
            SEEDS,
        ),
        "paper": Preset(
            "As cpu, with at most 53,000 iterations, as published for MatNTM, on a GPU; five seeds.",
            {"networks": MATRIX | VECTOR, "changes": {**OURS, "device": "cuda"}},
            SEEDS,
        ),
    }
    cites = ("renanse2021", "graves2014", "do2017", "collier2018")
    caption = (
        "Wrong bits of a matrix of 25 (matrix controllers) or a vector of 8 (lstm, feed-forward); lines show the "
        "median over the seeds. Left: during training, over lengths 1 to 20. Right: trained machines at single "
        "lengths; the vertical line marks the longest length of training."
    )

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        rows, groups = super().summarise(results), by_name(results)
        means = {name: list(map(_mean_of_curve, finite(groups[name]))) for name in MATRIX if name in groups}
        if all(means.get(name) for name in EQUAL):
            ours = ", ".join(f"{name} {mean(values):.3g}" for name, values in means.items() if values)
            remark = "mean over the seeds; a machine that stopped early keeps its last value"
            rows.append(BETTER.not_compared(BETTER.name, ours, remark, Obstacle.OTHER_CONDITIONS, UNSTATED))
        shown = {name: sequences_to_solve(groups[name]) for name in VECTOR if name in groups}
        if len(shown) == len(VECTOR) and all(isfinite(count) for counts in shown.values() for count in counts):
            gated, plain = ([shown[name]] for name in VECTOR)
            ours = f"{mean(gated[0]):,.0f} against {mean(plain[0]):,.0f}"
            rows.append(measure_difference(plain, gated).compare(FASTER, ours, "mean over the seeds"))
        return rows


def _mean_of_curve(run: Finished) -> float:
    """Return the mean of the wrong bits over the allowed iterations."""
    curve, end = run.result["curve"], run.trial.settings["steps"]
    steps = [0.0, *curve["step"]]
    widths = [after - before for before, after in pairwise(steps)]
    total = sum(width * wrong for width, wrong in zip(widths, curve["wrong bits"], strict=True))
    return (total + (end - steps[-1]) * curve["wrong bits"][-1]) / end


STUDY = ControllerComparison()
