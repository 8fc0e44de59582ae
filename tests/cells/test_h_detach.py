"""h-detach: against a slow loop with the same draws."""

import pytest
import torch

import mnemoscope as ms
from mnemoscope.cells import LSTM, HDetach

CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA")


def slow(cell, xs, draws):
    """Compute the four gates explicitly; detach h where the random draw requires it."""
    h, c = xs.new_zeros(2, xs.shape[1], 6)
    outputs = []
    for x, detached in zip(xs, draws, strict=True):
        h = h.detach() if detached else h
        i, f, g, o = (x @ cell.weight_ih.T + cell.bias_ih + h @ cell.weight_hh.T + cell.bias_hh).chunk(4, dim=1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        outputs.append(h)
    return torch.stack(outputs)


def gradients(outputs, xs, cell):
    return torch.autograd.grad(outputs.square().sum(), [xs, *cell.parameters()])


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=CUDA)])
@pytest.mark.parametrize("p", [0.0, 0.25, 0.5, 1.0])
def test_it_is_a_slow_loop_with_the_same_draws(p, device):
    torch.manual_seed(0)
    cell = HDetach(3, 6, p).double().to(device)
    xs = torch.randn(15, 4, 3, dtype=torch.float64, device=device, requires_grad=True)
    torch.manual_seed(7)
    draws = [torch.rand((), device=device).item() < p for _ in range(15)]
    assert p in (0, 1) or 0 < sum(draws) < 15
    torch.manual_seed(7)
    outputs = ms.scan(cell, xs)[0]
    expected = slow(cell, xs, draws)
    torch.testing.assert_close(outputs, expected, rtol=0, atol=1e-14)
    for one, other in zip(gradients(outputs, xs, cell), gradients(expected, xs, cell), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-13)


def test_with_h_detached_the_gradient_flows_through_c_only():
    torch.manual_seed(1)
    cell = HDetach(3, 6, 1.0).double()
    state = cell.initial_state(2)._replace(c=torch.randn(2, 6, dtype=torch.float64, requires_grad=True))
    h = torch.randn(2, 6, dtype=torch.float64, requires_grad=True)
    after = cell(torch.randn(2, 3, dtype=torch.float64), state._replace(h=h))
    assert (torch.autograd.grad(after.h.sum(), h, retain_graph=True)[0] == 0).all()
    assert (torch.autograd.grad(after.h.sum(), state.c)[0].abs() > 0).all()


@pytest.mark.parametrize("mask", [None, torch.rand(15, 4) > 0.3])
def test_in_evaluation_mode_it_is_the_lstm_bit_for_bit(mask):
    torch.manual_seed(2)
    cell, lstm = HDetach(3, 6).eval(), LSTM(3, 6)
    lstm.load_state_dict(cell.state_dict())
    xs = torch.randn(15, 4, 3, requires_grad=True)
    before = torch.get_rng_state()
    one, other = (ms.scan(each, xs, mask=mask)[0] for each in (cell, lstm))
    assert torch.equal(one, other)
    for a, b in zip(gradients(one, xs, cell), gradients(other, xs, lstm), strict=True):
        assert torch.equal(a, b)
    assert torch.equal(before, torch.get_rng_state())  # nothing was drawn


def test_only_evaluation_has_a_fast_path():
    cell, xs = HDetach(3, 6), torch.randn(5, 2, 3)
    assert not ms.scan(cell, xs, explain=True)[2].fused
    assert ms.scan(cell.eval(), xs, explain=True)[2].fused
    with pytest.raises(ValueError, match="decides at every step"):
        ms.scan(cell.train(), xs, backend="fused")


def test_values_are_those_of_the_lstm_whatever_is_drawn():
    torch.manual_seed(3)
    cell, xs = HDetach(3, 6).double(), torch.randn(9, 2, 3, dtype=torch.float64)
    assert torch.allclose(ms.scan(cell, xs)[0], ms.scan(cell.eval(), xs)[0], rtol=0, atol=1e-14)


def test_a_checkpointed_scan_computes_again_with_the_same_draws():
    torch.manual_seed(4)
    cell = HDetach(3, 6).double()
    xs = torch.randn(16, 2, 3, dtype=torch.float64, requires_grad=True)
    found = []
    for checkpoint in (None, 4):
        torch.manual_seed(5)
        found.append(gradients(ms.scan(cell, xs, checkpoint=checkpoint)[0], xs, cell))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-13)


@pytest.mark.parametrize("p", [-0.1, 1.5])
def test_a_probability_is_from_0_to_1(p):
    with pytest.raises(ValueError, match="probability"):
        HDetach(3, 6, p)
