"""Means of conditions and the covariance of trials around them, for any choice of trials and of their labels."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.lenses.recording import ConditionGrid


class TrialMoments:
    """Means and noise of a grid of trials, quick to compute again for other labels.

    The covariance within conditions is the second moment of all trials, which labels do not change, less that of the
    means. Where units were not recorded together, only their variances are known.
    """

    def __init__(self, grid: ConditionGrid) -> None:
        self.grid = grid
        self.known = grid.known
        self.values = grid.activity.nan_to_num()
        self.together = bool((self.known == self.known[..., :1]).all())
        self.total = self._second_moment(torch.ones(len(grid.cells), dtype=torch.bool))

    def means(
        self, trials: Bool[Tensor, " trials"] | None = None, cells: Int[Tensor, " trials"] | None = None
    ) -> Float[Tensor, "time cells units"]:
        """Return the mean activity of each cell."""
        return self.grid.means(trials, cells)

    def noise(
        self,
        means: Float[Tensor, "time cells units"],
        left_out: Bool[Tensor, " trials"],
        cells: Int[Tensor, " trials"] | None = None,
    ) -> Float[Tensor, "units units"]:
        """Return the covariance of the trials that were not left out, around these means."""
        counts = self.grid.counts(~left_out, cells).double()
        freedom = (counts.sum(1) - counts.shape[1]).sum(0).clamp_min(1)  # (units,)
        total = self.total - self._second_moment(left_out)
        if self.together:
            weighted = means * counts.sqrt()
            return (total - torch.einsum("tcu,tcv->uv", weighted, weighted)) / freedom[0]
        return torch.diag(((total - (counts * means**2).sum((0, 1))) / freedom).clamp_min(0))

    def _second_moment(self, trials: Bool[Tensor, " trials"]) -> Tensor:
        """Return the sum of x x' over steps of trials (units, units), or of x^2 (units,) of separate units."""
        rows = self.values[:, trials].flatten(0, 1)
        return rows.T @ rows if self.together else (rows**2).sum(0)
