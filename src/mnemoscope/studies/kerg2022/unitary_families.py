"""Formulas about orthogonal and unitary matrices (Kerg, Appendix D), computed in the form in which they are printed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from math import pi
from typing import Any

import torch
from torch import Generator, Tensor

from mnemoscope.base.array_types import Float, Inexact
from mnemoscope.connectivity import SVD, Exponential, Fourier
from mnemoscope.replication.agreement import Agreement, at_most, chosen, exactly
from mnemoscope.replication.claims import EVERYTHING, Claim, Row
from mnemoscope.replication.computed_study import ComputedStudy
from mnemoscope.replication.study import Finished, Preset, Trial
from mnemoscope.studies.kerg2022.notation import thesis

Matrix = Inexact[Tensor, "n n"]
SIZE, DELAY, MARGIN, TRIED = 8, 40, 0.1, 20
"""Rows and columns; T + S of the Henaff matrix; spectral margin m; random orthogonal matrices that are factorised."""
EXACT = at_most(1e-9, "an identity: rounding errors of float64 alone")
SAME_DIRECTION = chosen(1 - 1e-9, 1 + 1e-9, "an identity: cosine 1, up to rounding errors of float64")
ASCENDS = "a misprint: W and the gradient must trade places, G W* - W G*, for a step that descends"
WRONG_SIGN = "a sign error: the printed expression is minus the gradient"
STATEMENTS: dict[str, tuple[str, str, Agreement, bool, str]] = {
    "uRNN: distance from unitary": ("the product is unitary", "D.1", EXACT, True, ""),
    "uRNN: parameters per unit": ("7 n parameters", "D.1", exactly(7), True, ""),
    f"uRNN, n = {SIZE}: dimension": (
        f"at most 7 n = {7 * SIZE}, so that it misses unitary matrices (n^2 = {SIZE**2})",
        "D.1 and D.3",
        at_most(7 * SIZE, "an upper bound"),
        True,
        "",
    ),
    f"exponential of skew-Hermitian matrices, n = {SIZE}: dimension": (
        f"dim U(n) = n^2 = {SIZE**2}",
        "D.3",
        exactly(SIZE**2),
        False,
        "",
    ),
    "Henaff: distance of V^(T+S) from the identity": ("V^(T+S) = Id", "D.2", EXACT, True, ""),
    "Cayley: distance from unitary": ("unitary, as A is skew-Hermitian", "D.3", EXACT, True, ""),
    "Cayley: residual of Id - Cay(A) = (Id + Cay(A)) A": ("an identity", "D.3", EXACT, True, ""),
    "Stiefel gradient: distance of A_W from skew-Hermitian": ("skew-Hermitian", "D.3", EXACT, True, ""),
    "Stiefel gradient: change of the loss by a small step, per step and gradient": (
        "W <- Cay(lambda A_W / 2) W descends",
        "D.3",
        at_most(0.0, "a step of gradient descent does not raise the loss"),
        False,
        ASCENDS,
    ),
    "singular values: largest distance from 1, in units of m": (
        "s in [1 - m, 1 + m]",
        "D.3",
        at_most(1.0, "the printed interval"),
        True,
        "",
    ),
    "scaled Cayley: cosine of printed and computed gradient": (
        "V^T - V with V = (Id + A)^-T G (D + W^T)",
        "D.3",
        SAME_DIRECTION,
        False,
        "",
    ),
    "scaled Cayley: orthogonal matrices with all |A_ij| <= 1, of 20": (
        "every one (Kahan 2006), for a suitable D",
        "D.3",
        exactly(TRIED),
        False,
        "",
    ),
    "Cayley initialisation: largest distance of an eigenvalue from exp(+-i t)": (
        "uniform on the right half-circle",
        "D.3",
        EXACT,
        True,
        "",
    ),
    "Pade approximant of degree 1: distance from a Cayley transform": (
        "the Cayley transform for n = 1",
        "D.4",
        EXACT,
        True,
        "",
    ),
    "expRNN: distance of exp(log Q) from a rotation Q": ("exp is surjective onto SO(n)", "D.4", EXACT, False, ""),
    "expRNN: cosine of printed and computed gradient": (
        "B dexp_{-A}((G^T B - B^T G) / 2)",
        "D.4",
        SAME_DIRECTION,
        False,
        WRONG_SIGN,
    ),
}
"""Measured quantities: the statement, its place, the range, whether it holds by construction, and why it may fail."""


class UnitaryFamilies(ComputedStudy):
    """Compute every formula of the appendix for random matrices in float64."""

    name = "unitary-families"
    title = "Orthogonal and unitary matrices"
    question = "Do the printed formulas about orthogonal and unitary parametrisations hold?"
    claims = (
        *(
            Claim(EVERYTHING, quantity, value, thesis(place), agreement, None, reason, by_construction=proven)
            for quantity, (value, place, agreement, proven, reason) in STATEMENTS.items()
        ),
        Claim(
            EVERYTHING,
            "experiments of other works",
            "uRNN, full-capacity uRNN, EURNN, spectral margins, scoRNN and expRNN on their tasks",
            thesis("D.1 to D.4"),
            reason="reports of other works, without an experiment; copy-200, psmnist and ptb-bpc train these networks",
        ),
    )
    presets: Mapping[str, Preset] = {
        "smoke": Preset("Random matrices of 4 x 4.", {"cases": {"matrices": {"size": 4}}}),
        **dict.fromkeys(
            ("cpu", "paper"), Preset("Random matrices of 8 x 8; some seconds.", {"cases": {"matrices": {"size": SIZE}}})
        ),
    }
    cites = ("arjovsky2016", "wisdom2016", "henaff2016", "helfrich2018", "lezcano2019", "vorontsov2017")

    def compute(self, generator: Generator, **case: Any) -> dict[str, Any]:
        return dict(zip(STATEMENTS, _values(case["size"], generator), strict=True))

    def as_published(self, trial: Trial) -> bool:
        return trial.settings["size"] == SIZE

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        return [
            self.compare(results, self.claim(quantity), values, f"{max(values, key=abs):.3g}")
            for quantity in STATEMENTS
            for values in ([each.result[quantity] for each in results],)
        ]


def _values(n: int, generator: Generator) -> list[float]:
    """Return the measured values, in the order of `STATEMENTS`."""
    with torch.random.fork_rng():
        torch.manual_seed(generator.initial_seed())
        product_of_seven, full = Fourier(n).double(), Exponential(n, init="random", complex=True).double()
        margin = SVD(n, margin=MARGIN).double()
        with torch.no_grad():
            margin.stretch.normal_(std=5.0, generator=generator)
    hermitian = _skew(_normal(n, generator) + 1j * _normal(n, generator))
    singular = torch.linalg.svdvals(margin().detach())
    return [
        _off_unitary(product_of_seven().detach()),
        sum(parameter.numel() for parameter in product_of_seven.parameters()) / n,
        _dimension(product_of_seven),
        _dimension(full),
        _clocks(n, generator),
        _off_unitary(cayley(hermitian)),
        _norm(_one(hermitian) - cayley(hermitian) - (_one(hermitian) + cayley(hermitian)) @ hermitian),
        *_stiefel(n, generator),
        (singular - 1).abs().max().item() / MARGIN,
        _scaled_cayley(n, generator),
        float(sum(_bounded(_orthogonal(min(n, 6), generator)) for _ in range(TRIED))),
        _half_circle(n, generator),
        _pade(hermitian),
        _logarithm(n, generator),
        _exponential(n, generator),
    ]


def cayley(A: Matrix) -> Matrix:
    """Return `(Id + A)^-1 (Id - A)`."""
    return torch.linalg.solve(_one(A) + A, _one(A) - A)


def _dimension(matrix: Fourier | Exponential) -> float:
    """Return the rank of the derivative of the matrix by its parameters: the local dimension of the family."""
    names, values = zip(*matrix.named_parameters(), strict=True)

    def flat(*parameters: Tensor) -> Tensor:
        found = torch.func.functional_call(matrix, dict(zip(names, parameters, strict=True)), ())
        return torch.view_as_real(found).flatten()

    parts = torch.autograd.functional.jacobian(flat, tuple(value.detach() for value in values))
    return float(torch.linalg.matrix_rank(torch.cat([part.flatten(1) for part in parts], 1), rtol=1e-9))


def _clocks(n: int, generator: Generator) -> float:
    """Return the distance of the power T + S of n rotating clocks from the identity."""
    speeds = torch.randint(1, DELAY + 1, (n,), generator=generator)
    V = torch.block_diag(*(_rotation(2 * pi * speed / DELAY) for speed in speeds.tolist()), torch.ones(1, 1))
    return _norm(torch.linalg.matrix_power(V, DELAY) - _one(V))


def _stiefel(n: int, generator: Generator) -> tuple[float, float]:
    """Return how far the printed A_W is from skew-Hermitian, and the change of the loss by a step, per unit."""
    W = torch.linalg.qr(_normal(n, generator) + 1j * _normal(n, generator))[0]
    loss = _loss(n, generator)
    G = _gradient(loss, W)
    A = G.mH @ W - W.mH @ G
    rate = 1e-6
    change = loss(cayley(rate / 2 * A) @ W) - loss(W)
    return _norm(A + A.mH), float(change) / (rate * _norm(G) ** 2)


def _scaled_cayley(n: int, generator: Generator) -> float:
    A, loss = _skew(_normal(n, generator)), _loss(n, generator)
    D = torch.diag(torch.where(torch.arange(n) < 2, -1.0, 1.0).double())
    W = cayley(A) @ D
    V = torch.linalg.inv(_one(A) + A).mT @ _gradient(loss, W) @ (D + W.mT)
    free = _gradient(lambda at: loss(cayley(at) @ D), A)
    return _cosine(V.mT - V, free - free.mT)


def _bounded(Q: Float[Tensor, "n n"]) -> bool:
    """Whether a D of signs exists for which `Q = Cay(A) D` with all entries of A within 1."""
    for signs in product((1.0, -1.0), repeat=len(Q)):
        C = Q * torch.tensor(signs, dtype=Q.dtype)
        if torch.linalg.det(_one(C) + C).abs() > 1e-9 and cayley(C).abs().max() <= 1:  # Cay is its own inverse
            return True
    return False


def _half_circle(n: int, generator: Generator) -> float:
    angles = pi / 2 * torch.rand(n // 2, generator=generator, dtype=torch.float64)
    s = ((1 - angles.cos()) / (1 + angles.cos())).sqrt()
    A = torch.block_diag(*(torch.tensor([[0.0, each], [-each, 0.0]], dtype=torch.float64) for each in s.tolist()))
    found = torch.linalg.eigvals(cayley(A))
    expected = torch.polar(torch.ones(2 * len(angles), dtype=torch.float64), torch.cat([angles, -angles]))
    return (found[:, None] - expected).abs().amin(0).max().item()


def _pade(A: Matrix) -> float:
    """Return the distance of `q^-1 p`, with p = Id + A / 2 and q = Id - A / 2, from `Cay(-A / 2)`."""
    return _norm(torch.linalg.solve(_one(A) - A / 2, _one(A) + A / 2) - cayley(-A / 2))


def _logarithm(n: int, generator: Generator) -> float:
    Q = _orthogonal(n, generator)
    Q[:, 0] *= torch.linalg.det(Q).sign()
    values, vectors = torch.linalg.eig(Q)
    A = (vectors * (1j * values.angle())) @ torch.linalg.inv(vectors)
    return _norm(torch.linalg.matrix_exp(_skew(A.real)) - Q)


def _exponential(n: int, generator: Generator) -> float:
    A, loss = _skew(_normal(n, generator)), _loss(n, generator)
    B = torch.linalg.matrix_exp(A)
    G = _gradient(loss, B)
    X = (G.mT @ B - B.mT @ G) / 2
    blocks = torch.cat([torch.cat([-A, X], 1), torch.cat([torch.zeros_like(A), -A], 1)])
    derivative = torch.linalg.matrix_exp(blocks)[:n, n:]  # the derivative of exp at -A in the direction X
    return _cosine(B @ derivative, _skew(_gradient(lambda at: loss(torch.linalg.matrix_exp(at)), A)))


def _loss(n: int, generator: Generator) -> Callable[[Tensor], Tensor]:
    """Return a smooth function of a matrix without symmetries."""
    quadratic, linear = _normal(n, generator), _normal(n, generator)
    return lambda W: (W @ quadratic.to(W.dtype) @ W).diagonal().sum().real + (W.real * linear).sum().sin()


def _gradient(loss: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    at = at.detach().requires_grad_()
    return torch.autograd.grad(loss(at), at)[0]


def _orthogonal(n: int, generator: Generator) -> Float[Tensor, "n n"]:
    Q, R = torch.linalg.qr(_normal(n, generator))
    return Q * R.diagonal().sign()


def _rotation(angle: float) -> Float[Tensor, "2 2"]:
    a = torch.tensor(angle, dtype=torch.float64)
    return torch.stack([a.cos(), a.sin(), -a.sin(), a.cos()]).view(2, 2)


def _normal(n: int, generator: Generator) -> Float[Tensor, "n n"]:
    return torch.randn(n, n, generator=generator, dtype=torch.float64)


def _skew(A: Matrix) -> Matrix:
    return (A - A.mH) / 2


def _one(like: Matrix) -> Matrix:
    return torch.eye(len(like), dtype=like.dtype)


def _off_unitary(V: Matrix) -> float:
    return _norm(V @ V.mH - _one(V))


def _norm(A: Matrix) -> float:
    return torch.linalg.matrix_norm(A).item()


def _cosine(one: Matrix, other: Matrix) -> float:
    return float((one * other).sum() / (one.norm() * other.norm()))


STUDY = UnitaryFamilies()
