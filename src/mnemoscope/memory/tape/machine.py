"""The neural Turing machine: a controller with a memory whose slots are vectors or matrices."""

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
"""Value of each number of the constant initial memory (Collier & Beel 2018)."""
FOCUS = 20.0
"""Logit of the first slot in the initial weights: its weight is e^20 times that of another. The initial slots are
equal, so that heads with uniform initial weights would stay uniform."""


class TuringMachine(TapeCell):
    """A controller that writes to and reads from a memory (Graves et al. 2014; matrix slots: Renanse et al. 2021).

    At each step the controller sees the input and the previous reads. Its output determines the parameters of the
    heads: the write heads change the memory, then the read heads read it. A head addresses slots by similarity to its
    key, or by its previous weights, shifted by up to `reach` slots (the tape is a ring) and sharpened. Scans have a
    separate backward pass; second derivatives need `backend="loop"`.

    The output is `[h; reads]`, flat, for a readout such as that of `Model`. With an `output_shape` the machine has a
    readout, a linear map of h plus one of the reads; the output is then flat and without a nonlinearity, for example
    the logits of bits.

    Args:
        controller: any cell that takes `[x; reads]`, flat, with the reads of all heads concatenated. For a controller
            with a matrix state the heads use bilinear maps.
        slots: number of slots of the memory.
        slot_shape: shape of a slot: (numbers,) or (rows, columns).
        read_heads: number of read heads.
        write_heads: number of write heads; all address the memory of the previous step, erase, then add.
        reach: largest shift of a head in one step.
        initial_memory: "constant", 1e-6 everywhere (Collier & Beel 2018), or "learned".
        least_strength: beta is `least_strength + softplus`: 0 (Graves et al.), 1 (Renanse et al.).
        gradient_limit: clips each number of the gradient between steps to +- this limit (10 in Graves et al., section
            4.6); None for no limit. With large weights, gradients can grow beyond the range of float32 within a scan,
            and clipping in the optimiser comes too late.
        output_shape: shape of the output of the machine's readout; None for no readout.

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
        # they may be NumPy integers
        slots, read_heads, write_heads, reach = map(int, (slots, read_heads, write_heads, reach))
        self.input_size = _inputs(controller, read_heads, shape)
        self.slots, self.slot_shape = slots, shape
        self.read_heads, self.write_heads = read_heads, write_heads
        hidden = self.controller_shape = _controller_shape(controller)
        self.heads = Heads(hidden, shape, read_heads, write_heads, reach, least_strength)
        bound = (slots + prod(shape)) ** -0.5
        learned = nn.Parameter(torch.empty(slots, *shape).uniform_(-bound, bound))
        self.initial_memory = learned if initial_memory == "learned" else None
        self.readouts = None
        if output_shape is not None:
            out = _checked_shape("output_shape", output_shape)
            self.readouts = nn.ModuleList(_readouts(hidden, shape, read_heads, out))

    @property
    def has_readout(self) -> bool:
        """Whether the machine has a readout, from an `output_shape`."""
        return self.readouts is not None

    def extra_repr(self) -> str:
        return (
            f"slots={self.slots}, slot_shape={self.slot_shape}, read_heads={self.read_heads}, "
            f"write_heads={self.write_heads}"
            + ("" if self.gradient_limit is None else f", gradient_limit={self.gradient_limit}")
        )

    def initial_state(self, batch: int) -> TapeState:
        """Return a constant or learned memory, with all heads at the first slot."""
        like = next(self.heads.parameters())
        if self.initial_memory is None:
            memory = like.new_full((batch, self.slots, *self.slot_shape), EMPTY)
        else:
            memory = self.initial_memory.expand(batch, *self.initial_memory.shape)
        logits = torch.where(torch.arange(self.slots, device=like.device) == 0, FOCUS, 0.0)
        focus = torch.softmax(logits.to(like.dtype), dim=0)
        read, write = (focus.expand(batch, count, -1).clone() for count in (self.read_heads, self.write_heads))
        return TapeState(self.controller.initial_state(batch), memory, read, write, self._read(read, memory.flatten(2)))

    def output(self, state: TapeState) -> Float[Tensor, "batch features"]:
        return self.read_out(self.controller.output(state.controller), state.reads.flatten(2))

    def read_out(
        self, hidden: Float[Tensor, "batch features"], reads: Float[Tensor, "batch heads numbers"]
    ) -> Float[Tensor, "batch outputs"]:
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
        return self._write_and_read(inner, self._head_outputs(inner), state)

    def _head_outputs(self, inner: Any) -> HeadOutputs:
        return self.heads(self.controller.output(inner).unflatten(1, self.controller_shape))

    def intermediates(self, x: Float[Tensor, "batch features"], state: TapeState) -> dict[str, Tensor]:
        """Return the parameters of the heads, write heads first."""
        inner = self.controller(torch.cat([x, state.reads.flatten(1)], dim=1), state.controller)
        heads = self._head_outputs(inner)
        address = HeadAddress(*(torch.cat(pair, dim=1) for pair in zip(heads.write, heads.read, strict=True)))
        shaped = {"key": address.key, "erase": heads.erase, "add": heads.add}
        return {
            **{name: part.unflatten(2, self.slot_shape) for name, part in shaped.items()},
            "strength": address.strength.squeeze(2),
            "gate": address.gate.squeeze(2),
            "shift": address.shift,
            "gamma": address.gamma.squeeze(2),
        }

    def bounds(self, low: Float[Tensor, " features"], high: Float[Tensor, " features"]) -> Box | None:
        """Return the box of `machine_box`, which exists if the output of the controller is bounded."""
        return machine_box(self, low, high)

    def fast_path(self, xs: Tensor, state: TapeState, mask: Tensor | None) -> FastPath | NoFastPath:
        """Return one operator with a separate backward pass; second derivatives need `backend="loop"`."""
        self._check_state(state)
        return fused_tape(self, xs, state, mask)

    def _check_state(self, state: TapeState) -> None:
        """Raise if the state belongs to another machine, or its dtype has too small a range."""
        if not isinstance(state, TapeState):
            raise TypeError(f"The state of a machine is a TapeState, not a {type(state).__name__}; see initial_state.")
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

    def _write_and_read(self, inner: Any, heads: HeadOutputs, state: TapeState) -> TapeState:
        """Write, then read; under autocast at the precision of the state, because rounding errors accumulate."""
        memory = state.memory.flatten(2)
        if torch.is_autocast_enabled(memory.device.type):
            with torch.autocast(memory.device.type, enabled=False):
                return self._write_and_read(inner, map_state(lambda part: part.to(memory.dtype), heads), state)
        write = heads.write.weights(memory, state.write_weights)
        memory = erase_and_add(memory, write, heads.erase, heads.add)
        read = heads.read.weights(memory, state.read_weights)
        return TapeState(inner, memory.unflatten(2, self.slot_shape), read, write, self._read(read, memory))

    def _read(self, weights: Tensor, memory: Tensor) -> Tensor:
        """Return `r = sum_i w(i) M(i)` (Graves et al., Eq 2), (batch, heads, *slot_shape)."""
        return (weights @ memory).unflatten(2, self.slot_shape)

    def _arranged(self, reads: Tensor, readout: nn.Module) -> Tensor:
        """Arrange the reads for the readout: one vector, or matrices side by side."""
        if not isinstance(readout, Bilinear):
            return reads.flatten(1)
        rows, columns = self.slot_shape if len(self.slot_shape) == 2 else (*self.slot_shape, 1)
        return reads.unflatten(2, (rows, columns)).transpose(1, 2).flatten(2)


def _inputs(controller: Cell, read_heads: int, slot_shape: tuple[int, ...]) -> int:
    """Return the number of features of x among the controller's inputs, or raise."""
    name, reads = type(controller).__name__, read_heads * prod(slot_shape)
    if controller.input_size is None:
        raise ValueError(f"A controller must know how many inputs it takes, but this {name} does not.")
    output = controller.output(controller.initial_state(1))
    if controller.grows or output.dim() != 2 or output.is_complex():
        raise ValueError(
            f"A controller needs a real output (batch, features) and a state of constant size; this {name} differs."
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
                f"The last inputs of a matrix controller must be the reads, here {expected}, after those of x, but "
                f"this {name} takes {matrices}."
            )
    return controller.input_size - reads


