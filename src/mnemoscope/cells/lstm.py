"""The long short-term memory cell, in PyTorch's form, and h-detach, which trains it with other gradients."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from mnemoscope.base.array_types import Float
from mnemoscope.cells.cell import Box, Cell, Step
from mnemoscope.cells.enclosure import Enclosure
from mnemoscope.cells.fast_path import FastPath, NoFastPath
from mnemoscope.cells.fused_gated import fused_gated_path
from mnemoscope.cells.gru import init_gate_weights


class LSTMState(NamedTuple):
    """Output h and memory c, each (batch, features)."""

    h: Tensor
    c: Tensor


class LSTM(Cell):
    """`c' = f c + i g`, `h' = o tanh(c')` (Hochreiter & Schmidhuber 1997; torch.nn.LSTM's layout: i, f, g, o).

    With `projection_size` the output is `h' = W_hr (o tanh(c'))` (Sak et al. 2014), torch's `proj_size`. `forget_bias`
    is added to the initial biases of the forget gates: with 1 an untrained network forgets more slowly (Jozefowicz et
    al. 2015).

    >>> cell = LSTM(3, 16)
    >>> cell(torch.zeros(4, 3), cell.initial_state(4)).c.shape
    torch.Size([4, 16])
    """

    weight_ih: nn.Parameter
    weight_hh: nn.Parameter
    weight_hr: nn.Parameter | None
    bias_ih: nn.Parameter | None
    bias_hh: nn.Parameter | None

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, projection_size: int = 0, forget_bias: float = 0.0
    ) -> None:
        super().__init__()
        if not 0 <= projection_size < max(hidden_size, 1):
            raise ValueError(
                f"projection_size must be 0 (none) or below hidden_size = {hidden_size}, but is {projection_size}."
            )
        self.input_size, self.hidden_size = input_size, hidden_size
        init_gate_weights(self, input_size, hidden_size, gates=4, bias=bias)
        if forget_bias:
            if self.bias_hh is None:
                raise ValueError(f"forget_bias is {forget_bias}, but the cell has no biases: bias is False.")
            with torch.no_grad():
                self.bias_hh.chunk(4)[1].add_(forget_bias)
        self.register_parameter("weight_hr", None)
        if projection_size:
            bound = hidden_size**-0.5
            self.weight_hr = nn.Parameter(torch.empty(projection_size, hidden_size).uniform_(-bound, bound))
            self.weight_hh = nn.Parameter(torch.empty(4 * hidden_size, projection_size).uniform_(-bound, bound))

    def initial_state(self, batch: int) -> LSTMState:
        h_size = self.weight_hh.shape[1]
        return LSTMState(self.weight_hh.new_zeros(batch, h_size), self.weight_hh.new_zeros(batch, self.hidden_size))

    def output(self, state: LSTMState) -> Float[Tensor, "batch features"]:
        return state.h

    def prepare(self, xs: Float[Tensor, " ..."]) -> tuple[Tensor, Step]:
        return linear(xs, self.weight_ih, self.bias_ih), self._step

    def _step(self, u: Tensor, state: LSTMState) -> LSTMState:
        i, f, g, o = self._gates(u, state.h)
        c = f * state.c + i * g
        h = o * torch.tanh(c)
        return LSTMState(h if self.weight_hr is None else h @ self.weight_hr.mT, c)

    def _gates(self, u: Tensor, h: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        i, f, g, o = (u + linear(h, self.weight_hh, self.bias_hh)).chunk(4, dim=-1)
        return torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o)

    def fast_path(self, xs: Tensor, state: LSTMState, mask: Tensor | None) -> FastPath | NoFastPath:
        return fused_gated_path(self, "lstm", xs, state, mask, lambda outputs, last: (outputs, LSTMState(*last)))

    def jacobian(self, x: Tensor, state: LSTMState) -> Tensor:
        """Return d(h', c') / d(h, c) in blocks, by the chain rule through the four gates."""
        i, f, g, o = self._gates(linear(x, self.weight_ih, self.bias_ih), state.h)
        W_i, W_f, W_g, W_o = self.weight_hh.chunk(4)
        s = torch.tanh(f * state.c + i * g)
        c_h = (g * i * (1 - i)).unsqueeze(-1) * W_i  # dc'/dh, (batch, hidden, h)
        c_h.addcmul_((state.c * f * (1 - f)).unsqueeze(-1), W_f)
        c_h.addcmul_((i * (1 - g * g)).unsqueeze(-1), W_g)
        through_c = o * (1 - s * s)
        h_h = (s * o * (1 - o)).unsqueeze(-1) * W_o + through_c.unsqueeze(-1) * c_h
        h_c = torch.diag_embed(through_c * f)
        if self.weight_hr is not None:
            h_h, h_c = self.weight_hr @ h_h, self.weight_hr @ h_c
        return torch.cat([torch.cat([h_h, h_c], -1), torch.cat([c_h, torch.diag_embed(f)], -1)], -2)

    def bounds(self, low: Tensor, high: Tensor) -> Box | None:
        """Return |h| <= 1 (or the row sums of |W_hr|) and |c| <= 1 / (1 - f_max).

        f_max < 1 is the largest value of the forget gate for such h. None if it rounds to 1.
        """
        one = self.weight_hh.new_ones(self.hidden_size)
        h = one if self.weight_hr is None else self.weight_hr.abs().sum(1)
        W_x, W_h = self.weight_ih.chunk(4)[1], self.weight_hh.chunk(4)[1]
        f_pre = W_x @ ((low + high) / 2) + W_x.abs() @ ((high - low) / 2) + W_h.abs() @ h
        for bias in (self.bias_ih, self.bias_hh):
            f_pre = f_pre if bias is None else f_pre + bias.chunk(4)[1]
        c = 1 + torch.exp(f_pre)  # 1 / (1 - sigmoid(a)) = 1 + e^a
        high = torch.cat([h, c])
        return (-high, high) if torch.isfinite(high).all() else None

    def enclose(self, x: Enclosure, state: Enclosure) -> Enclosure:
        h, c = state.split([self.weight_hh.shape[1], self.hidden_size])
        pre = x.linear(self.weight_ih, self.bias_ih) + h.linear(self.weight_hh, self.bias_hh)
        i, f, g, o = pre.split(4 * [self.hidden_size])
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        return Enclosure.concatenate([h if self.weight_hr is None else h.linear(self.weight_hr), c])

    def intermediates(self, x: Tensor, state: LSTMState) -> dict[str, Tensor]:
        i, f, g, o = self._gates(linear(x, self.weight_ih, self.bias_ih), state.h)
        return {"i": i, "f": f, "g": g, "o": o}


class HDetach(LSTM):
    """An LSTM that stops the gradient through h, but not through c, at random steps (Kanuparthi et al. 2019).

    In training mode each step draws one random number for the whole batch, from torch's generator of the inputs'
    device: with probability p, h is detached before it enters the gates. The values are those of the LSTM. In
    evaluation mode the cell is an LSTM, and only then has a fast path. In the paper p is 0.5 for the copy task and 0.25
    for MNIST.

    >>> cell = HDetach(3, 16)
    >>> cell(torch.zeros(4, 3), cell.initial_state(4)).h.shape
    torch.Size([4, 16])
    """

    def __init__(self, input_size: int, hidden_size: int, p: float = 0.5, bias: bool = True) -> None:
        if not 0 <= p <= 1:
            raise ValueError(f"p is the probability that h is detached, from 0 to 1, but is {p}.")
        super().__init__(input_size, hidden_size, bias)
        self.p = p

    def extra_repr(self) -> str:
        return f"p={self.p}"

    @property
    def cuts_gradients(self) -> bool:
        return self.training

    jacobian = LSTM.jacobian  # the values are those of an LSTM, and so is their derivative

    def prepare(self, xs: Float[Tensor, " ..."]) -> tuple[Tensor, Step]:
        us, step = super().prepare(xs)
        return us, self._random_step if self.training else step

    def _random_step(self, u: Tensor, state: LSTMState) -> LSTMState:
        # a selection on the device instead of a branch, which would wait for the GPU and forbid CUDA graphs
        detached = torch.rand((), device=u.device) < self.p
        h = torch.where(detached, state.h.detach(), state.h)
        if not u.is_cuda:
            return self._step(u, state._replace(h=h))
        # torch's kernel for all gates, as in nn.LSTMCell: a step is bound by the number of kernels
        h, c, _ = torch.ops.aten._thnn_fused_lstm_cell(u, linear(h, self.weight_hh, self.bias_hh), state.c)
        return LSTMState(h, c)

    def fast_path(self, xs: Tensor, state: LSTMState, mask: Tensor | None) -> FastPath | NoFastPath:
        if self.training:
            return NoFastPath("in training mode h-detach decides at every step whether h has a gradient")
        return super().fast_path(xs, state, mask)
