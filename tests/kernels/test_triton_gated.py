"""The fused scans of GRU and LSTM, in Triton's interpreter or on a GPU, compared with the loop in float64."""

from copy import deepcopy

import pytest
import torch

import mnemoscope as ms
from mnemoscope.cells import GRU, LSTM, fused_gated
from mnemoscope.cells.lstm import LSTMState
from mnemoscope.kernels import gated
from mnemoscope.kernels.gated import MOST_UNITS, SEQUENCES, no_gated_scan

pytest.importorskip("triton")
from tests.slow import representatives

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"


@pytest.fixture
def fused(monkeypatch):
    """Let a scan use the kernels: of any batch on a GPU, and in the interpreter on the CPU."""
    monkeypatch.setattr(gated, "SEQUENCES", (1, 264))
    if not GPU:
        monkeypatch.setattr(fused_gated, "no_gated_scan", lambda *_: None)
        monkeypatch.setattr(fused_gated, "_prefers_torch", lambda *_: False)
        monkeypatch.setattr(gated, "_on_cpu", lambda _: False)


def problem(kind, units, time, batch, bias=True):
    torch.manual_seed(units)
    cell = {"gru": GRU, "lstm": LSTM}[kind](3, units, bias=bias).to(DEVICE)
    xs = torch.randn(time, batch, 3, device=DEVICE)
    state = [torch.randn(batch, units, device=DEVICE) for _ in range(2 if kind == "lstm" else 1)]
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


@representatives("gru-True-True-3-2-5", "lstm-True-True-3-2-5", "gru-False-False-1-1-1", "lstm-False-False-1-1-1")
@pytest.mark.parametrize(("time", "batch", "units"), [(1, 1, 1), (3, 2, 5), (2, 3, 17), (7, 2, 64)])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_results_and_gradients_are_those_of_the_loop(fused, kind, masked, bias, time, batch, units):
    cell, xs, state = problem(kind, units, time, batch, bias)
    mask = torch.rand(time, batch, device=DEVICE) < 0.6 if masked else None
    found, route = run(cell, xs, state, mask, "auto", torch.float32)
    expected, _ = run(cell, xs, state, mask, "loop", torch.float64)
    assert f"fused {kind}" in route
    for one, other in zip(found, expected, strict=True):
        assert (one - other).norm() <= 3e-6 * other.norm() + 1e-30


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_without_gradients_no_gates_are_stored_and_nothing_changes(fused, kind, monkeypatch):
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
    monkeypatch.setattr(gated, "no_triton", lambda *_: None)
    device, (least, most) = torch.device("cuda"), SEQUENCES
    assert no_gated_scan(device, torch.float32, MOST_UNITS, least, False) is None
    assert no_gated_scan(device, torch.float32, MOST_UNITS, 1, True) is None
    assert "fewer" in no_gated_scan(device, torch.float32, MOST_UNITS, least - 1, False)
    assert "units" in no_gated_scan(device, torch.float32, MOST_UNITS + 1, least, True)
    assert "sequences" in no_gated_scan(device, torch.float32, 8, most + 1, True)
    assert "float32" in no_gated_scan(device, torch.float64, 8, least, True)


def test_a_projection_has_another_path():
    _, xs, _ = problem("lstm", 4, 2, 1)
    small = LSTM(3, 4, projection_size=2).to(DEVICE)
    masked = str(ms.scan(small, xs, mask=torch.ones(2, 1, dtype=torch.bool, device=DEVICE), explain=True)[2])
    assert "take no mask, and " in masked
    assert "fused lstm" not in str(ms.scan(small, xs, explain=True)[2])
