"""Cells whose units do not see one another: against the equations, unit by unit."""

import math

import torch

import mnemoscope as ms
from mnemoscope.cells import GRU, DiagonalGRU, DiagonalLSTM, LSTMState

ROUNDING = 1e-13


def test_the_diagonal_gru_is_a_gru_with_diagonal_matrices():
    torch.manual_seed(0)
    cell, dense = DiagonalGRU(3, 5).double(), GRU(3, 5).double()
    with torch.no_grad():
        dense.weight_ih.copy_(cell.weight_ih)
        dense.weight_hh.copy_(torch.cat([torch.diag(a) for a in cell.recurrent]))
        dense.bias_ih.copy_(cell.bias)
        dense.bias_hh.zero_()
    xs, start = torch.randn(20, 4, 3, dtype=torch.float64), torch.randn(4, 5, dtype=torch.float64)
    torch.testing.assert_close(ms.scan(cell, xs, start)[0], ms.scan(dense, xs, start)[0], rtol=ROUNDING, atol=ROUNDING)


def test_a_step_of_the_diagonal_lstm_follows_its_equations():
    torch.manual_seed(0)
    cell = DiagonalLSTM(3, 4).double()
    x, h, c = (torch.randn(1, size, dtype=torch.float64) for size in (3, 4, 4))
    new = cell(x, LSTMState(h, c))
    u = (cell.weight_ih @ x[0] + cell.bias).reshape(3, 4).tolist()
    a, p = cell.recurrent.tolist(), cell.peepholes.tolist()
    for unit, (h_, c_) in enumerate(zip(h[0].tolist(), c[0].tolist(), strict=True)):
        f = 1 / (1 + math.exp(-(u[0][unit] + a[0][unit] * h_ + p[0][unit] * c_)))
        g = math.tanh(u[1][unit] + a[1][unit] * h_)
        memory = f * c_ + (1 - f) * g
        o = 1 / (1 + math.exp(-(u[2][unit] + a[2][unit] * h_ + p[1][unit] * memory)))
        assert math.isclose(new.c[0, unit].item(), memory, abs_tol=ROUNDING)
        assert math.isclose(new.h[0, unit].item(), o * math.tanh(memory), abs_tol=ROUNDING)


def test_a_unit_depends_on_itself_alone():
    torch.manual_seed(0)
    for cell in (DiagonalGRU(3, 6).double(), DiagonalLSTM(3, 6).double()):
        xs = torch.randn(15, 1, 3, dtype=torch.float64)
        changed = ms.cells.state.map_state(
            lambda part: part.clone().index_fill_(1, torch.tensor([2]), 0.7), cell.initial_state(1)
        )
        difference = (ms.scan(cell, xs, changed)[0] - ms.scan(cell, xs)[0]).abs().amax((0, 1))
        assert difference[2] > 0
        assert difference[[0, 1, 3, 4, 5]].max() == 0
