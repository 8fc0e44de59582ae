"""How accurately a Schur decomposition finds eigenvalues (Kerg, A.4).

An eigenvalue with left eigenvector y and right eigenvector x, both of length 1, moves by up to `|dA| / |y^H x|` if the
matrix changes by dA. The reciprocal of `|y^H x|` is its condition: 1 for a normal matrix, where x = y.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from scipy.linalg import eig, schur
from scipy.optimize import linear_sum_assignment

from mnemoscope.base.array_types import Float
from mnemoscope.replication.agreement import at_least, at_most
from mnemoscope.replication.claims import Claim, Row, Subject, about
from mnemoscope.replication.computed_study import ComputedStudy
from mnemoscope.replication.linear_networks import random_normal
from mnemoscope.replication.study import Finished, Preset
from mnemoscope.studies.kerg2022.notation import thesis

A_4 = thesis("A.4")
GRCAR, NORMAL = about("", "Grcar matrix"), about("", "normal matrix")
ROUNDING = 2.0**-24
"""Relative rounding error of an operation in float32, 6e-8."""
STABLE = at_most(1e-5, "a hundred times the rounding of float32, which is 6e-8 per operation")


def _cases(size: int) -> dict[Subject, dict[str, Any]]:
    return {NORMAL: {"matrix": "normal", "size": size}, GRCAR: {"matrix": "grcar", "size": size}}


class SchurAccuracy(ComputedStudy):
    """Compare the Schur decompositions, in float32, of a normal and a non-normal matrix."""

    name = "schur-accuracy"
    title = "Eigenvalues by a Schur decomposition"
    question = (
        "Is the Schur decomposition of a non-normal matrix inaccurate, so that its factors are better learned directly?"
    )
    claims = (
        Claim(NORMAL, "backward error", "backward stable", A_4, STABLE),
        Claim(GRCAR, "backward error", "backward stable", A_4, STABLE),
        Claim(
            NORMAL,
            "condition of the eigenvalues",
            "coinciding left and right eigenvectors",
            A_4,
            at_most(1 + 1e-6, "an equality, up to rounding"),
            by_construction=True,
        ),
        Claim(
            GRCAR,
            "condition of the eigenvalues",
            "very high eigenvalue-sensitivity",
            A_4,
            at_least(
                1 / ROUNDING, "our reading of 'very high': rounding in float32 may move an eigenvalue by the norm"
            ),
        ),
        Claim(NORMAL, "error of the eigenvalues", "accurate answers", A_4, STABLE),
        Claim(
            GRCAR,
            "error of the eigenvalues",
            "inaccuracies",
            A_4,
            at_least(1e-3, "our reading of 'inaccuracies': a hundred times what counts as accurate"),
        ),
    )
    presets: Mapping[str, Preset] = {
        "smoke": Preset("Matrices of 8 x 8.", {"cases": _cases(8)}),
        **dict.fromkeys(
            ("cpu", "paper"),
            Preset("Matrices of 70 x 70; five random normal ones; seconds.", {"cases": _cases(70)}, (0, 1, 2, 3, 4)),
        ),
    }
    cites = ("kerg2019",)

    def compute(self, generator: torch.Generator, **case: Any) -> dict[str, Any]:
        size = case["size"]
        normal = case["matrix"] == "normal"
        return decomposition_errors(random_normal(size, 1.0, generator).numpy() if normal else grcar(size))

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        rows = []
        for subject in (NORMAL, GRCAR):
            trials = [each for each in results if each.trial.subject == subject]
            trials = trials[:1] if subject == GRCAR else trials  # the Grcar matrix has no random part
            for quantity in ("backward error", "condition of the eigenvalues", "error of the eigenvalues"):
                rows.append(self.row(trials, quantity, [each.result[quantity] for each in trials], ".2g"))
        return rows


def grcar(size: int) -> Float[np.ndarray, "size size"]:
    """Return the Grcar matrix: -1 below the diagonal, 1 on it and on the three diagonals above.

    >>> grcar(3).astype(int).tolist()
    [[1, 1, 1], [-1, 1, 1], [0, -1, 1]]
    """
    return np.triu(np.tril(np.ones((size, size)), 3)) - np.eye(size, k=-1)


def decomposition_errors(matrix: Float[np.ndarray, "size size"]) -> dict[str, float]:
    """Return the errors of a Schur decomposition in float32, relative to the norm, and the worst condition.

    The exact eigenvalues are those in float64: their error is smaller by the ratio of the roundings, 5e8, as long as
    the condition is far below 1e16.
    """
    norm = np.linalg.norm(matrix, 2)
    form, basis = schur(matrix.astype(np.complex64), output="complex")[:2]
    product = basis.astype(np.complex128) @ form @ basis.conj().T
    exact, left, right = eig(matrix, left=True, right=True)  # pyright: ignore[reportAssignmentType]: 3, by the flags
    distances = np.abs(exact[:, None] - np.diag(form)[None, :])
    pairs = linear_sum_assignment(distances)
    return {
        "backward error": float(np.linalg.norm(product - matrix, 2) / norm),
        "condition of the eigenvalues": float((1 / np.abs((left.conj() * right).sum(0))).max()),
        "error of the eigenvalues": float(distances[pairs].max() / norm),
    }


STUDY = SchurAccuracy()
