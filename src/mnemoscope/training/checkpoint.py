"""A checkpoint: weights, optimiser and counters in one safetensors file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from mnemoscope.cells import Model
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
    threads: int | None = None
    """CPU threads with which the run was begun: with another number, sums are rounded otherwise."""


def save_checkpoint(path: Path, model: Model, optimiser: Optimizer, counters: Counters, config_hash: str) -> None:
    """Write everything that the next step depends on; batches and seeds follow from the number of steps done."""
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for name, parameter in _optimised(model, optimiser):
        for key, value in optimiser.state[parameter].items():
            if not isinstance(value, Tensor):
                raise TypeError(f"{type(optimiser).__name__} keeps a {type(value).__name__} as {key!r}, not a tensor.")
            tensors[f"optimiser.{key}.{name}"] = value
    write_tensors(path, tensors, {"config": config_hash, "counters": asdict(counters)})


def restore_checkpoint(path: Path, model: Model, optimiser: Optimizer, config_hash: str) -> Counters:
    """Bring model and optimiser to where `save_checkpoint` found them, and return the counters."""
    tensors, header = read_tensors(path)
    if header["config"] != config_hash:
        raise ValueError(f"{path} belongs to a run with hash {header['config']}, but this one has {config_hash}.")
    weights = {name.removeprefix("model."): value for name, value in tensors.items() if name.startswith("model.")}
    load_weights(model, weights, path)
    names = [name for name, _ in _optimised(model, optimiser)]
    state: dict[int, dict[str, Any]] = {number: {} for number in range(len(names))}
    for full_name, value in tensors.items():
        kind, _, rest = full_name.partition(".")
        if kind == "optimiser":
            key, _, name = rest.partition(".")
            state[names.index(name)][key] = value
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
    return Counters(**header["counters"])


def _optimised(model: Model, optimiser: Optimizer) -> Iterator[tuple[str, Tensor]]:
    """Names and parameters in the optimiser's own order, which is how its state dict counts them."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    for group in optimiser.param_groups:
        yield from ((names[parameter], parameter) for parameter in group["params"])
