"""Penn Treebank, character by character (Kerg, Tables 1 and 3, A.1 Table 4; clamped eigenvalues: A.6 Table 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from mnemoscope.config.run_config import RunConfig
from mnemoscope.connectivity import Schur
from mnemoscope.registry.citations import Source
from mnemoscope.replication.agreement import as_printed
from mnemoscope.replication.claims import Claim, Row, Subject, about, as_subject
from mnemoscope.replication.learning_study import LearningStudy, finite
from mnemoscope.replication.study import Finished, Preset
from mnemoscope.studies.kerg2022.notation import TINY, Networks, preset, recipe, thesis
from mnemoscope.training import load_model

NNRNN = recipe("nnrnn", 8e-4, 0.9, 8e-5, init="cayley", modulus_penalty=1.0, decay=1e-4)
NETWORKS = {
    "nnrnn": NNRNN,
    "exprnn": recipe("exprnn", 5e-3, 0.9, 1e-4, init="cayley"),
    "rnn-orth": recipe("rnn-orth", 1e-4, 0.9),
    "eurnn": recipe("eurnn", 1e-3, 0.9),
    "lstm": recipe("lstm", 8e-3, 0.9),
    "rnn": recipe("rnn", 1e-5, 0.9),
}
"""Recipes of Kerg, A.1 Table 4, for windows of 150 steps, at 1,024 units."""
MATCHED = {
    "exprnn 1386": NETWORKS["exprnn"] | {"hidden_size": 1386},
    "lstm 475": NETWORKS["lstm"] | {"hidden_size": 475, "learning_rate": 1e-3, "smoothing": 0.99},
}
"""Networks with as many parameters as nnRNN, about 1.32M (ibid.)."""
EPOCH = 262
"""Iterations per epoch: 5,017,482 characters in 128 streams, windows of 150 steps."""
# The released code halves the learning rate after every epoch without progress; after ten such epochs learning stalls.
BASE = RunConfig(
    "ptb-bpc",
    task="ptb",
    task_options={"length": 150},
    cell="nnrnn",
    hidden_size=1024,
    embedding=200,
    optimiser="rmsprop",
    schedule="plateau",
    patience=10,
    steps=100 * EPOCH,
    batch_size=128,
    evaluate_every=EPOCH,
    evaluate_batches=None,
    checkpoint_every=EPOCH,
    threads=1,
)
TABLE_1 = thesis("Table 1, T = 150, N = 1024")
SMOKE: dict[str, Any] = {
    **TINY,
    "embedding": 8,
    "task_options": {"length": 10},
    "batch_size": 4,
    "evaluate_batches": 2,
}


def bpc(subject: Subject | str, value: float, source: Source) -> Claim:
    """Return the claim for a published number of bits per character."""
    near = as_printed(f"{value:.2f}")
    return Claim(as_subject(subject), "bits per character", value, source, near, better="lower")


def make_presets(smoke: Networks, cpu: Networks, paper: Networks, seeds: int = 1) -> dict[str, Preset]:
    """Return the presets for three sets of networks; `seeds` is the number of seeds of the last one."""
    how_many = "one seed" if seeds == 1 else "five seeds"
    return {
        "smoke": preset("A few iterations of small networks, to check that the code runs.", smoke, **SMOKE),
        "cpu": preset(
            "256 units, two epochs, one seed: only the beginning of training.",
            cpu,
            hidden_size=256,
            embedding=64,
            steps=2 * EPOCH,
            evaluate_every=EPOCH // 4,
            evaluate_batches=5,
        ),
        "paper": preset(f"As published: 1,024 units, 100 epochs, on a GPU; {how_many}.", paper, seeds, device="cuda"),
    }


class PennTreebankBPC(LearningStudy):
    """Train the thesis' networks on characters of the Penn Treebank."""

    name = "ptb-bpc"
    title = "Characters of the Penn Treebank"
    question = "How many bits per character does each network need, with gradients through 150 steps?"
    score = "bpc"
    score_in_words = "bits per character"
    claims = (
        bpc("nnrnn", 1.47, TABLE_1),
        bpc("exprnn", 1.51, TABLE_1),
        bpc("rnn-orth", 1.62, TABLE_1),
        bpc("eurnn", 1.69, TABLE_1),
        bpc("rnn", 2.89, TABLE_1),
        bpc("lstm", 1.37, thesis("3.6.2, N = 1024")),
        bpc("exprnn 1386", 1.49, thesis("Table 1, T = 150, 1.32M parameters")),
        Claim(about("nnrnn"), "accuracy", "68.78%", thesis("A.1 Table 3, T = 150"), as_printed("68.78%"), "higher"),
        Claim(
            about("exprnn"),
            "accuracy",
            "67.51%",
            thesis("A.1 Table 3, T = 150, N = 1024"),
            as_printed("67.51%"),
            "higher",
        ),
        Claim(about("nnrnn"), "mean modulus of eigenvalues", 0.958, thesis("3.6.3"), as_printed("0.958")),
    )
    base = BASE
    presets = make_presets(
        {name: NETWORKS[name] for name in ("nnrnn", "lstm")},
        {name: NETWORKS[name] for name in ("nnrnn", "exprnn")},
        NETWORKS | MATCHED,
    )
    cites = ("kerg2019", "mikolov2012", "marcus1993")
    caption = "Bits per character on the validation text during training."

    def measure(self, run: Path) -> dict[str, Any]:
        """Return the mean and the largest modulus of the eigenvalues of an nnRNN."""
        matrix = getattr(load_model(run)[0].cell, "connectivity", None)
        if not isinstance(matrix, Schur):
            return {}
        with torch.no_grad():
            moduli = matrix.moduli()
            return {"mean_modulus": moduli.mean().item(), "largest_modulus": moduli.max().item()}

    def more_rows(self, name: str, trials: Sequence[Finished]) -> list[Row]:
        stable = [each.result for each in finite(trials)]
        rows = [self.row(trials, "accuracy", [result["accuracy"] for result in stable], ".2%")]
        moduli = [result["mean_modulus"] for result in stable if "mean_modulus" in result]
        return [*rows, self.row(trials, "mean modulus of eigenvalues", moduli, ".4f")] if moduli else rows


STUDY = PennTreebankBPC()


def _clamped(modulus: float) -> Subject:
    return about("nnrnn", gamma=modulus, label=f"nnrnn, gamma = {modulus:g}")


class GammaClamp(PennTreebankBPC):
    """Train nnRNN with the moduli of its eigenvalues learned, or fixed at 1 or at 0.958."""

    name = "gamma-clamp"
    title = "nnRNN with eigenvalues of fixed modulus"
    question = "Does it matter for the Penn Treebank whether the moduli of the eigenvalues are learned?"
    claims = (
        bpc("nnrnn", 1.47, thesis("A.6 Table 6, T = 150")),
        bpc(_clamped(1.0), 1.46, thesis("A.6 Table 6, T = 150; one run of five failed")),
        bpc(_clamped(0.958), 1.47, thesis("A.6 Table 6, T = 150")),
    )
    networks: Mapping[Subject | str, dict[str, Any]] = {
        "nnrnn": NNRNN,
        **{
            _clamped(modulus): NNRNN | {"cell_options": NNRNN["cell_options"] | {"modulus": modulus, "clamp": 0.0}}
            for modulus in (1.0, 0.958)
        },
    }
    presets = make_presets(networks, networks, networks, seeds=5)


GAMMA_CLAMP = GammaClamp()
