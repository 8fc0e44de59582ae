"""Copying sequences of matrices, with a tape and without (Renanse et al. 2021, section 6.1 and Fig 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mnemoscope.replication.agreement import as_printed, at_least, at_most
from mnemoscope.replication.claims import Claim, about
from mnemoscope.replication.study import Preset
from mnemoscope.studies.renanse2021 import tape
from mnemoscope.studies.renanse2021.tape import MATNTM, MATRIX_RNN, OURS, PAPER, SEEDS, TapeStudy, at_rates
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
            "3.3 after 18,000 iterations, about 0 after 53,000; four of the five networks have 17,362 parameters",
            PAPER("Fig 5, and the released networks"),
            agreement=at_most(tape.FEW, "our reading of 'about 0': fewer than one wrong bit"),
            better="lower",
        ),
        Claim(
            about("matrix-rnn"),
            "wrong bits",
            "15.0, where all ones are",
            PAPER("Fig 5"),
            agreement=as_printed("15.0", spread=0.5),
            better="lower",
            reason="an output that is never negative answers 1 to every input: logistic output",
        ),
        Claim(
            about("matntm"),
            "seeds that did not stay finite",
            "NaN unless the learning rate was unusually small",
            PAPER("section 7"),
        ),
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


STUDY = MatrixCopyStudy()
