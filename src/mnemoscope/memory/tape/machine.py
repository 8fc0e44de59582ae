"""A controller with a tape: the neural Turing machine, with slots that are vectors or matrices."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod
from typing import Any

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.base.validation import check_whole, is_number
from mnemoscope.cells.cell import Box, Cell, check_batch, check_step_input
from mnemoscope.cells.fast_path import FastPath, NoFastPath
from mnemoscope.cells.matrix import Bilinear
from mnemoscope.cells.state import map_state
from mnemoscope.kernels.gradient_clipping import clip_gradient
from mnemoscope.memory.tape.addressing import check_digits, check_reach
from mnemoscope.memory.tape.bounds import machine_box
from mnemoscope.memory.tape.fused import fused_tape
from mnemoscope.memory.tape.heads import HeadAddress, HeadOutputs, Heads, erase_and_add
from mnemoscope.memory.tape.state import TapeCell, TapeState

EMPTY = 1e-6
"""Each number of a memory that nothing was written to (Collier & Beel 2018)."""
FOCUS = 20.0
"""Heads begin at the first slot: its weight is e^20 times that of another. All slots are alike in the beginning, so
that heads which began everywhere would stay everywhere."""


class TuringMachine(TapeCell):
    """A controller that writes to and reads from a memory (Graves et al. 2014; of matrices: Renanse et al. 2021).

    At a step the controller sees the input and what was read a step ago; by what it then shows, heads write, and others
    read what is there afterwards. A head looks where the content is like its key, or where it looked before, moved by
    up to `reach` slots (the tape is a ring), and sharpened. Scans have a backward pass of their own; second derivatives
    need `backend="loop"`.

    Its output is `[h; reads]`, flat, for a readout such as that of `Model`; with an `output_shape` it is the machine's
    own readout, a linear map of h plus one of the reads, flat and without a nonlinearity (logits of bits, say), to be
    taken as it is.

    Args:
        controller: any cell that takes `[x; reads]`, flat, the reads of all heads one behind the other. What a matrix
            cell shows are matrices, of which the heads take bilinear maps.
        slots: how many slots the memory has.
        slot_shape: of one slot: (numbers,) or (rows, columns).
        read_heads: how many heads read.
        write_heads: how many write; all address the memory of the step before, erase, then add.
        reach: how far a head moves in a step.
        initial_memory: "constant", 1e-6 everywhere (Collier & Beel 2018), or "learned".
        least_strength: beta is this + softplus: 0 (Graves et al.), 1 (Renanse et al.).
        gradient_limit: each number of a gradient that a step hands back to the one before is cut to +- this (Graves et
            al., section 4.6, have 10); no limit by default. Where weights have grown, gradients grow from step to step
            beyond the numbers of float32, and what an optimiser cuts afterwards is no longer finite.
        output_shape: of its own readout; none by default.

    >>> import mnemoscope as ms
    >>> machine = TuringMachine(ms.cells.LSTM(3 + 5, 16), slots=12, slot_shape=(5,))
    >>> outputs, state = ms.scan(machine, torch.zeros(20, 4, 3))
    >>> outputs.shape, state.memory.shape, state.write_weights.shape
    (torch.Size([20, 4, 21]), torch.Size([4, 12, 5]), torch.Size([4, 1, 12]))

    """

    def __init__(
        self,
        controller: Cell,
        slots: int,
        slot_shape: Sequence[int],
        *,
        read_heads: int = 1,
        write_heads: int = 1,
        reach: int = 1,
        initial_memory: str = "constant",
        least_strength: float = 0.0,
        gradient_limit: float | None = None,
        output_shape: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        shape = _checked_shape("slot_shape", slot_shape)
        _check(controller, slots, read_heads, write_heads, reach, initial_memory, least_strength)
        if gradient_limit is not None and not (is_number(gradient_limit) and gradient_limit > 0):
            raise ValueError(f"gradient_limit must be a number above 0, or None, but is {gradient_limit!r}.")
        self.controller, self.gradient_limit = controller, gradient_limit
        slots, read_heads, write_heads, reach = map(int, (slots, read_heads, write_heads, reach))  # of NumPy, say
        self.input_size = _inputs(controller, read_heads, shape)
        self.slots, self.slot_shape = slots, shape
        self.read_heads, self.write_heads = read_heads, write_heads
        shown = self.controller_shape = _shown(controller)
        self.heads = Heads(shown, shape, read_heads, write_heads, reach, least_strength)
        bound = (slots + prod(shape)) ** -0.5
        learned = nn.Parameter(torch.empty(slots, *shape).uniform_(-bound, bound))
        self.initial_memory = learned if initial_memory == "learned" else None
        self.readouts = None
        if output_shape is not None:
            own = _checked_shape("output_shape", output_shape)
            self.readouts = nn.ModuleList(_readouts(shown, shape, read_heads, own))

    @property
    def has_readout(self) -> bool:
        """Whether it was built with an `output_shape`."""
        return self.readouts is not None

    def extra_repr(self) -> str:
        return (
            f"slots={self.slots}, slot_shape={self.slot_shape}, read_heads={self.read_heads}, "
            f"write_heads={self.write_heads}"
            + ("" if self.gradient_limit is None else f", gradient_limit={self.gradient_limit}")
        )

    def initial_state(self, batch: int) -> TapeState:
        """An empty or learned tape with all heads at the first slot."""
        own = next(self.heads.parameters())
        if self.initial_memory is None:
            memory = own.new_full((batch, self.slots, *self.slot_shape), EMPTY)
        else:
            memory = self.initial_memory.expand(batch, *self.initial_memory.shape)
        logits = torch.where(torch.arange(self.slots, device=own.device) == 0, FOCUS, 0.0)
        focus = torch.softmax(logits.to(own.dtype), dim=0)
        read, write = (focus.expand(batch, count, -1).clone() for count in (self.read_heads, self.write_heads))
        return TapeState(self.controller.initial_state(batch), memory, read, write, self._read(read, memory.flatten(2)))

    def output(self, state: TapeState) -> Float[Tensor, "batch features"]:
        return self.read_out(self.controller.output(state.controller), state.reads.flatten(2))

    def read_out(
        self, hidden: Float[Tensor, "batch features"], reads: Float[Tensor, "batch heads numbers"]
    ) -> Float[Tensor, "batch outputs"]:
        """Its output, from what the controller shows, flat, and what was read."""
        if self.readouts is None:
            return torch.cat([hidden, reads.flatten(1)], dim=1)
        from_hidden, from_reads = self.readouts
        hidden = hidden.unflatten(1, self.controller_shape)
        return (from_hidden(hidden) + from_reads(self._arranged(reads, from_reads))).flatten(1)

    def forward(self, x: Float[Tensor, "batch features"], state: TapeState) -> TapeState:
        check_step_input(self, x)
        self._check_state(state)
        check_batch(len(x), state)
        limit = self.gradient_limit
        if limit is not None:
            state = map_state(lambda part: clip_gradient(part, limit), state)
        inner = self.controller(torch.cat([x, state.reads.flatten(1)], dim=1), state.controller)
        return self._turn(inner, self._orders(inner), state)

    def _orders(self, inner: Any) -> HeadOutputs:
        return self.heads(self.controller.output(inner).unflatten(1, self.controller_shape))

    def intermediates(self, x: Float[Tensor, "batch features"], state: TapeState) -> dict[str, Tensor]:
        """What the heads were told; those that write come first."""
        inner = self.controller(torch.cat([x, state.reads.flatten(1)], dim=1), state.controller)
        orders = self._orders(inner)
        told = HeadAddress(*(torch.cat(pair, dim=1) for pair in zip(orders.write, orders.read, strict=True)))
        shaped = {"key": told.key, "erase": orders.erase, "add": orders.add}
        return {
            **{name: part.unflatten(2, self.slot_shape) for name, part in shaped.items()},
            "strength": told.strength.squeeze(2),
            "gate": told.gate.squeeze(2),
            "shift": told.shift,
            "gamma": told.gamma.squeeze(2),
        }

    def bounds(self, low: Float[Tensor, " features"], high: Float[Tensor, " features"]) -> Box | None:
        """What heads write and read, and where, stays in a box where what the controller shows does: `machine_box`."""
        return machine_box(self, low, high)

    def fast_path(self, xs: Tensor, state: TapeState, mask: Tensor | None) -> FastPath | NoFastPath:
        """One operator with a backward pass of its own; second derivatives need `backend="loop"`."""
        self._check_state(state)
        return fused_tape(self, xs, state, mask)

    def _check_state(self, state: TapeState) -> None:
        """Raise where a state is that of another machine, or of too few digits."""
        if not isinstance(state, TapeState):
            raise TypeError(
                f"The state of a machine is a TapeState, but a {type(state).__name__} was given; see initial_state."
            )
        check_digits(state.memory)
        expected = {
            "memory": (self.slots, *self.slot_shape),
            "read_weights": (self.read_heads, self.slots),
            "write_weights": (self.write_heads, self.slots),
            "reads": (self.read_heads, *self.slot_shape),
        }
        for name, shape in expected.items():
            given = tuple(getattr(state, name).shape)
            if given != (len(state.memory), *shape):
                raise ValueError(
                    f"The {name.replace('_', ' ')} of a state must be of shape (batch, {', '.join(map(str, shape))}), "
                    f"with one batch for all its parts, but those of the given state are {given}."
                )

    def _turn(self, inner: Any, orders: HeadOutputs, state: TapeState) -> TapeState:
        """Write, then read; under autocast with all digits of the state, as rounding errors on a tape add up."""
        memory = state.memory.flatten(2)
        if torch.is_autocast_enabled(memory.device.type):
            with torch.autocast(memory.device.type, enabled=False):
                return self._turn(inner, map_state(lambda part: part.to(memory.dtype), orders), state)
        write = orders.write.on(memory, state.write_weights)
        memory = erase_and_add(memory, write, orders.erase, orders.add)
        read = orders.read.on(memory, state.read_weights)
        return TapeState(inner, memory.unflatten(2, self.slot_shape), read, write, self._read(read, memory))

    def _read(self, weights: Tensor, memory: Tensor) -> Tensor:
        """`r = sum_i w(i) M(i)` (Graves et al., Eq 2), (batch, heads, *slot_shape)."""
        return (weights @ memory).unflatten(2, self.slot_shape)

    def _arranged(self, reads: Tensor, readout: nn.Module) -> Tensor:
        """The reads as the readout takes them: one vector, or matrices side by side."""
        if not isinstance(readout, Bilinear):
            return reads.flatten(1)
        rows, columns = self.slot_shape if len(self.slot_shape) == 2 else (*self.slot_shape, 1)
        return reads.unflatten(2, (rows, columns)).transpose(1, 2).flatten(2)


def _inputs(controller: Cell, read_heads: int, slot_shape: tuple[int, ...]) -> int:
    """What is left of the controller's inputs beside the reads, or an error in words."""
    name, reads = type(controller).__name__, read_heads * prod(slot_shape)
    if controller.input_size is None:
        raise ValueError(f"A controller must know how many inputs it takes, but this {name} does not.")
    shown = controller.output(controller.initial_state(1))
    if controller.grows or shown.dim() != 2 or shown.is_complex():
        raise ValueError(
            f"A controller shows real vectors (batch, features) and keeps its size, but this {name} does not."
        )
    if controller.input_size <= reads:
        raise ValueError(
            f"The controller takes {controller.input_size} numbers, [x; reads], but the reads alone are {reads}: its "
            f"input_size must be the features of x + {reads}."
        )
    matrices = getattr(controller, "input_shapes", None)
    if matrices is not None:
        expected = [slot_shape if len(slot_shape) == 2 else (*slot_shape, 1)] * read_heads
        if list(matrices[-read_heads:]) != expected or len(matrices) == read_heads:
            raise ValueError(
                f"The last inputs of a controller of matrices are the reads, here {expected}, and come after those of "
                f"x, but this {name} takes {matrices}."
            )
    return controller.input_size - reads


