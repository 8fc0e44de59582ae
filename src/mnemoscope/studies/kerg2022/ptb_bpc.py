"""Penn Treebank, character by character (Kerg, Tables 1 and 3, A.1 Table 4; eigenvalues clamped: A.6 Table 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from mnemoscope.config.run_config import RunConfig
from mnemoscope.connectivity import Schur
from mnemoscope.replication.learning import LearningStudy
from mnemoscope.replication.study import Finished, Preset, Published, Row
from mnemoscope.training import load_model

NNRNN: dict[str, Any] = {
    "cell": "nnrnn", "learning_rate": 8e-4, "orthogonal_learning_rate": 8e-5, "smoothing": 0.9,
    "cell_options": {"init": "cayley", "modulus_penalty": 1.0, "decay": 1e-4},
}  # fmt: skip
NETWORKS: dict[str, dict[str, Any]] = {
    "nnrnn": NNRNN,
    "exprnn": {"cell": "exprnn", "learning_rate": 5e-3, "orthogonal_learning_rate": 1e-4, "smoothing": 0.9,
               "cell_options": {"init": "cayley"}},
    "rnn-orth": {"cell": "rnn-orth", "learning_rate": 1e-4, "smoothing": 0.9},
    "eurnn": {"cell": "eurnn", "learning_rate": 1e-3, "smoothing": 0.9},
    "lstm": {"cell": "lstm", "learning_rate": 8e-3, "smoothing": 0.9},
    "rnn": {"cell": "rnn", "learning_rate": 1e-5, "smoothing": 0.9},
}  # fmt: skip
"""Kerg, A.1 Table 4, windows of 150 steps, at 1,024 units."""
MATCHED = {
    "exprnn 1386": NETWORKS["exprnn"] | {"hidden_size": 1386},
    "lstm 475": NETWORKS["lstm"] | {"hidden_size": 475, "learning_rate": 1e-3, "smoothing": 0.99},
}
"""With as many parameters as nnRNN, about 1.32M (ibid.)."""
EPOCH = 262
"""Iterations: 5,017,482 characters in 128 streams, windows of 150 steps."""
# the released code halves the rate after every epoch without progress; after ten of them nothing moves any more
BASE = RunConfig("ptb-bpc", task="ptb", task_options={"length": 150}, cell="nnrnn", hidden_size=1024, embedding=200,
                 optimiser="rmsprop", schedule="plateau", patience=10, steps=100 * EPOCH, batch_size=128,
                 evaluate_every=EPOCH, evaluate_batches=None, checkpoint_every=EPOCH, threads=1)  # fmt: skip
SMOKE = {"hidden_size": 12, "embedding": 8, "task_options": {"length": 10}, "steps": 10, "evaluate_every": 5,
         "evaluate_batches": 2, "batch_size": 4}  # fmt: skip
CPU = {"hidden_size": 256, "embedding": 64, "steps": 2 * EPOCH, "evaluate_every": EPOCH // 4, "evaluate_batches": 5}


def bpc(network: str, value: float, source: str, off: float = 0.02) -> Published:
    """A published number of bits per character, and how far off is near."""
    return Published(
        f"{network}: bits per character", value, source, agreeing=(value - off, value + off), better="lower"
    )


class PennTreebankBPC(LearningStudy):
    """Train the thesis' networks on characters of the Penn Treebank."""

    name = "ptb-bpc"
    title = "Characters of the Penn Treebank"
    question = "How many bits per character does each network need, with gradients through 150 steps?"
    score = "bpc"
    score_in_words = "bits per character"
    published = (
        bpc("nnrnn", 1.47, "Kerg, Table 1, T = 150, N = 1024"),
        bpc("exprnn", 1.51, "Kerg, Table 1, T = 150, N = 1024"),
        bpc("rnn-orth", 1.62, "Kerg, Table 1, T = 150, N = 1024"),
        bpc("eurnn", 1.69, "Kerg, Table 1, T = 150, N = 1024"),
        bpc("rnn", 2.89, "Kerg, Table 1, T = 150, N = 1024"),
        bpc("lstm", 1.37, "Kerg, 3.6.2, N = 1024"),
        bpc("exprnn 1386", 1.49, "Kerg, Table 1, T = 150, 1.32M parameters"),
        Published("nnrnn: accuracy", "68.78%", "Kerg, A.1 Table 3, T = 150", agreeing=(0.678, 0.698), better="higher"),
        Published(
            "exprnn: accuracy",
            "67.51%",
            "Kerg, A.1 Table 3, T = 150, N = 1024",
            agreeing=(0.665, 0.685),
            better="higher",
        ),
        Published("nnrnn: mean modulus of eigenvalues", 0.958, "Kerg, 3.6.3", agreeing=(0.938, 0.978)),
    )
    base = BASE
    presets: Mapping[str, Preset] = {
        "smoke": Preset("A few iterations of small networks: it shows that the machinery works.",
                        {"networks": {name: NETWORKS[name] for name in ("nnrnn", "lstm")}, "changes": SMOKE}),
        "cpu": Preset("256 units, two epochs, one seed: the beginning of learning, far from its end.",
                      {"networks": {name: NETWORKS[name] for name in ("nnrnn", "exprnn")}, "changes": CPU}),
        "paper": Preset("As published: 1,024 units, 100 epochs, on a GPU; one seed.",
                        {"networks": NETWORKS | MATCHED, "changes": {"device": "cuda"}}),
    }  # fmt: skip
    cites = ("kerg2019", "mikolov2012", "marcus1993")
    caption = "Bits per character on the validation text while learning."

    def look(self, run: Path) -> dict[str, Any]:
        """The moduli and angles of the eigenvalues of an nnRNN."""
        matrix = getattr(load_model(run)[0].cell, "connectivity", None)
        if not isinstance(matrix, Schur):
            return {}
        with torch.no_grad():
            moduli = matrix.moduli()
            return {"mean_modulus": moduli.mean().item(), "largest_modulus": moduli.max().item()}

    def more_rows(self, name: str, own: Sequence[Finished]) -> list[Row]:
        whole = [one.result for one in own if "failed" not in one.result]
        rows = [self.row(own, "accuracy", [one["accuracy"] for one in whole], ".2%")]
        moduli = [one["mean_modulus"] for one in whole if "mean_modulus" in one]
        return [*rows, self.row(own, "mean modulus of eigenvalues", moduli, ".4f")] if moduli else rows


