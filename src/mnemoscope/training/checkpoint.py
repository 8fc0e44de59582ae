"""The checkpoint file: weights, optimiser, counters and carried tensors in one safetensors file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from mnemoscope.cells import Model
from mnemoscope.cells.state import State, map_state, named_leaves
from mnemoscope.training.result import StopReason
from mnemoscope.training.run_folder import load_weights
from mnemoscope.training.tensor_files import read_tensors, with_prefix, write_tensors


@dataclass
class Counters:
    """Numbers that the loop carries from step to step. The checkpoint stores them under these names."""

    step: int = 0
    """Optimiser steps done."""
    lowest_loss: float | None = None
    """Lowest evaluation loss so far."""
    stale: int = 0
    """Evaluations since the lowest loss."""
    worse: int = 0
    """Evaluations in the whole run without a new lowest loss."""
    loss_sum: float = 0.0
    """Sum of the training losses since the last evaluation."""
    gradient_sum: float = 0.0
    """Sum of the gradient norms since the last evaluation."""
    summed: int = 0
    """Number of terms in these sums."""
    stopped: StopReason | None = None
    """Why the run has ended; None while it continues."""
    seconds: float = 0.0
    """Time spent."""
    metrics_size: int = 0
    """Bytes of metrics.jsonl that belong to the steps done."""
    stage: int = 0
    """Present stage of the curriculum."""
    left_out: int = 0
    """Batches left out because the loss or its gradient was not finite."""
    left_out_in_a_row: int = 0
    """Batches left out since the last one that was not."""
    threads: int | None = None
    """CPU threads at the start of the run; another number rounds sums differently."""
    processes: int = 1
    """Processes that shared each batch at the start of the run; another number rounds sums differently."""

    def add_step(self, loss: float, gradient_norm: float) -> None:
        """Add a step with a finite loss and gradient to the sums."""
        self.left_out_in_a_row = 0
        self.loss_sum += loss
        self.gradient_sum += gradient_norm
        self.summed += 1

    def add_left_out(self) -> None:
        """Count a batch that was left out."""
        self.left_out += 1
        self.left_out_in_a_row += 1

    def clear_sums(self) -> None:
        """Start new sums after an evaluation."""
        self.loss_sum, self.gradient_sum, self.summed = 0.0, 0.0, 0


@dataclass
class Carried:
    """Tensors that the loop carries from step to step, besides weights and optimiser."""

    state: State | None = None
    """State of the network, if the next batch continues the sequences of the last one."""
    best: dict[str, Tensor] | None = None
    """Weights with the lowest evaluation loss so far, if the task has a data set."""


def save_checkpoint(
    path: Path, model: Model, optimiser: Optimizer, counters: Counters, carried: Carried, config_hash: str
) -> None:
    """Write everything that the next step depends on; batches and seeds follow from the number of steps done."""
    tensors = network_tensors(model, optimiser, carried.state)
    tensors |= {f"best.{name}": tensor for name, tensor in (carried.best or {}).items()}
    write_tensors(path, tensors, {"config": config_hash, "counters": asdict(counters)})


def restore_checkpoint(path: Path, model: Model, optimiser: Optimizer, config_hash: str) -> tuple[Counters, Carried]:
    """Restore model and optimiser in place from `save_checkpoint`, and return counters and carried tensors."""
    tensors, header = read_tensors(path)
    if header["config"] != config_hash:
        raise ValueError(f"{path} belongs to a run with hash {header['config']}, but this one has {config_hash}.")
    state = restore_network(model, optimiser, tensors, path)
    return Counters(**header["counters"]), Carried(state, with_prefix("best.", tensors) or None)


def network_tensors(model: Model, optimiser: Optimizer, state: State | None) -> dict[str, Tensor]:
    """Return weights, optimiser and state as tensors named `model.*`, `optimiser.<key>.<parameter>` and `state.*`."""
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for name, parameter in _named_parameters(model, optimiser):
        for key, value in optimiser.state[parameter].items():
            if not isinstance(value, Tensor):
                raise TypeError(f"{type(optimiser).__name__} keeps a {type(value).__name__} as {key!r}, not a tensor.")
            tensors[f"optimiser.{key}.{name}"] = value
    return tensors | {f"state.{name}": tensor for name, tensor in ([] if state is None else named_leaves(state))}


def restore_network(model: Model, optimiser: Optimizer, tensors: dict[str, Tensor], path: Path) -> State | None:
    """Restore weights and optimiser in place from the `network_tensors` in a file, and return the state, if any."""
    load_weights(model, with_prefix("model.", tensors), path)
    names = [name for name, _ in _named_parameters(model, optimiser)]
    kept: dict[int, dict[str, Any]] = {number: {} for number in range(len(names))}
    for full_name, value in with_prefix("optimiser.", tensors).items():
        key, _, name = full_name.partition(".")
        kept[names.index(name)][key] = value
    optimiser.load_state_dict({"state": kept, "param_groups": optimiser.state_dict()["param_groups"]})
    state = with_prefix("state.", tensors)
    if not state:
        return None
    template, device = model.cell.initial_state(1), next(model.parameters()).device
    leaves = iter([name for name, _ in named_leaves(template)])
    return map_state(lambda _: state[next(leaves)].to(device), template)


def _named_parameters(model: Model, optimiser: Optimizer) -> Iterator[tuple[str, Tensor]]:
    """Yield names and parameters in the order in which the optimiser's state dict counts them."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    for group in optimiser.param_groups:
        yield from ((names[parameter], parameter) for parameter in group["params"])
