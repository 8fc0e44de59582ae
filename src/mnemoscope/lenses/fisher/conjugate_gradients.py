"""Matrix networks whose flat state is too large for a covariance matrix: `C y = Y` without ever forming C.

C acts on matrices as `C(X) = sum_k P_k X Q_k`, where `P_k = U^kT E1 U^k` and `Q_k = V^kT E2 V^k`. The sum is doubled
like a covariance and after every doubling compressed to the fewest products that are the same up to rounding (an
operator Schmidt decomposition, through two thin QRs): hundreds of steps become some fifty terms.

In the coordinates in which the noise of one step is white, `C >= 1`. For solutions y_k with residuals `r_k = Y_k -
C(y_k)` it follows that `J_kl = y_k . Y_l + r_k . y_l` is wrong by `r_k . C^-1 r_l`, at most `|r_k| |r_l|`: a residual
of 1e-8 gives sixteen digits, and what is left of it is a bound on the error.

The preconditioner is the diagonal of C in the eigenbases of the covariances of rows and of columns. Of a normal network
it is C itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from math import inf

import torch
from torch import Tensor
from torch.linalg import solve_triangular

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.fisher.covariance import ROUGH, Join, doubled, largest_share
from mnemoscope.lenses.fisher.matrix_system import MatrixSystem
from mnemoscope.lenses.fisher.operators import Kronecker, Map, powers
from mnemoscope.lenses.fisher.solving import Solved

COMPRESSED = 1e-15
"""Share of C that compression may drop at a time: below, singular values are rounding."""
DIGITS = 1e-15
"""Relative error of the information at which a solution is good."""
MOST_STEPS = 500
"""Of conjugate gradients; well-conditioned systems take twenty."""
MOST_DIRECTIONS = 2000
"""That the signals beyond the last lag may span."""
FEW = 64
"""Products that are not yet compressed."""
BEYOND = 1e150
"""Amplification whose square leaves the range of floats."""
WORK = 2**24
"""Numbers of a temporary."""


@dataclass(frozen=True)
class Products:
    """`X -> sum_i P_i X Q_i` on matrices, where P_i and Q_i are symmetric.

    >>> two = Products(torch.stack([torch.eye(2), torch.ones(2, 2)]), torch.stack([torch.eye(3), torch.eye(3)]))
    >>> two(torch.ones(2, 1, 3))[:, 0]  # X + 1 X
    tensor([[3., 3., 3.],
            [3., 3., 3.]])
    >>> two.diagonal()
    tensor([[2., 2., 2.],
            [2., 2., 2.]])
    """

    P: Float[Tensor, "terms rows rows"]
    Q: Float[Tensor, "terms columns columns"]

    def __call__(self, X: Float[Tensor, "rows number columns"]) -> Float[Tensor, "rows number columns"]:
        """Of many matrices at once; they lie with their rows first, so that each factor is one multiplication."""
        terms, rows, columns = *self.P.shape[:2], self.Q.shape[1]
        P = self.P.movedim(0, 1).reshape(rows, terms * rows)
        parts = X.split(max(1, WORK // (terms * rows * columns)), dim=1)
        done = []
        for part in parts:
            right = part.reshape(1, -1, columns) @ self.Q  # (terms, rows number, columns)
            done.append((P @ right.view(terms * rows, -1)).view(part.shape))
        return torch.cat(done, dim=1)

    def diagonal(self) -> Float[Tensor, "rows columns"]:
        """Of the operator: what it makes of each entry alone."""
        return self.P.diagonal(dim1=1, dim2=2).mT @ self.Q.diagonal(dim1=1, dim2=2)

    def turned(self, E: Float[Tensor, "rows rows"], F: Float[Tensor, "columns columns"]) -> Products:
        """The same in the coordinates `E^T X F`."""
        return Products(E.mT @ self.P @ E, F.mT @ self.Q @ F)


def solve_matrix_free(system: MatrixSystem, lags: int, horizon: int | None = None) -> Solved:
    """Traces and total of a matrix network without a queue, from `J_kl` of its lags; nothing of size n x n is formed.

    There is no S here, and the traces are in coordinates of their own: rows of a square root of J, which is all that
    their products tell.
    """
    A, W = _whitened(system)
    C = stationary(A, horizon)
    off = stein_residual(C, A, horizon)
    E, F = _eigenbases(C)
    C = C.turned(E, F)
    A = Kronecker(E.mT @ A.left @ E, F.mT @ A.right @ F)
    count = lags if horizon is None else min(lags, horizon)
    signals = torch.stack(list(islice(powers(A, (E.mT @ W @ F).flatten()), count)), 1)
    J, worst, steps = _information(C, signals)
    total = J.trace()
    older = _older(A, signals, lags, horizon)
    if older is not None:
        more, also, _ = _information(C, older, DIGITS * float(total) / older.shape[1])
        total = total + more.trace()
        worst = max(worst, also)
    error = worst + off
    if not error < ROUGH:
        raise ValueError(
            f"Noise is amplified so much (up to {float(C.diagonal().max()):.1e} times) that the matrix-free route is "
            f'off by up to {error:.1e}. Weaken U and V, or pass route="dense" if the state is small enough.'
        )
    route = f"matrix-free: {len(C.P)} products, {steps} steps of conjugate gradients"
    traces = _root(J)
    return Solved(torch.cat([traces, traces.new_zeros(lags - len(traces), traces.shape[1])]), total, None, error, route)


def _whitened(system: MatrixSystem) -> tuple[Kronecker, Float[Tensor, "rows columns"]]:
    """The step and the signal where the noise of one step is 1."""
    rows, columns = (torch.linalg.cholesky(one) for one in system.covariances)
    left = solve_triangular(rows, system.U.mT @ rows, upper=False)
    right = solve_triangular(columns, system.V.mT @ columns, upper=False)
    half = solve_triangular(rows, system.W, upper=False)
    return Kronecker(left, right).balanced(), solve_triangular(columns, half.mT, upper=False).mT


def stationary(A: Kronecker, horizon: int | None = None) -> Products:
    """`sum_k A^k A^kT`, over all k or `horizon` steps, as the fewest products.

    >>> half = 0.5**0.5 * torch.eye(2, dtype=torch.float64)
    >>> C = stationary(Kronecker(half, half))
    >>> len(C.P), round(C.diagonal()[0, 0].item(), 10)  # 1 / (1 - 1/4)
    (1, 1.3333333333)
    """
    rows, columns = (torch.eye(len(part), dtype=part.dtype)[None] for part in A.parts)
    return _compressed(doubled(A, Products(rows, columns), _joined, horizon))


def _joined(later: Products, power: Map, earlier: Products) -> tuple[Products, float]:
    added = _moved(earlier, power)
    if not float(added.diagonal().abs().max()) < BEYOND:
        return later, inf
    both = Products(torch.cat([later.P, added.P]), torch.cat([later.Q, added.Q]))
    both = _compressed(both) if len(both.P) > FEW else both  # what is dropped early, later steps amplify
    return both, largest_share(added.diagonal(), later.diagonal())


def _moved(C: Products, A: Map) -> Products:
    """`A C A^T`."""
    assert isinstance(A, Kronecker)
    return Products(A.left @ C.P @ A.left.mT, A.right @ C.Q @ A.right.mT)


def stein_residual(C: Products, A: Kronecker, horizon: int | None) -> float:
    """The norm of `C - A C A^T - 1`, by which C does not solve its equation; after a horizon, `A^h A^hT` less.

    What compression dropped, too: as the sum that C should be is one over 1, a residual R has changed it, and J, by no
    more than the share `|R|`.
    """
    moved = _moved(C, A)
    eyes = [torch.eye(len(part), dtype=part.dtype)[None] for part in A.parts]
    P, Q = [C.P, -moved.P, -eyes[0]], [C.Q, moved.Q, eyes[1]]
    if horizon is not None:
        left, right = (torch.linalg.matrix_power(part, horizon) for part in A.parts)
        P.append((left @ left.mT)[None])
        Q.append((right @ right.mT)[None])
    p, q = (torch.linalg.qr(torch.cat(parts).flatten(1).mT, mode="r")[1] for parts in (P, Q))
    return float(torch.linalg.matrix_norm(p @ q.mT))


def _compressed(C: Products) -> Products:
    """The fewest products with the same sum."""
    rows, columns = C.P.shape[1], C.Q.shape[1]
    p, left = torch.linalg.qr(C.P.flatten(1).mT)
    q, right = torch.linalg.qr(C.Q.flatten(1).mT)
    u, s, v = torch.linalg.svd(left @ right.mT, full_matrices=False)
    rest = s.square().flip(0).cumsum(0).flip(0).sqrt()  # the norm of this one and all smaller ones
    kept = int((rest > COMPRESSED * rest[0]).sum())
    weight = s[:kept].sqrt()
    P, Q = (p @ (u[:, :kept] * weight)).mT, (q @ (v[:kept].mT * weight)).mT
    return Products(P.reshape(kept, rows, rows), Q.reshape(kept, columns, columns))


def _eigenbases(C: Products) -> tuple[Float[Tensor, "rows rows"], Float[Tensor, "columns columns"]]:
    """Of the covariances of the rows' and of the columns' index, the other summed over."""
    traces = [part.diagonal(dim1=1, dim2=2).sum(1)[:, None, None] for part in (C.Q, C.P)]
    covariances = ((trace * part).sum(0) for trace, part in zip(traces, (C.P, C.Q), strict=True))
    E, F = (torch.linalg.eigh((one + one.mT) / 2)[1] for one in covariances)
    return E, F


def _older(A: Kronecker, signals: Tensor, lags: int, horizon: int | None) -> Float[Tensor, "size directions"] | None:
    """Z with `Z Z^T = sum_(k >= lags) Y_k Y_k^T`, by doubling, without the directions in which there is nothing."""
    if horizon is not None and horizon <= lags:
        return None
    first = A(signals[:, -1:])
    nothing = 1e-18 * float(signals[:, 0].square().sum())
    return doubled(A, first, _spanning(nothing), None if horizon is None else horizon - lags)


def _spanning(nothing: float) -> Join[Tensor]:
    """Joins factors; drops the directions that hold less than `nothing` together, which A does not amplify: in units of
    the noise that lies over it, no signal grows.
    """

    def join(later: Tensor, power: Map, earlier: Tensor) -> tuple[Tensor, float]:
        added = power(earlier)
        basis, triangle = torch.linalg.qr(torch.cat([later, added], dim=1))
        u, s, _ = torch.linalg.svd(triangle, full_matrices=False)
        kept = max(1, int((s.square().flip(0).cumsum(0).flip(0) > nothing).sum()))
        if kept > MOST_DIRECTIONS:
            raise ValueError(
                f"Signals fade so slowly that those beyond the last lag span more than {MOST_DIRECTIONS} directions, "
                f"too many for the matrix-free route. Scale U or V down, or pass horizon=<steps> or a larger lags."
            )
        return basis @ (u[:, :kept] * s[:kept]), largest_share(added.square().sum(1), later.square().sum(1))

    return join


def _information(
    C: Products, signals: Float[Tensor, "size number"], enough: float = 0.0
) -> tuple[Float[Tensor, "number number"], float, int]:
    """`Y^T C^-1 Y`; its error, relative (or in units of `enough`, an error that does not matter); and steps taken."""
    rows, columns = C.P.shape[1], C.Q.shape[1]
    Y = signals.view(rows, columns, -1).mT.contiguous()  # (rows, number, columns)
    y, steps = conjugate_gradients(C, Y, enough)
    r = Y - C(y)
    flat = [one.movedim(1, 0).flatten(1) for one in (Y, y, r)]
    J = flat[1] @ (flat[0] + flat[2]).mT
    J = (J + J.mT) / 2
    off = r.square().sum((0, 2))
    worth = J.diagonal().clamp(min=max(enough / DIGITS, torch.finfo(J.dtype).tiny))
    return J, float((off / worth).max()), steps


def conjugate_gradients(
    C: Products, Y: Float[Tensor, "rows number columns"], enough: float = 0.0
) -> tuple[Float[Tensor, "rows number columns"], int]:
    """`C(y) = Y` of every matrix with its own lengths of steps, until `|r|^2` is below `enough` or 1e-15 of `y . Y`."""

    def dot(a: Tensor, b: Tensor) -> Tensor:
        return (a * b).sum((0, 2), keepdim=True)

    tiny = torch.finfo(Y.dtype).tiny
    scale = 1 / C.diagonal()[:, None]
    y, r = torch.zeros_like(Y), Y
    z = p = scale * r
    rz = dot(r, z)
    for number in range(MOST_STEPS):
        Cp = C(p)
        length = rz / dot(p, Cp).clamp(min=tiny)
        y, r = y + length * p, r - length * Cp
        if bool((dot(r, r) <= (DIGITS * dot(y, Y)).clamp(min=enough)).all()):
            return y, number + 1
        z = scale * r
        before, rz = rz, dot(r, z)
        p = z + rz / before.clamp(min=tiny) * p
    raise ValueError(
        f"Conjugate gradients do not settle within {MOST_STEPS} steps: noise is amplified too much (up to "
        f"{float(C.diagonal().max()):.1e} times). Weaken U and V, or pass "
        f'route="dense" if the state is small enough.'
    )


def _root(J: Float[Tensor, "number number"]) -> Float[Tensor, "number number"]:
    """R with `R R^T = J`; every row to its own precision, however small."""
    length = J.diagonal().clamp(min=0).sqrt()
    scale = torch.where(length > 0, length, inf)
    values, vectors = torch.linalg.eigh(J / scale[:, None] / scale)
    return length[:, None] * vectors * values.clamp(min=0).sqrt()
