"""Gated cells whose units do not see one another, so that a sequence runs in parallel over time.

The recurrent matrices are diagonal (ParaRNN: Danieli et al. 2026). The Jacobian of a step then has one small block per
unit, and an iteration of `scan(..., backend="newton")` takes a few numbers per unit. Layers mix the units.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from mnemoscope.base.array_types import Float
from mnemoscope.base.validation import check_whole
from mnemoscope.cells.cell import Box, Cell, Step
from mnemoscope.cells.enclosure import Enclosure
from mnemoscope.cells.lstm import LSTMState
from mnemoscope.cells.state import State


class DiagonalCell(Cell):
    """Three gates of each unit, with projected inputs `u = W x + b`, and recurrent weights that multiply one unit."""

    bias: nn.Parameter | None

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        super().__init__()
        check_whole(1, input_size=input_size, hidden_size=hidden_size)
        self.input_size, self.hidden_size = input_size, hidden_size
        bound = input_size**-0.5
        self.weight_ih = nn.Parameter(torch.empty(3 * hidden_size, input_size).uniform_(-bound, bound))
        self.recurrent = nn.Parameter(torch.empty(3, hidden_size).uniform_(-1, 1))
        """The diagonals of the three recurrent matrices."""
        value = nn.Parameter(torch.empty(3 * hidden_size).uniform_(-bound, bound)) if bias else None
        self.register_parameter("bias", value)

    def _zeros(self, batch: int) -> Float[Tensor, "batch hidden"]:
        return self.recurrent.new_zeros(batch, self.hidden_size)

    def prepare(self, xs: Float[Tensor, " ..."]) -> tuple[Tensor, Step]:
        return linear(xs, self.weight_ih, self.bias), self._step

    def _step(self, u: Tensor, state: State) -> State:
        raise NotImplementedError(f"{type(self).__name__} must define _step(u, state).")

    def jacobian(self, x: Tensor, state: State) -> Tensor:
        """Return the blocks of all units as one matrix."""
        blocks = self.unit_jacobian(linear(x, self.weight_ih, self.bias), state)
        assert blocks is not None
        dense = torch.diag_embed(blocks.permute(0, 2, 3, 1))  # (batch, parts, parts, hidden, hidden)
        return dense.transpose(2, 3).flatten(1, 2).flatten(2, 3)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}, bias={self.bias is not None}"


class _GRUGates(NamedTuple):
    r: Tensor
    z: Tensor
    n: Tensor
    candidate: Tensor  # a_n h, before the reset gate


class DiagonalGRU(DiagonalCell):
    """`h' = (1 - z) n + z h`, `n = tanh(u_n + r a_n h)`, a GRU whose recurrent matrices are diagonal.

    `r = sigmoid(u_r + a_r h)`, `z = sigmoid(u_z + a_z h)` and u = W x + b (Danieli et al. 2026, where z and 1 - z are
    exchanged). Recurrent weights start uniform in [-1, 1], as a unit has one of each.

    >>> cell = DiagonalGRU(3, 16)
    >>> cell(torch.zeros(4, 3), cell.initial_state(4)).shape
    torch.Size([4, 16])
    """

    def initial_state(self, batch: int) -> Float[Tensor, "batch hidden"]:
        return self._zeros(batch)

    def _step(self, u: Tensor, state: Tensor) -> Tensor:
        gates = self._gates(u, state)
        return gates.n + gates.z * (state - gates.n)

    def _gates(self, u: Tensor, h: Tensor) -> _GRUGates:
        u_r, u_z, u_n = u.chunk(3, dim=-1)
        a_r, a_z, a_n = self.recurrent
        r, z, candidate = torch.sigmoid(u_r + a_r * h), torch.sigmoid(u_z + a_z * h), a_n * h
        return _GRUGates(r, z, torch.tanh(u_n + r * candidate), candidate)

    jacobian = DiagonalCell.jacobian  # it is made of `unit_jacobian`

    def unit_jacobian(self, u: Tensor, state: Tensor) -> Float[Tensor, "batch hidden 1 1"]:
        """Return `z + (1 - z)(1 - n^2) a_n r (1 + (1 - r) a_r h) + (h - n) z (1 - z) a_z`."""
        r, z, n, candidate = self._gates(u, state)
        a_r, a_z, a_n = self.recurrent
        through_n = (1 - z) * (1 - n * n) * r * (a_n + (1 - r) * a_r * candidate)
        return (z + through_n + (state - n) * z * (1 - z) * a_z)[..., None, None]

    def bounds(self, low: Tensor, high: Tensor) -> Box:
        """Return the cube [-1, 1]^N: h' is a convex combination of h and a tanh."""
        one = self.recurrent.new_ones(self.hidden_size)
        return -one, one

    def enclose(self, x: Enclosure, state: Enclosure) -> Enclosure:
        u_r, u_z, u_n = x.linear(self.weight_ih, self.bias).split(3 * [self.hidden_size])
        v_r, v_z, v_n = (state.linear(torch.diag(a)) for a in self.recurrent)
        r, z = (u_r + v_r).sigmoid(), (u_z + v_z).sigmoid()
        n = (u_n + r * v_n).tanh()
        return n + z * (state - n)

    def intermediates(self, x: Tensor, state: Tensor) -> dict[str, Tensor]:
        gates = self._gates(linear(x, self.weight_ih, self.bias), state)
        return {"r": gates.r, "z": gates.z, "n": gates.n}


