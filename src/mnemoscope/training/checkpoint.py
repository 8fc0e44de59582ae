"""A checkpoint: weights, optimiser, counters and what else the loop carries, in one safetensors file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from mnemoscope.cells import Model
from mnemoscope.cells.state import State, map_state, named_leaves
from mnemoscope.training.files import read_tensors, write_tensors
from mnemoscope.training.result import Stopped
from mnemoscope.training.run_folder import load_weights


@dataclass
class Counters:
    """What the loop carries from step to step, beside the weights and the optimiser."""

    step: int = 0
    """Optimiser steps done."""
    lowest_loss: float | None = None
    """Lowest evaluation loss so far."""
    stale: int = 0
    """Evaluations since then."""
    worse: int = 0
    """Evaluations, of all, that gave no new lowest loss."""
    loss_sum: float = 0.0
    """Training losses since the last evaluation, summed."""
    gradient_sum: float = 0.0
    """Gradient norms since the last evaluation, summed."""
    summed: int = 0
    """How many of them."""
    stopped: Stopped | None = None
    """Why the run has ended, if it has."""
    seconds: float = 0.0
    """Time spent."""
    metrics_size: int = 0
    """Bytes of metrics.jsonl that belong to the steps done."""
    stage: int = 0
    """Which of the task's stages is being learned."""
    left_out: int = 0
    """Batches that were left out, as the loss or its gradient was not finite."""
    left_out_in_a_row: int = 0
    """Of these, the newest ones without another in between."""
    threads: int | None = None
    """CPU threads with which the run was begun: with another number, sums are rounded otherwise."""
    processes: int = 1
    """Processes that shared each batch when the run was begun; likewise."""


@dataclass
class Carried:
    """Tensors that the loop carries from step to step, beside the weights and the optimiser."""

    state: State | None = None
    """State of the network, if the next batch goes on where the last one ended."""
    best: dict[str, Tensor] | None = None
    """Weights with the lowest evaluation loss so far, if the task is finite."""


def save_checkpoint(
    path: Path, model: Model, optimiser: Optimizer, counters: Counters, carried: Carried, config_hash: str
) -> None:
    """Write everything that the next step depends on; batches and seeds follow from the number of steps done."""
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for name, parameter in _optimised(model, optimiser):
        for key, value in optimiser.state[parameter].items():
            if not isinstance(value, Tensor):
                raise TypeError(f"{type(optimiser).__name__} keeps a {type(value).__name__} as {key!r}, not a tensor.")
            tensors[f"optimiser.{key}.{name}"] = value
    tensors |= {f"best.{name}": tensor for name, tensor in (carried.best or {}).items()}
    if carried.state is not None:
        tensors |= {f"state.{name}": tensor for name, tensor in named_leaves(carried.state)}
    write_tensors(path, tensors, {"config": config_hash, "counters": asdict(counters)})


def restore_checkpoint(path: Path, model: Model, optimiser: Optimizer, config_hash: str) -> tuple[Counters, Carried]:
    """Bring model and optimiser to where `save_checkpoint` found them, and return the rest."""
    tensors, header = read_tensors(path)
    if header["config"] != config_hash:
        raise ValueError(f"{path} belongs to a run with hash {header['config']}, but this one has {config_hash}.")
    load_weights(model, _under("model.", tensors), path)
    names = [name for name, _ in _optimised(model, optimiser)]
    state: dict[int, dict[str, Any]] = {number: {} for number in range(len(names))}
    for full_name, value in _under("optimiser.", tensors).items():
        key, _, name = full_name.partition(".")
        state[names.index(name)][key] = value
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
    carried = Carried(_state(model, _under("state.", tensors)), _under("best.", tensors) or None)
    return Counters(**header["counters"]), carried


def _state(model: Model, tensors: dict[str, Tensor]) -> State | None:
    """The tensors in the form of the cell's state, where the weights are."""
    if not tensors:
        return None
    form, device = model.cell.initial_state(1), next(model.parameters()).device
    names = [name for name, _ in named_leaves(form)]
    return map_state(lambda _: tensors[names.pop(0)].to(device), form)


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _optimised(model: Model, optimiser: Optimizer) -> Iterator[tuple[str, Tensor]]:
    """Names and parameters in the optimiser's own order, which is how its state dict counts them."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    for group in optimiser.param_groups:
        yield from ((names[parameter], parameter) for parameter in group["params"])
