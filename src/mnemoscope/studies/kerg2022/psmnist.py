"""Permuted sequential MNIST, pixel by pixel (Kerg, Fig 2 right, A.1 Table 2 and Table 3 of chapter 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mnemoscope.config.run_config import RunConfig
from mnemoscope.registry.citations import Source
from mnemoscope.replication.claims import Claim, about
from mnemoscope.replication.learning_study import LearningStudy
from mnemoscope.replication.study import Preset

NETWORKS: dict[str, dict[str, Any]] = {
    "nnrnn": {
        "cell": "nnrnn",
        "learning_rate": 1.5e-4,
        "orthogonal_learning_rate": 1.5e-5,
        "smoothing": 0.99,
        "cell_options": {"init": "cayley", "modulus_penalty": 0.15, "decay": 1e-4},
    },
    "exprnn": {
        "cell": "exprnn",
        "learning_rate": 5e-4,
        "orthogonal_learning_rate": 5e-5,
        "smoothing": 0.99,
        "cell_options": {"init": "cayley"},
    },
    "rnn-orth": {"cell": "rnn-orth", "learning_rate": 5e-5, "smoothing": 0.99},
    "lstm": {"cell": "lstm", "learning_rate": 5e-4, "smoothing": 0.9},
    "rnn": {"cell": "rnn", "learning_rate": 1e-4, "smoothing": 0.9},
}
"""Recipes of Kerg, A.1 Table 2, at 512 units."""
MATCHED = {
    "exprnn 722": NETWORKS["exprnn"] | {"hidden_size": 722},
    "lstm 257": NETWORKS["lstm"] | {"hidden_size": 257},
}
"""Networks with as many parameters as nnRNN, about 269K (ibid.)."""
EPOCH = 500
"""Iterations per epoch: 50,000 images in batches of 100."""
ACCURACY = {
    "exprnn": ("96.6%", (0.956, 0.976)),
    "rnn-orth": ("93.4%", (0.924, 0.944)),
    "rnn": ("90.4%", (0.894, 0.914)),
    "lstm": ("91.1%", (0.901, 0.921)),
}
"""Published test accuracies, and the measured values that match them."""


class PermutedMNIST(LearningStudy):
    """Train the thesis' networks on permuted MNIST and compare their test accuracy."""

    name = "psmnist"
    title = "Permuted sequential MNIST"
    question = "How well does each network classify digits from 784 pixels in a fixed random order?"
    score = "accuracy"
    score_in_words = "accuracy"
    claims = (
        *(
            Claim(about(network), "accuracy", value, Source("kerg2022thesis", "chapter 4 Table 3"), tolerance, "higher")
            for network, (value, tolerance) in ACCURACY.items()
        ),
        Claim(
            about("nnrnn"),
            "accuracy",
            "as the orthogonal ones, about 96%",
            Source("kerg2022thesis", "3.6.1 and Fig 2"),
            tolerance=(0.95, 1),
            better="higher",
        ),
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
        "smoke": Preset(
            "A few iterations with 56 pixels per step, to check that the code runs.",
            {
                "networks": {name: NETWORKS[name] for name in ("nnrnn", "lstm")},
                "changes": {
                    "task_options": {"group": 56},
                    "hidden_size": 12,
                    "steps": 10,
                    "batch_size": 10,
                    "evaluate_every": 5,
                    "evaluate_batches": 2,
                },
            },
        ),
        "cpu": Preset(
            "128 units, two epochs, one seed: only the beginning of training.",
            {
                "networks": {name: NETWORKS[name] for name in ("nnrnn", "exprnn")},
                "changes": {
                    "hidden_size": 128,
                    "steps": 2 * EPOCH,
                    "evaluate_every": EPOCH // 5,
                    "evaluate_batches": 20,
                },
            },
        ),
        "paper": Preset(
            "As published, 512 units, for 20 epochs, on a GPU.",
            {"networks": NETWORKS | MATCHED, "changes": {"device": "cuda"}},
        ),
    }
    cites = ("kerg2019", "kerg2020", "le2015")
    caption = "Validation accuracy during training."


STUDY = PermutedMNIST()
