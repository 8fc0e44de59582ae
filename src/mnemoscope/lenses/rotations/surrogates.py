r"""Surrogate data that share the covariances of time, of conditions and of units with the data, and nothing else.

The distribution of the largest entropy with the same three covariances is Gaussian (Elsayed & Cunningham 2017). Its
axes are products of the eigenvectors of the three covariances, and its variances along them are
v_ijk = 1 / (a_i + b_j + c_k). The multipliers a, b, c are such that the sums of v over two indices are the eigenvalues
of the third covariance. They minimise the convex function  sum a_i A_i + b_j B_j + c_k C_k - sum log(a_i + b_j + c_k).
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float

STEPS = 300
"""Most steps of Newton's method."""
SMALLEST = 1e-8
"""Eigenvalues below this share of the largest count as 0: surrogates have no variance along them."""


class Surrogates:
    """Gaussian data with the covariances of given data (time, conditions, units), which need not be centred."""

    def __init__(self, data: Float[Tensor, "time conditions units"]) -> None:
        self.axes, self.powers = [], []
        for mode in range(3):
            unfolded = data.movedim(mode, 0).flatten(1)
            powers, axes = torch.linalg.eigh(unfolded @ unfolded.T)
            kept = powers > SMALLEST * powers.max()
            self.axes.append(axes[:, kept])
            self.powers.append(powers[kept])
        self.variances = entropy_variances(*self.powers)

    def draw(self, number: int, generator: torch.Generator) -> Iterator[Float[Tensor, "time conditions units"]]:
        """Yield surrogates."""
        for _ in range(number):
            core = torch.randn(self.variances.shape, dtype=torch.float64, generator=generator) * self.variances.sqrt()
            yield torch.einsum("ijk,ti,cj,uk->tcu", core, *self.axes)


def entropy_variances(
    first: Float[Tensor, " i"], second: Float[Tensor, " j"], third: Float[Tensor, " k"]
) -> Float[Tensor, "i j k"]:
    """Return variances of the form 1 / (a_i + b_j + c_k) whose sums over two indices are the given numbers.

    All three must have the same sum. The function to minimise is self-concordant, so that Newton's method converges
    with steps of 1 / (1 + its decrement), and quadratically near the solution.
    """
    powers = [each / each.sum() for each in (first, second, third)]
    sizes = [len(each) for each in powers]
    targets = torch.cat(powers)
    # The exact solution if the other two modes were even: one sum over n pairs is n / (3 a_i).
    multipliers = torch.cat([sizes[(m + 1) % 3] * sizes[(m + 2) % 3] / powers[m] / 3 for m in range(3)])

    def variances(point: Tensor) -> Tensor:
        a, b, c = point.split(sizes)
        return 1 / (a[:, None, None] + b[None, :, None] + c[None, None, :])

    def value(point: Tensor) -> float:
        v = variances(point)
        return float((point * targets).sum() + v.log().sum()) if bool((v > 0).all()) else torch.inf

    for _ in range(STEPS):
        v = variances(multipliers)
        gradient = targets - torch.cat([v.sum((1, 2)), v.sum((0, 2)), v.sum((0, 1))])
        if float((gradient.abs() / targets).max()) < 1e-8:
            return v * float(first.sum())
        step = _newton_step(_hessian(v**2, sizes), gradient)
        decrement = max(0.0, -float(step @ gradient)) ** 0.5
        size = 1.0
        if decrement > 0.25:  # far away: halve from a full step, down to the one that always succeeds
            now, safe = value(multipliers), 1 / (1 + decrement)
            while size > safe and value(multipliers + size * step) > now - 0.1 * size * decrement**2:
                size = max(size / 2, safe)
        multipliers = multipliers + size * step
    raise ArithmeticError(
        f"The variances of surrogates were not found to 8 digits in {STEPS} steps of Newton's method; the covariances "
        f"of the data are too unequal. Pass surrogates=0 for no control."
    )


def _newton_step(hessian: Tensor, gradient: Tensor) -> Tensor:
    """Solve for the step after scaling the diagonal to 1, without the two directions that change nothing."""
    scale = hessian.diagonal().rsqrt()
    values, vectors = torch.linalg.eigh(scale[:, None] * hessian * scale)
    kept = vectors[:, 2:]  # a_i + x, b_j - x leaves all sums unchanged, and so does a shift against c_k
    return -scale * (kept @ ((kept.T @ (scale * gradient)) / values[2:]))


def _hessian(squares: Float[Tensor, "i j k"], sizes: list[int]) -> Tensor:
    """Return the second derivatives of -sum log(a_i + b_j + c_k); two directions, that shift a against b, are flat."""
    hessian = torch.zeros(sum(sizes), sum(sizes), dtype=squares.dtype)
    starts = (0, sizes[0], sizes[0] + sizes[1])
    places = [slice(start, start + size) for start, size in zip(starts, sizes, strict=True)]
    for one in range(3):
        others = [mode for mode in range(3) if mode != one]
        hessian[places[one], places[one]] = squares.sum(others).diag()
        for other in range(one + 1, 3):
            pair = squares.sum(3 - one - other)
            hessian[places[one], places[other]], hessian[places[other], places[one]] = pair, pair.T
    return hessian
