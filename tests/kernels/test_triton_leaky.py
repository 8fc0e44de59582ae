"""The fused scan of leaky units, in Triton's interpreter or on a GPU, compared with the loop in float64."""

from functools import partial

import pytest
import torch

from mnemoscope.kernels import devices, leaky
from mnemoscope.kernels.activation import ACTIVATIONS
from mnemoscope.kernels.grids import Grid
from mnemoscope.kernels.leaky import leaky_loop, leaky_scan, no_leaky_scan

pytest.importorskip("triton")
from tests.slow import representatives

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"


@pytest.fixture
def fused(monkeypatch):
    """Let a scan use the kernels, in the interpreter on the CPU."""
    monkeypatch.setattr(leaky, "_on_cpu", lambda _: False)


def problem(time, batch, units, masked):
    torch.manual_seed(units)
    us, state = torch.randn(time, batch, units, device=DEVICE), torch.randn(batch, units, device=DEVICE)
    W = torch.randn(units, units, device=DEVICE) / units**0.5
    return us, state, W, torch.rand(time, batch, device=DEVICE) < 0.6 if masked else None


def results(scan, tensors, *options):
    """Return rates, the last state, and the gradients of drive, first state and matrix."""
    us, state, W = (x.detach().clone().requires_grad_() for x in tensors)
    found = scan(us, state, W, *options)
    weights = [torch.linspace(-1, 2, x.numel(), device=DEVICE, dtype=x.dtype).reshape(x.shape) for x in found]
    return [*found, *torch.autograd.grad(found, [us, state, W], weights)]


def check(sizes, activation, rate, masked, tolerance):
    us, state, W, mask = problem(*sizes, masked)
    options = (0.3, activation, rate, mask)
    found = results(leaky_scan, (us, state, W), *options)
    expected = results(leaky_loop, (us.double(), state.double(), W.double()), *options)
    for one, other in zip(found, expected, strict=True):
        assert (one - other).norm() <= tolerance * other.norm() + 1e-30


@representatives(
    "tanh-False-True-3-2-5",
    "tanh-True-True-3-2-5",
    "relu-False-False-2-18-9",
    "logistic-True-False-2-18-9",
    "linear-False-True-7-2-64",
)
@pytest.mark.parametrize(("time", "batch", "units"), [(1, 1, 1), (3, 2, 5), (2, 18, 9), (7, 2, 64)])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("rate", [True, False])
@pytest.mark.parametrize("activation", [name for name, phi in ACTIVATIONS.items() if not phi.takes_bias])
def test_results_and_gradients_are_those_of_the_loop(fused, activation, rate, masked, time, batch, units):
    check((time, batch, units), activation, rate, masked, 3e-6)


@pytest.mark.skipif(not GPU, reason="programs of several hundred units are slow in the interpreter")
@pytest.mark.parametrize(("batch", "units"), [(1, 129), (16, 512), (10, 1000), (100, 256)])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("rate", [True, False])
def test_many_units_give_the_results_of_the_loop(rate, masked, batch, units):
    check((50, batch, units), "tanh", rate, masked, 1e-5)


@pytest.mark.parametrize("rate", [True, False])
def test_a_leak_of_1_forgets_a_large_state(fused, rate):
    us, state = torch.full((1, 1, 1), 1e-3, device=DEVICE), torch.full((1, 1), 1e4, device=DEVICE)
    rates, last = leaky_scan(us, state, torch.zeros(1, 1, device=DEVICE), 1.0, "relu", rate)
    assert rates.item() == last.item() == us.item()


@pytest.mark.parametrize("rate", [True, False])
def test_second_derivatives_are_those_of_the_loop(fused, rate):
    us, state, W, _ = problem(3, 1, 2, False)

    def penalty(scan):
        given = us.clone().requires_grad_()
        first = torch.autograd.grad(scan(given, state, W, 0.5, "tanh", rate)[0].sum(), given, create_graph=True)[0]
        return torch.autograd.grad(first.square().sum(), given)[0]

    torch.testing.assert_close(penalty(leaky_scan), penalty(partial(leaky_loop, mask=None)))


def test_what_the_kernels_do_not_take_is_named(monkeypatch):
    monkeypatch.setattr(devices, "no_triton", lambda *_: None)
    monkeypatch.setattr(leaky, "_grid", lambda device, units, batch: Grid(16, 4) if units <= 1024 else None)
    gpu, tanh = torch.device("cuda"), ACTIVATIONS["tanh"]
    assert no_leaky_scan(gpu, torch.float32, 1024, 16, tanh) is None
    assert "room" in no_leaky_scan(gpu, torch.float32, 1025, 16, tanh)
    assert "float32" in no_leaky_scan(gpu, torch.float64, 8, 1, tanh)
    assert "bias" in no_leaky_scan(gpu, torch.float32, 8, 1, ACTIVATIONS["modrelu"])
