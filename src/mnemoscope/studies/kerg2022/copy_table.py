"""The copy task with longer and longer delays (Kerg, B.4 Table 2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mnemoscope.config.run_config import RunConfig
from mnemoscope.replication.solving_study import changed_options
from mnemoscope.replication.study import Preset, Trial
from mnemoscope.studies.kerg2022.notation import TINY
from mnemoscope.studies.kerg2022.recall import OURS, RecallStudy, Table, at_delays, claims_by_delay, in_stages

NETWORKS: dict[str, dict[str, Any]] = {
    "exprnn": {"cell": "exprnn", "orthogonal_learning_rate": 2e-5},
    "rnn-orth": {"cell": "rnn-orth"},
    "lstm": {"cell": "lstm", "optimiser": "adam"},
}
"""Kerg, B.4 Table 3: learning rate 0.0002 for all; the rate of the orthogonal part is from expRNN's published code."""
ATTENTION = {
    name: {"clip": 1.0, "hidden_size": 128, **network}
    for name, network in in_stages(OURS, "10 30").items()
    if name in ("memrnn", "sab", "relrnn", "rellstm")
}
"""Networks with attention to their past, with the published 128 units and our learning rates; gradients are clipped to
norm 1, as in the authors' code."""
LONGER: dict[str, Any] = {"clip": 0.1, "curriculum_score": 0.95}
"""Further changes that a RelRNN needs at long delays, in addition to the curriculum."""
PUBLISHED: Table = {
    "exprnn": {100: 100, 200: 100, 300: 100, 500: 100, 1000: 100, 2000: 100},
    "rnn-orth": {100: 100, 200: 100, 300: 100, 500: 100, 1000: 80, 2000: 11},
    "lstm": {100: 100, 200: 100, 300: 100, 500: 12, 1000: 12, 2000: 12},
    "memrnn": {100: 100, 200: 100, 300: 100, 500: 100, 1000: 100, 2000: "out of memory"},
    "sab": {100: 100, 200: 100, 300: 100, 500: 100, 1000: 100, 2000: 100},
    "relrnn": {100: 100, 200: 100, 300: 100, 500: 100, 1000: 100, 2000: 100},
    "rellstm": {100: 100, 200: 100, 300: 100, 500: 100, 1000: 100, 2000: 100},
}
"""Percent of the symbols recalled. (MemRNN runs out of memory beyond 100 in the text, at 2,000 in the table.)"""


def longer(network: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the recipe by which a RelRNN learns a delay of more than 100; other networks do not change.

    It starts with shorter delays, because early in training its states grow exponentially from step to step. From a
    delay of 1,000 it also leaves out the batches whose gradients still explode later.
    """
    delay = network["task_options"]["delay"]
    if network["cell"] != "relrnn" or delay <= 100:
        return network
    stages = " ".join(str(shorter) for shorter in (30, 100, 300) if shorter < delay)
    leave_out = {"leave_out": 20} if delay >= 1000 else {}
    return changed_options({**network, **LONGER, **leave_out}, {"curriculum": stages})


class CopyTable(RecallStudy):
    """Train networks on the copy task at several delays."""

    name = "copy-table"
    title = "Copying after longer and longer delays"
    question = "Up to which delay does each network learn to recall ten symbols?"
    table = PUBLISHED
    claims = claims_by_delay(PUBLISHED, "B.4 Table 2")
    base = RunConfig(
        "copy-table",
        task="copy",
        cell="exprnn",
        hidden_size=190,
        optimiser="rmsprop",
        steps=4000,
        learning_rate=2e-4,
        batch_size=128,
        evaluate_every=50,
        evaluate_batches=2,
        checkpoint_every=500,
        target_score=0.999,
        threads=1,
    )
    presets: Mapping[str, Preset] = {
        "smoke": Preset(
            "A few iterations at short delays, to check that the code runs.",
            {"networks": {"exprnn": NETWORKS["exprnn"]}, "delays": (3, 5), "changes": {**TINY, "batch_size": 4}},
        ),
        "cpu": Preset(
            "Delays of 100 and 200, 128 units, batches of 10, at most 3,000 iterations; one seed.",
            {
                "networks": NETWORKS,
                "delays": (100, 200),
                "changes": {"hidden_size": 128, "batch_size": 10, "steps": 3000, "evaluate_batches": 10},
            },
        ),
        "paper": Preset(
            "190 units (128 with attention), batches of 128 (the setting of expRNN's code), at most 4,000 "
            "iterations; RelLSTM, and RelRNN beyond 100 steps, with shorter delays first; on a GPU.",
            {"networks": NETWORKS | ATTENTION, "delays": tuple(PUBLISHED["lstm"]), "changes": {"device": "cuda"}},
        ),
    }
    cites = ("kerg2020", "lezcano2019", "henaff2016", "hochreiter1997")

    def trials(self, settings: Mapping[str, Any], seeds: Iterable[int]) -> list[Trial]:
        networks = at_delays(settings["networks"], settings["delays"])
        recipes = {subject: longer(network) for subject, network in networks.items()}
        return super().trials({**settings, "networks": recipes}, seeds)


STUDY = CopyTable()
