"""Copying longer sequences than in training (Renanse et al. 2021, Fig 9 left)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from statistics import mean
from typing import Any

from mnemoscope.registry.citations import Source
from mnemoscope.replication.agreement import at_least, chosen
from mnemoscope.replication.claims import Claim, Row, Subject, about
from mnemoscope.replication.differences import measure_difference
from mnemoscope.replication.learning_study import by_name, finite
from mnemoscope.replication.study import Finished, Preset
from mnemoscope.studies.renanse2021 import tape
from mnemoscope.studies.renanse2021.matrix_copy import LEARNING
from mnemoscope.studies.renanse2021.ntm_copy import PROTOTYPE_CLAIMS, WRONG_BITS
from mnemoscope.studies.renanse2021.tape import MATNTM, OURS, PAPER, SEEDS, TapeStudy, by_length

NETWORKS: dict[str | Subject, dict[str, Any]] = {
    "matntm": LEARNING["matntm"],
    about("matntm", lengths="all at once", label="matntm, all at once"): {**MATNTM, **tape.FASTER, **tape.MIXED},
    "ntm": tape.LEARNING_NTM,
}
"""The networks of the studies matrix-copy and ntm-copy, and a MatNTM that sees all lengths from the beginning."""
PROTOTYPE: dict[str, Any] = {**tape.NTM, "optimiser": "adam", "momentum": 0.0, "learning_rate": 1e-3, "steps": 2500}
"""Recipe of the prototype of the vector machine, which copied after this many iterations."""
LONGEST = "longest length without a wrong bit, and none at shorter ones"

RISE = Claim(
    about("matntm"),
    "wrong bits at length 120 against 20",
    "the cost increases with the length; the figure has no number",
    PAPER("Fig 9 left"),
    at_least(0.0, "more wrong bits by more than two standard errors"),
)


class LengthGeneralisation(TapeStudy):
    """Train machines at lengths 1 to 20, and test them at longer lengths without further training."""

    name = "length-generalisation"
    title = "Copying longer sequences than were learned"
    question = "Do machines that learned to copy up to 20 matrices or vectors copy up to 120?"
    claims = (
        RISE,
        Claim(
            about("matntm"),
            LONGEST,
            48,
            Source("mnemoscope", "the released model of 4,121 parameters (Renanse et al. 2021), tested by us"),
            agreement=chosen(48, 59, "no wrong bit at 48; the next tested length is 60"),
            better="higher",
        ),
        *PROTOTYPE_CLAIMS,
    )
    base = replace(tape.BASE, name="length-generalisation")
    published_changes: Mapping[str, Mapping[str, Any]] = {"matntm": MATNTM, "ntm": PROTOTYPE}
    lengths: Mapping[str, Mapping[int, float]] = {"matntm": {48: 0.0}, "ntm": WRONG_BITS}
    reported_lengths = (30, 40, 48, 60, 80, 120)
    presets: Mapping[str, Preset] = {
        "smoke": tape.smoke(
            "two small machines with up to two items, tests with up to twelve",
            {"matntm": tape.SMALL["matntm"], "ntm": tape.SMALL_NTM},
            longest=2,
        ),
        "cpu": Preset(
            "Sizes as published, our recipes of the studies matrix-copy and ntm-copy; at most 4,000 iterations of 16 "
            "sequences; five seeds. At most 15 minutes of one core for each machine.",
            {"networks": NETWORKS, "changes": {**OURS, "steps": 4000}},
            SEEDS,
        ),
        "paper": Preset(
            "As cpu, with 53,000 iterations as published, without stopping early, on a GPU; five seeds.",
            {"networks": NETWORKS, "changes": {**OURS, "device": "cuda", "target_loss": None, "target_score": None}},
            SEEDS,
        ),
        "published": Preset(
            "MatNTM as published: the networks of the preset published of matrix-copy, which are not trained again "
            "where they are found; five seeds.",
            {"networks": {"matntm": MATNTM}, "changes": {"device": "cuda"}},
            SEEDS,
        ),
    }
    cites = ("renanse2021", "graves2014", "collier2018")
    caption = (
        "Wrong bits of a matrix of 25 or a vector of 8; lines show the median over the seeds. Left: during training, "
        "over lengths 1 to 20. Right: trained machines at single lengths, the authors' released model (one circle: no "
        "wrong bit up to this length) and an earlier prototype of the vector machine (circles); the vertical line "
        "marks the longest length of training."
    )

    def more_rows(self, name: str, trials: Sequence[Finished]) -> list[Row]:
        longest = [_longest_without_error(by_length(run)) for run in finite(trials)]
        return [*super().more_rows(name, trials), self.row(trials, LONGEST, longest)]

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        rows, machines = super().summarise(results), []
        for trials in by_name([run for run in finite(results) if run.trial.subject.network == "matntm"]).values():
            machines.append([by_length(run) for run in trials])
        if machines and {20, 120} <= machines[0][0].keys():
            short, long = ([[wrong[length] for wrong in tested] for tested in machines] for length in (20, 120))
            words = f"{mean(map(mean, long)):.3g} against {mean(map(mean, short)):.3g}"
            remark = f"{sum(map(len, machines))} machines, trained in {len(machines)} way{'s' * (len(machines) > 1)}"
            rows.append(measure_difference(long, short).compare(RISE, words, remark))
        return rows


def _longest_without_error(tested: Mapping[int, float]) -> int:
    """Return the longest tested length up to which no bit is wrong; 0 if a bit is wrong at the shortest length."""
    without_error = takewhile(lambda length: tested[length] == 0, sorted(tested))
    return max(without_error, default=0)


STUDY = LengthGeneralisation()
