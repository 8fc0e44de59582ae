"""Gradient norms, compared with derivatives of the loss as a function of one state."""

import pytest
import torch

from mnemoscope import registry
from mnemoscope.cells import scan
from mnemoscope.cells.state import leaves, map_state
from mnemoscope.lenses.gradients import GradientNorms, gradient_norms


@pytest.mark.parametrize("name", ["elman", "lstm", "eurnn", "goru"])
def test_norms_are_those_of_the_loss_as_a_function_of_one_state(name):
    cell = registry.cells.load(name)(3, 6).double()
    xs = torch.randn(7, 4, 3, dtype=torch.float64)

    def loss(outputs):
        return outputs[-1].square().sum() + outputs[4].sum()

    result = gradient_norms(cell, xs, loss)
    assert result.norms.shape == (1, 7, 4)
    state, states, outputs = cell.initial_state(4), [], []
    for x in xs:
        state = cell(x, state)
        states.append(state)
        outputs.append(cell.output(state).detach())
    for t in range(7):
        start = map_state(lambda tensor: tensor.detach().requires_grad_(), states[t])
        state, later = start, [*outputs[:t], cell.output(start)]
        for x in xs[t + 1 :]:
            state = cell(x, state)
            later.append(cell.output(state))
        gradients = torch.autograd.grad(loss(torch.stack(later)), leaves(start), materialize_grads=True)
        squares = sum(gradient.abs().square().flatten(1).sum(1) for gradient in gradients)
        torch.testing.assert_close(result.norms[0, t], squares.sqrt())


@pytest.mark.parametrize("name", ["elman", "lstm", "eurnn", "memrnn", "relrnn", "rellstm", "sab"])
def test_a_masked_sequence_has_the_norms_of_the_shorter_sequence(name):
    torch.manual_seed(0)
    options = {"sab": {"attend_every": 2}}.get(name, {})
    cell = registry.cells.load(name)(3, 6, **options).double()
    xs, mask = torch.randn(12, 2, 3, dtype=torch.float64), torch.ones(12, 2, dtype=torch.bool)
    mask[[0, 5, 6, 11], 1] = False
    present = mask[:, 1]
    with_nan = xs.masked_fill(~mask.unsqueeze(-1), torch.nan)

    def loss(outputs):
        return outputs[-1].abs().square().sum()

    masked = gradient_norms(cell, with_nan, loss, mask=mask).norms[0]
    shorter = gradient_norms(cell, xs[present, 1:], loss).norms[0]
    assert masked[~present, 1].isnan().all()
    assert torch.isfinite(masked[mask]).all()
    torch.testing.assert_close(masked[present, 1], shorter[:, 0], rtol=1e-10, atol=1e-14)
    scanned = scan(cell, xs, mask=mask)[0]
    received = []
    gradient_norms(cell, with_nan, lambda outputs: received.append(outputs) or outputs.abs().sum(), mask=mask)
    torch.testing.assert_close(received[0], scanned, rtol=1e-12, atol=1e-14)  # the loss receives the outputs of `scan`


def test_sparse_backtracking_has_norms_where_the_recurrent_gradient_ends():
    torch.manual_seed(0)
    cell = registry.cells.load("sab")(3, 6, attend_every=4, top_k=2, truncate=4).double()
    xs = torch.randn(13, 2, 3, dtype=torch.float64)
    norms = gradient_norms(cell, xs, lambda outputs: outputs[-1].sum()).norms[0]
    assert norms.shape == (13, 2)
    # s of steps 3, 7 and 11 are stored; before each multiple of four steps gradients pass through them alone
    assert (norms[[3, 7, 11, 12]] > 0).all()
    assert (norms[0:3] > 0).all()
    without = registry.cells.load("sab")(3, 6, attend_every=100, truncate=4).double()
    xs = torch.randn(13, 2, 3, dtype=torch.float64)
    norms = gradient_norms(without, xs, lambda outputs: outputs[-1].sum()).norms[0]
    assert not norms[:12].any()


def test_the_curve_is_the_mean_over_the_sequences_that_have_the_step():
    norms = torch.tensor([[1.0, 3.0], [2.0, torch.nan], [torch.nan, torch.nan], [4.0, 4.0]]).double().unsqueeze(0)
    result = GradientNorms(norms)
    assert (10 ** result.curve[0, [0, 1, 3]]).tolist() == pytest.approx([2.0, 2.0, 4.0])
    assert result.curve[0, 2].isnan()
    assert "it is 0.5 of its value at the last" in result.summary()
    result.figure()


def test_wrong_arguments_raise():
    cell = registry.cells.load("lstm")(3, 6)
    xs, mask = torch.zeros(5, 2, 3), torch.ones(2, 5, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"of shape \(time, batch\) = \(5, 2\), but is torch.bool of shape \(2, 5\)"):
        gradient_norms(cell, xs, torch.sum, mask=mask)
    with pytest.raises(ValueError, match="omit name='trained'"):
        gradient_norms(cell, xs, torch.sum, by="part", name="trained")