def _shown(controller: Cell) -> tuple[int, ...]:
    """The shape of what a controller shows: two numbers for matrices."""
    features = controller.output(controller.initial_state(1)).shape[-1]
    shape = getattr(controller, "state_shape", None)
    return tuple(shape) if shape is not None and prod(shape) == features else (features,)


def _readouts(
    shown: tuple[int, ...], slot_shape: tuple[int, ...], read_heads: int, shape: tuple[int, ...]
) -> list[nn.Module]:
    """Two maps to the output, of what the controller shows and of what was read, each with a bias as released."""
    if len(shown) == 1:
        return [nn.Linear(shown[0], prod(shape)), nn.Linear(read_heads * prod(slot_shape), prod(shape))]
    if len(shape) != 2:
        raise ValueError(f"Matrices are read out as a matrix, but output_shape is {shape}; give (rows, columns).")
    rows, columns = slot_shape if len(slot_shape) == 2 else (*slot_shape, 1)
    return [
        Bilinear((shown[0], shown[1]), (shape[0], shape[1])),
        Bilinear((rows, columns * read_heads), (shape[0], shape[1])),
    ]


def _checked_shape(name: str, shape: Any) -> tuple[int, ...]:
    """As a tuple of positive numbers, or an error in words."""
    sizes = tuple(shape) if isinstance(shape, Sequence) and not isinstance(shape, str) else ()
    if len(sizes) not in (1, 2):
        raise ValueError(f"{name} must be (numbers,) or (rows, columns), but is {shape!r}.")
    check_whole(1, **{f"{name}[{place}]": size for place, size in enumerate(sizes)})
    return tuple(map(int, sizes))


def _check(
    controller: Any, slots: Any, read_heads: Any, write_heads: Any, reach: Any, initial_memory: Any, least: Any
) -> None:
    if not isinstance(controller, Cell):
        raise TypeError(
            f"The controller must be a cell, but is {controller!r}; mnemoscope.adapt makes one of a network of torch."
        )
    check_whole(1, slots=slots, read_heads=read_heads, write_heads=write_heads)
    check_whole(0, reach=reach)
    check_reach(int(slots), 2 * int(reach) + 1)
    if not (is_number(least) and 0 <= least < inf):
        raise ValueError(f"least_strength must be a finite number, at least 0, but is {least!r}.")
    if initial_memory not in ("constant", "learned"):
        raise ValueError(f'initial_memory must be "constant" or "learned", but is {initial_memory!r}.')
