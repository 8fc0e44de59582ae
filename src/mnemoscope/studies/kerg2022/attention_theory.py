"""Gradients of networks with attention as sums over paths, and their lower bounds (Kerg, section 4.4 and B.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import log, pi
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.functional import jacobian

from mnemoscope.base.array_types import Bool, Complex, Float
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import style_page_axes
from mnemoscope.lenses.attention import sparse_uniform, uniform_exponent
from mnemoscope.replication.agreement import at_least, at_most
from mnemoscope.replication.claims import Claim, Row, Subject, about
from mnemoscope.replication.computed_study import ComputedStudy, legend_above, plain_powers, rounded, spread
from mnemoscope.replication.learning_study import by_name, colours
from mnemoscope.replication.study import Finished, Preset
from mnemoscope.studies.kerg2022.notation import thesis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PATHS = about(label="paths of a tanh network")
ERROR = "largest relative difference from the derivative"
EXPONENT = "exponent of |ds_T / dh_t| in T"
SPARSE = tuple((kappa, depth) for kappa in (2, 10) for depth in (0, 2))
"""Pairs of the sparsity kappa and the dependency depth d of Theorem 4.4.3."""
MARGIN = 1e-3
"""Part of a measured exponent that is due to the finite T."""
EIGENVALUE = 0.5
"""The positive real eigenvalue that Theorem 4.4.3 asks for."""


def _uniform(eigenvalues: str) -> Subject:
    return about("uniform attention", eigenvalues=eigenvalues, label=f"uniform attention, {eigenvalues} eigenvalues")


def _sparse(kappa: int, depth: int) -> Subject:
    return about("sparse attention", kappa=kappa, depth=depth)


def _claims() -> Sequence[Claim]:
    decays = at_least(-1 - MARGIN, "the power of T in the theorem, up to what a finite T changes")
    stays = at_least(-MARGIN, "a constant bound, up to what a finite T changes")
    exact = at_most(1e-9, "an identity, up to rounding in float64")
    theorem_2, theorem_3 = thesis("Theorem 4.4.2 and B.1.34"), thesis("Theorem 4.4.3 and B.1.39")
    gap = (
        "the printed proof has T^(lambda - 1) where the recursion gives T^(lambda / (1 - lambda) - 1) (B.1.243), and a "
        "term c / T that exists for lambda = 0 only: without an eigenvalue with |lambda - 1/2| <= 1/2 the gradient "
        "fades faster than 1 / T"
    )
    return (
        Claim(PATHS, ERROR, "equal", thesis("Proposition 4.4.1 and B.1.7"), exact, by_construction=True),
        Claim(_uniform("all"), EXPONENT, "at least 1 / T", theorem_2, decays),
        Claim(_uniform("negative"), EXPONENT, "at least 1 / T", theorem_2, decays, reason=gap),
        *(
            Claim(_sparse(*pair), EXPONENT, "at least 1 / kappa^d", theorem_3, stays, by_construction=True)
            for pair in SPARSE
        ),
    )


def _cases(units: int, steps: int, length: int, sparse_length: int) -> dict[Subject, dict[str, Any]]:
    return {
        PATHS: {"kind": "paths", "units": units, "length": steps},
        _uniform("all"): {"kind": "uniform", "negative": False, "units": 128, "length": length},
        _uniform("negative"): {"kind": "uniform", "negative": True, "units": 128, "length": length},
        **{
            _sparse(kappa, depth): {
                "kind": "sparse",
                "kappa": kappa,
                "depth": depth,
                "units": 8,
                "length": sparse_length,
            }
            for kappa, depth in SPARSE
        },
    }


LONG_SEQUENCES = Preset(
    "All paths of 8 steps; sequences of 65,536 steps with uniform and 2,000 with sparse attention; ten random matrices "
    "each; a minute.",
    {"cases": _cases(4, 8, 65_536, 2000)},
    tuple(range(10)),
)


class AttentionTheory(ComputedStudy):
    """Compare derivatives of networks with attention with sums over their paths and with bounds for long sequences.

    Proposition 4.4.1 is tested with a tanh network and additive attention, the theorems with the linear networks of
    their proofs: a normal matrix with eigenvalues of modulus below 1, drawn at random, and uniform weights over all
    states or over kappa of them.
    """

    name = "attention-theory"
    title = "Gradients along the paths of attention"
    question = "How slowly do gradients fade with uniform and with sparse attention?"
    claims = tuple(_claims())
    presets: Mapping[str, Preset] = {
        "smoke": Preset("Short sequences, to check that the code runs.", {"cases": _cases(3, 4, 64, 40)}),
        "cpu": LONG_SEQUENCES,
        "paper": LONG_SEQUENCES,
    }
    cites = ("kerg2020",)
    lenses = ("attention",)
    caption = "Norm of ds_T / dh_1 in linear networks with attention, against T; one line for each matrix."

    def compute(self, generator: torch.Generator, **case: Any) -> dict[str, Any]:
        if case["kind"] == "paths":
            return {"error": path_error(case["units"], case["length"], generator)}
        length = case["length"]
        if case["kind"] == "uniform":
            eigenvalues = random_eigenvalues(case["units"], generator, negative=case["negative"])
            norms, theory = uniform_norms(eigenvalues, length), {"theory": uniform_exponent(eigenvalues)}
        else:
            eigenvalues = random_eigenvalues(case["units"], generator, negative=True, largest=EIGENVALUE)
            eigenvalues[0] = EIGENVALUE
            weights = sparse_uniform(attended_states(length, case["kappa"], case["depth"]))
            norms, theory = sparse_norms(eigenvalues, weights), {}
        shown = sorted({*(2**power for power in range(length.bit_length())), length})
        exponent = log(float(norms[-1] / norms[length // 2 - 1])) / log(length / (length // 2))
        kept = norms[torch.tensor(shown) - 1]
        return {"exponent": exponent, **theory, "T": shown, "norm": rounded(kept)}

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        rows = []
        for trials in by_name(results).values():
            quantity, key = (ERROR, "error") if "error" in trials[0].result else (EXPONENT, "exponent")
            measured = [each.result[key] for each in trials]
            theory = [each.result["theory"] for each in trials if "theory" in each.result]
            derived = f"; from the eigenvalues: {spread(theory)}" if theory else ""
            remark = f"{len(trials)} random matrices{derived}"
            rows.append(self.row(trials, quantity, measured, remark=remark, ours=spread(measured)))
        return rows

    def figure(self, results: Sequence[Finished]) -> Figure:
        figure = new_figure(7.2, 5.0)
        axes = figure.add_subplot()
        groups = by_name([each for each in results if "norm" in each.result])
        for (name, trials), colour in zip(groups.items(), colours(), strict=False):
            for each in trials:
                label = name if each is trials[0] else None
                axes.plot(each.result["T"], each.result["norm"], color=colour, linewidth=1, label=label)
        axes.set(xlabel="T", ylabel="norm", xscale="log", yscale="log")
        for axis in (axes.xaxis, axes.yaxis):
            plain_powers(axis)
        style_page_axes(axes)
        lines, labels = axes.get_legend_handles_labels()
        legend_above(figure, 1, dict(zip(labels, lines, strict=True)))
        return figure


def random_eigenvalues(
    units: int, generator: torch.Generator, *, negative: bool, largest: float = 0.9
) -> Complex[Tensor, " units"]:
    """Return random eigenvalues of a real normal matrix: conjugate pairs, or pairs of negative numbers.

    Their moduli are from a third of the largest on: an eigenvalue of 0 would pass 1 / T by itself.
    """
    modulus = largest * (1 + 2 * torch.rand(units // 2, generator=generator, dtype=torch.float64)) / 3
    angle = pi * (torch.ones_like(modulus) if negative else torch.rand(units // 2, generator=generator).double())
    pairs = torch.polar(modulus, angle)
    return torch.cat([pairs, pairs.conj()])


def uniform_norms(eigenvalues: Complex[Tensor, " units"], length: int) -> Float[Tensor, " time"]:
    """Return the Frobenius norm of ds_T / dh_1 for T = 1 ... length, with attention 1 / T to each of T states.

    Along an eigenvector, `C_T = (1 + lambda (C_1 + ... + C_{T-1})) / T + lambda C_{T-1}` and C_1 = 2 (`paths.chi`).
    """
    C = torch.full_like(eigenvalues, 2.0)
    total, norms = C.clone(), [C.norm()]
    for T in range(2, length + 1):
        C = (1 + eigenvalues * total) / T + eigenvalues * C
        total = total + C
        norms.append(C.norm())
    return torch.stack(norms)


def sparse_norms(eigenvalues: Complex[Tensor, " units"], weights: Float[Tensor, "time time"]) -> Float[Tensor, " time"]:
    """Return the Frobenius norm of ds_T / dh_1 at every T, for weights with a row for each step that attends.

    Along an eigenvector, `C_T = alpha_{1,T} + 1_{T=1} + lambda (sum_{j=1}^{T-1} alpha_{j+1,T} C_j + C_{T-1})`.
    """
    C = eigenvalues.new_zeros(len(weights), len(eigenvalues))
    C[0] = weights[0, 0] + 1
    for T in range(1, len(weights)):
        passed = weights[T, 1 : T + 1].to(C) @ C[:T] + C[T - 1]
        C[T] = weights[T, 0] + eigenvalues * passed
    return torch.linalg.vector_norm(C, dim=1)


def attended_states(length: int, kappa: int, depth: int) -> Bool[Tensor, "time time"]:
    """Return which states every step attends to: the newest, and later on one old state.

    The old state is number 2 depth + 1. From h_1 it is reached over `depth` states, each attended to by the next step,
    so that a chain of at most this depth leads from every late step back to h_1.
    """
    step, state = torch.arange(length)[:, None], torch.arange(length)[None]
    newest = (state <= step) & (state > step - kappa)
    old = 2 * depth
    fewer = (state <= step) & (state > step - kappa + 1)
    return torch.where(step > old, fewer | (state == old), newest)


def path_error(units: int, length: int, generator: torch.Generator) -> float:
    """Return the largest relative difference between ds_T / dh_1 and the sum over all paths, T = 1 ... length."""
    weights = torch.randn(4, units, units, generator=generator, dtype=torch.float64) / units**0.5
    direction = torch.randn(units, generator=generator, dtype=torch.float64)
    drive = torch.randn(length, units, generator=generator, dtype=torch.float64)
    V, query, key = weights[0], weights[1], weights[2]

    def attend(states: Tensor, before: Tensor) -> Tensor:
        """Return s of the newest state: its sum with the context."""
        scores = torch.tanh(states @ key.T + query @ before) @ direction
        return states[-1] + scores.softmax(0) @ states

    def unroll(first: Tensor) -> tuple[Tensor, Tensor]:
        """Return all h and s that follow from the first state."""
        states, s = [first], [attend(first[None], torch.zeros_like(first))]
        for u in drive[1:]:
            states.append(torch.tanh(V @ s[-1] + u))
            s.append(attend(torch.stack(states), s[-1]))
        return torch.stack(states), torch.stack(s)

    first = torch.tanh(drive[0])
    h, s = unroll(first)
    derivative = jacobian(lambda state: unroll(state)[1], first)
    assert isinstance(derivative, Tensor)
    before = torch.cat([torch.zeros(1, units, dtype=torch.float64), s[:-1]])
    partial = [jacobian(attend, (h[: T + 1], before[T])) for T in range(length)]
    J = (1 - h[1:] ** 2).unsqueeze(-1) * V  # dh_{t+1} / ds_t
    E = [by_state[:, 0] for by_state, _ in partial]
    F = {
        (k, j): partial[k][0][:, j + 1] @ J[j] + (partial[k][1] if j == k - 1 else 0)
        for k in range(length)
        for j in range(k)
    }
    errors = []
    for k in range(length):
        total = E[k].clone()
        for number in range(1, k + 1):
            for places in combinations(range(k), number):
                product = E[places[0]]
                for i, following in zip(places, (*places[1:], k), strict=True):
                    product = F[following, i] @ product
                total += product
        errors.append(float((total - derivative[k]).norm() / derivative[k].norm()))
    return max(errors)


STUDY = AttentionTheory()
