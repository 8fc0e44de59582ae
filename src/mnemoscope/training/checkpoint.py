"""The checkpoint file: weights, optimiser, counters and carried tensors in one safetensors file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import Any, TypedDict, TypeVar, get_type_hints

import torch
from torch import Tensor
from torch.optim import Optimizer

from mnemoscope.base.schema import checked
from mnemoscope.base.tensor_files import read_tensors, with_prefix, write_tensors
from mnemoscope.cells import Model
from mnemoscope.cells.state import State, map_state, named_leaves
from mnemoscope.training.result import StopReason
from mnemoscope.training.run_folder import check_weights, load_weights

C = TypeVar("C")


class _Header(TypedDict):
    config: str
    counters: dict[str, Any]


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
    tensors, header = read_tensors(path, _Header)
    if header["config"] != config_hash:
        raise ValueError(f"{path} belongs to a run with hash {header['config']}, but this one has {config_hash}.")
    counters = checked_counters(header["counters"], Counters, path)
    best = with_prefix("best.", tensors)
    if best:
        check_weights(model, best, path)
    learned = counters.step > counters.left_out
    return counters, Carried(restore_network(model, optimiser, tensors, path, learned=learned), best or None)


def network_tensors(model: Model, optimiser: Optimizer, state: State | None) -> dict[str, Tensor]:
    """Return weights, optimiser and state as tensors named `model.*`, `optimiser.<key>.<parameter>` and `state.*`."""
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for name, parameter in _named_parameters(model, optimiser):
        for key, value in optimiser.state[parameter].items():
            if not isinstance(value, Tensor):
                raise TypeError(f"{type(optimiser).__name__} keeps a {type(value).__name__} as {key!r}, not a tensor.")
            tensors[f"optimiser.{key}.{name}"] = value
    return tensors | {f"state.{name}": tensor for name, tensor in ([] if state is None else named_leaves(state))}


def restore_network(
    model: Model, optimiser: Optimizer, tensors: dict[str, Tensor], path: Path, *, learned: bool
) -> State | None:
    """Restore weights and optimiser in place from the `network_tensors` in a file, and return the state, if any.

    `learned` says whether the optimiser had made a step, so that it must have a state.
    """
    load_weights(model, with_prefix("model.", tensors), path)
    parameters = dict(_named_parameters(model, optimiser))
    kept: dict[str, dict[str, Any]] = {name: {} for name in parameters}
    for full_name, value in with_prefix("optimiser.", tensors).items():
        key, _, name = full_name.partition(".")
        if name not in kept:
            raise _damaged(path, f"it has a state of the optimiser for {name!r}, which is no parameter of the network")
        kept[name][key] = value
    _check_optimiser_state(kept, parameters, path, learned)
    numbered = dict(enumerate(kept.values()))
    optimiser.load_state_dict({"state": numbered, "param_groups": optimiser.state_dict()["param_groups"]})
    state = with_prefix("state.", tensors)
    if not state:
        return None
    template, device = model.cell.initial_state(1), next(model.parameters()).device
    expected = dict(named_leaves(template))
    types, found = ({name: leaf.dtype for name, leaf in each.items()} for each in (expected, state))
    if found != types:
        raise _damaged(path, f"the carried state should be {types}, but is {found}")
    leaves = iter(expected)
    return map_state(lambda _: state[next(leaves)].to(device), template)


def _check_optimiser_state(
    kept: dict[str, dict[str, Any]], parameters: dict[str, Tensor], path: Path, learned: bool
) -> None:
    """Raise unless the optimiser keeps the same entries for every parameter that it has changed, of its dtype.

    A parameter without a gradient has no entries, so the entries of one parameter can be absent, but not in part.
    """
    keys = {key for entries in kept.values() for key in entries}
    if learned and not keys:
        raise _damaged(path, "the state of the optimiser is missing")
    for name, entries in kept.items():
        if entries and entries.keys() != keys:
            missing = ", ".join(sorted(keys - entries.keys()))
            raise _damaged(path, f"{missing} is missing in the state of the optimiser for {name}")
        for key, value in entries.items():
            parameter = parameters[name]
            # the number of steps of this parameter, in float64 if that is torch's default
            is_count = value.dim() == 0 and value.dtype in (torch.float32, torch.float64)
            if not is_count and (value.shape != parameter.shape or value.dtype != parameter.dtype):
                raise _damaged(
                    path,
                    f"{key} of {name} in the optimiser is {value.dtype} {tuple(value.shape)}, but the parameter is "
                    f"{parameter.dtype} {tuple(parameter.shape)}",
                )


def checked_counters(content: dict[str, Any], kind: type[C], path: Path) -> C:
    """Return the counters of a checkpoint as a dataclass; raise if one is unknown, of another type, or negative."""
    hints = get_type_hints(kind)
    for name, value in content.items():
        try:
            if name not in hints:
                raise ValueError(f"{name} is no counter")
            checked(value, hints[name], name)
            if isinstance(value, int) and value < 0:
                raise ValueError(f"{name} must be 0 or more, but is {value}")
            if isinstance(value, float) and not isfinite(value):
                raise ValueError(f"{name} must be finite, but is {value}")
        except ValueError as error:
            raise _damaged(path, str(error)) from error
    return kind(**content)


def _damaged(path: Path, reason: str) -> ValueError:
    return ValueError(
        f"{path} is damaged: {reason}. Restore the file from a copy, or start the run again with overwrite=True."
    )


def _named_parameters(model: Model, optimiser: Optimizer) -> Iterator[tuple[str, Tensor]]:
    """Yield names and parameters in the order in which the optimiser's state dict counts them."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    for group in optimiser.param_groups:
        yield from ((names[parameter], parameter) for parameter in group["params"])
