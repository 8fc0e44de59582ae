"""Memory of a linear network without noise, which its eigenvalues alone determine.

The state is `x(n) = sum_k A^k w s(n-k)`, and the best linear readout of `s(n-k)` explains the share `M_kk` of its
variance, M the projection onto the rows of `K = [w, A w, A^2 w, ...]`. If w reaches every direction, the rows span the
sequences `l_j^k` of the eigenvalues (and `k l^k, ...` of repeated ones), whatever w and the eigenvectors are. An
orthonormal basis of these is known in closed form: the Takenaka-Malmquist functions, a chain of all-pass filters.
So nothing has to be inverted, whereas `K K^T` would have no correct digit from about twenty units on.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from mnemoscope.base.array_types import Complex, Float
from mnemoscope.lenses.fisher.operators import spectral_radius
from mnemoscope.lenses.fisher.stein import UnstableError

COUPLING = 1e-13
"""Coupling between successive directions, as a share of the matrix norm, above which w reaches the next one."""


def reached_part(A: Float[Tensor, "size size"], w: Float[Tensor, " size"]) -> Float[Tensor, "reached reached"]:
    """Return A on the directions that w reaches, in an orthonormal Krylov basis of `w, A w, A^2 w, ...`.

    >>> reached_part(torch.eye(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)).shape  # nothing is mixed
    torch.Size([1, 1])
    """
    balanced, (scale, _) = scipy.linalg.matrix_balance(A.detach().numpy(), permute=False, separate=True)
    a, v = np.asarray(balanced), w.detach().numpy() / scale  # balanced: no direction is small because of its unit
    v = v / np.linalg.norm(v)
    mirror = v.copy()
    mirror[0] += np.copysign(1.0, v[0])  # a reflection takes w to the first unit vector
    mirror /= np.linalg.norm(mirror)
    a = a - 2 * np.outer(mirror, mirror @ a)
    a = a - 2 * np.outer(a @ mirror, mirror)
    hessenberg = np.asarray(scipy.linalg.hessenberg(a))  # leaves the first unit vector unchanged
    coupling = np.abs(np.diagonal(hessenberg, -1))
    cut = np.flatnonzero(coupling <= COUPLING * max(float(np.linalg.norm(a)), np.finfo(float).tiny))
    size = int(cut[0]) + 1 if len(cut) else len(a)
    return torch.from_numpy(hessenberg[:size, :size].copy())


def takenaka_malmquist(
    eigenvalues: Complex[Tensor, " size"],
) -> tuple[Complex[Tensor, "size size"], Complex[Tensor, " size"]]:
    """Return B and y with `B B^H + y y^H = I`, B triangular with these eigenvalues: `B^k y` are the functions at k.

    >>> B, y = takenaka_malmquist(torch.tensor([0.5, 0.5, -0.3 + 0.4j]).to(torch.complex128))
    >>> torch.allclose(B @ B.mH + y[:, None] * y.conj(), torch.eye(3, dtype=torch.complex128))
    True
    """
    size = len(eigenvalues)
    gaps = (1 - eigenvalues.abs().square()).sqrt()
    B = torch.zeros(size, size, dtype=eigenvalues.dtype)
    y = torch.zeros_like(eigenvalues)
    passed = torch.zeros_like(eigenvalues)  # row i: the product of the all-passes between j and i, times gap_j
    product = torch.ones((), dtype=eigenvalues.dtype)
    for i, (value, gap) in enumerate(zip(eigenvalues, gaps, strict=True)):
        y[i] = gap * product
        B[i, :i] = gap * passed[:i]
        B[i, i] = value
        passed[:i] *= -value.conj()
        passed[i] = gap.to(eigenvalues.dtype)
        product = product * -value.conj()
    return B, y


def noiseless_traces(
    A: Float[Tensor, "size size"], w: Float[Tensor, " size"], lags: int
) -> Complex[Tensor, "lags reached"]:
    """Return rows whose squared lengths are the shares of the variance of `s(n-k)` that x(n) explains.

    Over all lags the shares add up to the number of directions that w reaches.
    """
    radius = spectral_radius(A)
    if radius >= 1:
        raise UnstableError(radius)
    part = reached_part(A, w)
    is_triangular = not part.triu(1).any() or not part.tril(-1).any()  # a solver would lose a delay line's eigenvalues
    eigenvalues = part.diagonal().to(torch.complex128) if is_triangular else torch.linalg.eigvals(part)
    if not float(eigenvalues.abs().max()) < 1:
        raise ValueError(
            "Rounding hides which directions the signal reaches: without the others the network would be unstable. "
            "Add noise, noise=..., which makes the result well-defined."
        )
    B, y = takenaka_malmquist(eigenvalues)
    traces = []
    for _ in range(lags):
        traces.append(y)
        y = B @ y
    return torch.stack(traces)
