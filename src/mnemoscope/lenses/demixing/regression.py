r"""Reduced-rank regression of a marginalisation on the whole activity (Kobak et al. 2016).

The decoder D (components x units) and the encoder F (units x components) of a marginalisation minimise

    || X_m - X D' F' ||^2 + M tr(F D N D' F') + penalty || F D ||^2

over the M rows of the mean activity X, where N is the covariance of single trials around their mean: the first two
terms are the error of decoding from single trials. With G = X'X + M N + penalty I, the best map of full rank is
B = G^-1 X' X_m. Its rank is reduced in the metric of G: F holds the leading eigenvectors of B' G B, and D = (B F)'.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float


def fit_components(
    rows: Float[Tensor, "samples units"],
    parts: Float[Tensor, "sets samples units"],
    noise: Float[Tensor, "units units"],
    penalty: float,
    components: int,
) -> tuple[Float[Tensor, "sets components units"], Float[Tensor, "sets units components"]]:
    """Return decoders and orthonormal encoders of every marginalisation, by falling variance of their predictions."""
    gram = rows.T @ rows + len(rows) * noise
    gram.diagonal().add_(penalty)
    factor = torch.linalg.cholesky(gram)
    crossed = rows.T @ parts  # X' X_m, (sets, units, units)
    whitened = torch.linalg.solve_triangular(factor, crossed, upper=False)  # its square is B' G B
    encoders = torch.linalg.eigh(whitened.mT @ whitened)[1].flip(-1)[..., :components]
    maps = torch.cholesky_solve(crossed @ encoders, factor)
    return maps.mT, encoders


def explained_variance(
    parts: Float[Tensor, "sets samples units"],
    decoders: Float[Tensor, "fitted components units"],
    encoders: Float[Tensor, "fitted units components"],
) -> Float[Tensor, "fitted components sets"]:
    """Return the share of all variance that each component alone reconstructs, split by the marginalisation.

    For a component with decoder d and encoder f of length 1 it is ||X_m||^2 - ||X_m - X_m d f'||^2, over ||X||^2.
    """
    decoded = torch.einsum("mnu,fcu->fcmn", parts, decoders)
    matched = torch.einsum("mnu,fuc->fcmn", parts, encoders)
    reached = 2 * (decoded * matched).sum(-1) - (decoded**2).sum(-1)
    return reached / (parts**2).sum()
