"""Copying sequences of vectors by a Neural Turing Machine of the usual size (Graves et al. 2014, section 4.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import isinf
from typing import Any

from mnemoscope.registry.citations import Source
from mnemoscope.replication.agreement import at_most, exactly
from mnemoscope.replication.claims import Claim, Row, about
from mnemoscope.replication.study import Finished, Preset
from mnemoscope.studies.renanse2021 import tape
from mnemoscope.studies.renanse2021.tape import NTM, OURS, SEEDS, TO_SOLVE, TapeStudy, sequences_to_solve

PYTORCH_NTM = partial(Source, "pytorch_ntm")
PROTOTYPE = Source("mnemoscope", "an earlier prototype of this machine, not published")
WRONG_BITS = {length: 8 * share for length, share in {20: 0.0, 40: 0.009, 80: 0.084, 120: 0.228}.items()}
"""Wrong bits per vector of the prototype, by length, up to six times the longest length of training."""
PROTOTYPE_CLAIMS = tuple(
    Claim(
        about("ntm"),
        f"wrong bits at length {length}",
        round(wrong, 3),
        PROTOTYPE,
        at_most(max(wrong, 0.01), "no worse than the prototype"),
        "lower",
    )
    for length, wrong in WRONG_BITS.items()
)
LEARNING = {"ntm": {**tape.LEARNING_NTM, "smoothing": None}}


class NTMCopy(TapeStudy):
    """Train a Neural Turing Machine to copy vectors, and test it at single lengths."""

    name = "ntm-copy"
    title = "Copying sequences of vectors"
    question = "After how many iterations does a Neural Turing Machine copy up to 20 random vectors of 8 bits?"
    claims = (
        Claim(
            about("ntm"),
            "parameters",
            62_860,
            PYTORCH_NTM("the usual implementation"),
            agreement=exactly(62_860),
            reason="200 of them are initial states, which are fixed at 0 here",
        ),
        Claim(
            about("ntm"),
            TO_SOLVE,
            "fewer than 30,000: iterations of one sequence",
            PYTORCH_NTM("the usual implementation"),
            agreement=at_most(30_000, "the printed bound, in sequences, since batches differ"),
        ),
        *PROTOTYPE_CLAIMS,
    )
    base = replace(
        tape.BASE, name="ntm-copy", task="bit-copy", cell="ntm", hidden_size=100, smoothing=0.95, steps=30_000
    )
    published_base = replace(base, batch_size=1)
    published_changes: Mapping[str, Mapping[str, Any]] = {"ntm": NTM}
    lengths: Mapping[str, Mapping[int, float]] = {"ntm": WRONG_BITS}
    reported_lengths = (40, 80, 120)
    presets: Mapping[str, Preset] = {
        "smoke": tape.smoke(
            "a small machine with up to two vectors", {"ntm": {**tape.SMALL_NTM, "smoothing": None}}, longest=2
        ),
        "cpu": Preset(
            "The usual size, recipe of ours: RMSprop with momentum 0.9 at 0.0003, the norm of gradients clipped at 10, "
            "at most 4,000 iterations of 16 sequences of mixed lengths, fewer once no bit is wrong; five seeds. Some "
            "minutes of one core for each.",
            {"networks": LEARNING, "changes": {**OURS, "steps": 4000}},
            SEEDS,
        ),
        "paper": Preset(
            "As cpu, with at most 30,000 iterations, on a GPU; five seeds.",
            {"networks": LEARNING, "changes": {**OURS, "device": "cuda"}},
            SEEDS,
        ),
        "published": Preset(
            "The recipe of pytorch-ntm: RMSprop at 0.0001 with momentum 0.9 and smoothing 0.95, 30,000 "
            "iterations of one sequence, fewer once no bit is wrong, on a GPU; but the norm of gradients is clipped at "
            "10; five seeds.",
            {
                "networks": {"ntm": NTM},
                "changes": {
                    "batch_size": 1,
                    "evaluate_every": 500,
                    "evaluate_batches": 50,
                    "target_loss": 1e-3,
                    "target_score": 1.0,
                    "device": "cuda",
                },
            },
            SEEDS,
        ),
    }
    cites = ("graves2014", "collier2018")
    caption = (
        "Wrong bits of a vector of 8; lines show the median over the seeds. Left: during training, over lengths 1 to "
        "20. Right: trained machines at single lengths, and an earlier prototype (circles); the vertical line marks "
        "the longest length of training."
    )

    def more_rows(self, name: str, trials: Sequence[Finished]) -> list[Row]:
        shown = sequences_to_solve(trials)
        ours = ", ".join("never" if isinf(count) else f"{count:,.0f}" for count in shown)
        return [*super().more_rows(name, trials), self.row(trials, TO_SOLVE, shown, ours=ours, diverged=0)]


STUDY = NTMCopy()
