"""The copy task with longer and longer delays (Kerg, B.4 Table 2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mnemoscope.config.run_config import RunConfig
from mnemoscope.replication.study import Preset, Trial
from mnemoscope.studies.kerg2022 import recall
from mnemoscope.studies.kerg2022.notation import TINY
from mnemoscope.studies.kerg2022.recall import (
    FEWER_UPDATES,
    OURS,
    STAGES,
    RecallStudy,
    Table,
    as_many_sequences,
    at_delays,
    claims_by_delay,
    with_long_delays,
)

EXPRNN: dict[str, Any] = {"cell": "exprnn", "orthogonal_learning_rate": 2e-5}
"""Kerg, B.4 Table 3: learning rate 0.0002; the rate of the orthogonal part is from expRNN's published code."""
NETWORKS: dict[str, dict[str, Any]] = {
    "exprnn": EXPRNN,
    **{
        name: {"clip": 1.0, "hidden_size": 128, **as_many_sequences(batch_size), **OURS[name]}
        for name, batch_size in {
            "rnn-orth": 128,
            "lstm": 128,
            "memrnn": 64,
            "sab": 64,
            "relrnn": 64,
            "rellstm": 128,
        }.items()
    },
}
"""All but expRNN have the published 128 units and our recipes, until they have solved the task or have seen as many
sequences as published; gradients are clipped to norm 1, as in the authors' code."""
ALL_STAGES = STAGES | {"memrnn": (30, 100, 300), "relrnn": (30, 100, 300)}
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


OTHERWISE = ("hidden_size", "batch_size", "clip", "steps", "evaluate_every", "evaluate_batches")
"""Settings in which the recipe of the source differs from that of expRNN's published code."""


class CopyTable(RecallStudy):
    """Train networks on the copy task at several delays."""

    name = "copy-table"
    title = "Copying after longer and longer delays"
    question = "Up to which delay does each network learn to recall ten symbols?"
    table = PUBLISHED
    claims = (*claims_by_delay(PUBLISHED, "B.4 Table 2"), FEWER_UPDATES)
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
            {"networks": {"exprnn": EXPRNN}, "delays": (3, 5), "changes": {**TINY, "batch_size": 4}},
        ),
        "cpu": Preset(
            "Delays of 100 and 200, 128 units, batches of 10, at most 3,000 iterations; one seed.",
            {
                "networks": {
                    "exprnn": EXPRNN,
                    "rnn-orth": {"cell": "rnn-orth"},
                    "lstm": {"cell": "lstm", "optimiser": "adam"},
                },
                "stages": {},
                "delays": (100, 200),
                "changes": {"hidden_size": 128, "batch_size": 10, "steps": 3000, "evaluate_batches": 10},
            },
        ),
        "paper": Preset(
            "expRNN by its published code (190 units, batches of 128, 4,000 iterations), the others with 128 units and "
            "our recipes (`recall.OURS`), batches of 64 or 128, at most as many sequences as published; all but expRNN "
            "and RNN-orth with shorter delays first; five seeds, on a GPU. The RelLSTMs of seed 0 were trained with a "
            "limit of 4,000 iterations, which is stored as 15,625: they had solved the task before, at a constant "
            "learning rate, so that the limit changes nothing.",
            {"networks": NETWORKS, "delays": tuple(PUBLISHED["lstm"]), "changes": {"device": "cuda"}},
            tuple(range(5)),
        ),
        "published": Preset(
            "expRNN and RNN-orth by the recipe of the source: 128 units, learning rate 0.0002, at most 200,000 batches "
            "of 10, gradients clipped to norm 1; delays up to 500, five seeds, on a CPU.",
            {
                "networks": {name: recall.PUBLISHED[name] for name in recall.ON_CPU},
                "stages": {},
                "delays": tuple(delay for delay in PUBLISHED["lstm"] if delay <= 500),
                "changes": {name: getattr(recall.BASE, name) for name in OTHERWISE},
            },
            tuple(range(5)),
        ),
    }
    cites = ("kerg2020", "lezcano2019", "henaff2016", "hochreiter1997")

    def trials(self, settings: Mapping[str, Any], seeds: Iterable[int]) -> list[Trial]:
        networks = at_delays(settings["networks"], settings["delays"], settings.get("stages", ALL_STAGES))
        return super().trials({**settings, "networks": with_long_delays(networks)}, seeds)


STUDY = CopyTable()
