"""Rotations by jPCA (Churchland et al. 2012), with any linear dynamics and with surrogates as controls."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from mnemoscope.base.array_types import Float
from mnemoscope.base.progress import show_slow
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.base.trial_table import TrialTable
from mnemoscope.base.validation import check_whole
from mnemoscope.cells import Network
from mnemoscope.lenses.recording import ConditionGrid, Recording, as_recording, chosen_conditions
from mnemoscope.lenses.rotations.result import Rotations
from mnemoscope.lenses.rotations.skew_fit import explained, fit_any, fit_skew, rotation_planes
from mnemoscope.lenses.rotations.surrogates import Surrogates


@show_slow("rotations")
def find_rotations(
    population: Recording | Network,
    inputs: Tensor | PackedSequence | None = None,
    table: TrialTable | None = None,
    *,
    conditions: Sequence[str] | None = None,
    components: int = 6,
    surrogates: int = 100,
    seed: int = 0,
) -> Rotations:
    """Fit rotations to the mean activity of each condition, and compare with surrogates that have no dynamics.

    The mean over conditions is subtracted at every step, and the rest reduced to principal components. The changes
    from step to step are fitted by a skew-symmetric matrix, which can only rotate, and by any matrix. Smooth activity
    that is correlated between units often looks rotational: surrogates with the same covariances show how much.

    Args:
        population: a recording, or a network with `inputs` and the `table` of their conditions. Choose the steps with
            `recording.in_epoch(...)`, and scale units with `recording.scaled(...)`.
        inputs: trials of a network.
        table: conditions of these trials.
        conditions: names of the conditions whose combinations are compared; all by default.
        components: number of principal components, an even number; fewer if the data have fewer.
        surrogates: number of surrogates; 0 for no control.
        seed: seed of the surrogates.

    """
    check_whole(2, components=components)
    check_whole(0, surrogates=surrogates)
    recording = as_recording(population, inputs, table)
    chosen = chosen_conditions(recording, conditions if conditions is None else tuple(conditions))
    grid = ConditionGrid.of(recording, chosen).with_complete_steps(1)
    means = grid.means()
    if len(means) < 3 or means.shape[1] < 2:
        raise ValueError(
            f"Rotations need at least 3 steps and 2 combinations of conditions, but there are {len(means)} steps and "
            f"{means.shape[1]} combinations."
        )
    data = means - means.mean(1, keepdim=True)
    axes, kept_share = _reduction(data, components)
    any_fit, skew_fit, planes, angles = _fits(data, axes)
    generator = seeded_generator(seed)
    nulls = [_fits(fake, _reduction(fake, components)[0])[:2] for fake in
             (Surrogates(data).draw(surrogates, generator) if surrogates else ())]  # fmt: skip
    in_units = planes @ axes
    in_units = torch.stack([_turned(plane, data[0] @ plane.T) for plane in in_units])
    traces = torch.einsum("tcu,pau->tcpa", data, in_units)
    shares = (traces**2).sum((0, 1, 3)) / (data**2).sum()
    order = shares.argsort(descending=True)  # the fastest planes often hold noise
    return Rotations(
        planes=in_units[order],
        angles=angles[order],
        traces=traces[:, :, order],
        cells=grid.cell_names,
        shares=shares[order],
        kept_share=kept_share,
        skew_fit=skew_fit,
        any_fit=any_fit,
        null=torch.tensor(nulls, dtype=torch.float64).reshape(-1, 2) if surrogates else None,
        step=recording.table.step,
    )


def _reduction(data: Float[Tensor, "time conditions units"], components: int) -> tuple[Tensor, float]:
    """Return the leading principal components, an even number of them, and their share of the variance."""
    rows = data.flatten(0, 1)
    _, lengths, axes = torch.linalg.svd(rows, full_matrices=False)
    span = int((lengths > 1e-10 * lengths[0]).sum())
    kept = min(components, span) // 2 * 2
    if kept < 2:
        raise ValueError("The activity of the conditions differs along one direction at most, which has no rotation.")
    return axes[:kept], float((lengths[:kept] ** 2).sum() / (lengths**2).sum())


def _fits(data: Float[Tensor, "time conditions units"], axes: Tensor) -> tuple[float, float, Tensor, Tensor]:
    """Return R^2 of any matrix and of a skew-symmetric one, and the planes and angles of the latter."""
    scores = data @ axes.T
    states = (scores[:-1] + scores[1:]).flatten(0, 1) / 2  # a rotation changes a state at right angles to the mid-point
    changes = (scores[1:] - scores[:-1]).flatten(0, 1)
    skew = fit_skew(states, changes)
    planes, angles = rotation_planes(skew)
    any_fit = explained(states, changes, fit_any(states, changes))
    return any_fit, explained(states, changes, skew), planes, 2 * torch.atan(angles / 2)


def _turned(plane: Float[Tensor, "2 units"], start: Float[Tensor, "conditions 2"]) -> Float[Tensor, "2 units"]:
    """Turn the vectors of a plane within it, so that the first states of the conditions spread along the first."""
    direction = torch.linalg.eigh(start.T @ start)[1][:, 1]
    direction = direction * direction[direction.abs().argmax()].sign()
    cosine, sine = direction.tolist()
    turn = torch.tensor([[cosine, sine], [-sine, cosine]], dtype=plane.dtype)
    return turn @ plane