STUDY = PennTreebankBPC()


class GammaClamp(PennTreebankBPC):
    """nnRNN with the moduli of its eigenvalues learned, or fixed at 1 or at 0.958."""

    name = "gamma-clamp"
    title = "nnRNN with eigenvalues of fixed modulus"
    question = "Does it matter for the Penn Treebank whether the moduli of the eigenvalues are learned?"
    published = (
        bpc("nnrnn", 1.47, "Kerg, A.6 Table 6, T = 150"),
        bpc("nnrnn, gamma = 1", 1.46, "Kerg, A.6 Table 6, T = 150; one run of five failed"),
        bpc("nnrnn, gamma = 0.958", 1.47, "Kerg, A.6 Table 6, T = 150"),
    )
    networks: Mapping[str, dict[str, Any]] = {
        "nnrnn": NNRNN,
        **{
            f"nnrnn, gamma = {modulus:g}": NNRNN
            | {"cell_options": NNRNN["cell_options"] | {"modulus": modulus, "clamp": 0.0}}
            for modulus in (1.0, 0.958)
        },
    }
    presets: Mapping[str, Preset] = {
        "smoke": Preset("A few iterations of small networks: it shows that the machinery works.",
                        {"networks": networks, "changes": SMOKE}),
        "cpu": Preset("256 units, two epochs, one seed: the beginning of learning, far from its end.",
                      {"networks": networks, "changes": CPU}),
        "paper": Preset("As published: 1,024 units, 100 epochs, on a GPU; five seeds.",
                        {"networks": networks, "changes": {"device": "cuda"}}, (0, 1, 2, 3, 4)),
    }  # fmt: skip


GAMMA_CLAMP = GammaClamp()
