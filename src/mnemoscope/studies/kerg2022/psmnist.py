"""Permuted sequential MNIST, pixel by pixel (Kerg, Fig 2 right, A.1 Table 2 and Table 3 of chapter 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mnemoscope.config.run_config import RunConfig
from mnemoscope.replication.agreement import as_printed
from mnemoscope.replication.claims import Claim, about
from mnemoscope.replication.learning_study import LearningStudy
from mnemoscope.replication.study import Preset
from mnemoscope.studies.kerg2022.notation import TINY, preset, recipe, thesis

NETWORKS = {
    "nnrnn": recipe("nnrnn", 1.5e-4, 0.99, 1.5e-5, init="cayley", modulus_penalty=0.15, decay=1e-4),
    "exprnn": recipe("exprnn", 5e-4, 0.99, 5e-5, init="cayley"),
    "rnn-orth": recipe("rnn-orth", 5e-5, 0.99),
    "lstm": recipe("lstm", 5e-4, 0.9),
    "rnn": recipe("rnn", 1e-4, 0.9),
}
"""Recipes of Kerg, A.1 Table 2, at 512 units."""
MATCHED = {
    "exprnn 722": NETWORKS["exprnn"] | {"hidden_size": 722},
    "lstm 257": NETWORKS["lstm"] | {"hidden_size": 257},
}
"""Networks with as many parameters as nnRNN, about 269K (ibid.)."""
EPOCH = 500
"""Iterations per epoch: 50,000 images in batches of 100."""
TABLE_3, FIG_2 = thesis("chapter 4 Table 3"), thesis("3.6.1 and Fig 2")
ACCURACY = {
    "exprnn": ("96.6%", TABLE_3, as_printed("96.6%")),
    "rnn-orth": ("93.4%", TABLE_3, as_printed("93.4%")),
    "rnn": ("90.4%", TABLE_3, as_printed("90.4%")),
    "lstm": ("91.1%", TABLE_3, as_printed("91.1%")),
    "nnrnn": ("as the orthogonal ones, about 96%", FIG_2, as_printed("96%")),
}
"""Published test accuracies, and the measured values that match them."""
SMOKE: dict[str, Any] = {**TINY, "task_options": {"group": 56}, "batch_size": 10, "evaluate_batches": 2}


class PermutedMNIST(LearningStudy):
    """Train the thesis' networks on permuted MNIST and compare their test accuracy."""

    name = "psmnist"
    title = "Permuted sequential MNIST"
    question = "How well does each network classify digits from 784 pixels in a fixed random order?"
    score = "accuracy"
    score_in_words = "accuracy"
    claims = tuple(
        Claim(about(network), "accuracy", value, source, agreement, "higher")
        for network, (value, source, agreement) in ACCURACY.items()
    )
    base = RunConfig(
        "psmnist",
        task="psmnist",
        cell="nnrnn",
        hidden_size=512,
        optimiser="rmsprop",
        steps=20 * EPOCH,
        batch_size=100,
        evaluate_every=EPOCH,
        evaluate_batches=None,
        checkpoint_every=EPOCH,
        threads=1,
    )
    presets: Mapping[str, Preset] = {
        "smoke": preset(
            "A few iterations with 56 pixels per step, to check that the code runs.",
            {name: NETWORKS[name] for name in ("nnrnn", "lstm")},
            **SMOKE,
        ),
        "cpu": preset(
            "128 units, two epochs, one seed: only the beginning of training.",
            {name: NETWORKS[name] for name in ("nnrnn", "exprnn")},
            hidden_size=128,
            steps=2 * EPOCH,
            evaluate_every=EPOCH // 5,
            evaluate_batches=20,
        ),
        "paper": preset("As published, 512 units, for 20 epochs, on a GPU.", NETWORKS | MATCHED, device="cuda"),
    }
    cites = ("kerg2019", "kerg2020", "le2015")
    caption = "Validation accuracy during training."


STUDY = PermutedMNIST()
