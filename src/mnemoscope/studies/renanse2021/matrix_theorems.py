"""Theorems about the Fisher memory of matrix networks, checked number by number (Renanse et al. 2021).

Lemma 1 and its appendix give the divergence of two matrix normal distributions, Lemma 2 the information of one input,
Theorem 1 and Eq 13 the Fisher memory matrix, Eq 17 and Theorem 2 its diagonal and trace for normal matrices, Theorem 4
(Eq 46) the memory of a network with a queue, and Eq 48 the content of the only slot of a Turing machine. Each formula
is computed as printed, and compared with what it stands for: the divergence of the flattened distributions, which are
ordinary normal ones, the memory matrix that follows from the exact covariance of the state, or the formula that it is
derived from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.distributions import MultivariateNormal, kl_divergence

from mnemoscope.base.array_types import Float
from mnemoscope.lenses import MatrixSystem, fisher_memory
from mnemoscope.lenses.fisher.operators import Dense
from mnemoscope.lenses.fisher.stein import covariance, power_sum
from mnemoscope.registry.citations import Source
from mnemoscope.replication.agreement import at_most
from mnemoscope.replication.claims import Claim, Row, about
from mnemoscope.replication.computed_study import ComputedStudy, spread
from mnemoscope.replication.linear_networks import random_general, random_normal, random_source
from mnemoscope.replication.study import Finished, Preset

LAGS = 6
"""Lags of the memory matrices."""
FADED = 100
"""Lags after which the memory of normal matrices is below rounding: a step leaves at most RADIUS^4 of their curve."""
RADIUS = 0.8
"""Spectral radius of U and V, as in the study queue-capacity."""
PASSES = 4
"""Passes through the queue."""
PAPER = partial(Source, "renanse2021")
ERROR = "relative difference"
EQUAL = at_most(1e-8, "an equality, up to rounding")
KRONECKER = "C is a sum of Kronecker products, not a product of sums"


def _cases(square: Sequence[int], rectangular: Sequence[tuple[int, int]]) -> dict[str, dict[str, Any]]:
    shapes = [*((size, size) for size in square), *rectangular]
    divergences = {f"divergence, {n} x {p}": {"kind": "divergence", "rows": n, "columns": p} for n, p in shapes}
    kinds = ("normal", "general", "queue")
    return divergences | {f"{kind}, N = {size}": {"kind": kind, "size": size} for kind in kinds for size in square}


class MatrixTheorems(ComputedStudy):
    """Compute every formula as printed, and what it stands for."""

    name = "matrix-theorems"
    title = "Theorems about matrix networks"
    question = "Do the printed formulas for matrix networks give the numbers that they stand for?"
    claims = (
        Claim(about("Lemma 1, square"), ERROR, "equal to the divergence", PAPER("Lemma 1"), EQUAL),
        Claim(
            about("Lemma 1, rectangular"),
            ERROR,
            "equal to the divergence",
            PAPER("Lemma 1"),
            EQUAL,
            reason="the exponents n and p of the determinants are exchanged",
        ),
        Claim(about("Appendix A"), ERROR, "equal to the divergence", PAPER("Appendix A"), EQUAL),
        Claim(about("Lemma 2"), ERROR, "equal to the information of one input", PAPER("Lemma 2, Eq 24"), EQUAL),
        Claim(
            about("Theorem 1"),
            ERROR,
            "equal to the Fisher memory matrix",
            PAPER("Theorem 1, Eq 8-9"),
            EQUAL,
            reason=KRONECKER,
        ),
        Claim(
            about("Eq 13"),
            ERROR,
            "equal to Eq 8",
            PAPER("Eq 13"),
            EQUAL,
            reason="a misprint: U^j in place of U^i",
        ),
        Claim(
            about("Eq 17"),
            ERROR,
            "equal to Eq 12 of normal matrices",
            PAPER("Eq 17"),
            EQUAL,
            reason="squares of the eigenvalues in place of their squared magnitudes: equal only if all are real",
        ),
        Claim(about("Theorem 2"), ERROR, "equal to the sum of Eq 12", PAPER("Theorem 2, Eq 18"), EQUAL),
        Claim(about("Eq 46"), ERROR, "equal to Eq 41", PAPER("Theorem 4, Eq 46"), EQUAL),
        Claim(
            about("Theorem 4"),
            ERROR,
            "equal to the Fisher memory of the newest matrix",
            PAPER("Theorem 4, Eq 46"),
            EQUAL,
            reason="its sums do not converge, and drop the delay of the signal",
        ),
        Claim(
            about("Eq 48"),
            ERROR,
            "equal to what one slot of a MatNTM holds",
            PAPER("Eq 48"),
            EQUAL,
            by_construction=True,
        ),
    )
    presets: Mapping[str, Preset] = {
        "smoke": Preset("Networks of 3 units a side.", {"cases": _cases((3,), ((2, 3),))}),
        "cpu": Preset(
            "3 to 6 units a side, two rectangular shapes, five seeds; some seconds.",
            {"cases": _cases((3, 4, 5, 6), ((2, 5), (6, 3)))},
            tuple(range(5)),
        ),
        "paper": Preset(
            "3 to 10 units a side, three rectangular shapes, ten seeds; a minute. The source has no numbers for these.",
            {"cases": _cases((3, 4, 5, 6, 8, 10), ((2, 5), (6, 3), (10, 4)))},
            tuple(range(10)),
        ),
    }
    cites = ("renanse2021",)
    lenses = ("fisher",)

    def compute(self, generator: torch.Generator, **case: Any) -> dict[str, Any]:
        if case["kind"] == "divergence":
            return _divergences(case["rows"], case["columns"], generator)
        size, draw = case["size"], random_general if case["kind"] == "general" else random_normal
        U, V = draw(size, RADIUS, generator), draw(size, RADIUS, generator)
        W = random_source(size, generator)
        match case["kind"]:
            case "queue":
                return _queue(U, V, W)
            case "normal":
                return _memory_matrices(U, V, W, generator) | _normal_matrices(U, V, W) | _one_slot(size, generator)
        return _memory_matrices(U, V, W, generator)

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        found: dict[str, list[float]] = {claim.subject.network: [] for claim in self.claims}
        for run in results:
            for name, error in run.result.items():
                found[name].append(error)
        return [
            claim.compare(claim.name, errors, spread(errors, ".2g"), f"{len(errors)} cases")
            for claim in self.claims
            if (errors := found[claim.subject.network])
        ]


def lemma_1(first: Sequence[Tensor], second: Sequence[Tensor], *, exchanged: bool) -> Float[Tensor, ""]:
    """Return the divergence of two matrix normal distributions, each a mean and covariances over rows and columns.

    The last term of Lemma 1 needs Sigma over the columns (p x p) and Psi over the rows (n x n). With `exchanged`, the
    determinants have the exponents of the lemma: p for Sigma, n for Psi; else those of Appendix A.
    """
    (M1, A1, B1), (M2, A2, B2) = first, second
    n, p = M1.shape
    of_rows, of_columns = (n, p) if exchanged else (p, n)
    difference = M2 - M1
    determinants = of_rows * (A2.logdet() - A1.logdet()) + of_columns * (B2.logdet() - B1.logdet())
    traces = torch.linalg.solve(A2, A1).trace() * torch.linalg.solve(B2, B1).trace()
    means = torch.trace(torch.linalg.solve(B2, difference.mT) @ torch.linalg.solve(A2, difference))
    return (determinants - n * p + traces + means) / 2


def _divergences(n: int, p: int, generator: torch.Generator) -> dict[str, float]:
    """Return the relative differences of the printed divergences from that of the flattened distributions."""
    distributions = [
        (torch.randn(n, p, generator=generator).double(), _covariance(n, generator), _covariance(p, generator))
        for _ in range(2)
    ]
    flat = [MultivariateNormal(M.flatten(), torch.kron(A, B)) for M, A, B in distributions]
    exact = kl_divergence(*flat)
    shape = "square" if n == p else "rectangular"
    return {
        f"Lemma 1, {shape}": _error(lemma_1(*distributions, exchanged=True), exact),
        "Appendix A": _error(lemma_1(*distributions, exchanged=False), exact),
    }


def _memory_matrices(U: Tensor, V: Tensor, W: Tensor, generator: torch.Generator) -> dict[str, float]:
    """Return the relative differences of Lemma 2, Theorem 1 and Eq 13 from what they stand for."""
    size = len(W)
    eps1, eps2 = (0.5 + torch.rand(2, generator=generator, dtype=torch.float64)).tolist()
    noise = eps1 * eps2 * torch.eye(size**2, dtype=torch.float64)
    mean = W.flatten()  # of the state after an input of 1; the divergence is quadratic in the input, at any size
    divergence = kl_divergence(MultivariateNormal(mean, noise), MultivariateNormal(0 * mean, noise))
    exact, published = (fisher_memory(MatrixSystem(U, V, W), lags=LAGS, method=m) for m in ("exact", "published"))
    Sigma, Psi = (covariance(Dense(A.mT), torch.eye(size, dtype=torch.float64)) for A in (V, U))
    powers = [[torch.linalg.matrix_power(A, k) for k in range(LAGS)] for A in (U, V)]
    eq_13 = torch.stack(
        [
            torch.stack(
                [
                    torch.trace(torch.linalg.solve(Sigma, Vi.mT @ W.mT @ Uj) @ torch.linalg.solve(Psi, Uj.mT @ W @ Vj))
                    for Uj, Vj in zip(*powers, strict=True)
                ]
            )
            for Vi in powers[1]
        ]
    )
    return {
        "Lemma 2": _error(W.square().sum() / (eps1 * eps2), 2 * divergence),
        "Theorem 1": _error(published.matrix, exact.matrix),
        "Eq 13": _error(eq_13, published.matrix),
    }


def _normal_matrices(U: Tensor, V: Tensor, W: Tensor) -> dict[str, float]:
    """Return the relative differences of Eq 17 from Eq 12, and of Theorem 2 from the sum of Eq 12 over all lags.

    The eigenvectors of a normal matrix are orthogonal, as Eq 17 requires, if its eigenvalues are distinct.
    """
    eq_12 = fisher_memory(MatrixSystem(U, V, W), lags=FADED, method="published").curve
    (of_U, E_U), (of_V, E_V) = torch.linalg.eig(U), torch.linalg.eig(V)
    B = E_U.mH @ W.to(E_U) @ E_V
    powers = [(of_U**lag, of_V**lag) for lag in range(FADED)]
    eq_17 = [
        torch.trace(torch.diag((1 - of_V**2) * v) @ B.mH @ torch.diag(u * (1 - of_U**2) * u) @ B @ torch.diag(v))
        for u, v in powers
    ]
    u, v = of_U.abs().square()[:, None], of_V.abs().square()
    theorem_2 = ((1 - u) * (1 - v) / (1 - u * v) * B.abs().square()).sum()
    return {"Eq 17": _error(torch.stack(eq_17), eq_12), "Theorem 2": _error(theorem_2, eq_12.sum())}


def _queue(U: Tensor, V: Tensor, W: Tensor) -> dict[str, float]:
    """Return the relative differences of Eq 46 from Eq 41, and from the memory of the newest matrix after 32 steps."""
    system = MatrixSystem(U, V, W, alpha=(1.0,))
    eq_41 = fisher_memory(system, lags=LAGS, method="published", terms=PASSES).curve
    exact = fisher_memory(system, lags=LAGS, observed="newest", horizon=32).curve
    of_rows, of_columns = (_effective_precision(A) for A in (U, V))
    by_memory = _over_passes(lambda D: power_sum(U.mT, D, V), W)
    eq_46 = []
    for lag in range(LAGS):
        left, right = torch.linalg.matrix_power(U, lag).mT, torch.linalg.matrix_power(V, lag)
        state, memory = left @ W @ right, left @ by_memory @ right
        both = state + memory
        terms = of_columns @ memory.mT @ of_rows @ both + of_columns @ both.mT @ of_rows @ state
        eq_46.append(terms.trace())
    return {"Eq 46": _error(torch.stack(eq_46), eq_41), "Theorem 4": _error(torch.stack(eq_46), exact)}


def _one_slot(size: int, generator: torch.Generator) -> dict[str, float]:
    """Return the relative difference of Eq 48 from a slot that is erased and added to at each of `LAGS` steps."""
    erased, added = torch.rand(2, LAGS, size, size, generator=generator, dtype=torch.float64)
    slot = torch.zeros(size, size, dtype=torch.float64)
    for erase, add in zip(erased, added, strict=True):
        slot = slot * (1 - erase) + add
    eq_48 = sum((added[-1 - k] * (1 - erased[LAGS - k :]).prod(0) for k in range(LAGS)), torch.zeros_like(slot))
    return {"Eq 48": _error(eq_48, slot)}


def _effective_precision(A: Float[Tensor, "size size"]) -> Float[Tensor, "size size"]:
    """Return `Sigma_MF^-1 Sigma_STATE^-1` of Eq 47."""
    unit = torch.eye(len(A), dtype=A.dtype)
    state = covariance(Dense(A.mT), unit)
    of_state, of_memory = (
        torch.linalg.inv(each) for each in (state, _over_passes(lambda Q: covariance(Dense(A.mT), Q), state))
    )
    return (unit - of_state @ torch.linalg.inv(of_memory + of_state)) @ of_state


def _over_passes(one_pass: Any, first: Tensor) -> Tensor:
    """Return the sum of the terms after one and more passes through the queue."""
    term, total = first, torch.zeros_like(first)
    for _ in range(PASSES):
        term = one_pass(term)
        total = total + term
    return total


def _covariance(size: int, generator: torch.Generator) -> Float[Tensor, "size size"]:
    root = torch.randn(size, size, generator=generator, dtype=torch.float64)
    return root @ root.mT + torch.eye(size, dtype=torch.float64)


def _error(printed: Tensor, exact: Tensor) -> float:
    """Return the largest difference as a share of the largest exact value, with three digits."""
    return float(f"{float((printed - exact).abs().max() / exact.abs().max()):.3g}")


STUDY = MatrixTheorems()
