"""LSTM and GRU whose states are matrices and whose gates are bilinear maps."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells.cell import Box, Cell, Step
from mnemoscope.cells.fast_path import FastPath, NoFastPath, is_unmodified
from mnemoscope.cells.gru import GRU
from mnemoscope.cells.lstm import LSTM, LSTMState
from mnemoscope.cells.matrix.bilinear import Bilinear, MatrixInputs, Shape, as_shapes, checked_shape
from mnemoscope.cells.matrix.vector_form import vector_fast_path
from mnemoscope.cells.state import State, map_state


class _Gated(Cell):
    """Base class of both: `maps` bilinear maps of the inputs and of H, one for each gate."""

    vector_class: type[GRU | LSTM]

    def __init__(self, input_shape: Shape | Sequence[Shape], state_shape: Shape, bias: bool, maps: int) -> None:
        super().__init__()
        self.input_shapes, self.state_shape = as_shapes(input_shape), checked_shape(state_shape)
        self.input_size = sum(map(prod, self.input_shapes))
        self.hidden_size = prod(self.state_shape)
        self.drive = MatrixInputs(self.input_shapes, self.state_shape, bias, maps)
        self.connectivity = Bilinear(self.state_shape, self.state_shape, bias=False, maps=maps)

    def _zeros(self, batch: int) -> Float[Tensor, "batch rows columns"]:
        return self.connectivity.U.new_zeros(batch, *self.state_shape)

    @property
    def is_linear(self) -> bool:
        """Whether the maps are unmodified, and so linear."""
        return self.drive.is_linear and is_unmodified(self.connectivity, Bilinear)

    def as_vector_cell(self) -> GRU | LSTM:
        """Return the equivalent cell of rows times columns units, with Kronecker products of the current weights."""
        with torch.device("meta"):  # draws no random numbers for weights that are replaced below
            cell = self.vector_class(self.input_size or 1, self.hidden_size)
        weights = {"weight_ih": self.drive.matrix(), "weight_hh": self.connectivity.matrix()}
        if (bias := self.drive.bias()) is not None:
            weights |= {"bias_ih": bias, "bias_hh": torch.zeros_like(bias)}  # torch's fused networks need both
        for name in list(cell._parameters):  # the new weights carry gradients
            del cell._parameters[name]
            setattr(cell, name, weights.get(name))
        return cell

    def _vector_path(self, xs: Tensor, state: State, mask: Tensor | None) -> FastPath | NoFastPath:
        if not self.is_linear:
            return NoFastPath("its maps are not those it was made with")
        return vector_fast_path(self.as_vector_cell, self.hidden_size, xs, state, mask)

    def jacobian(self, x: Tensor, state: State) -> Float[Tensor, "batch size size"]:
        """Return the Jacobian of the equivalent vector cell."""
        return self.as_vector_cell().jacobian(x, map_state(lambda part: part.flatten(1), state))

    def bounds(self, low: Tensor, high: Tensor) -> Box | None:
        """Return the box of the equivalent vector cell."""
        return self.as_vector_cell().bounds(low, high)


class MatrixLSTM(_Gated):
    """`C' = F C + I G`, `H' = O tanh(C')`, with elementwise products (Do et al. 2017).

    I, F and O are the logistic function and G is the tanh of `U1^T X V1 + U2^T H V2 + B`, with separate U, V and B.
    The shapes are given as for `MatrixRNN`.

    >>> cell = MatrixLSTM((5, 5), (6, 4))
    >>> cell(torch.zeros(3, 25), cell.initial_state(3)).c.shape
    torch.Size([3, 6, 4])
    """

    vector_class = LSTM

    def __init__(self, input_shape: Shape | Sequence[Shape], state_shape: Shape, bias: bool = True) -> None:
        super().__init__(input_shape, state_shape, bias, maps=4)

    def initial_state(self, batch: int) -> LSTMState:
        return LSTMState(self._zeros(batch), self._zeros(batch))

    def output(self, state: LSTMState) -> Float[Tensor, "*batch features"]:
        return state.h.flatten(-2)

    def prepare(self, xs: Float[Tensor, " ..."]) -> tuple[Tensor, Step]:
        return self.drive(xs), self._step

    def _step(self, u: Tensor, state: LSTMState) -> LSTMState:
        i, f, g, o = self._gates(u, state.h)
        c = f * state.c + i * g
        return LSTMState(o * torch.tanh(c), c)

    def _gates(self, u: Tensor, h: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        i, f, g, o = (u + self.connectivity(h)).unbind(-3)
        return torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o)

    def fast_path(self, xs: Tensor, state: LSTMState, mask: Tensor | None) -> FastPath | NoFastPath:
        return self._vector_path(xs, state, mask)

    def intermediates(self, x: Tensor, state: LSTMState) -> dict[str, Tensor]:
        return dict(zip("ifgo", self._gates(self.drive(x), state.h), strict=True))


class MatrixGRU(_Gated):
    """`H' = (1 - Z) N + Z H`, `N = tanh(U1^T X V1 + B + R (U2^T H V2))`, with elementwise products.

    R and Z are the logistic function of such bilinear maps: a `GRU` built like `MatrixLSTM`.

    >>> cell = MatrixGRU((5, 5), (6, 4))
    >>> cell(torch.zeros(3, 25), cell.initial_state(3)).shape
    torch.Size([3, 6, 4])
    """

    vector_class = GRU

    def __init__(self, input_shape: Shape | Sequence[Shape], state_shape: Shape, bias: bool = True) -> None:
        super().__init__(input_shape, state_shape, bias, maps=3)

    def initial_state(self, batch: int) -> Float[Tensor, "batch rows columns"]:
        return self._zeros(batch)

    def output(self, state: Float[Tensor, "*batch rows columns"]) -> Float[Tensor, "*batch features"]:
        return state.flatten(-2)

    def prepare(self, xs: Float[Tensor, " ..."]) -> tuple[Tensor, Step]:
        return self.drive(xs), self._step

    def _step(self, u: Tensor, H: Tensor) -> Tensor:
        _, z, n = self._gates(u, H)
        return n + z * (H - n)

    def _gates(self, u: Tensor, H: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        u_r, u_z, u_n = u.unbind(-3)
        v_r, v_z, v_n = self.connectivity(H).unbind(-3)
        r = torch.sigmoid(u_r + v_r)
        return r, torch.sigmoid(u_z + v_z), torch.tanh(u_n + r * v_n)

    def fast_path(self, xs: Tensor, state: Tensor, mask: Tensor | None) -> FastPath | NoFastPath:
        return self._vector_path(xs, state, mask)

    def intermediates(self, x: Tensor, state: Tensor) -> dict[str, Tensor]:
        return dict(zip("rzn", self._gates(self.drive(x), state), strict=True))
