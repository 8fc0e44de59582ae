"""The weights between recorded units by recursive least squares, while the network runs (FORCE)."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.base.progress import Bar
from mnemoscope.connectivity import Dense
from mnemoscope.training.least_squares import RecursiveLeastSquares
from mnemoscope.training.unit_run import UnitRun


@torch.no_grad()
def fit_by_force(
    run: UnitRun,
    activity: Float[Tensor, "time trials units"],
    inputs: Float[Tensor, "time trials features"],
    passes: int,
    alpha: float,
    progress: bool,
) -> Float[Tensor, " passes"]:
    """Fit the incoming weights of the recorded units, and return the mean squared error of each pass over the trials.

    The network `x' = (1 - leak) x + leak w f`, with the features f = (phi(x), u, 1), should reach the currents x* of
    the data at the next step. Its error in w f is (x' - x*) / leak, which is linear in the weights w, so that
    recursive least squares applies. The features are those of the running network, whose states the data correct.
    Hidden units keep their random weights. Units with the same missing numbers share a matrix P.
    """
    cell, units, leak = run.cell, run.units, run.cell.leak
    assert isinstance(cell.connectivity, Dense)
    assert cell.bias is not None
    weights = torch.cat([cell.connectivity.matrix, cell.drive, cell.bias.unsqueeze(1)], 1)
    weights[:units] = 0.0
    known, targets = ~activity.isnan(), run.currents(activity)
    groups = _units_recorded_together(known)
    learners = [RecursiveLeastSquares(weights.shape[1], alpha) for _ in groups]
    ones = torch.ones(activity.shape[1], 1, dtype=torch.float64)
    losses = []
    with Bar(range(passes), desc="fit", unit="pass", disable=not progress) as bar:
        for _ in bar:
            state, total = run.first_state(activity), 0.0
            for step in range(1, len(activity)):
                if step > 1:
                    state = run.corrected(state, activity[step - 1], run.forcing)
                features = torch.cat([cell.phi(state), inputs[step], ones], 1)
                predicted = (1 - leak) * state + leak * features @ weights.mT
                off = run.model.readout(cell.phi(predicted)) - activity[step]
                total += float(off.nan_to_num().square().sum())
                errors = (predicted[:, :units] - targets[step]) / leak
                for members, learner in zip(groups, learners, strict=True):
                    rows = known[step, :, members[0]]
                    if bool(rows.any()):
                        weights[members] += learner.update(features[rows], errors[rows][:, members])
                state = (1 - leak) * state + leak * features @ weights.mT
            losses.append(total / float(known[1:].sum()))
            bar.set_postfix(loss=f"{losses[-1]:.4f}", refresh=False)
    size, inputs_size = cell.hidden_size, cell.drive.shape[1]
    matrix, drive, bias = weights.split([size, inputs_size, 1], 1)
    cell.connectivity.matrix.copy_(matrix)
    cell.drive.copy_(drive)
    cell.bias.copy_(bias[:, 0])
    return torch.tensor(losses, dtype=torch.float64)


def _units_recorded_together(known: Bool[Tensor, "time trials units"]) -> list[Int[Tensor, " members"]]:
    """Return the units in groups whose members are missing at the same steps of the same trials."""
    patterns = torch.unique(known.flatten(0, 1).T, dim=0, return_inverse=True)[1]
    return [(patterns == pattern).nonzero().flatten() for pattern in range(int(patterns.max()) + 1)]
