"""Families of systems: one `Dynamics` at every parameter, between saved snapshots or along a path of inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import Any

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.cells import Cell, Network
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.model_inputs import encode_inputs

Family = Callable[[float], Dynamics]
"""The system at a parameter: an iteration of training, the strength of an input, a gain."""


@dataclass(frozen=True, eq=False)
class WeightFamily:
    """One network whose weights are linear in a parameter between snapshots."""

    base: Cell | nn.Module
    """A copy of the network, whose weights are replaced at every parameter."""
    tables: tuple[dict[str, Tensor], ...]
    """Weights of each snapshot."""
    at: tuple[float, ...]
    """The parameter of each snapshot."""
    options: dict[str, Any]
    """Options of `Dynamics`."""

    def __call__(self, parameter: float) -> Dynamics:
        left, share = _position(self.at, parameter)
        right = self.tables[left + 1]
        mixed = {name: _mixed(value, right[name], share) for name, value in self.tables[left].items()}
        self.base.load_state_dict(mixed)
        return Dynamics(self.base, **self.options)


def interpolate_weights(cells: Sequence[Cell | nn.Module], at: Sequence[float], **options: Any) -> WeightFamily:
    """Return systems whose weights are linear in the parameter between snapshots of one cell.

    Args:
        cells: snapshots of one network, with the same weights by name and shape.
        at: the parameter of each snapshot, increasing.
        options: options of `Dynamics`, such as the constant input.

    >>> weak, strong = torch.nn.RNN(1, 4), torch.nn.RNN(1, 4)
    >>> family = interpolate_weights([weak, strong], [0, 100])
    >>> middle = family(50).cell.state_dict()
    >>> mean = (weak.bias_hh_l0 + strong.bias_hh_l0) / 2
    >>> torch.allclose(next(value for name, value in middle.items() if "bias_hh" in name), mean.double())
    True

    `ms.track_fixed_points(family)` tracks the fixed points from snapshot to snapshot.

    """
    at = increasing_parameters(at)
    if len(cells) != len(at):
        raise ValueError(
            f"Each snapshot needs its parameter, but there are {len(cells)} cells and {len(at)} parameters."
        )
    # In float64: rounded to float32, the weights would move in jumps, and no step in the parameter were small enough.
    tables = [{name: _precise(value) for name, value in cell.state_dict().items()} for cell in cells]
    if not tables[0]:
        raise ValueError("The cells have no weights (an empty state_dict), so there is nothing to interpolate.")
    for parameter, table in zip(at, tables, strict=True):
        _check_same_weights(tables[0], table, parameter)
    return WeightFamily(deepcopy(cells[0]).double(), tuple(tables), at, options)


@dataclass(frozen=True, eq=False)
class InputFamily:
    """One network at constant inputs that are linear in a parameter between given ones."""

    cell: Network
    inputs: Float[Tensor, "snapshots features"]
    at: tuple[float, ...]
    """The parameter of each input."""
    parameter: str
    """Name of the parameter with its unit, the label of the axis."""
    options: dict[str, Any]
    """Options of `Dynamics`."""

    def __call__(self, parameter: float) -> Dynamics:
        left, share = _position(self.at, parameter)
        return Dynamics(self.cell, (1 - share) * self.inputs[left] + share * self.inputs[left + 1], **self.options)


def interpolate_inputs(
    cell: Network,
    inputs: Float[Tensor, "snapshots ..."] | Mapping[float, Any],
    at: Sequence[float] | None = None,
    *,
    parameter: str = "parameter",
    unit: str = "",
    **options: Any,
) -> InputFamily:
    """Return one network at constant inputs that are linear in the parameter between given ones.

    Args:
        cell: the network, or a `Model`, whose encoder is applied to the inputs.
        inputs: an input for each parameter, {-1.0: left, 1.0: right}; or a tensor (snapshots, features), with the
            parameters in `at`. `recording.inputs_along("coherence", epoch="stimulus")` makes them from trials.
        at: the parameter of each row of a tensor, increasing; 0, 1, 2 ... by default.
        parameter: name of the parameter for figures: "coherence".
        unit: unit of the parameter for figures: "%".
        options: options of `Dynamics` other than its input.

    `ms.track_fixed_points(stimulus)` tracks the fixed points along such a family, with its label on the axis:

    >>> stimulus = interpolate_inputs(torch.nn.GRU(2, 8), {-1.0: [-1.0, 0.0], 1.0: [1.0, 0.0]}, parameter="coherence")
    >>> stimulus.parameter, stimulus(0.5).input.tolist()
    ('coherence', [[0.5, 0.0]])
    >>> family = interpolate_inputs(torch.nn.GRU(2, 8), torch.tensor([[0.0, 0.0], [1.0, -1.0]]))
    >>> family(0.25).input
    tensor([[ 0.2500, -0.2500]], dtype=torch.float64)

    """
    if isinstance(inputs, Mapping):
        if at is not None:
            raise ValueError("The inputs have their parameters as keys: omit at.")
        at = sorted(inputs)
        inputs = torch.stack([torch.as_tensor(inputs[place]).detach().double() for place in at])
    inputs = torch.as_tensor(inputs).detach().double()
    cell, inputs = encode_inputs(cell, inputs) if inputs.dim() == 2 else (cell, inputs)
    if inputs.dim() != 2:
        raise ValueError(f"The inputs must have shape (snapshots, features), but have {tuple(inputs.shape)}.")
    if not torch.isfinite(inputs).all():
        raise ValueError("The inputs contain NaN or infinite values.")
    parameters = increasing_parameters(range(len(inputs)) if at is None else at)
    if len(parameters) != len(inputs):
        raise ValueError(f"Each input needs its parameter, but there are {len(inputs)} and {len(parameters)}.")
    return InputFamily(cell, inputs, parameters, f"{parameter} ({unit})" if unit else parameter, options)


def increasing_parameters(at: Sequence[float]) -> tuple[float, ...]:
    """Return the parameters as numbers; raise unless they are an increasing list of at least two."""
    try:
        values = tuple(float(value) for value in at)
    except (TypeError, ValueError) as error:
        raise TypeError(f"at must be a list of at least two numbers that increase, but is {at!r}.") from error
    if len(values) < 2:
        raise ValueError(f"at needs at least two parameters, but has {len(values)}.")
    if not all(isfinite(value) for value in values):
        raise ValueError(f"at contains NaN or infinite values: {values}.")
    for before, after in pairwise(values):
        if after <= before:
            raise ValueError(f"at must increase, but {after:g} follows {before:g}. Sort the snapshots.")
    return values


def _position(at: tuple[float, ...], parameter: float) -> tuple[int, float]:
    """Return the snapshot to the left, and the share of the distance to the next one."""
    if not at[0] <= parameter <= at[-1]:
        raise ValueError(f"The family is known from {at[0]:g} to {at[-1]:g}, but was asked for {parameter:g}.")
    left = max(number for number, value in enumerate(at[:-1]) if value <= parameter)
    return left, (parameter - at[left]) / (at[left + 1] - at[left])


def _mixed(left: Tensor, right: Tensor, share: float) -> Tensor:
    if not left.is_floating_point() and not left.is_complex():
        return left
    return (1 - share) * left + share * right


def _precise(value: Tensor) -> Tensor:
    return value.detach().double() if value.is_floating_point() else value.detach().clone()


def _check_same_weights(first: dict[str, Tensor], table: dict[str, Tensor], at: float) -> None:
    """Raise unless both tables have the same names and shapes, finite weights, and equal entries of other types."""
    shapes = [{name: tuple(value.shape) for name, value in weights.items()} for weights in (first, table)]
    if shapes[0] != shapes[1]:
        wrong = sorted(name for name in {**first, **table} if shapes[0].get(name) != shapes[1].get(name))
        pairs = ", ".join(f"{name} {shapes[0].get(name)} and {shapes[1].get(name)}" for name in wrong)
        raise ValueError(f"The snapshots must be of one cell, but that at {at:g} differs in shape: {pairs}.")
    for name, value in table.items():
        numeric = value.is_floating_point() or value.is_complex()
        if numeric and not torch.isfinite(value).all():
            raise ValueError(f"The snapshot at {at:g} has weights that are NaN or infinite: {name}.")
        if not numeric and not torch.equal(value, first[name]):
            raise ValueError(f"{name} is no weight but differs between snapshots; it cannot be interpolated.")
