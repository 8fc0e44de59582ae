"""Any lens on a system, applied to one network at several constant inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from mnemoscope.base.validation import check_type
from mnemoscope.cells import Model, Network
from mnemoscope.lenses.conditions.result import ByCondition
from mnemoscope.lenses.dynamics import Dynamics, Vector
from mnemoscope.lenses.model_inputs import encode_inputs
from mnemoscope.lenses.result import Result


def by_condition(
    lens: Callable[..., Result],
    network: Network | Mapping[str, Dynamics],
    inputs: Mapping[str, Vector | None] | None = None,
    **options: Any,
) -> ByCondition:
    """Apply a lens to a network at several constant inputs, and return its results by the name of the condition.

    Args:
        lens: a function that takes a `Dynamics` first: `ms.find_fixed_points`, `ms.find_slow_manifold`,
            `ms.find_cycles`, `ms.find_attractors`, `ms.lyapunov_spectrum`, `ms.selection_vectors`.
        network: a `Model`, a cell, or a torch.nn module that `adapt` takes; or the systems themselves, by name.
        inputs: the constant input of each condition, by name; None for no input. A recording makes them from the trials
            of a task: `recording.mean_inputs("context", epoch="stimulus")`. The encoder of a model is applied.
        options: options of the lens. An option that is a `ByCondition`, or a dict with exactly these conditions, gives
            each condition its own value.

    >>> import mnemoscope as ms
    >>> wells = ms.adapt(lambda x, h: torch.tanh(2 * h + x), state_size=1, input_size=1, bounds=(-1, 1))
    >>> points = ms.by_condition(ms.find_fixed_points, wells, {"rest": [0.0], "push": [1.0]})
    >>> {name: len(fp) for name, fp in points.items()}
    {'rest': 3, 'push': 1}

    """
    systems = _systems(network, inputs)
    results = {
        name: lens(system, **{key: _own(value, name, systems) for key, value in options.items()})
        for name, system in systems.items()
    }
    return ByCondition(tuple(results), tuple(results.values()))


def _systems(
    network: Network | Mapping[str, Dynamics], inputs: Mapping[str, Vector | None] | None
) -> Mapping[str, Dynamics]:
    if isinstance(network, Mapping):
        if inputs is not None:
            raise ValueError("Systems that are given by name have their constant inputs already: omit the inputs.")
        systems = network
    elif inputs is None:
        raise ValueError('Pass the constant inputs by name: inputs={"motion": x1, "colour": x2}.')
    else:
        check_type(Mapping, 'constant inputs by name, such as {"motion": x1, "colour": x2}', inputs=inputs)
        systems = {str(name): _system(network, vector) for name, vector in inputs.items()}
    if not systems:
        raise ValueError("There is no condition: name at least one constant input.")
    return systems


def _system(network: Network, vector: Vector | None) -> Dynamics:
    if vector is None:
        return Dynamics(network.cell if isinstance(network, Model) else network)
    cell, inputs = encode_inputs(network, torch.as_tensor(vector).unsqueeze(0))
    return Dynamics(cell, inputs[0])


def _own(value: Any, name: str, systems: Mapping[str, Dynamics]) -> Any:
    """Return the value of an option for one condition."""
    return value[name] if isinstance(value, Mapping) and {*value} == {*systems} else value
