"""Cells whose output depends on the input of the step as well as on the state."""

import pytest
import torch

import mnemoscope as ms
from mnemoscope.cells import GRU, Cell, Model, Stack
from mnemoscope.training import train_force


class Product(Cell):
    """`s' = s / 2 + x`, with the output `x s'`."""

    input_size, reads_input = 3, True
    output_features = 3

    def initial_state(self, batch):
        return torch.zeros(batch, 3, dtype=torch.float64)

    def forward(self, x, state):
        return state / 2 + x

    def output_at(self, x, state):
        return x * state


XS = torch.randn(6, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
MASK = torch.tensor([[1, 0], [1, 0], [0, 1], [0, 1], [1, 0], [0, 0]], dtype=torch.bool)


def test_the_output_needs_the_input():
    cell, start = Product(), torch.ones(2, 3, dtype=torch.float64)
    output, state = cell.step(XS[0], start)
    assert torch.equal(state, start / 2 + XS[0])
    assert torch.equal(output, XS[0] * state)
    outputs, cache = ms.run_with_cache(cell, XS)
    assert torch.equal(outputs, XS * cache["h"])
    assert torch.equal(ms.scan(cell, XS)[0], outputs)
    with pytest.raises(NotImplementedError, match="use output_at"):
        cell.output(start)


@pytest.mark.parametrize("network", [Product(), Stack([Product(), Product()])], ids=["cell", "stack"])
@pytest.mark.parametrize("checkpoint", [None, 2, 4])
def test_outputs_are_held_where_a_sequence_has_no_input(network, checkpoint):
    outputs, _ = ms.scan(network, XS, mask=MASK, checkpoint=checkpoint)
    torch.testing.assert_close(ms.run_with_cache(network, XS, mask=MASK)[0], outputs)
    final, _ = ms.scan(network, XS, mask=MASK, checkpoint=checkpoint, outputs="last")
    assert torch.equal(final, outputs[-1:])
    for member in range(2):
        alone, _ = ms.scan(network, XS[MASK[:, member], member : member + 1])
        count = MASK[:, member].cumsum(0)
        expected = torch.cat([torch.zeros_like(alone[:1]), alone])[count, 0]
        torch.testing.assert_close(outputs[:, member], expected)


def test_networks_around_it_pass_the_input_on():
    stack = Stack([Product(), GRU(3, 4).double()])
    assert ms.scan(Stack([GRU(3, 3).double(), Product()]), XS)[0].shape == (6, 2, 3)
    assert stack.bounds(-torch.ones(3), torch.ones(3)) is None
    outputs, _ = ms.scan(stack, XS)
    middle, _ = ms.scan(Product(), XS)
    torch.testing.assert_close(outputs, ms.scan(stack.layers[1], middle)[0])
    model = Model(Product(), 1).double()
    assert model(XS)[0].shape == (6, 2, 1)
    with torch.no_grad():
        train_force(model, XS[:, :1], torch.zeros(6, 1, 1, dtype=torch.float64))


def test_lenses_read_the_output_at_the_constant_input():
    x = torch.tensor([1.0, 2.0, 3.0])
    dynamics = ms.Dynamics(Product(), x)
    states = torch.randn(4, 3, dtype=torch.float64)
    torch.testing.assert_close(dynamics.output(states), x.double() * states)
    gradients = ms.gradient_norms(Product(), XS[:, :1], lambda outputs: outputs[-1].sum())
    torch.testing.assert_close(gradients.norms.flatten()[-1], XS[-1, 0].norm())