class DiagonalLSTM(DiagonalCell):
    """`c' = f c + (1 - f) g`, `h' = o tanh(c')`, an LSTM with diagonal matrices, one gate for both, and peepholes.

    `f = sigmoid(u_f + a_f h + p_f c)`, `g = tanh(u_g + a_g h)` and `o = sigmoid(u_o + a_o h + p_o c')`, with u = W x +
    b (Danieli et al. 2026): the input gate is 1 - f, and the gates see the memory through the peepholes p. Recurrent
    weights start uniform in [-1, 1], as a unit has one of each, and peepholes as well.

    >>> cell = DiagonalLSTM(3, 16)
    >>> cell(torch.zeros(4, 3), cell.initial_state(4)).c.shape
    torch.Size([4, 16])
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        super().__init__(input_size, hidden_size, bias)
        self.peepholes = nn.Parameter(torch.empty(2, hidden_size).uniform_(-1, 1))
        """Weights of the memory in f and of the new memory in o."""

    def initial_state(self, batch: int) -> LSTMState:
        return LSTMState(self._zeros(batch), self._zeros(batch))

    def output(self, state: LSTMState) -> Float[Tensor, "batch features"]:
        return state.h

    def _step(self, u: Tensor, state: LSTMState) -> LSTMState:
        _, _, o, c = self._gates(u, state)
        return LSTMState(o * torch.tanh(c), c)

    def _gates(self, u: Tensor, state: LSTMState) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return f, g, o and the new memory."""
        u_f, u_g, u_o = u.chunk(3, dim=-1)
        (a_f, a_g, a_o), (p_f, p_o) = self.recurrent, self.peepholes
        f, g = torch.sigmoid(u_f + a_f * state.h + p_f * state.c), torch.tanh(u_g + a_g * state.h)
        c = g + f * (state.c - g)
        return f, g, torch.sigmoid(u_o + a_o * state.h + p_o * c), c

    jacobian = DiagonalCell.jacobian  # it is made of `unit_jacobian`

    def unit_jacobian(self, u: Tensor, state: LSTMState) -> Float[Tensor, "batch hidden 2 2"]:
        """Return d(h', c') / d(h, c) of each unit, by the chain rule through c'."""
        f, g, o, c = self._gates(u, state)
        (a_f, a_g, a_o), (p_f, p_o) = self.recurrent, self.peepholes
        by_f, s = (state.c - g) * f * (1 - f), torch.tanh(c)
        c_h = by_f * a_f + (1 - f) * (1 - g * g) * a_g
        c_c = f + by_f * p_f
        by_o, by_s = s * o * (1 - o), o * (1 - s * s)
        through_c = by_o * p_o + by_s
        h_h, h_c = by_o * a_o + through_c * c_h, through_c * c_c
        return torch.stack([torch.stack([h_h, h_c], -1), torch.stack([c_h, c_c], -1)], -2)

    def bounds(self, low: Tensor, high: Tensor) -> Box:
        """Return the cube [-1, 1]^2N: c' is a convex combination of c and a tanh."""
        one = self.recurrent.new_ones(2 * self.hidden_size)
        return -one, one

    def enclose(self, x: Enclosure, state: Enclosure) -> Enclosure:
        h, c = state.split(2 * [self.hidden_size])
        u_f, u_g, u_o = x.linear(self.weight_ih, self.bias).split(3 * [self.hidden_size])
        A_f, A_g, A_o, P_f, P_o = (torch.diag(a) for a in (*self.recurrent, *self.peepholes))
        f, g = (u_f + h.linear(A_f) + c.linear(P_f)).sigmoid(), (u_g + h.linear(A_g)).tanh()
        c = g + f * (c - g)
        o = (u_o + h.linear(A_o) + c.linear(P_o)).sigmoid()
        return Enclosure.concatenate([o * c.tanh(), c])

    def intermediates(self, x: Tensor, state: LSTMState) -> dict[str, Tensor]:
        f, g, o, _ = self._gates(linear(x, self.weight_ih, self.bias), state)
        return {"f": f, "g": g, "o": o}
