"""Linearisation of a network and its readout at a fixed point: h - h* -> A (h - h*) + B u, with outputs C (h - h*)."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from mnemoscope.base.array_types import Float
from mnemoscope.cells import Cell, Elman, Model, as_cell, read_inputs
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.lens import find_fixed_points

Readout = nn.Module | Float[Tensor, "outputs read"] | Callable[[Tensor], Tensor]

FIT_TOLERANCE = 1e-6
"""Singular values of the states below this share of the largest are ignored in the fit of A."""
MOST_DERIVATIVES = 256
"""Most states over which B is averaged."""


@dataclass(frozen=True)
class Linearisation:
    """A, B, C at the fixed point h* of a network without input (Karuvally et al. 2023, Eq 35-37), and the network.

    The readout acts on `cell.output_at(0, state)`; C is its derivative with respect to the flat state.
    """

    A: Float[Tensor, "units units"]
    B: Float[Tensor, "units features"]
    C: Float[Tensor, "outputs units"]
    fixed_point: Float[Tensor, " units"]
    dynamics: Dynamics
    readout: Callable[[Tensor], Tensor]
    name: str
    """Cell, nonlinearity and number of units, for messages."""
    linear: bool
    """Whether the network itself is linear, so that A, B, C are exact."""
    kinks: int
    """Number of units at a point where their nonlinearity has no derivative."""
    fitted: bool = False
    """Whether A was fitted to states; `fixed_point` is then the mean of these states."""
    precision: float = torch.finfo(torch.float64).eps
    """Relative rounding error of the weights as they were given."""

    @property
    def rest_outputs(self) -> Float[Tensor, " outputs"]:
        """Outputs at the fixed point."""
        with torch.no_grad():
            return self.outputs(self.fixed_point[None])[0]

    @property
    def units(self) -> int:
        """Numbers in a state."""
        return len(self.A)

    def outputs(self, states: Float[Tensor, "*batch units"]) -> Float[Tensor, "*batch outputs"]:
        """Return the outputs at flat states."""
        flat = states.reshape(-1, self.units)
        outputs = self.readout(self.dynamics.output(flat))
        return outputs.unflatten(0, states.shape[:-1])

    @torch.no_grad()
    def states(self, inputs: Float[Tensor, "time batch features"]) -> Float[Tensor, "time batch units"]:
        """Return the flat states after every input, from the initial state of the network."""
        state = self.dynamics.origin.expand(inputs.shape[1], -1)
        path = []
        for x in inputs.to(self.A).unbind(0):
            state = self.dynamics.driven(x, state)
            path.append(state)
        return torch.stack(path)

    @torch.no_grad()
    def free_run(self, state: Float[Tensor, "batch units"], steps: int) -> Float[Tensor, "time batch units"]:
        """Return the states after each step without input."""
        path = []
        for _ in range(steps):
            state = self.dynamics(state)
            path.append(state)
        return torch.stack(path)


def linearise(
    network: Any, readout: Readout | None = None, rest: Float[Tensor, " units"] | None = None
) -> Linearisation:
    """Linearise a `Model`, or any network with its readout, at `rest`.

    By default `rest` is the fixed point nearest to the initial state.
    """
    cell, readout = _cell_and_readout(network, readout)
    dynamics = Dynamics(cell, device="cpu")
    size = dynamics.layout.size
    rest = _nearest_fixed_point(dynamics) if rest is None else _check_fixed_point(dynamics, rest)
    A = dynamics.jacobian(rest[None])[0]
    B = dynamics.input_jacobian(rest[None])
    read = _as_function(readout, dynamics.cell.output_features)

    def output(state: Tensor) -> Tensor:
        return read(dynamics.output(state[None]))[0]

    C = torch.func.jacrev(output)(rest).reshape(-1, size).detach()
    phi = _nonlinearity(dynamics.cell)
    name = f"{type(dynamics.cell).__name__}{f' ({phi})' if phi else ''}, {size} numbers in a state"
    kinks, precision = _count_kinks(dynamics, rest), _precision(cell, readout)
    linear = phi == "linear"
    return Linearisation(A.detach(), B.detach(), C, rest, dynamics, read, name, linear, kinks, precision=precision)


@torch.no_grad()
def fit_to_states(network: Linearisation, inputs: Float[Tensor, "time batch features"]) -> Linearisation:
    """Replace A, B, C by a linear step fitted to the states of the network after its inputs.

    A is the least-squares map between successive states without input, around their mean. B is the mean derivative with
    respect to the input, over the states at which inputs arrive. For a network that saturates, this describes its
    effect on large states.
    """
    end = input_duration(inputs)
    states = network.states(inputs)
    after = states[end:]
    if len(after) < 3:
        raise ValueError("A linear step is fitted to states without input: inputs must end, and zeros follow.")
    mean = after.flatten(0, 1).mean(0)
    before, then = (part.flatten(0, 1) - mean for part in (after[:-1], after[1:]))
    A = torch.linalg.lstsq(before, then, rcond=FIT_TOLERANCE, driver="gelsd").solution.mT
    start = network.dynamics.origin.expand(inputs.shape[1], -1)[None]
    driven = torch.cat([start, states[: max(end - 1, 0)]]).flatten(0, 1)[:MOST_DERIVATIVES]
    B = torch.stack([network.dynamics.input_jacobian(state[None]) for state in driven]).mean(0)
    C = torch.func.jacrev(lambda state: network.outputs(state[None])[0])(mean).reshape(-1, network.units)
    return replace(network, A=A, B=B, C=C, fixed_point=mean, linear=False, fitted=True)


def check_inputs(network: Linearisation, inputs: Any) -> Float[Tensor, "time batch features"]:
    """Return the inputs time first, in float64; raise if shape or lengths are wrong or a value is not finite."""
    given = inputs if isinstance(inputs, PackedSequence) else torch.as_tensor(inputs)
    read, features = read_inputs(given, batch_first=network.dynamics.batch_first), network.B.shape[1]
    inputs = read.xs
    if read.mask is not None:
        steps = sorted({*read.mask.sum(0).tolist()})
        raise ValueError(
            f"All trials must have the same length, as states are changed at the same step of each, but they have "
            f"{steps[0]} to {steps[-1]} steps: pass those of one length at a time."
        )
    if inputs.dim() != 3 or inputs.shape[2] != features or not inputs.shape[0] or not inputs.shape[1]:
        order = "batch, time" if read.batch_first else "time, batch"
        raise ValueError(f"inputs must be ({order}, {features}), but are {tuple(read.in_layout(inputs).shape)}.")
    if not torch.isfinite(inputs).all():
        raise ValueError("inputs contain NaN or infinite values.")
    return inputs.detach().to(network.A)


def input_duration(inputs: Float[Tensor, "time batch features"]) -> int:
    """Return the number of steps up to the last nonzero input."""
    active = inputs.flatten(1).any(1).nonzero().flatten()
    return int(active[-1]) + 1 if len(active) else 0


def _cell_and_readout(network: Any, readout: Readout | None) -> tuple[Cell, Readout]:
    if isinstance(network, Model):
        if readout is not None:
            raise ValueError("A Model has its own readout; pass model.cell to combine it with another one.")
        if not isinstance(network.encode, nn.Identity):
            network = _EncodedCell(network)
            return network, network.readout
        return network.cell, network.readout
    if readout is None:
        raise ValueError(
            "The readout determines which direction belongs to which variable: pass readout=..., an nn.Linear or a "
            "matrix (outputs, features), or a mnemoscope Model."
        )
    return as_cell(network), readout


class _EncodedCell(Cell):
    """A cell together with the encoder of its model."""

    takes_integers = True

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.encode, self.cell, self.readout = model.encode, model.cell, model.readout
        self.batch_first = model.cell.batch_first
        weight = next(iter(model.encode.parameters()), None)
        self.input_size = model.cell.input_size if weight is None else weight.shape[-1]
        self.reads_input = model.cell.reads_input

    def initial_state(self, batch: int) -> Any:
        return self.cell.initial_state(batch)

    def forward(self, x: Tensor, state: Any) -> Any:
        return self.cell(self.encode(x), state)

    def output(self, state: Any) -> Tensor:
        return self.cell.output(state)

    def output_at(self, x: Tensor, state: Any) -> Tensor:
        return self.cell.output_at(self.encode(x), state)

    @property
    def output_features(self) -> int:
        return self.cell.output_features


def _as_function(readout: Readout, features: int) -> Callable[[Tensor], Tensor]:
    if isinstance(readout, Tensor):
        if readout.dim() != 2 or readout.shape[1] != features:
            raise ValueError(f"The readout must be (outputs, {features}), but its shape is {tuple(readout.shape)}.")
        W = readout.detach().to(device="cpu", dtype=torch.float64).clone()
        return lambda output: output @ W.mT
    if isinstance(readout, nn.Linear) and readout.in_features != features:
        raise ValueError(f"The readout takes {readout.in_features} features, but the network gives {features}.")
    if isinstance(readout, nn.Module):
        return deepcopy(readout).eval().requires_grad_(False).to(device="cpu", dtype=torch.float64)
    if callable(readout):
        return _explain_dtype_errors(readout)
    raise TypeError(f"readout must be an nn.Linear, a matrix or a function, but is a {type(readout).__name__}.")


def _explain_dtype_errors(readout: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def read(output: Tensor) -> Tensor:
        try:
            return readout(output)
        except RuntimeError as error:
            raise ValueError(
                f"The readout is given float64 and cannot take it ({error}): pass the module itself, or a function of "
                f"float64."
            ) from error

    return read


def _nearest_fixed_point(dynamics: Dynamics) -> Float[Tensor, " units"]:
    """Return the fixed point reached from the initial state, or else the one nearest to it."""
    fp = find_fixed_points(dynamics, dynamics.origin, progress=False)
    if not len(fp):
        fp = find_fixed_points(dynamics, "adaptive", progress=False)
    if not len(fp):
        raise ValueError("No fixed point was found at zero input, so there is no point at which to linearise.")
    return fp.states[(fp.states - dynamics.origin).norm(dim=1).argmin()]


def _precision(*parts: Any) -> float:
    """Return the relative rounding error of the least precise weight; that of float64 if there are none."""
    tensors = [tensor for part in parts for tensor in (part.parameters() if isinstance(part, nn.Module) else [part])]
    dtypes = {tensor.dtype for tensor in tensors if isinstance(tensor, Tensor) and tensor.is_floating_point()}
    return max(torch.finfo(dtype).eps for dtype in dtypes | {torch.float64})


def _nonlinearity(cell: Cell) -> str:
    """Return the name of the nonlinearity of an Elman cell; empty for other cells and functions without a name."""
    known = cell.phi.description() if isinstance(cell, Elman) else None
    return "" if known is None else known.name


def _count_kinks(dynamics: Dynamics, rest: Tensor) -> int:
    """Return the number of relu units whose input is 0 at the fixed point."""
    if _nonlinearity(dynamics.cell) != "relu":
        return 0
    before = dynamics.cell.intermediates(dynamics.input, rest[None])["pre"]
    return int((before.abs() <= 1e-12 * max(1.0, float(before.abs().max()))).sum())


def _check_fixed_point(dynamics: Dynamics, given: Tensor) -> Float[Tensor, " units"]:
    rest = torch.as_tensor(given).detach().to(device=dynamics.device, dtype=dynamics.dtype).flatten()
    if rest.shape != (dynamics.size,):
        raise ValueError(f"rest must have the {dynamics.size} numbers of a state, but has {rest.numel()}.")
    with torch.no_grad():
        speed = float(dynamics.residual(rest[None]).abs().max())
    if not speed <= 1e-6:
        raise ValueError(f"rest must be a fixed point, but the network moves by {speed:.3g} in a step from there.")
    return rest
