"""The copy task with longer and longer delays (Kerg, B.4 Table 2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mnemoscope.config.run_config import RunConfig
from mnemoscope.registry.citations import Source
from mnemoscope.replication.claims import about
from mnemoscope.replication.solving import changed_options
from mnemoscope.replication.study import Preset, Trial
from mnemoscope.studies.kerg2022.recall import OURS, RecallStudy, at_delays, in_stages, published_recall

NETWORKS: dict[str, dict[str, Any]] = {
    "exprnn": {"cell": "exprnn", "orthogonal_learning_rate": 2e-5},
    "rnn-orth": {"cell": "rnn-orth"},
    "lstm": {"cell": "lstm", "optimiser": "adam"},
}
"""Kerg, B.4 Table 3: learning rate 0.0002 for all; the rate of the orthogonal part is that of expRNN's own code."""
ATTENTION = {
    name: {"clip": 1.0, "hidden_size": 128, **network}
    for name, network in in_stages(OURS, "10 30").items()
    if name in ("memrnn", "sab", "relrnn", "rellstm")
}
"""Networks that attend to their past, with the published 128 units and rates of ours; gradients are no longer than 1,
as in the authors' code."""
LONGER: dict[str, Any] = {"clip": 0.1, "curriculum_score": 0.95}
"""What a RelRNN needs beside shorter delays first."""
PUBLISHED: dict[str, dict[int, int | str]] = {
    "exprnn": {100: 100, 200: 100, 300: 100, 500: 100, 1000: 100, 2000: 100},
    "rnn-orth": {100: 100, 200: 100, 300: 100, 500: 100, 1000: 80, 2000: 11},
    "lstm": {100: 100, 200: 100, 300: 100, 500: 12, 1000: 12, 2000: 12},
    "memrnn": {100: 100, 200: 100, 300: 100, 500: 100, 1000: 100, 2000: "out of memory"},
    "sab": {100: 100, 200: 100, 300: 100, 500: 100, 1000: 100, 2000: 100},
    "relrnn": {100: 100, 200: 100, 300: 100, 500: 100, 1000: 100, 2000: 100},
    "rellstm": {100: 100, 200: 100, 300: 100, 500: 100, 1000: 100, 2000: 100},
}
"""Percent of the symbols recalled. (The text has MemRNN out of memory beyond 100, the table at 2,000.)"""


def longer(network: Mapping[str, Any]) -> Mapping[str, Any]:
    """How a RelRNN learns a delay of more than 100: after shorter ones, as in the beginning its states grow from step
    to step beyond all numbers; from 1,000 on without the batches whose gradients still do so later.
    """
    delay = network["task_options"]["delay"]
    if network["cell"] != "relrnn" or delay <= 100:
        return network
    stages = " ".join(str(shorter) for shorter in (30, 100, 300) if shorter < delay)
    without = {"leave_out": 20} if delay >= 1000 else {}
    return changed_options({**network, **LONGER, **without}, {"curriculum": stages})


class CopyTable(RecallStudy):
    """Train networks on the copy task at several delays."""

    name = "copy-table"
    title = "Copying after longer and longer delays"
    question = "Up to which delay does each network learn to recall ten symbols?"
    table = PUBLISHED
    claims = tuple(
        published_recall(about(network, delay=delay), "recall", percent, Source("kerg2022thesis", "B.4 Table 2"))
        for network, row in PUBLISHED.items()
        for delay, percent in row.items()
    )
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
            "A few iterations at short delays: it shows that the machinery works.",
            {
                "networks": {"exprnn": NETWORKS["exprnn"]},
                "delays": (3, 5),
                "changes": {"hidden_size": 12, "steps": 10, "evaluate_every": 5, "batch_size": 4},
            },
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
            "190 units (128 with attention), batches of 128 (expRNN's own setting), at most 4,000 "
            "iterations, RelLSTM and beyond 100 steps RelRNN with shorter delays first, on a GPU.",
            {
                "networks": NETWORKS | ATTENTION,
                "delays": (100, 200, 300, 500, 1000, 2000),
                "changes": {"device": "cuda"},
            },
        ),
    }
    cites = ("kerg2020", "lezcano2019", "henaff2016", "hochreiter1997")
    caption = "Left: recall while learning. Right: recall at the end (dots and lines), and as published (circles)."

    def trials(self, settings: Mapping[str, Any], seeds: Iterable[int]) -> list[Trial]:
        networks = at_delays(settings["networks"], settings["delays"])
        return super().trials({**settings, "networks": {name: longer(one) for name, one in networks.items()}}, seeds)


STUDY = CopyTable()
