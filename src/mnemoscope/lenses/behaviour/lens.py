"""The behaviour lens: run trials, and compare the answers with their targets."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.base.progress import show_slow
from mnemoscope.cells import Cell, Model, Network, as_cell, scan
from mnemoscope.lenses.behaviour.result import Behaviour, Kind

SHOWN = 3
"""Number of trials that are kept in full."""

Targets = Tensor
"""(time, batch, outputs) of float values or bool bits, or (time, batch) of class numbers."""


@show_slow("behaviour")
def record_behaviour(
    network: Network,
    inputs: Float[Tensor, "time batch features"],
    targets: Targets | None = None,
    *,
    readout: Callable[[Tensor], Tensor] | None = None,
    mask: Bool[Tensor, "time batch"] | None = None,
) -> Behaviour:
    """Run a network over trials, and score its answers at each step.

    Args:
        network: a `Model`, a cell, or a torch.nn module that `adapt` takes.
        inputs: the trials, in the layout of the network, as targets and mask: (batch, time, features) if it is a
            torch.nn module with `batch_first`, otherwise (time, batch, features). The result is time first.
        targets: float values, of the shape of the outputs; bool bits, which an output above 0 affirms; or integer
            class numbers (time, batch), of which the largest output is the answer. NaN and negative classes do not
            count.
        readout: from the outputs of a cell to answers; by default the network's own, or none.
        mask: False at steps that do not count.

    >>> import mnemoscope as ms
    >>> model = ms.Model(ms.cells.GRU(3, 8), output_size=2)
    >>> ms.record_behaviour(model, torch.zeros(10, 4, 3), torch.zeros(10, 4, dtype=torch.int64)).kind
    'classes'

    """
    network = network if isinstance(network, Model) else as_cell(network)
    cell = network.cell if isinstance(network, Model) else network
    if cell.batch_first:
        network = network.time_first()
        inputs, targets, mask = inputs.transpose(0, 1), _transposed(targets), _transposed(mask)
    outputs = answers(network, inputs, readout)
    if targets is None:
        return Behaviour("unknown", inputs[:, :SHOWN].cpu(), outputs[:, :SHOWN].cpu(), inputs.shape[1])
    targets = targets.to(outputs.device)
    kind = kind_of(targets, outputs)
    counts = scored_steps(targets, mask)
    correct = _scores(kind, outputs, targets, counts)
    by_step = correct.sum(1) / counts.sum(1)  # NaN where nothing counts
    return Behaviour(
        kind,
        inputs[:, :SHOWN].cpu(),
        outputs[:, :SHOWN].cpu(),
        inputs.shape[1],
        targets[:, :SHOWN].cpu(),
        counts[:, :SHOWN].cpu(),
        by_step.cpu(),
        float(correct.sum() / counts.sum()),
        _uninformed(kind, targets, counts),
    )


def _transposed(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.transpose(0, 1)


@torch.no_grad()
def answers(network: nn.Module | Cell, inputs: Tensor, readout: Callable[[Tensor], Tensor] | None = None) -> Tensor:
    """Return the outputs (time, batch, outputs) of a network after its readout."""
    if isinstance(network, Model):
        if readout is not None:
            raise ValueError("A Model has a readout of its own; omit readout, or pass model.cell.")
        return network(inputs)[0]
    outputs, _ = scan(network, inputs)
    return outputs if readout is None else readout(outputs)


def kind_of(targets: Targets, outputs: Float[Tensor, "time batch outputs"]) -> Kind:
    """Return what the targets are; raise unless they fit the outputs."""
    steps, expected = tuple(outputs.shape[:2]), tuple(outputs.shape)
    if targets.dtype != torch.bool and not targets.is_floating_point():
        if tuple(targets.shape) != steps:
            raise ValueError(
                f"Integer targets are class numbers of shape (time, batch) = {steps}, but have the shape "
                f"{tuple(targets.shape)}. Pass float targets if they are values."
            )
        if int(targets.max()) >= outputs.shape[2]:
            raise ValueError(
                f"The targets name class {int(targets.max())}, but the network has {outputs.shape[2]} outputs. Pass "
                f"the readout, or float targets if they are values."
            )
        return "classes"
    if tuple(targets.shape) != expected:
        raise ValueError(
            f"Targets have the shape {tuple(targets.shape)}, but the outputs of the network (time, batch, outputs) = "
            f"{expected}. Pass readout=... if a readout follows the network."
        )
    return "bits" if targets.dtype == torch.bool else "values"


def scored_steps(targets: Targets, mask: Tensor | None) -> Bool[Tensor, "time batch"]:
    """Return the steps that count: those of the mask whose target is neither NaN nor a negative class."""
    steps = targets.shape[:2]
    if mask is not None and tuple(mask.shape) != tuple(steps):
        raise ValueError(f"The mask must have the shape (time, batch) = {tuple(steps)}, not {tuple(mask.shape)}.")
    counts = targets.new_ones(steps, dtype=torch.bool) if mask is None else mask.to(targets.device)
    if targets.is_floating_point():
        counts = counts & ~targets.isnan().any(2)
    elif targets.dtype != torch.bool:
        counts = counts & (targets >= 0)
    if not counts.any():
        raise ValueError("No step counts: the mask is False, or the target NaN or negative, everywhere.")
    return counts


def _scores(kind: Kind, outputs: Tensor, targets: Targets, counts: Tensor) -> Float[Tensor, "time batch"]:
    """Return the squared error or the share of right answers at each step; 0 where a step does not count."""
    if kind == "values":
        scores = (outputs - targets).square().mean(2)
    elif kind == "bits":
        scores = ((outputs > 0) == targets).double().mean(2)
    else:
        scores = (outputs.argmax(2) == targets).double()
    return scores.double().masked_fill(~counts, 0.0)


def _uninformed(kind: Kind, targets: Targets, counts: Tensor) -> float:
    known = targets[counts]
    if kind == "values":
        return float(known.double().var(0, unbiased=False).mean())
    if kind == "bits":
        shares = known.double().mean(0)
        return float(torch.maximum(shares, 1 - shares).mean())
    return float(known.bincount().max() / len(known))
