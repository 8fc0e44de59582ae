"""Least squares for a linear readout: recursive, sample by sample, or ridge regression on all samples."""

from __future__ import annotations

from math import inf

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float

BLOCK = 32
"""Updates that are kept as a low-rank product before they are added to P. P is then read once per update, but written
only once per block."""


class RecursiveLeastSquares:
    """Recursive least squares with a ridge penalty.

    `P(t) = P(t-1) - P r r^T P / (1 + r^T P r)`, and `W(t) = W(t-1) - e (P(t) r)^T` with the error e = W(t-1) r - f
    before the update (Jang, Eq 27-28, with sign and order of time corrected; Sussillo & Abbott 2009).

    P is initialised as I / alpha. After any number of samples, W is the ridge regression with that alpha on all of
    them. An update may take several samples (rank-k update), and several independent learners form leading dimensions.
    P only ever loses products V^T V, so it stays symmetric. It is kept in float64 for features of any precision: in
    float32 its least eigenvalues would drown in the rounding of 1 / alpha and turn negative.

    Args:
        features: length of r.
        alpha: weight of |W|^2 relative to the sum of squared errors, positive.
        learners: leading dimensions.
        forgetting: factor in (0, 1] by which the weight of the past shrinks at each update. Below 1, P grows without
            bound in directions without features.
        device: device of P.

    >>> r, f = torch.randn(50, 8).double(), torch.randn(50, 2).double()
    >>> learner, W = RecursiveLeastSquares(8, alpha=0.1), torch.zeros(2, 8).double()
    >>> for sample, target in zip(r, f, strict=True):
    ...     W += learner.update(sample[None], (W @ sample - target)[None])
    >>> bool(torch.allclose(W, ridge(r, f, alpha=0.1)))
    True

    """

    def __init__(
        self,
        features: int,
        alpha: float = 1.0,
        *,
        learners: tuple[int, ...] = (),
        forgetting: float = 1.0,
        device: torch.device | str = "cpu",
    ) -> None:
        if features < 1:
            raise ValueError(f"There must be at least one feature, but there are {features}.")
        _check_alpha(alpha, zero=False)
        if not 0 < forgetting <= 1:
            raise ValueError(f"forgetting is a factor in (0, 1], but is {forgetting}.")
        self.forgetting = forgetting
        eye = torch.eye(features, dtype=torch.float64, device=device) / alpha
        self._base = eye.expand(*learners, -1, -1).clone()  # P = scale (base - V^T V)
        self._scale = 1.0
        self._V = eye.new_zeros(*learners, BLOCK, features)
        self._filled = 0

    @property
    def P(self) -> Float[Tensor, "*learners features features"]:
        """Running estimate of the inverse correlation of the features."""
        self._flush()
        return self._base * self._scale

    def update(
        self, features: Float[Tensor, "*learners samples features"], errors: Float[Tensor, "*learners samples outputs"]
    ) -> Float[Tensor, "*learners outputs features"]:
        """Return the change of W for samples with features r and errors W r - f before the change."""
        change, forgetting = None, self.forgetting
        for R, e in zip(features.double().split(BLOCK, -2), errors.double().split(BLOCK, -2), strict=True):
            step = self._update(R, e if change is None else e + R @ change.mT, forgetting)
            change, forgetting = step if change is None else change + step, 1.0  # forget once per update
        assert change is not None
        return change.to(features)

    def _update(self, features: Tensor, errors: Tensor, forgetting: float) -> Tensor:
        samples = features.shape[-2]
        if self._filled + samples > BLOCK:
            self._flush()
        old = self._V[..., : self._filled, :]
        # P r of each sample as rows, since P is symmetric
        RP = features @ self._base
        if self._filled:
            RP = RP - (features @ old.mT) @ old
        if self._scale != 1:
            RP = RP * self._scale
        inner = RP @ features.mT
        if samples == 1:  # the usual case needs no factorisation
            root = (inner + forgetting).sqrt()
            V, e = RP / root, errors / root
        else:
            inner.diagonal(dim1=-2, dim2=-1).add_(forgetting)
            L = torch.linalg.cholesky(0.5 * (inner + inner.mT))
            V = torch.linalg.solve_triangular(L, RP, upper=False)
            e = torch.linalg.solve_triangular(L, errors, upper=False)
        self._V[..., self._filled : self._filled + samples, :] = V if self._scale == 1 else V * self._scale**-0.5
        self._filled += samples
        self._scale /= forgetting
        return -(e.mT @ V)

    def _flush(self) -> None:
        if not self._filled:
            return
        V = self._V[..., : self._filled, :]
        self._base = self._base - V.mT @ V
        self._base = 0.5 * (self._base + self._base.mT)
        if self._scale > 1e6:  # forgetting: the scale would overflow
            self._base, self._scale = self._base * self._scale, 1.0
        self._filled = 0


def ridge(
    features: Float[Tensor, "samples features"], targets: Float[Tensor, " ..."], alpha: float = 1.0
) -> Float[Tensor, "outputs features"]:
    """Return W that minimises `sum |W r - f|^2 + alpha |W|^2` over samples r and targets f, computed in float64.

    >>> r = torch.randn(100, 5).double()
    >>> bool(torch.allclose(ridge(r, r[:, :2], alpha=0), torch.eye(2, 5).double(), atol=1e-10))
    True
    """
    _check_alpha(alpha, zero=True)
    if features.dim() != 2 or targets.dim() != 2 or len(features) != len(targets) or not len(features):
        raise ValueError(
            f"ridge takes features (samples, features) and targets (samples, outputs), but got "
            f"{tuple(features.shape)} and {tuple(targets.shape)}."
        )
    R, F = features.double(), targets.double()
    bad = int((~torch.isfinite(R).all(1) | ~torch.isfinite(F).all(1)).sum())
    if bad:
        raise ValueError(f"{bad} of {len(R)} samples contain NaN or infinite values.")
    if alpha == 0:
        return torch.linalg.lstsq(R, F, driver="gelsd" if R.device.type == "cpu" else "gels").solution.mT.to(features)
    wide = R.shape[0] < R.shape[1]  # fewer samples than features: solve the smaller of two equivalent systems
    gram = R @ R.mT if wide else R.mT @ R
    gram.diagonal().add_(alpha)
    L = torch.linalg.cholesky(gram)
    W = R.mT @ torch.cholesky_solve(F, L) if wide else torch.cholesky_solve(R.mT @ F, L)
    return W.mT.to(features)


def _check_alpha(alpha: float, zero: bool) -> None:
    if not (0 < alpha < inf or (zero and alpha == 0)):
        raise ValueError(f"alpha must be {'0 or ' if zero else ''}positive and finite, but is {alpha}.")
