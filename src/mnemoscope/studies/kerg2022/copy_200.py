"""The copy task with a delay of 200: which networks learn it, how fast (Kerg, Fig 2 left, A.1 Fig 1 and Table 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

from mnemoscope.config.run_config import RunConfig
from mnemoscope.replication.agreement import as_printed, at_least, at_most, chosen
from mnemoscope.replication.claims import EVERYTHING, Claim, Row, about
from mnemoscope.replication.learning_study import LearningStudy, by_name, finite, first_step
from mnemoscope.replication.study import Finished, Preset, listed
from mnemoscope.replication.verdicts import UNKNOWN
from mnemoscope.studies.kerg2022.notation import TINY, preset, recipe, thesis
from mnemoscope.training import load_model
from mnemoscope.training.evaluation import evaluate_tasks

NETWORKS = {
    "nnrnn": recipe("nnrnn", 5e-4, 0.99, 1e-6),
    "exprnn": recipe("exprnn", 1e-3, 0.99, 1e-4),
    "rnn-orth": recipe("rnn-orth", 2e-4, 0.99),
    "eurnn": recipe("eurnn", 1e-3, 0.5),
    "lstm": recipe("lstm", 5e-4, 0.99),
    "rnn": recipe("rnn", 1e-3, 0.9),
}
"""Recipes of Kerg, A.1 Table 1, at 128 units. The penalties of nnRNN given there are its defaults here."""
MATCHED = {
    "exprnn 176": NETWORKS["exprnn"] | {"hidden_size": 176},
    "eurnn 256": NETWORKS["eurnn"] | {"hidden_size": 256},
    "lstm 63": NETWORKS["lstm"] | {"hidden_size": 63, "learning_rate": 1e-3},
}
"""Networks of other sizes (ibid.). ExpRNN and LSTM have about as many parameters as nnRNN, 18.9K. EURNN has 10.8K with
our two layers of rotations; the source does not state its number of layers."""
RECIPES = {
    **{about("rnn-orth", init=init): recipe("rnn", 2e-4, 0.99, init=init) for init in ("henaff", "cayley")},
    **{about("rnn-orth", rate=rate): recipe("rnn-orth", rate, 0.99) for rate in (1e-4, 5e-4, 1e-3)},
    **{
        about("nnrnn", rate=rate, orthogonal=orthogonal): recipe("nnrnn", rate, 0.99, orthogonal)
        for rate, orthogonal in ((2.5e-4, 1e-6), (1e-3, 1e-6), (2e-3, 1e-6), (5e-4, 1e-4), (1e-3, 1e-4))
    },
}
"""Changes of the published recipe that might explain why RNN-orth learns more slowly here than in A.1 Fig 1, and nnRNN
more slowly than the fastest orthogonal network."""
SEQUENCES = 10_000
"""Sequences of the larger sample in which recall is measured after training; an evaluation has 100, 1,000 symbols."""
LARGER = "recall in 10,000 sequences"
SOLVED = 0.99
SOLVES = at_least(SOLVED, "our reading of 'solves it': 99% of the symbols")
"""Recall from which the task counts as solved."""
GUESSES = chosen(0.075, 0.175, "a guess, 1 of 8, and five points to each side: the curve ends at the baseline")
RECALL = {
    **dict.fromkeys(("nnrnn", "exprnn", "rnn-orth", "eurnn"), ("solves it", SOLVES)),
    "lstm": ("struggles", GUESSES),
    "rnn": ("fails", GUESSES),
}
"""Published statements about recall, and the measured values that match them."""
LOSS = {
    "nnrnn": ("0.002", 0.001),
    "exprnn 176": ("0.000", 0.001),
    "rnn-orth": ("0.002", 0.001),
    "eurnn 256": ("0.048", 0.010),
    "lstm 63": ("0.095", 0.001),
    "rnn": ("0.095", 0.001),
}
"""Published cross entropy at the end of training, and its standard error, which is at most 0.001 but for EURNN. The
supplement that comes with the released code has the curves of A.1 Fig 1 (left) as vector graphics. The values are the
medians of the last 100 of 1,500 iterations, because single iterations have peaks."""
ORTHOGONAL = ("exprnn", "rnn-orth", "eurnn")
TIMESCALE = f"iterations to {SOLVED:.0%} recall, as a multiple of the fastest orthogonal network's"
FAST = at_most(1.25, "our reading of 'matched the best training timescales': at most a quarter more iterations")
REASONS = {
    "rnn-orth": f"{UNKNOWN}; the printed recipe does not lead there in the released code either, 0.10 after 700 "
    "iterations where the published curve has 0.003; Henaff's initial matrix comes nearer, other learning rates do not "
    "(preset recipes)",
    "exprnn": "an evaluation has 1,000 symbols; in 10,000 sequences each of the five recalls more than 0.99",
    "eurnn": "its loss has peaks: seed 4 recalls at least 99.9% at each of the nine evaluations before the last one",
    "rnn": "its loss has peaks, in the published curve too",
}
"""Why networks differ. The released code was run with one seed."""


class Copy200(LearningStudy):
    """Train the thesis' networks on the copy task and compare their recall."""

    name = "copy-200"
    title = "Copying after 200 steps"
    question = "Which networks learn to recall ten symbols after 200 steps, and after how many iterations?"
    score = "accuracy"
    score_in_words = "recall"
    claims = (
        *(
            Claim(
                about(network),
                "recall",
                value,
                thesis("3.6.1 and Fig 2"),
                agreement,
                "higher",
                REASONS.get(network, ""),
            )
            for network, (value, agreement) in RECALL.items()
        ),
        *(
            Claim(
                about(network),
                "cross entropy",
                value,
                thesis("A.1 Fig 1 (left)"),
                as_printed(value, error=spread, low=0.0),
                "lower",
                REASONS.get(network, ""),
            )
            for network, (value, spread) in LOSS.items()
        ),
        Claim(
            about("nnrnn"),
            TIMESCALE,
            "as well as best training timescales",
            thesis("3.6.1"),
            FAST,
            "lower",
            f"{UNKNOWN}; half of the symbols are recalled as soon as by the fastest, after 25 or 50 iterations, 90% "
            "after 100 to 175 against 50 to 75, and the last percent takes longest, also at the rate 0.00025, and with "
            "0.0001 for the orthogonal part; higher rates take longer for 90%, and at 0.002 it is not reached (preset "
            "recipes). EURNN is the fastest here, whose published curve, with 256 units, ends at 0.048",
        ),
        Claim(EVERYTHING, "baseline loss", 0.095, thesis("3.6.1"), as_printed("0.095"), by_construction=True),
    )
    base = RunConfig(
        "copy-200",
        task="copy",
        task_options={"delay": 200},
        cell="nnrnn",
        hidden_size=128,
        optimiser="rmsprop",
        steps=1500,
        batch_size=10,
        evaluate_every=25,
        evaluate_batches=10,
        checkpoint_every=250,
        threads=1,
    )
    presets: Mapping[str, Preset] = {
        "smoke": preset(
            "Ten iterations of two small networks at a delay of 5, to check that the code runs.",
            {name: NETWORKS[name] for name in ("nnrnn", "eurnn")},
            task_options={"delay": 5},
            **TINY,
        ),
        "cpu": preset("As published: 128 units, 1,500 iterations of 10 sequences; three seeds.", NETWORKS, seeds=3),
        "paper": preset(
            "As published, with networks matched by units and by parameters; five seeds.", NETWORKS | MATCHED, seeds=5
        ),
        "recipes": preset(
            "RNN-orth with other initial matrices and learning rates, and nnRNN with other rates; three seeds.",
            RECIPES,
            seeds=3,
        ),
    }
    cites = ("kerg2019", "hochreiter1997", "arjovsky2016")
    caption = "Recall during training: median and range over the seeds."

    def measure(self, run: Path) -> dict[str, Any]:
        """Return the recall of a trained network in a larger sample."""
        model, task, config = load_model(run, training_device=True)
        scores = evaluate_tasks(model, {"copy": task}, batches=SEQUENCES // 100, seed=config.seed)
        return {LARGER: scores["copy"]["accuracy"]}

    def more_rows(self, name: str, trials: Sequence[Finished]) -> list[Row]:
        steps = [*map(_iterations, trials)]
        ours = ", ".join("never" if step == inf else f"{step:.0f}" for step in steps)
        middle = median(steps)
        remark = "" if middle == inf else f"median {middle:.0f}"
        # the published values are medians over 100 iterations: here, of the four evaluations in them
        losses = [median(each.result["curve"]["loss"][-4:]) for each in finite(trials)]
        rows = [
            Row(f"{name}: iterations to {SOLVED:.0%} recall", "", ours, remark=remark),
            self.row(trials, "cross entropy", losses, ".4f"),
        ]
        larger = [each.result[LARGER] for each in finite(trials) if LARGER in each.result]
        return [*rows, self.row(trials, LARGER, larger, ".4f")] if larger else rows

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        rows = super().summarise(results)
        if not (stable := finite(results)):
            return rows
        baseline = stable[0].result["baseline"]  # the same for all networks
        rows.append(self.compare(stable, self.claim("baseline loss"), [baseline], f"{baseline:.4f}"))
        by_network = {name: trials for name, trials in by_name(results).items() if len(finite(trials)) == len(trials)}
        return rows + self._timescales(by_network)

    def _timescales(self, networks: Mapping[str, list[Finished]]) -> list[Row]:
        """Return the row that compares how fast networks learn, once all of the same size have been trained."""
        if not {"nnrnn", *ORTHOGONAL} <= networks.keys():
            return []
        medians = {name: median(map(_iterations, networks[name])) for name in ("nnrnn", *ORTHOGONAL)}
        fastest = min(medians[name] for name in ORTHOGONAL)
        if fastest == inf:
            return []
        ratios = [_iterations(each) / fastest for each in networks["nnrnn"]]
        against = median(ratios) * fastest / medians["exprnn"]
        learned = ", ".join(f"{name} {count:.0f}" for name, count in medians.items() if count < inf)
        claim = self.claim(TIMESCALE, about("nnrnn"))
        return [
            self.compare(
                networks["nnrnn"],
                claim,
                ratios,
                listed(ratios, ".2g"),
                f"medians: {learned}; {against:.2g} times expRNN's",
            )
        ]


def _iterations(trained: Finished) -> float:
    """Return the iterations after which the network first recalled 99%; infinite if it never did."""
    step = first_step(trained.result["curve"], "accuracy", SOLVED)
    return inf if step is None else step


STUDY = Copy200()
