"""Gradients through time, against the loss as a function of one state."""

import pytest
import torch

from mnemoscope import registry
from mnemoscope.cells import scan
from mnemoscope.cells.state import leaves, map_state
from mnemoscope.lenses.gradients.lens import GradientNorms, gradient_norms, gradients_of


@pytest.mark.parametrize("name", ["elman", "lstm", "eurnn", "goru"])
def test_the_norm_is_that_of_the_loss_seen_from_a_state(name):
    cell = registry.cells.load(name)(3, 6).double()
    xs = torch.randn(7, 4, 3, dtype=torch.float64)

    def loss(outputs):
        return outputs[-1].square().sum() + outputs[4].sum()

    found = gradient_norms(cell, xs, loss)
    assert found.shape == (7, 4)
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
        torch.testing.assert_close(found[t], squares.sqrt())


NAMES = ["elman", "lstm", "eurnn", "memrnn", "relrnn", "rellstm", "sab"]


@pytest.mark.parametrize("name", NAMES)
def test_a_shorter_sequence_has_the_norms_that_it_has_alone(name):
    torch.manual_seed(0)
    options = {"sab": {"attend_every": 2}}.get(name, {})
    cell = registry.cells.load(name)(3, 6, **options).double()
    xs, mask = torch.randn(12, 2, 3, dtype=torch.float64), torch.ones(12, 2, dtype=torch.bool)
    mask[[0, 5, 6, 11], 1] = False
    on = mask[:, 1]
    given = xs.masked_fill(~mask.unsqueeze(-1), torch.nan)
    found = gradient_norms(cell, given, lambda outputs: outputs[-1].abs().square().sum(), mask=mask)
    alone = gradient_norms(cell, xs[on, 1:], lambda outputs: outputs[-1].abs().square().sum())
    assert found[~on, 1].isnan().all()
    assert torch.isfinite(found[mask]).all()
    torch.testing.assert_close(found[on, 1], alone[:, 0], rtol=1e-10, atol=1e-14)
    held = scan(cell, xs, mask=mask)[0]
    seen = []
    gradient_norms(cell, given, lambda outputs: seen.append(outputs) or outputs.abs().sum(), mask=mask)
    torch.testing.assert_close(seen[0], held, rtol=1e-12, atol=1e-14)  # a loss sees what a scan gives


def test_sparse_backtracking_has_norms_where_the_recurrent_gradient_ends():
    torch.manual_seed(0)
    cell = registry.cells.load("sab")(3, 6, attend_every=4, top_k=2, truncate=4).double()
    norms = gradient_norms(cell, torch.randn(13, 2, 3, dtype=torch.float64), lambda outputs: outputs[-1].sum())
    assert norms.shape == (13, 2)
    # s of steps 3, 7 and 11 are stored; before each multiple of four steps the gradient goes on through them alone
    assert (norms[[3, 7, 11, 12]] > 0).all()
    assert (norms[0:3] > 0).all()
    without = registry.cells.load("sab")(3, 6, attend_every=100, truncate=4).double()
    norms = gradient_norms(without, torch.randn(13, 2, 3, dtype=torch.float64), lambda outputs: outputs[-1].sum())
    assert not norms[:12].any()


def test_the_curve_is_the_mean_over_those_who_have_a_step():
    norms = torch.tensor([[1.0, 3.0], [2.0, torch.nan], [torch.nan, torch.nan], [4.0, 4.0]]).double().unsqueeze(0)
    result = GradientNorms(norms)
    assert (10 ** result.curve[0, [0, 1, 3]]).tolist() == pytest.approx([2.0, 2.0, 4.0])
    assert result.curve[0, 2].isnan()
    assert "it is 0.5 of that at the last" in result.summary()
    result.figure()


def test_a_mask_of_another_shape_is_refused():
    cell = registry.cells.load("lstm")(3, 6)
    with pytest.raises(ValueError, match=r"of shape \(time, batch\) = \(5, 2\), but is torch.bool of shape \(2, 5\)"):
        gradients_of(cell, torch.zeros(5, 2, 3), lambda outputs: outputs.sum(), mask=torch.ones(2, 5, dtype=torch.bool))
