"""Align two linear operators by an orthogonal change of coordinates: many pairs and many starts in one optimisation.

For operators A and B the problem is to maximise `f(C) = <A, C B C^T>` over orthogonal matrices C, which minimises
`|A - C B C^T|` and the angle between A and `C B C^T` alike (Ostrow et al. 2023). With `M = C B C^T` and a skew W, the
derivative of f along `C -> exp(W) C` is `<A M^T - M^T A, W>`. All skew matrices lie in one vector space, so that
the two loops of L-BFGS apply unchanged; each step is taken by a Cayley transform, which stays orthogonal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.seeds import seeded_generator

Operators = Float[Tensor, "pairs size size"]

STARTS = 16
"""Random orthogonal starts of a round, in addition to four that are derived from eigenvalues."""
ROUNDS = 6
"""Largest number of rounds of random starts."""
CONFIRMED = 3
"""Starts that must reach the best optimum of a pair; a further round follows otherwise."""
STEPS = 500
"""Largest number of steps of a start."""
MEMORY = 6
"""Earlier steps from which L-BFGS estimates the curvature."""
BACKTRACKING = 10
"""Lengths of a step that are tried, each a quarter of the one before."""
LONGEST_TURN = 0.5
"""Norm of the first step of a start, and of steps near a saddle or minimum of f."""
COARSE, FINE = 1e-4, 1e-7
"""Norms of the gradient, for operators of norm 1, at which every start ends, and at which the best one ends."""
SAME_OPTIMUM = 1e-5
"""Difference of cosines below which two starts reached the same optimum."""
REACHED = 1e-7
"""Distance of the cosine from its bound below which the optimum is known to be global."""


@dataclass(frozen=True)
class Alignment:
    """The best orthogonal matrix of each pair, and how far it can be trusted."""

    cosine: Float[Tensor, " pairs"]
    """`<A, C B C^T>` for operators scaled to norm 1."""
    rotation: Operators
    """C, one for each pair."""
    residual: Float[Tensor, " pairs"]
    """Norm of the gradient at C, which vanishes at an optimum."""
    agreement: Float[Tensor, " pairs"]
    """Share of the starts that reached the same optimum; 1 where the bound is reached."""
    bound: Float[Tensor, " pairs"]
    """An upper bound on the cosine of any orthogonal matrix. Where the cosine reaches it, the optimum is global."""


def align_operators(first: Operators, second: Operators, *, starts: int = STARTS, seed: int = 0) -> Alignment:
    """Return the orthogonal matrices that align each second operator with the first one of its pair.

    f has many local optima. Four starts of each pair come from eigenvalues and eigenvectors. If none of them reaches
    the bound, rounds of `starts` random ones follow until three starts have reached the best optimum of all, at most
    six rounds. A pair with an operator of 0 has the cosine 0, or 1 if both are 0.

    >>> A = torch.tensor([[[0.9, 0.5], [0.0, 0.3]]], dtype=torch.float64)
    >>> turn = torch.tensor([[0.6, -0.8], [0.8, 0.6]], dtype=torch.float64)
    >>> round(align_operators(A, turn @ A @ turn.T).cosine.item(), 9)
    1.0
    """
    first, second = first.double(), second.double()
    norms = torch.stack([first.flatten(1).norm(dim=1), second.flatten(1).norm(dim=1)])
    A, B = (part / norm.clamp_min(1e-300)[:, None, None] for part, norm in zip((first, second), norms, strict=True))
    bound = cosine_bound(A, B)
    C, cosines = _best_of(A, B, _planned_starts(A, B))
    C, agreement = _search_randomly(A, B, C, cosines, bound, starts, seed)
    C, cosine, residual = _ascend(A, B, C, STEPS, FINE)
    return Alignment(
        cosine=torch.where((norms == 0).all(0), 1.0, cosine.clamp(-1, 1)),
        rotation=C,
        residual=residual,
        agreement=agreement,
        bound=torch.where((norms == 0).all(0), 1.0, bound),
    )


def cosine_bound(A: Operators, B: Operators) -> Float[Tensor, " pairs"]:
    """Return an upper bound on `<A, C B C^T>` over orthogonal C.

    Symmetric and skew parts contribute separately. Each contribution is at most the sum of products of eigenvalues or
    singular values in order (von Neumann's trace inequality).
    """
    symmetric = [torch.linalg.eigvalsh((part + part.mT) / 2) for part in (A, B)]
    skew = [torch.linalg.svdvals((part - part.mT) / 2) for part in (A, B)]
    return (symmetric[0] * symmetric[1]).sum(1) + (skew[0] * skew[1]).sum(1)


def _best_of(
    A: Operators, B: Operators, starts: Float[Tensor, "pairs starts size size"]
) -> tuple[Operators, Float[Tensor, "pairs starts"]]:
    """Return the best rotation of each pair, and the cosine that each of its starts reached."""
    pairs, number = starts.shape[:2]
    A, B = (part.repeat_interleave(number, 0) for part in (A, B))
    C, cosine, _ = _ascend(A, B, starts.flatten(0, 1), STEPS, COARSE)
    cosines = cosine.reshape(pairs, number)
    return C.reshape(starts.shape)[torch.arange(pairs), cosines.argmax(1)], cosines


def _search_randomly(
    A: Operators,
    B: Operators,
    C: Operators,
    cosines: Float[Tensor, "pairs planned"],
    bound: Tensor,
    starts: int,
    seed: int,
) -> tuple[Operators, Float[Tensor, " pairs"]]:
    """Return the best rotation of each pair after rounds of random starts, and the share of starts that agree."""
    generator = seeded_generator(seed)
    C, agreement = C.clone(), torch.ones_like(bound)
    pairs, found = torch.arange(len(A)), cosines
    unsettled = found.amax(1) < bound - REACHED
    for _ in range(ROUNDS if starts else 0):
        pairs, found = pairs[unsettled], found[unsettled]
        if not len(pairs):
            break
        random = _random_starts(A.shape[1], starts, generator).expand(len(pairs), -1, -1, -1)
        rotations, reached = _best_of(A[pairs], B[pairs], random)
        better = reached.amax(1) > found.amax(1)
        C[pairs[better]] = rotations[better]
        found = torch.cat([found, reached], 1)
        same = found >= found.amax(1, keepdim=True) - SAME_OPTIMUM
        agreement[pairs] = same.double().mean(1)
        unsettled = same.sum(1) < CONFIRMED
    return C, agreement


def _random_starts(size: int, number: int, generator: torch.Generator) -> Float[Tensor, "starts size size"]:
    """Return random orthogonal matrices; every other one has the determinant -1."""
    random = torch.linalg.qr(torch.randn(number, size, size, generator=generator, dtype=torch.float64))[0]
    wanted = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat(number)[:number]
    random[:, :, 0] *= (wanted * torch.linalg.det(random).sign())[:, None]
    return random


def _planned_starts(A: Operators, B: Operators) -> Float[Tensor, "pairs starts size size"]:
    """Return starts from the eigenvectors of the symmetric parts and from Schur bases, in both components of O(n)."""
    planned = torch.stack([_symmetric_start(A, B), _schur_start(A, B)], 1)
    flipped = planned.clone()
    flipped[:, :, :, -1] *= -1
    return torch.cat([planned, flipped], 1)


def _symmetric_start(A: Operators, B: Operators) -> Operators:
    """Return the matrix that aligns the symmetric parts exactly; the skew parts choose the signs of the axes."""
    U, V = (torch.linalg.eigh((part + part.mT) / 2)[1] for part in (A, B))
    products = (U.mT @ (A - A.mT) @ U) * (V.mT @ (B - B.mT) @ V)
    signs = torch.linalg.eigh(products)[1][:, :, -1]  # relaxed maximum of signs^T products signs
    return (U * torch.where(signs < 0, -1.0, 1.0)[:, None, :]) @ V.mT


def _schur_start(A: Operators, B: Operators) -> Operators:
    """Return the matrix that maps the Schur basis of B to that of A, with eigenvalues paired by their distances."""
    rotations = []
    for a, b in zip(A.numpy(), B.numpy(), strict=True):
        values, vectors = np.linalg.eig(a)
        values_b, vectors_b = np.linalg.eig(b)
        order = np.argsort(-np.abs(values), kind="stable")
        _, matched = linear_sum_assignment(np.abs(values[order, None] - values_b[None]) ** 2)
        rotations.append(_schur_basis(vectors[:, order]) @ _schur_basis(vectors_b[:, matched]).T)
    return torch.from_numpy(np.stack(rotations))


def _schur_basis(vectors: np.ndarray) -> np.ndarray:
    """Return orthonormal real vectors that span the leading eigenvectors in their order."""
    both = np.stack([np.real(vectors), np.imag(vectors)], 2).reshape(len(vectors), -1)
    basis: list[np.ndarray] = []
    for vector in both.T:
        for _ in range(2):  # twice is enough for orthogonality up to rounding
            for axis in basis:
                vector = vector - axis * (axis @ vector)
        if np.linalg.norm(vector) > 1e-6 and len(basis) < len(vectors):
            basis.append(vector / np.linalg.norm(vector))
    spanned = np.array(basis).reshape(-1, len(vectors)).T
    rest = np.linalg.svd(spanned)[0][:, spanned.shape[1] :]  # of a defective matrix
    return np.concatenate([spanned, rest], 1)


def _ascend(A: Operators, B: Operators, C: Operators, steps: int, tolerance: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return rotations, cosines and norms of gradients after up to `steps` steps of L-BFGS with backtracking.

    Problems that have converged leave the batch.
    """
    rotations, cosines, norms = C.clone(), A.new_zeros(len(A)), A.new_zeros(len(A))
    rows, M, past = torch.arange(len(A)), C @ B @ C.mT, _Past([])
    value, gradient = _value_and_gradient(A, M)
    stuck = torch.zeros(len(A), dtype=torch.bool)
    for number in range(steps + 1):
        length = gradient.flatten(1).norm(dim=1)
        done = stuck | (length < tolerance) | (number == steps)
        if done.any():
            ended = rows[done]
            rotations[ended], cosines[ended], norms[ended] = C[done], value[done], length[done]
            rows, A, C, M, value, gradient = (part[~done] for part in (rows, A, C, M, value, gradient))
            past = past.rows(~done)
            if not len(rows):
                break
        change, C, M, value, new_gradient, stuck = _step(A, C, M, value, gradient, past.direction(gradient))
        past.add(change, gradient - new_gradient)
        gradient = new_gradient
    return rotations, cosines, norms


def _step(A: Tensor, C: Tensor, M: Tensor, value: Tensor, gradient: Tensor, direction: Tensor) -> tuple[Tensor, ...]:
    """Return the step taken, the new C, M, value and gradient, and which problems cannot rise above rounding."""
    slope, steepest = _inner(gradient, direction), _inner(gradient, gradient)
    uphill = slope > 1e-8 * steepest
    direction = torch.where(uphill[:, None, None], direction, gradient)
    slope = torch.where(uphill, slope, steepest)
    change, (turn, moved, new_value, new_gradient) = direction, _turned(A, M, direction)
    factor, short = 1.0, torch.nonzero(new_value < value + 1e-4 * slope)[:, 0]
    change = change.clone() if len(short) else change
    for _ in range(BACKTRACKING):
        if not len(short):
            break
        factor /= 4
        change[short] = factor * direction[short]
        turn[short], moved[short], new_value[short], new_gradient[short] = _turned(A[short], M[short], change[short])
        short = short[new_value[short] < value[short] + 1e-4 * factor * slope[short]]
    stuck = torch.zeros(len(A), dtype=torch.bool)
    C_new = turn @ C
    if len(short):
        stuck[short] = True
        change[short], C_new[short], moved[short] = 0.0, C[short], M[short]
        new_value[short], new_gradient[short] = value[short], gradient[short]
    return change, C_new, moved, new_value, new_gradient, stuck


def _turned(A: Tensor, M: Tensor, change: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the Cayley transform of a skew matrix, M after it, and the value and gradient there."""
    eye = torch.eye(A.shape[1], dtype=A.dtype)
    turn = 2 * torch.linalg.inv(eye - change / 2) - eye
    moved = turn @ M @ turn.mT
    return turn, moved, *_value_and_gradient(A, moved)


@dataclass
class _Past:
    """The last steps of all problems, from which L-BFGS estimates curvature."""

    pairs: list[tuple[Tensor, Tensor, Tensor]]
    """Step, fall of the gradient, and the inverse of their product, 0 where the curvature is not that of a maximum."""

    def add(self, change: Tensor, bend: Tensor) -> None:
        curvature = _inner(change, bend)
        inverse = torch.where(curvature > 1e-14, 1 / curvature.clamp_min(1e-14), 0.0)
        self.pairs = [*self.pairs, (change, bend, inverse)][-MEMORY:]

    def rows(self, kept: Tensor) -> _Past:
        return _Past([(change[kept], bend[kept], inverse[kept]) for change, bend, inverse in self.pairs])

    def direction(self, gradient: Tensor) -> Tensor:
        """Return the direction of the two loops of L-BFGS."""
        direction, weights = gradient, []
        for change, bend, inverse in reversed(self.pairs):
            weight = inverse * _inner(change, direction)
            direction = direction - weight[:, None, None] * bend
            weights.append(weight)
        scale = LONGEST_TURN / gradient.flatten(1).norm(dim=1)  # where the curvature is not that of a maximum
        if self.pairs:
            _, bend, inverse = self.pairs[-1]
            scale = torch.where(inverse > 0, 1 / (inverse * _inner(bend, bend)), scale)
        direction = scale[:, None, None] * direction
        for (change, bend, inverse), weight in zip(self.pairs, reversed(weights), strict=True):
            direction = direction + (weight - inverse * _inner(bend, direction))[:, None, None] * change
        return direction


def _value_and_gradient(A: Operators, M: Operators) -> tuple[Float[Tensor, " pairs"], Operators]:
    slope = A @ M.mT - M.mT @ A
    return (A * M).sum((1, 2)), (slope - slope.mT) / 2


def _inner(left: Tensor, right: Tensor) -> Tensor:
    return (left * right).sum((1, 2))
