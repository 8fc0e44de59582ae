"""The fused scan of a Turing machine: the controllers that support it, and their weights as vectors and matrices."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from mnemoscope.base.array_types import Float
from mnemoscope.cells import LSTM, Elman
from mnemoscope.cells.cell import Cell
from mnemoscope.cells.fast_path import FastPath, NoFastPath, is_unmodified
from mnemoscope.cells.lstm import LSTMState
from mnemoscope.cells.matrix import DeepTransition, MatrixLSTM, MatrixRNN
from mnemoscope.cells.matrix.vector_form import no_vector_form
from mnemoscope.cells.nonlinearities import FusableNonlinearity
from mnemoscope.cells.state import leaves
from mnemoscope.kernels.tape import tape_scan
from mnemoscope.kernels.tape_types import Start, TapeOptions, Weights
from mnemoscope.memory.tape.feed_forward import FeedForward
from mnemoscope.memory.tape.heads import Heads
from mnemoscope.memory.tape.state import TapeCell, TapeState

LARGEST = 576
"""Largest matrix state, in entries, of a controller that runs in vector form. The steps of a machine are longer than
those of a matrix cell, so that fusing pays up to larger sizes. On one CPU core, forward and backward over 21 steps with
batches of 4 and 64, the fused scan takes 0.3 to 0.9 of the loop's time up to 24 x 24 (three layers of a matrix RNN, or
a matrix LSTM), 0.6 to 1.3 at 28 x 28, 0.8 to 1.9 at 32 x 32, and 10 times as long at 64 x 64 with a batch of 4.
"""


class Controller(NamedTuple):
    """Weights of a controller in the form of the operator: an LSTM, or layers of tanh within one step."""

    lstm: bool
    drive: Float[Tensor, "layers_width inputs"]
    """Weights of the input and the reads, side by side."""
    bias: Float[Tensor, " layers_width"] | None
    recurrent: Float[Tensor, "layers width units"] | None


def fused_tape(machine: TapeCell, xs: Tensor, state: TapeState, mask: Tensor | None) -> FastPath | NoFastPath:
    """Return the scan as one operator, or the reason why the steps are needed."""
    if mask is not None or torch.is_autocast_enabled(xs.device.type) or torch.compiler.is_compiling():
        return NoFastPath("masks, autocast and torch.compile need the steps")
    dtypes = {part.dtype for part in (xs, *leaves(state), *machine.parameters())}
    if len(dtypes) > 1:
        return NoFastPath(f"inputs, state and weights have several dtypes: {', '.join(map(str, dtypes))}")
    if not _is_known(machine.controller):
        return NoFastPath(f"{type(machine.controller).__name__}, or a part of it, is not fused with a tape")
    if (
        not is_unmodified(machine, type(machine))
        or not is_unmodified(machine.heads, Heads)
        or not machine.heads.is_linear
    ):
        return NoFastPath("its heads or its step were replaced")
    is_matrix = len(machine.controller_shape) == 2
    if is_matrix and (too_large := no_vector_form(prod(machine.controller_shape), LARGEST)) is not None:
        return NoFastPath(f"the controller has no vector form that pays: {too_large.reason}")
    return FastPath("tape", lambda: _run(machine, xs, state))


def _is_known(cell: Cell) -> bool:
    if not is_unmodified(cell, Elman, MatrixRNN, DeepTransition, FeedForward, MatrixLSTM, LSTM):
        return False
    if isinstance(cell, DeepTransition):
        return all(type(layer) is MatrixRNN and _is_known(layer) for layer in cell.layers)
    if isinstance(cell, LSTM):
        return cell.weight_hr is None
    if isinstance(cell, (Elman, MatrixRNN)):
        described = cell.phi.description() if isinstance(cell.phi, FusableNonlinearity) else None
        if described is None or described.name != "tanh":
            return False
    if isinstance(cell, MatrixLSTM):
        return cell.is_linear
    return cell.drive.is_linear if isinstance(cell, MatrixRNN) else is_unmodified(cell.drive, nn.Linear)  # type: ignore


def as_vectors(cell: Cell) -> Controller:
    """Return the weights of a supported controller; those of matrix cells as Kronecker products."""
    if isinstance(cell, FeedForward):
        return Controller(False, cell.drive.weight, cell.drive.bias, None)
    if isinstance(cell, DeepTransition):
        layers = [as_vectors(layer) for layer in cell.layers if isinstance(layer, Cell)]
        drives, biases, recurrent = zip(*((layer.drive, layer.bias, layer.recurrent) for layer in layers), strict=True)
        bias = [drive.new_zeros(len(drive)) if b is None else b for b, drive in zip(biases, drives, strict=True)]
        return Controller(False, torch.cat(drives), torch.cat(bias), torch.cat(recurrent))
    if isinstance(cell, MatrixLSTM):
        return as_vectors(cell.as_vector_cell())
    if isinstance(cell, LSTM):
        biases = [bias for bias in (cell.bias_ih, cell.bias_hh) if bias is not None]
        bias = sum(biases[1:], biases[0]) if biases else None
        return Controller(True, cell.weight_ih, bias, cell.weight_hh.unsqueeze(0))
    if isinstance(cell, MatrixRNN):
        return Controller(False, cell.drive.matrix(), cell.drive.bias(), cell.connectivity().unsqueeze(0))
    assert isinstance(cell, Elman)
    drive = cell.drive
    assert isinstance(drive, nn.Linear)
    return Controller(False, drive.weight, drive.bias, cell.connectivity().unsqueeze(0))


def _run(machine: TapeCell, xs: Tensor, state: TapeState) -> tuple[Tensor, TapeState]:
    controller, heads = as_vectors(machine.controller), machine.heads
    from_input, reader = controller.drive.split((xs.shape[-1], controller.drive.shape[1] - xs.shape[-1]), dim=1)
    us = linear(xs, from_input, controller.bias)
    options = TapeOptions(
        machine.write_heads, machine.read_heads, heads.moves // 2, heads.least_strength, machine.gradient_limit
    )
    inner = state.controller
    h, c = (inner.h, inner.c) if controller.lstm else (inner, None)
    start = Start(
        h.flatten(1),
        None if c is None else c.flatten(1),
        state.memory.flatten(2).mT,
        state.write_weights,
        state.read_weights,
        state.reads.flatten(2),
    )
    hidden, reads, last = tape_scan(us, start, Weights(controller.recurrent, reader, *heads.flat()), options)
    outputs = machine.read_out(hidden.flatten(0, 1), reads.flatten(0, 1)).unflatten(0, xs.shape[:2])
    new: Any = last.h.view_as(h)
    if c is not None:
        assert last.c is not None
        new = LSTMState(new, last.c.view_as(c))
    shape = machine.slot_shape
    return outputs, state._replace(
        controller=new,
        memory=last.memory.mT.contiguous().unflatten(2, shape),
        write_weights=last.write,
        read_weights=last.read,
        reads=last.reads.unflatten(2, shape),
    )
