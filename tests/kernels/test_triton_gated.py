"""The fused scans of GRU and LSTM, in Triton's interpreter or on a GPU, compared with the loop in float64."""

from copy import deepcopy
from functools import partial
from math import ceil
from types import SimpleNamespace

import pytest
import torch

import mnemoscope as ms
from mnemoscope.cells import GORU, GRU, LSTM, fused_gated, goru
from mnemoscope.cells.lstm import LSTMState
from mnemoscope.cells.nonlinearities import make_nonlinearity
from mnemoscope.kernels import devices, gated, gated_plans
from mnemoscope.kernels.gated_plans import (
    FEW_SEQUENCES,
    FEW_UNITS,
    MOST_SEQUENCES,
    MOST_UNITS,
    gated_plan,
    no_gated_scan,
)

pytest.importorskip("triton")
from tests.slow import representatives

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"


@pytest.fixture
def fused(monkeypatch):
    """Let a scan use the kernels: of any batch on a GPU, and in the interpreter on the CPU."""
    monkeypatch.setattr(gated_plans, "FEW_SEQUENCES", 1)
    monkeypatch.setattr(gated_plans, "FEW_UNITS", 1)
    if not GPU:
        for module in (fused_gated, goru):
            monkeypatch.setattr(module, "no_gated_scan", lambda *_, **named: None)
        monkeypatch.setattr(fused_gated, "_prefers_torch", lambda *_: False)
        monkeypatch.setattr(gated, "_on_cpu", lambda _: False)


@pytest.fixture(params=["vector", "grid"])
def way(request, fused, monkeypatch):
    """Run every scan in one way."""
    if request.param == "grid":
        monkeypatch.setitem(gated_plans.MOST_UNITS, "vector", 0)
    return request.param


CELLS = {
    "gru": GRU,
    "gru without bias": partial(GRU, bias=False),
    "lstm": LSTM,
    "lstm without bias": partial(LSTM, bias=False),
    "goru": GORU,
    "goru, logistic": GORU,
}


def problem(kind, units, time, batch):
    torch.manual_seed(units)
    cell = CELLS[kind](3, units).to(DEVICE)
    if kind == "goru":
        torch.nn.init.uniform_(cell.phi.bias, -0.5, 0.2)
    elif kind == "goru, logistic":
        cell.phi = make_nonlinearity("logistic", units).to(DEVICE)
    xs = torch.randn(time, batch, 3, device=DEVICE)
    state = [torch.randn(batch, units, device=DEVICE) for _ in range(2 if "lstm" in kind else 1)]
    return cell, xs, state


def run(cell, xs, state, mask, backend, dtype):
    """Return outputs, the last state, the gradients of inputs, first state and weights, and the route."""
    cell = deepcopy(cell).to(dtype)
    xs, *state = (x.to(dtype).requires_grad_() for x in (xs, *state))
    start = LSTMState(*state) if len(state) == 2 else state[0]
    outputs, last, route = ms.scan(cell, xs, start, mask=mask, backend=backend, explain=True)
    results = [outputs, *(last if len(state) == 2 else (last,))]
    weights = [torch.linspace(-1, 2, x.numel(), device=DEVICE, dtype=dtype).reshape(x.shape) for x in results]
    gradients = torch.autograd.grad(results, [xs, *state, *cell.parameters()], weights)
    return [*results, *gradients], str(route)


@representatives(
    "grid-gru-True-3-2-5",
    "grid-lstm-True-3-2-5",
    "grid-lstm-False-2-18-9",
    "grid-goru-False-2-18-9",
    "vector-gru-False-3-2-5",
    "vector-lstm-True-3-2-5",
    "vector-goru-True-3-2-5",
)
@pytest.mark.parametrize(("time", "batch", "units"), [(1, 1, 1), (3, 2, 5), (2, 3, 17), (2, 18, 9), (7, 2, 64)])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("kind", CELLS)
def test_results_and_gradients_are_those_of_the_loop(way, kind, masked, time, batch, units):
    cell, xs, state = problem(kind, units, time, batch)
    mask = torch.rand(time, batch, device=DEVICE) < 0.6 if masked else None
    found, route = run(cell, xs, state, mask, "auto", torch.float32)
    expected, _ = run(cell, xs, state, mask, "loop", torch.float64)
    assert f"fused {kind[:3]}" in route
    for one, other in zip(found, expected, strict=True):
        assert (one - other).norm() <= 3e-6 * other.norm() + 1e-30


