"""The gated recurrent unit, in PyTorch's form."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from mnemoscope.base.array_types import Float
from mnemoscope.base.validation import check_whole
from mnemoscope.cells.cell import Box, Cell, Step
from mnemoscope.cells.enclosure import Enclosure
from mnemoscope.cells.fast_path import FastPath, NoFastPath
from mnemoscope.cells.fused_gated import fused_gated_path


class _Gates(NamedTuple):
    r: Tensor
    z: Tensor
    n: Tensor
    candidate: Tensor  # W_hn h + b_hn, before the reset gate


class GRU(Cell):
    """`h' = (1 - z) n + z h`, `n = tanh(W_in x + b_in + r (W_hn h + b_hn))` (Cho et al. 2014, torch.nn.GRU's variant).

    Weights have torch.nn.GRU's names and layout: the rows of r, then z, then n.

    >>> cell = GRU(3, 16)
    >>> cell(torch.zeros(4, 3), cell.initial_state(4)).shape
    torch.Size([4, 16])
    """

    weight_ih: nn.Parameter
    weight_hh: nn.Parameter
    bias_ih: nn.Parameter | None
    bias_hh: nn.Parameter | None

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        super().__init__()
        self.input_size, self.hidden_size = input_size, hidden_size
        init_gate_weights(self, input_size, hidden_size, gates=3, bias=bias)

    def initial_state(self, batch: int) -> Float[Tensor, "batch hidden"]:
        return self.weight_hh.new_zeros(batch, self.hidden_size)

    def prepare(self, xs: Float[Tensor, " ..."]) -> tuple[Tensor, Step]:
        return linear(xs, self.weight_ih, self.bias_ih), self._step

    def _step(self, u: Tensor, h: Tensor) -> Tensor:
        gates = self._gates(u, h)
        return gates.n + gates.z * (h - gates.n)

    def _gates(self, u: Tensor, h: Tensor) -> _Gates:
        u_r, u_z, u_n = u.chunk(3, dim=-1)
        v_r, v_z, v_n = linear(h, self.weight_hh, self.bias_hh).chunk(3, dim=-1)
        r, z = torch.sigmoid(u_r + v_r), torch.sigmoid(u_z + v_z)
        return _Gates(r, z, torch.tanh(u_n + r * v_n), v_n)

    def fast_path(self, xs: Tensor, state: Tensor, mask: Tensor | None) -> FastPath | NoFastPath:
        return fused_gated_path(self, "gru", xs, (state,), mask, lambda outputs, last: (outputs, last[0]))

    def jacobian(self, x: Tensor, state: Tensor) -> Tensor:
        """`diag(z) + diag((1-z)(1-n^2)) (diag(r) W_n + diag(v_n r(1-r)) W_r) + diag((h-n) z(1-z)) W_z`."""
        r, z, n, v_n = self._gates(linear(x, self.weight_ih, self.bias_ih), state)
        W_r, W_z, W_n = self.weight_hh.chunk(3)
        slope = (1 - z) * (1 - n * n)
        J = (slope * r).unsqueeze(-1) * W_n
        J.addcmul_((slope * v_n * r * (1 - r)).unsqueeze(-1), W_r)
        J.addcmul_(((state - n) * z * (1 - z)).unsqueeze(-1), W_z)
        J.diagonal(dim1=-2, dim2=-1).add_(z)
        return J

    def bounds(self, low: Tensor, high: Tensor) -> Box:
        """Return the cube [-1, 1]^N: h' is a convex combination of h and a tanh."""
        one = self.weight_hh.new_ones(self.hidden_size)
        return -one, one

    def enclose(self, x: Enclosure, state: Enclosure) -> Enclosure:
        thirds = 3 * [self.hidden_size]
        u_r, u_z, u_n = x.linear(self.weight_ih, self.bias_ih).split(thirds)
        v_r, v_z, v_n = state.linear(self.weight_hh, self.bias_hh).split(thirds)
        r, z = (u_r + v_r).sigmoid(), (u_z + v_z).sigmoid()
        n = (u_n + r * v_n).tanh()
        return n + z * (state - n)

    def intermediates(self, x: Tensor, state: Tensor) -> dict[str, Tensor]:
        gates = self._gates(linear(x, self.weight_ih, self.bias_ih), state)
        return {"r": gates.r, "z": gates.z, "n": gates.n}


def init_gate_weights(cell: Cell, input_size: int, hidden_size: int, gates: int, bias: bool) -> None:
    """Create the weights of a gated network on `cell`, with torch's names and initial distribution."""
    check_whole(1, input_size=input_size, hidden_size=hidden_size)
    rows, bound = gates * hidden_size, hidden_size**-0.5
    cell.weight_ih = nn.Parameter(torch.empty(rows, input_size).uniform_(-bound, bound))
    cell.weight_hh = nn.Parameter(torch.empty(rows, hidden_size).uniform_(-bound, bound))
    for name in ("bias_ih", "bias_hh"):
        value = nn.Parameter(torch.empty(rows).uniform_(-bound, bound)) if bias else None
        cell.register_parameter(name, value)
