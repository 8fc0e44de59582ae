"""Patching, saving and loading the states of our own cells and of torch's networks."""

import pytest
import torch

import mnemoscope as ms
from mnemoscope.cells import GRU, LSTM, Stack
from mnemoscope.cells.state import leaves, map_state
from tests.cells.test_cells import CELLS, FLOAT64_ROUNDING, random_state
from tests.slow import representatives

XS = torch.randn(7, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def assert_same(one, other):
    for left, right in zip(leaves(one), leaves(other), strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=FLOAT64_ROUNDING)


@representatives("elman", "stack", "memrnn", "ntm", "gated-deltanet-heads")
@pytest.mark.parametrize("name", CELLS)
def test_after_a_patch_every_step_is_that_of_a_run_from_the_patched_state(name):
    cell = CELLS[name]().double()
    start = random_state(cell, 2)
    outputs, cache = ms.run_with_cache(cell, XS, start)
    _, third = ms.scan(cell, XS[:3], start)
    field = cell.state_names(third)[0]
    numbered = iter(cell.state_names(third))
    patched = map_state(lambda leaf: leaf + 0.5 * (next(numbered) == field), third)
    with_patch, patched_cache = ms.patch(cell, XS, {(field, 2): lambda value: value + 0.5}, start)
    assert_same(with_patch[:2], outputs[:2])
    assert_same(with_patch[3:], ms.scan(cell, XS[3:], patched)[0])
    assert_same(with_patch[2], cell.output_at(XS[2], patched))
    assert_same(patched_cache[field][:2], cache[field][:2])
    if not cell.grows:
        assert_same(patched_cache[field][2], leaves(patched)[0])


def test_a_patch_with_the_recorded_value_changes_nothing():
    network, xs = torch.nn.GRU(3, 4, batch_first=True), torch.randn(2, 5, 3)
    outputs, cache = ms.run_with_cache(network, xs)
    assert torch.equal(ms.patch(network, xs, {("h", 3): cache["h"][:, 3]})[0], outputs)


def test_names_of_states_in_stacks_and_torch_networks():
    assert list(ms.run_with_cache(Stack([GRU(3, 4), LSTM(4, 5)]), torch.randn(5, 2, 3))[1]) == [
        "layers.0.h",
        "layers.1.h",
        "layers.1.c",
    ]
    network = torch.nn.GRU(3, 4, num_layers=2)
    assert list(ms.run_with_cache(network, torch.randn(5, 2, 3))[1]) == ["layers.0.h", "layers.1.h"]
    computed = torch.nn.utils.parametrizations.weight_norm(network, "weight_hh_l1")
    assert list(ms.run_with_cache(computed, torch.randn(5, 2, 3))[1]) == ["layers.0.h", "layers.1.h"]


def test_a_patch_of_one_layer_changes_the_layers_above_and_not_those_below():
    stack = Stack([GRU(3, 4), GRU(4, 4), GRU(4, 4)]).double()
    before = ms.run_with_cache(stack, XS)[1]
    after = ms.patch(stack, XS, {("layers.1.h", 2): torch.ones(4)})[1]
    assert torch.equal(after["layers.0.h"], before["layers.0.h"])
    assert (after["layers.1.h"][2] == 1).all()
    assert torch.equal(after["layers.2.h"][2], before["layers.2.h"][2])  # patch one, keep the others
    assert ((after["layers.2.h"][3:] - before["layers.2.h"][3:]).abs().amax((-1, -2)) > 1e-6).all()


@pytest.mark.parametrize(
    ("edits", "error", "message"),
    [
        ({"h": torch.zeros(4)}, TypeError, r"given by \(name, step\)"),
        ({("c", 1): torch.zeros(4)}, ValueError, "The state has h, but no 'c'"),
        ({("h", 7): torch.zeros(4)}, ValueError, "from 0 to 6, but is 7"),
        ({("h", True): torch.zeros(4)}, ValueError, "but is True"),
        ({("h", 1): torch.zeros(5)}, ValueError, r"a value of \(5,\) does not broadcast"),
        ({("h", 1): torch.zeros(4, dtype=torch.complex64)}, ValueError, r"pass value\.real"),
        ({("h", 1): lambda h: None}, TypeError, "is a NoneType"),
    ],
)
def test_edits_that_make_no_sense_are_refused(edits, error, message):
    with pytest.raises(error, match=message):
        ms.patch(GRU(3, 4).double(), XS, edits)


@pytest.mark.parametrize("name", ["lstm", "memrnn", "lru"])
def test_a_saved_state_is_loaded_as_it_was(name, tmp_path):
    cell = CELLS[name]().double()
    _, state = ms.scan(cell, XS)
    ms.save_state(tmp_path / "state.safetensors", cell, state)
    loaded = ms.load_state(tmp_path / "state.safetensors", cell)
    assert type(loaded) is type(state)
    assert all(torch.equal(one, other) for one, other in zip(leaves(loaded), leaves(state), strict=True))
    assert torch.equal(ms.scan(cell, XS, loaded)[0], ms.scan(cell, XS, state)[0])


def test_states_of_other_networks_are_refused(tmp_path):
    path = tmp_path / "state.safetensors"
    with pytest.raises(ValueError, match="has h, c, but 1 tensors"):
        ms.save_state(path, LSTM(3, 4), torch.zeros(2, 4))
    ms.save_state(path, GRU(3, 4), torch.zeros(2, 4))
    with pytest.raises(ValueError, match="has a state of h, but the network's is h, c"):
        ms.load_state(path, LSTM(3, 4))
    with pytest.raises(ValueError, match=r"'h' in .* has the shape \(2, 4\)"):
        ms.load_state(path, GRU(3, 5))
    ms.save_state(path, LSTM(3, 4), (torch.zeros(2, 4), torch.zeros(3, 4)))
    with pytest.raises(ValueError, match="several batch sizes"):
        ms.load_state(path, LSTM(3, 4))
