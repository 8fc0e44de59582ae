"""The behaviour lens: run trials, and compare the answers with their targets."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from mnemoscope.base.array_types import Bool, Float, Num
from mnemoscope.base.progress import show_slow
from mnemoscope.cells import Lengths, Model, Network, as_cell, check_finite_inputs, read_inputs, scan
from mnemoscope.lenses.behaviour.result import Behaviour
from mnemoscope.lenses.behaviour.scores import (
    Targets,
    check_targets,
    delays,
    kind_of,
    means_by,
    positions,
    score_answers,
    scored_steps,
    uninformed_score,
)
from mnemoscope.lenses.whole_network import check_readout, in_evaluation_mode

SHOWN = 3
"""Number of trials that are kept in full."""


@show_slow("behaviour")
def record_behaviour(
    network: Network,
    inputs: Tensor | PackedSequence,
    targets: Targets | None = None,
    *,
    readout: Callable[[Tensor], Tensor] | None = None,
    mask: Tensor | None = None,
    lengths: Lengths | None = None,
) -> Behaviour:
    """Run a network over trials, and score its answers at each step.

    Args:
        network: a `Model`, a cell, or a torch.nn module that `adapt` takes.
        inputs: the trials, in the layout of the network, as targets and mask: (batch, time, features) if it is a
            torch.nn module with `batch_first`, otherwise (time, batch, features). A `Model` with an embedding takes
            token numbers, without features. The result is time first.
        targets: float values, of the shape of the outputs; bool bits, which an output above 0 affirms; or integer
            class numbers (time, batch), of which the largest output is the answer. NaN and negative classes do not
            count.
        readout: from the outputs of a cell to answers; by default the network's own, or none.
        mask: False at steps that do not count.
        lengths: number of steps of each trial; what follows is padding, and does not count.

    >>> import mnemoscope as ms
    >>> model = ms.Model(ms.cells.GRU(3, 8), output_size=2)
    >>> ms.record_behaviour(model, torch.zeros(10, 4, 3), torch.zeros(10, 4, dtype=torch.int64)).kind
    'classes'

    """
    network = network if isinstance(network, Model) else as_cell(network)
    cell = network.cell if isinstance(network, Model) else network
    batch_first = cell.batch_first
    given = read_inputs(inputs, batch_first=batch_first, lengths=lengths)
    check_finite_inputs(given.xs, given.mask)
    check_targets(targets, mask)
    if batch_first:
        network = network.time_first()
        targets, mask = _transposed(targets), _transposed(mask)
    outputs = answers(network, given.xs, readout, given.mask)
    trials = given.xs.shape[1]
    shown_inputs, shown_outputs = (_without_padding(part[:, :SHOWN], given.mask).cpu() for part in (given.xs, outputs))
    shortest = None if given.mask is None else int(given.mask.sum(0).min())
    shortest = shortest if shortest != len(outputs) else None
    if targets is None:
        return Behaviour("unknown", shown_inputs, shown_outputs, trials, shortest=shortest)
    targets = targets.to(outputs.device)
    kind = kind_of(targets, outputs, batch_first=batch_first)
    counts = scored_steps(targets, mask, batch_first=batch_first)
    counts = counts if given.mask is None else scored_steps(targets, counts & given.mask)
    scores = score_answers(kind, outputs, targets, counts)
    since = delays(given.xs, counts)
    by_delay, delay_answers = (None, None) if since is None else means_by(since, scores)
    by_position, position_answers = means_by(positions(counts), scores)
    return Behaviour(
        kind=kind,
        inputs=shown_inputs,
        outputs=shown_outputs,
        trials=trials,
        targets=targets[:, :SHOWN].cpu(),
        scored=counts[:, :SHOWN].cpu(),
        by_step=(scores.sum(1) / counts.sum(1)).cpu(),  # NaN where nothing counts
        score=float(scores.sum() / counts.sum()),
        uninformed=uninformed_score(kind, targets, counts),
        by_position=by_position,
        position_answers=position_answers,
        by_delay=by_delay,
        delay_answers=delay_answers,
        shortest=shortest,
    )


def _transposed(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.transpose(0, 1)


def _without_padding(sequences: Tensor, mask: Bool[Tensor, "time batch"] | None) -> Tensor:
    """Return sequences with NaN after their end, or -1 if they are tokens."""
    if mask is None:
        return sequences
    ended = ~mask[:, : sequences.shape[1]]
    if sequences.dim() == 2:
        return sequences.masked_fill(ended, -1)
    return sequences.masked_fill(ended.unsqueeze(2), torch.nan)


@in_evaluation_mode
@torch.no_grad()
def answers(
    network: Network,
    inputs: Num[Tensor, "time batch ..."],
    readout: Callable[[Tensor], Tensor] | None = None,
    mask: Bool[Tensor, "time batch"] | None = None,
) -> Float[Tensor, "time batch outputs"]:
    """Return the outputs of a network after its readout; `mask` is False where a trial has no input."""
    check_readout(network, readout)
    if isinstance(network, Model):
        network, readout, inputs = network.cell, network.readout, network.encode(inputs)
    outputs, _ = scan(network, inputs, mask=mask)
    features = getattr(readout, "in_features", None)
    if features is not None and features != outputs.shape[2]:
        raise ValueError(f"The readout takes {features} features, but the network has {outputs.shape[2]} outputs.")
    weight = readout.weight if isinstance(readout, nn.Linear) else None
    if weight is not None and weight.dtype != outputs.dtype and not torch.is_autocast_enabled(outputs.device.type):
        raise ValueError(
            f"The weights of the readout are {weight.dtype}, but the outputs of the network {outputs.dtype}: convert "
            f"either with .to(...)."
        )
    return outputs if readout is None else readout(outputs)
