"""The parts that `affine_layers` returns compute the states and outputs of the network."""

import pytest
import torch

import mnemoscope as ms
from mnemoscope.cells import GRU, Stack, affine_layers
from mnemoscope.cells.affine import MLSTM
from mnemoscope.cells.affine.parts import scan_parts, scan_states, step_state
from tests.cells.test_affine_cells import CELLS
from tests.slow import representatives

ROUNDING = {"rtol": 1e-11, "atol": 1e-12}  # float64, seven steps


def close(left, right):
    torch.testing.assert_close(left, right, **ROUNDING)


@representatives("lru", "deltaproduct", "mlstm", "kda")
@pytest.mark.parametrize("name", CELLS)
def test_parts_of_a_cell_give_its_states_outputs_and_transitions(name):
    cell = CELLS[name]().double()
    xs, state = torch.randn(7, 2, 3, dtype=torch.float64), None
    _, state = ms.scan(cell, xs[:2])  # from a state that is not 0
    outputs, cache = ms.run_with_cache(cell, xs, state)
    [layer] = affine_layers(cell, xs, state)
    assert layer.name == ""
    close(layer.states(), cache["S"])
    close(layer.outputs(), outputs)
    writes = layer.states()[1] - layer.transitions()[1] @ layer.states()[0]  # B does not depend on S
    if layer.parts.micro_steps == 1:
        k, v = layer.parts.keys[1], layer.parts.values[1]
        close(writes, (k.unsqueeze(-1) * v.unsqueeze(-2)).to(writes.dtype))


@pytest.mark.parametrize("family", ["mamba2", "mlstm", "rg-lru"])
def test_parts_of_blocks_give_their_states(family):
    options = {} if family == "rg-lru" else {"heads": 2}
    network = ms.networks.blocks(3, 4, family, depth=2, **options).double()
    xs = torch.randn(7, 2, 3, dtype=torch.float64)
    _, cache = ms.run_with_cache(network, xs)
    layers = affine_layers(network, xs)
    assert [layer.name for layer in layers] == ["layers.0", "layers.1"]
    for layer in layers:
        close(layer.states(), cache[f"{layer.name}.S"])


def test_other_layers_are_passed_through():
    stack = Stack([GRU(3, 4), CELLS["gla"]()])
    stack.layers[1].project = torch.nn.Linear(4, stack.layers[1].project.out_features)
    stack.layers[1].input_size = 4
    assert [layer.name for layer in affine_layers(stack, torch.randn(5, 2, 3))] == ["layers.1"]
    slstm = Stack([ms.cells.Block(ms.cells.SLSTM(3, 3), 3), GRU(3, 4)])
    with pytest.raises(TypeError, match="no layer that is affine"):
        affine_layers(slstm, torch.randn(5, 2, 3))
    with pytest.raises(ValueError, match="at least one sequence, but the batch is empty"):
        affine_layers(stack, torch.randn(5, 0, 3))
    with pytest.raises(ValueError, match="hold NaN or infinite values; for sequences of unequal length"):
        affine_layers(stack, torch.full((4, 2, 3), torch.nan))


def test_a_model_encodes_its_inputs_and_padding_changes_nothing():
    model = ms.Model(CELLS["deltanet"](), 2, encode=torch.nn.Embedding(5, 3))
    tokens = torch.randint(5, (6, 2))
    [layer] = affine_layers(model, tokens, lengths=[6, 3])
    [whole] = affine_layers(model, tokens)
    close(layer.states()[:3], whole.states()[:3])


@representatives("lru", "deltaproduct")
@pytest.mark.parametrize("name", CELLS)
def test_states_in_chunks_are_those_of_step_after_step(name):
    cell = CELLS[name]().double()
    xs = torch.randn(7, 2, 3, dtype=torch.float64, requires_grad=True)
    [layer] = affine_layers(cell, xs, ms.scan(cell, xs[:2])[1])
    S, expected = layer.start, []
    for t in range(len(xs)):
        S = step_state(layer.at(t), S)
        expected.append(S)
    states = torch.stack(expected)
    [gradient] = torch.autograd.grad(states.abs().square().sum(), xs, retain_graph=True)
    for chunk in (1, 3, 64):
        found = scan_states(layer.parts, layer.start, chunk)
        close(found, states)
        [same] = torch.autograd.grad(found.abs().square().sum(), xs, retain_graph=True)
        close(same, gradient)


def test_parts_whose_weights_would_be_left_out_are_refused():
    cell, S = MLSTM(3, 4), torch.zeros(1, 1, 4, 5)
    parts = cell.parts(cell.project(torch.randn(2, 1, 3)))
    for run in scan_states, scan_parts, step_state:
        with pytest.raises(ValueError, match="scale_sequence"):
            run(parts, S)