@pytest.mark.skipif(not GPU, reason="programs of several hundred units are slow in the interpreter")
@pytest.mark.parametrize(("batch", "units"), [(1, 129), (16, 200), (10, 256), (128, 256), (16, 512), (5, 300)])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("kind", ["gru", "lstm", "goru"])
def test_many_units_give_the_results_of_the_loop(fused, kind, masked, batch, units):
    cell, xs, state = problem(kind, units, 50, batch)
    mask = torch.rand(50, batch, device=DEVICE) < 0.6 if masked else None
    found, route = run(cell, xs, state, mask, "auto", torch.float32)
    expected, _ = run(cell, xs, state, mask, "loop", torch.float64)
    assert f"fused {kind}" in route
    for one, other in zip(found, expected, strict=True):
        assert (one - other).norm() <= 1e-5 * other.norm() + 1e-30


@pytest.mark.skipif(not GPU, reason="the interpreter has no tf32")
@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_in_tf32_many_units_have_its_accuracy(fused, kind):
    cell, xs, state = problem(kind, 256, 20, 16)
    expected, _ = run(cell, xs, state, None, "loop", torch.float64)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        found, _ = run(cell, xs, state, None, "auto", torch.float32)
    finally:
        torch.set_float32_matmul_precision(before)
    for one, other in zip(found, expected, strict=True):
        assert (one - other).norm() <= 1e-2 * other.norm() + 1e-30


@pytest.mark.skipif(not GPU, reason="no CUDA")
def test_a_replayed_graph_gives_the_results_of_a_scan(fused):
    cell, xs, state = problem("lstm", 200, 20, 16)
    start = LSTMState(*state)
    with torch.no_grad():
        expected = ms.scan(cell, xs, start)[0]  # compiles
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outputs = ms.scan(cell, xs, start)[0]
    for _ in range(2):
        outputs.zero_()
        graph.replay()
        assert torch.equal(outputs, expected)


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_without_gradients_no_gates_are_stored_and_nothing_changes(way, kind, monkeypatch):
    cell, xs, state = problem(kind, 5, 3, 2)
    launch, saved = gated._launch, []
    monkeypatch.setattr(gated, "_launch", lambda *given, **more: saved.append(more["SAVE"]) or launch(*given, **more))
    start = LSTMState(*state) if len(state) == 2 else state[0]
    with torch.no_grad():
        plain = ms.scan(cell, xs, start)[0]
    assert torch.equal(plain, ms.scan(cell, xs, start)[0])
    assert saved == [False, True]


def test_second_derivatives_name_the_remedy(fused):
    cell, xs, _ = problem("gru", 3, 2, 1)
    outputs, _ = ms.scan(cell, xs.requires_grad_())
    with pytest.raises(RuntimeError, match="backend='loop'"):
        torch.autograd.grad(outputs.sum(), xs, create_graph=True)


def test_which_networks_are_left_to_cudnn(monkeypatch):
    monkeypatch.setattr(devices, "no_triton", lambda *_: None)
    properties = SimpleNamespace(multi_processor_count=132, shared_memory_per_block_optin=227 * 1024)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    few, many, refuses = MOST_UNITS["vector"], MOST_UNITS["grid"], partial(no_gated_scan, torch.device("cuda"))
    assert refuses(torch.float32, few, FEW_SEQUENCES, cudnn=True) is None
    assert refuses(torch.float32, few, 1, cudnn=False) is None
    assert "fewer" in refuses(torch.float32, few, FEW_SEQUENCES - 1, cudnn=True)
    assert "float32" in refuses(torch.float64, 8, FEW_SEQUENCES, cudnn=False)
    assert "cuDNN" in refuses(torch.float32, FEW_UNITS, 1, cudnn=True)
    assert refuses(torch.float32, FEW_UNITS, 1, cudnn=False) is None
    assert refuses(torch.float32, FEW_UNITS + 1, 1, cudnn=True) is None
    assert "room" in refuses(torch.float32, many + 1, 1, cudnn=False)
    assert "room" in refuses(torch.float32, many, MOST_SEQUENCES, cudnn=False)


def test_all_programs_of_a_grid_are_resident_and_have_room(monkeypatch):
    processors, limit = 108, 163 * 1024
    properties = SimpleNamespace(multi_processor_count=processors, shared_memory_per_block_optin=limit)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    grids = 0
    for units in range(65, 513, 37):
        for batch in (1, 16, 17, 64, 128, 300):
            plan = gated_plan(torch.device("cuda"), units, batch)
            if plan is not None:
                grids += 1
                assert ceil(units / plan.share) * ceil(batch / plan.rows) <= processors
                assert plan.shared_bytes(units, 4 * plan.share, 6) <= limit
    assert grids > 10


def test_a_projection_has_another_path():
    _, xs, _ = problem("lstm", 4, 2, 1)
    small = LSTM(3, 4, projection_size=2).to(DEVICE)
    masked = str(ms.scan(small, xs, mask=torch.ones(2, 1, dtype=torch.bool, device=DEVICE), explain=True)[2])
    assert "take no mask, and " in masked
    assert "fused lstm" not in str(ms.scan(small, xs, explain=True)[2])
