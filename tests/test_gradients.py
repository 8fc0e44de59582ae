"""Gradients through time, against the loss as a function of one state."""

import pytest
import torch

from mnemoscope import registry
from mnemoscope.analysis.gradients import gradient_norms
from mnemoscope.cells.state import leaves, map_state


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
