"""The recording lens: run a network over trials, and keep the activity of its units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from mnemoscope.base.progress import show_slow
from mnemoscope.base.trial_table import TrialTable
from mnemoscope.cells import Lengths, Model, Network, as_cell, read_inputs, run_with_cache, scan
from mnemoscope.lenses.recording.result import Recording
from mnemoscope.lenses.whole_network import in_evaluation_mode


@show_slow("activity")
@in_evaluation_mode
@torch.no_grad()
def record_activity(
    network: Network,
    inputs: Tensor | PackedSequence,
    table: TrialTable | Mapping[str, Any] | None = None,
    *,
    units: str = "state",
    lengths: Lengths | None = None,
) -> Recording:
    """Run a network over trials, and keep the activity of its units with the conditions of the trials.

    Args:
        network: a `Model`, a cell, or a torch.nn module that `adapt` takes.
        inputs: the trials, in the layout of the network: (batch, time, features) if it is a torch.nn module with
            `batch_first`, otherwise (time, batch, features).
        table: conditions and epochs of the trials, such as those of `task.trials(...)`; or by the name of each
            condition its value in each trial.
        units: "state" for all numbers of the state; "output" for what the network's readout sees.
        lengths: number of steps of each trial; what follows is padding, and is NaN in the recording. By default those
            of the table, if it has any, as that of a task does.

    >>> import mnemoscope as ms
    >>> recording = ms.record_activity(torch.nn.GRU(3, 8), torch.randn(10, 4, 3))
    >>> recording.summary()
    '8 units in 4 trials of 10 steps.'

    """
    table = TrialTable.of(table) if isinstance(table, Mapping) else table
    if units not in ("state", "output"):
        raise ValueError(f'units must be "state" or "output", but is {units!r}.')
    cell = network.cell if isinstance(network, Model) else as_cell(network)
    if lengths is None and table is not None and not isinstance(inputs, PackedSequence):
        lengths = table.lengths
    given = read_inputs(inputs, batch_first=cell.batch_first, lengths=lengths)
    xs = network.encode(given.xs) if isinstance(network, Model) else given.xs
    cell = cell.time_first()
    if units == "state" and cell.grows:
        raise ValueError(
            'The state of this network grows with every step, so it has no fixed units: pass units="output".'
        )
    if units == "state":
        activity = run_with_cache(cell, xs, mask=given.mask)[1].flat()
    else:
        activity = scan(cell, xs, mask=given.mask)[0]
    kept = given.xs if given.xs.is_floating_point() else None  # tokens are names, not quantities
    if given.mask is not None:
        absent = ~given.mask.unsqueeze(2)
        activity = activity.masked_fill(absent, torch.nan)
        kept = None if kept is None else kept.masked_fill(absent, torch.nan)
    return Recording(activity.double().cpu(), table or TrialTable(), None if kept is None else kept.double().cpu())
