"""A network and its readout, linearised where it rests: h - h* -> A (h - h*) + B u, read by C."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.cells import Cell, Elman, Model, adapt
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.lens import find_fixed_points

Readout = nn.Module | Float[Tensor, "outputs features"] | Callable[[Tensor], Tensor]

FIT_TOLERANCE = 1e-6
"""Directions in which the states vary by less than this share of the most are not fitted."""
MOST_DERIVATIVES = 256


@dataclass(frozen=True)
class Linearised:
    """A, B, C at the fixed point h* of a network without input (Karuvally et al. 2023, Eq 35-37), and the network.

    The readout sees `cell.output(state)`; C is its derivative by the flat state.
    """

    A: Float[Tensor, "units units"]
    B: Float[Tensor, "units features"]
    C: Float[Tensor, "outputs units"]
    fixed_point: Float[Tensor, " units"]
    dynamics: Dynamics
    readout: Callable[[Tensor], Tensor]
    name: str
    linear: bool
    """Whether the network is linear itself, and nothing was lost."""
    kinks: int
    """Units that rest where their nonlinearity has no derivative."""
    fitted: bool = False
    """Whether A was fitted to states, which are counted from their mean."""

    @property
    def rest_outputs(self) -> Float[Tensor, " outputs"]:
        """What the readout gives at rest."""
        with torch.no_grad():
            return self.outputs(self.fixed_point[None])[0]

    @property
    def units(self) -> int:
        """Numbers in a state."""
        return len(self.A)

    def outputs(self, states: Float[Tensor, "*batch units"]) -> Float[Tensor, "*batch outputs"]:
        """What the readout gives at flat states."""
        flat = states.reshape(-1, self.units)
        seen = self.readout(self.dynamics.cell.output(self.dynamics.layout.unflatten(flat)))
        return seen.unflatten(0, states.shape[:-1])

    @torch.no_grad()
    def states(self, inputs: Float[Tensor, "time batch features"]) -> Float[Tensor, "time batch units"]:
        """Flat states after every input, from the network's own initial state."""
        state = self.dynamics.origin.expand(inputs.shape[1], -1)
        path = []
        for x in inputs.to(self.A).unbind(0):
            state = self.dynamics.driven(x, state)
            path.append(state)
        return torch.stack(path)

    @torch.no_grad()
    def free_run(self, state: Float[Tensor, "batch units"], steps: int) -> Float[Tensor, "time batch units"]:
        """States without input."""
        path = []
        for _ in range(steps):
            state = self.dynamics(state)
            path.append(state)
        return torch.stack(path)


def linearised(network: Any, readout: Readout | None = None, rest: Float[Tensor, " units"] | None = None) -> Linearised:
    """Take in a `Model`, or any network with its readout, and linearise it at `rest`, by default the fixed point
    nearest to its initial state.
    """
    cell, read = _parts(network, readout)
    dynamics = Dynamics(cell)
    size = dynamics.layout.size
    rest = _rest(dynamics) if rest is None else _fixed(dynamics, rest)
    A = dynamics.jacobian(rest[None])[0]
    B = dynamics.input_jacobian(rest[None])
    features = dynamics.cell.output(dynamics.layout.unflatten(rest[None])).shape[-1]
    read = _as_function(read, features)

    def seen(state: Tensor) -> Tensor:
        return read(dynamics.cell.output(dynamics.layout.unflatten(state[None])))[0]

    C = torch.func.jacrev(seen)(rest).reshape(-1, size).detach()
    cell = dynamics.cell
    phi = cell.phi.description() if isinstance(cell, Elman) else None
    name = f"{type(cell).__name__}{f' ({phi.name})' if phi is not None else ''}, {size} numbers in a state"
    linear = phi is not None and phi.name == "linear"
    return Linearised(A.detach(), B.detach(), C, rest, dynamics, read, name, linear, _kinks(dynamics, rest))


@torch.no_grad()
def fitted(network: Linearised, inputs: Float[Tensor, "time batch features"]) -> Linearised:
    """The same network, with the linear step that comes nearest to its own along its states once inputs have ended.

    A by least squares over all pairs of successive states, around their mean; B is the mean derivative by the input
    over the states that inputs met. Where a network saturates, this is what it does to large states.
    """
    silent = silence(inputs)
    states = network.states(inputs)
    after = states[silent:]
    if len(after) < 3:
        raise ValueError("A linear step is fitted to states without input: inputs must end, and zeros follow.")
    mean = after.flatten(0, 1).mean(0)
    before, then = (part.flatten(0, 1) - mean for part in (after[:-1], after[1:]))
    A = torch.linalg.lstsq(before, then, rcond=FIT_TOLERANCE, driver="gelsd").solution.mT
    start = network.dynamics.origin.expand(inputs.shape[1], -1)[None]
    met = torch.cat([start, states[: max(silent - 1, 0)]]).flatten(0, 1)[:MOST_DERIVATIVES]
    B = torch.stack([network.dynamics.input_jacobian(state[None]) for state in met]).mean(0)
    C = torch.func.jacrev(lambda state: network.outputs(state[None])[0])(mean).reshape(-1, network.units)
    return replace(network, A=A, B=B, C=C, fixed_point=mean, linear=False, fitted=True)