def _controller_shape(controller: Cell) -> tuple[int, ...]:
    """Return the shape of the controller's output: (rows, columns) for a matrix."""
    features = controller.output(controller.initial_state(1)).shape[-1]
    shape = getattr(controller, "state_shape", None)
    return tuple(shape) if shape is not None and prod(shape) == features else (features,)


def _readouts(
    hidden: tuple[int, ...], slot_shape: tuple[int, ...], read_heads: int, shape: tuple[int, ...]
) -> list[nn.Module]:
    """Return two maps to the output, of the controller's output and of the reads, each with a bias as released."""
    if len(hidden) == 1:
        return [nn.Linear(hidden[0], prod(shape)), nn.Linear(read_heads * prod(slot_shape), prod(shape))]
    if len(shape) != 2:
        raise ValueError(f"Matrices are read out as a matrix, but output_shape is {shape}; give (rows, columns).")
    rows, columns = slot_shape if len(slot_shape) == 2 else (*slot_shape, 1)
    return [
        Bilinear((hidden[0], hidden[1]), (shape[0], shape[1])),
        Bilinear((rows, columns * read_heads), (shape[0], shape[1])),
    ]


def _checked_shape(name: str, shape: Any) -> tuple[int, ...]:
    """Return the shape as a tuple of positive integers, or raise."""
    sizes = tuple(shape) if isinstance(shape, Sequence) and not isinstance(shape, str) else ()
    if len(sizes) not in (1, 2):
        raise ValueError(f"{name} must be (numbers,) or (rows, columns), but is {shape!r}.")
    check_whole(1, **{f"{name}[{place}]": size for place, size in enumerate(sizes)})
    return tuple(map(int, sizes))


def _check(
    controller: Any, slots: Any, read_heads: Any, write_heads: Any, reach: Any, initial_memory: Any, least: Any
) -> None:
    if not isinstance(controller, Cell):
        raise TypeError(f"The controller must be a cell, but is {controller!r}; mnemoscope.adapt makes cells.")
    check_whole(1, slots=slots, read_heads=read_heads, write_heads=write_heads)
    check_whole(0, reach=reach)
    check_reach(int(slots), 2 * int(reach) + 1)
    if not (is_number(least) and 0 <= least < inf):
        raise ValueError(f"least_strength must be a finite number, at least 0, but is {least!r}.")
    if initial_memory not in ("constant", "learned"):
        raise ValueError(f'initial_memory must be "constant" or "learned", but is {initial_memory!r}.')
