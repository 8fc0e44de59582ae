"""Copying sequences of matrices, with a tape and without (Renanse et al. 2021, section 6.1 and Fig 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mnemoscope.replication.agreement import as_printed, at_least, at_most, exactly
from mnemoscope.replication.claims import Claim, Row, about
from mnemoscope.replication.learning_study import finite
from mnemoscope.replication.study import Finished, Preset
from mnemoscope.studies.renanse2021 import tape
from mnemoscope.studies.renanse2021.tape import DIVERGED, MATNTM, MATRIX_RNN, OURS, PAPER, SEEDS, TapeStudy, at_rates
from mnemoscope.studies.renanse2021.tape_use import NEIGHBOURS, READ_WHERE_WRITTEN

LOGISTIC = {**MATRIX_RNN, "cell_options": {"last": "logistic"}}
"""A network whose output is never negative, so that, read as a logit, it answers 1 to every input. We suspect this in
the published curve, which stays at the level of all ones. Its 15 wrong bits are no finding: they show what that number
means."""
NETWORKS = {"matntm": MATNTM, "matrix-rnn": MATRIX_RNN}
"""Networks of Table 1."""
PUBLISHED = NETWORKS | {"matrix-rnn, logistic output": LOGISTIC}
LEARNING = {
    name: {**network, **(tape.STAGES if name == "matntm" else tape.FASTER)} for name, network in PUBLISHED.items()
}
EARLY = "wrong bits after 18,000 iterations"
OTHER_SIZES = "four of the five released networks have 17,362 parameters instead of 4,121"
LIMITED = {"matntm": {**MATNTM, "cell_options": tape.LIMIT}}


class MatrixCopyStudy(TapeStudy):
    """Train the paper's two networks to copy matrices, and test them at single lengths."""

    name = "matrix-copy"
    title = "Copying sequences of matrices"
    question = "Which networks learn to copy up to 20 random matrices of 5 x 5 bits, and after how many iterations?"
    claims = (
        tape.published_parameters("matntm", 4121),
        tape.published_parameters("matrix-rnn", 2175),
        Claim(
            about("matntm"),
            "wrong bits",
            "about 0 after 53,000 iterations",
            PAPER("Fig 5"),
            agreement=at_most(0.05, "our reading of 'about 0': 0.0 with one digit", of_mean=True, seeds=tape.RUNS),
            better="lower",
            reason=OTHER_SIZES,
        ),
        Claim(
            about("matntm"),
            EARLY,
            "3.3",
            PAPER("Fig 5"),
            agreement=as_printed("3.3", seeds=tape.RUNS),
            better="lower",
            reason=OTHER_SIZES,
        ),
        Claim(
            about("matrix-rnn"),
            "wrong bits",
            "15.0, where all ones are",
            PAPER("Fig 5"),
            agreement=as_printed("15.0", seeds=tape.RUNS),
            better="lower",
            reason="an output that is never negative answers 1 to every input: logistic output",
        ),
        Claim(
            about("matntm", rate=1e-4),
            DIVERGED,
            "no NaN at an unusually small learning rate",
            PAPER("section 7"),
            exactly(0, "at the published rate, every seed stays finite"),
        ),
        Claim(
            about("matntm", rate=1e-3),
            DIVERGED,
            "NaN at a larger learning rate",
            PAPER("section 7"),
            at_least(1, "at ten times the published rate, one seed at least does not stay finite"),
        ),
        tape.fluctuates_more("Fig 5"),
        Claim(
            about("matntm"),
            NEIGHBOURS,
            "iterates over the slots to write",
            PAPER("Fig 6"),
            at_least(tape.MOST, "our reading: nine of ten items; at random, 1 in 60"),
        ),
        Claim(
            about("matntm"),
            READ_WHERE_WRITTEN,
            "reads from the same locations in the original order",
            PAPER("Fig 6"),
            at_least(tape.MOST, "our reading: nine of ten answers; any written slot, 1 in 20"),
        ),
    )
    base = replace(tape.BASE, name="matrix-copy")
    published_changes = PUBLISHED
    curves: Mapping[str, Mapping[int, float]] = {
        "matntm": {18_000: 3.3, 53_000: 0.0},
        "matrix-rnn": {53_000: 15.0},
    }
    reported_lengths = (40, 80)
    presets: Mapping[str, Preset] = {
        "smoke": tape.smoke("two small networks with up to two matrices", tape.SMALL, longest=2),
        "cpu": Preset(
            "Networks as published, recipe of ours: RMSprop as published at five times the rate, 0.0005; the norm of "
            "gradients clipped at 10; MatNTM with short sequences first and mixed lengths in a batch; at most 10,000 "
            "iterations of 16 sequences, fewer once no bit is wrong; five seeds. Some minutes of one core for each "
            "MatNTM (at most an hour), five minutes for each Matrix RNN.",
            {"networks": LEARNING, "changes": {**OURS, "steps": 10_000}},
            SEEDS,
        ),
        "paper": Preset(
            "As cpu, with at most 53,000 iterations, as published, on a GPU; five seeds.",
            {"networks": LEARNING, "changes": {**OURS, "device": "cuda"}},
            SEEDS,
        ),
        "published": Preset(
            "As published: RMSprop at 0.0001 with momentum 0.9, 53,000 iterations of 16 sequences, on a GPU; but the "
            "norm of gradients is clipped at 10, whereas the released code clips each component to +-10; five seeds.",
            {"networks": PUBLISHED, "changes": {"device": "cuda"}},
            SEEDS,
        ),
        "stability": Preset(
            "Does anything overflow? RMSprop with momentum 0.9 at the published learning rate and at ten times that "
            "rate, 20,000 iterations without stopping early; the norm of gradients clipped at 10, and for MatNTM at "
            "ten times the rate also each component clipped to +-10 at every step of backpropagation; five seeds. Half "
            "an hour of one core for each MatNTM, ten minutes for each Matrix RNN.",
            {
                "networks": at_rates(NETWORKS, 1e-4, 1e-3) | at_rates(LIMITED, 1e-3, limited=True),
                "changes": {"steps": 20_000},
            },
            SEEDS,
        ),
    }
    cites = ("renanse2021", "graves2014", "collier2018")
    caption = (
        "Wrong bits of a matrix of 25; lines show the median over the seeds, circles published values. Left: during "
        "training, over lengths 1 to 20. Right: trained networks at single lengths; the vertical line marks the "
        "longest length of training."
    )

    def more_rows(self, name: str, trials: Sequence[Finished]) -> list[Row]:
        rows = super().more_rows(name, trials)
        if name == "matntm" and finite(trials):
            early = [tape.held(run.result["curve"], 18_000) for run in finite(trials)]
            rows.append(self.row(trials, EARLY, early, remark="a machine that stopped early keeps its last value"))
        return rows


STUDY = MatrixCopyStudy()