def checked_inputs(network: Linearised, inputs: Any) -> Float[Tensor, "time batch features"]:
    """Inputs in float64, or an error that says which shape they should have."""
    inputs = torch.as_tensor(inputs)
    features = network.B.shape[1]
    if inputs.dim() != 3 or inputs.shape[2] != features or not inputs.shape[0] or not inputs.shape[1]:
        raise ValueError(f"inputs must be (time, batch, {features}), but are {tuple(inputs.shape)}.")
    if not torch.isfinite(inputs).all():
        raise ValueError("inputs contain NaN or infinite values.")
    return inputs.detach().to(network.A)


def silence(inputs: Float[Tensor, "time batch features"]) -> int:
    """The first time without input from there on."""
    active = inputs.flatten(1).any(1).nonzero().flatten()
    return int(active[-1]) + 1 if len(active) else 0


def _parts(network: Any, readout: Readout | None) -> tuple[Cell, Readout]:
    if isinstance(network, Model):
        if readout is not None:
            raise ValueError("A Model has its own readout; pass model.cell to look at it with another one.")
        if not isinstance(network.encode, nn.Identity):
            network = _Encoded(network)
            return network, network.readout
        return network.cell, network.readout
    if readout is None:
        raise ValueError(
            "The readout is what tells which direction is which variable: pass readout=..., an nn.Linear or a matrix "
            "(outputs, features), or a mnemoscope Model."
        )
    return adapt(network), readout


class _Encoded(Cell):
    """A cell that sees its inputs through the encoder of its model."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.encode, self.cell, self.readout = model.encode, model.cell, model.readout
        weight = next(iter(model.encode.parameters()), None)
        self.input_size = model.cell.input_size if weight is None else weight.shape[-1]

    def initial_state(self, batch: int) -> Any:
        return self.cell.initial_state(batch)

    def forward(self, x: Tensor, state: Any) -> Any:
        return self.cell(self.encode(x), state)

    def output(self, state: Any) -> Tensor:
        return self.cell.output(state)


def _as_function(readout: Readout, features: int) -> Callable[[Tensor], Tensor]:
    if isinstance(readout, Tensor):
        if readout.dim() != 2 or readout.shape[1] != features:
            raise ValueError(f"The readout must be (outputs, {features}), but its shape is {tuple(readout.shape)}.")
        W = readout.detach().to(device="cpu", dtype=torch.float64).clone()
        return lambda seen: seen @ W.mT
    if isinstance(readout, nn.Linear):
        if readout.in_features != features:
            raise ValueError(f"The readout takes {readout.in_features} features, but the network gives {features}.")
        W = readout.weight.detach().to(device="cpu", dtype=torch.float64).clone()
        b = 0.0 if readout.bias is None else readout.bias.detach().to(device="cpu", dtype=torch.float64).clone()
        return lambda seen: seen @ W.mT + b
    if isinstance(readout, nn.Module):
        return deepcopy(readout).eval().requires_grad_(False).to(device="cpu", dtype=torch.float64)
    if callable(readout):
        return _in_double(readout)
    raise TypeError(f"readout must be an nn.Linear, a matrix or a function, but is a {type(readout).__name__}.")


def _in_double(readout: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def read(seen: Tensor) -> Tensor:
        try:
            return readout(seen)
        except RuntimeError as error:
            raise ValueError(
                f"The readout is given float64 and cannot take it ({error}): pass the module itself, or a function of "
                f"float64."
            ) from error

    return read


def _rest(dynamics: Dynamics) -> Float[Tensor, " units"]:
    """The fixed point that is reached from the initial state, or else the one nearest to it."""
    fp = find_fixed_points(dynamics, dynamics.origin, progress=False)
    if not len(fp):
        fp = find_fixed_points(dynamics, "adaptive", progress=False)
    if not len(fp):
        raise ValueError(
            "No fixed point was found at zero input, so that there is nowhere to linearise: this network never rests."
        )
    return fp.states[(fp.states - dynamics.origin).norm(dim=1).argmin()]


def _kinks(dynamics: Dynamics, rest: Tensor) -> int:
    """How many units of a relu network are just at its kink."""
    cell = dynamics.cell
    phi = cell.phi.description() if isinstance(cell, Elman) else None
    if phi is None or phi.name != "relu":
        return 0
    before = cell.intermediates(dynamics.input, rest[None])["pre"]
    return int((before.abs() <= 1e-12 * max(1.0, float(before.abs().max()))).sum())


def _fixed(dynamics: Dynamics, given: Tensor) -> Float[Tensor, " units"]:
    rest = torch.as_tensor(given).detach().to(device=dynamics.device, dtype=dynamics.dtype).flatten()
    if rest.shape != (dynamics.size,):
        raise ValueError(f"rest must have the {dynamics.size} numbers of a state, but has {rest.numel()}.")
    with torch.no_grad():
        speed = float(dynamics.residual(rest[None]).abs().max())
    if not speed <= 1e-6:
        raise ValueError(f"The network does not rest at the state given: it moves by {speed:.3g} in a step.")
    return rest
