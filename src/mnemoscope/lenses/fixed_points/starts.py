"""Strategies that draw the starts of a fixed-point search; each is a frozen object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn.utils.rnn import PackedSequence

from mnemoscope.base.array_types import Float
from mnemoscope.base.validation import check_whole
from mnemoscope.cells import EchoState, Lengths, State, read_inputs, run_with_cache
from mnemoscope.cells.reservoirs import Reservoirs
from mnemoscope.cells.state import leaves
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.linear_algebra import magnitude, vector_norm


@runtime_checkable
class StartStrategy(Protocol):
    """Anything that draws starts for a system."""

    def draw(self, dynamics: Dynamics, generator: Generator) -> Float[Tensor, "starts size"]:
        """Return flat states in the dtype of the system."""
        ...


AT_REST = 1e-7
"""A state that moves by less in a step, relative to its size, is at rest."""
CHECK_EVERY = 5
"""Steps of the map between two searches for states at rest."""
WIDE = 2.0
"""If a coordinate has a wider box, half of its draws lie within this distance of 0."""


@dataclass(frozen=True)
class FromTrajectories:
    """States that the network visits: drawn at random from its run over `inputs`.

    Args:
        inputs: for example a batch of the task, in the layout of the network: (batch, time, features) if it is a
            torch.nn module with `batch_first`, otherwise (time, batch, features); or a `PackedSequence`.
        number: number of starts.
        noise: standard deviation of the Gaussian noise added to each start.
        rest: steps at the constant input before the search begins. Fast modes decay and slow ones stay, which saves the
            solver most of its work in a large network.
        mask: the shape of the inputs without their features, False where a sequence has no input: states there are not
            drawn.
        lengths: number of steps of each sequence, instead of a mask.

    """

    inputs: Tensor | PackedSequence
    number: int = 1024
    noise: float = 0.0
    rest: int = 0
    mask: Tensor | None = None
    lengths: Lengths | None = None

    def __post_init__(self) -> None:
        check_whole(1, number=self.number)
        check_whole(0, rest=self.rest)

    def draw(self, dynamics: Dynamics, generator: Generator) -> Float[Tensor, "starts size"]:
        if dynamics.continuous:
            raise ValueError("A flow has no trajectory over a sequence of inputs; pass its states, or use Box.")
        given = read_inputs(self.inputs, batch_first=dynamics.batch_first, mask=self.mask, lengths=self.lengths)
        with torch.no_grad():
            states = run_with_cache(dynamics.cell, given.xs.to(dynamics.input), mask=given.mask)[1].flat()
        states = states.flatten(0, 1) if given.mask is None else states[given.mask.to(states.device)]
        rows = torch.randint(0, states.shape[0], (self.number,), generator=generator)
        if self.number <= states.shape[0]:
            rows = torch.randperm(states.shape[0], generator=generator)[: self.number]
        sample = states[rows.to(states.device)]
        if self.noise:
            drawn = torch.randn(sample.shape, generator=generator, dtype=sample.dtype)
            sample = sample + self.noise * drawn.to(sample.device)
        return advance(dynamics, sample, self.rest)


@dataclass(frozen=True)
class Box:
    """Uniform in a box: the given (low, high), or the invariant box of the system.

    The box of a cell may reach to thousands (the memory of an LSTM) while its fixed points lie near 1. Such coordinates
    are drawn uniformly within `WIDE` of 0, and uniformly on a logarithmic scale beyond.
    """

    number: int = 1024
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        check_whole(1, number=self.number)
        if (self.low is None) != (self.high is None):
            raise ValueError("Box takes low and high together, or neither.")

    def draw(self, dynamics: Dynamics, generator: Generator) -> Float[Tensor, "starts size"]:
        if self.low is not None and self.high is not None:
            low, high = (torch.full_like(dynamics.origin[0], edge) for edge in (self.low, self.high))
        elif dynamics.bounds is not None:
            low, high = dynamics.bounds
        else:
            raise ValueError("No invariant box of this system is known; pass Box(number, low, high).")
        unit = torch.rand(self.number, dynamics.size, generator=generator, dtype=dynamics.dtype).to(dynamics.device)
        uniform = low + (high - low) * unit
        if self.low is not None or dynamics.declared:
            return uniform
        sign, magnitude = torch.sign(2 * unit - 1), (2 * unit - 1).abs()
        edge = torch.where(sign > 0, high, -low).clamp_min(WIDE)
        logarithmic = sign * WIDE * torch.where(magnitude < 0.5, 2 * magnitude, (edge / WIDE) ** (2 * magnitude - 1))
        return torch.where((high > WIDE) & (low < -WIDE), logarithmic, uniform)


@dataclass(frozen=True)
class FromOutputs:
    """States of a reservoir whose feedback is replaced by random constant outputs z (Jang, section 6).

    z is uniform in a cube and is fed back until the open loop settles. For a memory that stores values of +-1 the cube
    should reach beyond them, since fixed points lie inside and outside.

    Args:
        number: number of starts.
        low: lower edge of the cube, the same for every output.
        high: upper edge of the cube.
        steps: number of steps with z fed back, from the initial state on.
        rest: number of further steps with the loop closed, as in `FromTrajectories`.

    >>> from mnemoscope.cells import EchoState
    >>> dynamics = Dynamics(EchoState(3, 50, output_size=3))
    >>> FromOutputs(8).draw(dynamics, torch.Generator()).shape
    torch.Size([8, 50])

    """

    number: int = 64
    low: float = -1.5
    high: float = 1.5
    steps: int = 60
    rest: int = 20

    def __post_init__(self) -> None:
        check_whole(1, number=self.number)
        check_whole(0, steps=self.steps, rest=self.rest)
        if not -float("inf") < self.low < self.high < float("inf"):
            raise ValueError(f"FromOutputs needs finite low < high, but low is {self.low} and high is {self.high}.")

    def draw(self, dynamics: Dynamics, generator: Generator) -> Float[Tensor, "starts size"]:
        cell = dynamics.cell
        if not isinstance(cell, EchoState) or cell.feedback is None:
            raise ValueError(
                "FromOutputs feeds outputs back to a reservoir: it needs an EchoState with an output_size, but the "
                f"system is a {type(cell).__name__}{' without outputs' * isinstance(cell, EchoState)}. Use "
                "FromTrajectories or Box."
            )
        if dynamics.continuous:
            raise ValueError("FromOutputs steps a map; a flow has no steps. Pass its states, or use Box.")
        unit = torch.rand(self.number, cell.output_size, generator=generator, dtype=dynamics.dtype)
        z = (self.low + (self.high - self.low) * unit).to(dynamics.device)
        reservoir = Reservoirs([cell])
        x = reservoir.initial_state(self.number)
        with torch.no_grad():
            u = next(reservoir.driven(dynamics.input.expand(1, self.number, -1)))
            for _ in range(self.steps):
                x = reservoir.step(u, x, reservoir.rates(x), z)
        return advance(dynamics, x[0], self.rest)


def advance(dynamics: Dynamics, states: Float[Tensor, "starts size"], steps: int) -> Float[Tensor, "starts size"]:
    """Return the states after this many steps of a map."""
    if steps and dynamics.continuous:
        raise ValueError("A flow has no steps to rest for; leave rest at 0.")
    with torch.no_grad():
        for _ in range(steps):
            states = dynamics(states)
    return states


def settled(dynamics: Dynamics, states: Float[Tensor, "starts size"], steps: int) -> Float[Tensor, "starts size"]:
    """Return the states after this many steps of a map, or where they come to rest before."""
    end, now = states.clone(), states
    moving = torch.arange(len(states), device=states.device)  # the rows of `now`
    with torch.no_grad():
        for done in range(0, steps, CHECK_EVERY):
            before = now
            for _ in range(min(CHECK_EVERY, steps - done)):
                before, now = now, dynamics(now)
            end[moving] = now
            at_rest = vector_norm(now - before) <= AT_REST * magnitude(now)  # False for NaN
            moving, now = moving[~at_rest], now[~at_rest]
            if not moving.numel():
                break
    return end


def draw_starts(dynamics: Dynamics, starts: int | State | StartStrategy, generator: Generator) -> Tensor:
    """Return initial states of a simulation: random ones if a number is given, otherwise as `as_starts`.

    Random starts are uniform in the invariant box of the system, or normal about its initial state if no box is known.
    """
    if isinstance(starts, bool | str) or (isinstance(starts, int) and starts < 1):
        raise ValueError(f"starts must be a number of starts, 1 or more, states or a strategy, but is {starts!r}.")
    if not isinstance(starts, int):
        return as_starts(dynamics, starts, generator)
    if dynamics.bounds is not None:
        return Box(starts).draw(dynamics, generator)
    drawn = torch.randn(starts, dynamics.size, generator=generator, dtype=dynamics.dtype)
    return dynamics.origin + drawn.to(dynamics.device)


def as_starts(dynamics: Dynamics, starts: State | StartStrategy, generator: Generator) -> Float[Tensor, "starts size"]:
    """Return the states of a strategy, or given ones, flat or in the form of the cell, as a checked flat tensor."""
    if isinstance(starts, StartStrategy):
        starts = starts.draw(dynamics, generator)
    if isinstance(starts, str | int | float):
        raise ValueError(f'starts must be states, a strategy such as Adaptive() or "adaptive", but is {starts!r}.')
    if isinstance(starts, np.ndarray):
        starts = torch.from_numpy(starts)
    flat = starts
    if not (isinstance(starts, Tensor) and starts.dim() <= 2):
        expected = [tuple(tensor.shape[1:]) for tensor in leaves(dynamics.layout.example)]
        given = [tuple(tensor.shape[1:]) for tensor in leaves(starts)]
        if given != expected:
            raise ValueError(
                f"A state of this network consists of tensors (starts, ...) with features {expected}, "
                f"but {given} were given."
            )
        flat = dynamics.flatten(starts)
    if flat.dim() != 2 or flat.shape[1] != dynamics.size:
        raise ValueError(f"Starts must have shape (starts, {dynamics.size}), but have {tuple(flat.shape)}.")
    if flat.shape[0] == 0:
        raise ValueError("There is no start: the tensor of starts is empty.")
    bad = ~torch.isfinite(flat).all(1)
    if bad.any():
        rows = bad.nonzero()[:, 0].tolist()
        raise ValueError(f"{len(rows)} of {len(flat)} starts contain NaN or infinite values, first in row {rows[0]}.")
    return flat.detach().to(dtype=dynamics.dtype, device=dynamics.device, copy=True)
