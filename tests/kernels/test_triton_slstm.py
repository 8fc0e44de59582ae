"""The fused scan of the sLSTM, in Triton's interpreter or on a GPU, compared with the loop in float64."""

import pytest
import torch

from mnemoscope.kernels import devices, slstm
from mnemoscope.kernels.grids import Grid
from mnemoscope.kernels.slstm import no_slstm_scan, slstm_loop, slstm_scan

pytest.importorskip("triton")
from tests.slow import representatives

# of numpy, behind the interpreter: 1 / (1 + inf) is 0
pytestmark = pytest.mark.filterwarnings("ignore:overflow.*:RuntimeWarning")
GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"


@pytest.fixture
def fused(monkeypatch):
    """Let a scan use the kernels, in the interpreter on the CPU."""
    monkeypatch.setattr(slstm, "_on_cpu", lambda _: False)


def problem(time, batch, units, started):
    """Return the drive, a state in which something was written or nothing, and the matrix."""
    torch.manual_seed(units)
    us, h, c, m = (torch.randn(*size, device=DEVICE) for size in ((time, batch, 4 * units), *[(batch, units)] * 3))
    n = torch.rand(batch, units, device=DEVICE) + 0.1
    if not started:
        c, n = torch.zeros_like(c), torch.zeros_like(n)
    return us, h, c, n, m, torch.randn(4 * units, units, device=DEVICE) / units**0.5


def results(scan, tensors, exponential, mask):
    """Return outputs, the last c, n and m, and the gradients of drive, first state and matrix."""
    tensors = [x.detach().clone().requires_grad_() for x in tensors]
    us, *state, V = tensors
    found = scan(us, tuple(state), V, exponential, mask)
    weights = [torch.linspace(-1, 2, x.numel(), device=DEVICE, dtype=x.dtype).reshape(x.shape) for x in found]
    return [*found, *torch.autograd.grad(found, tensors, weights)]


def fused_scan(us, state, V, exponential, mask):
    hs, (_, *last) = slstm_scan(us, state, V, exponential, mask)
    return hs, *last


def plain_loop(us, state, V, exponential, mask):
    return slstm_loop(us, *state, V, exponential, mask)


def check(time, batch, units, exponential, masked, started, tolerance):
    tensors = problem(time, batch, units, started)
    mask = torch.rand(time, batch, device=DEVICE) < 0.6 if masked else None
    found = results(fused_scan, tensors, exponential, mask)
    expected = results(plain_loop, [x.double() for x in tensors], exponential, mask)
    for one, other in zip(found, expected, strict=True):
        assert (one - other).norm() <= tolerance * other.norm() + 1e-30


@representatives("False-True-True-3-2-5", "True-False-True-3-2-5", "False-False-False-2-18-9", "True-True-False-3-2-5")
@pytest.mark.parametrize(("time", "batch", "units"), [(1, 1, 1), (3, 2, 5), (2, 18, 9), (7, 2, 64)])
@pytest.mark.parametrize("started", [True, False])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("exponential", [True, False])
def test_results_and_gradients_are_those_of_the_loop(fused, exponential, masked, started, time, batch, units):
    check(time, batch, units, exponential, masked, started, 1e-5)


@pytest.mark.skipif(not GPU, reason="programs of several hundred units are slow in the interpreter")
@pytest.mark.parametrize(("batch", "units"), [(1, 129), (16, 512), (100, 256)])
@pytest.mark.parametrize("masked", [True, False])
def test_many_units_give_the_results_of_the_loop(masked, batch, units):
    check(50, batch, units, False, masked, True, 3e-5)


def test_large_gates_do_not_overflow(fused):
    us, *state, V = problem(6, 2, 3, started=False)
    us = 200 * us
    found, expected = (scan(us, tuple(state), V, True, None) for scan in (fused_scan, plain_loop))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-5, atol=1e-5)
    assert found[0].isfinite().all()


def test_second_derivatives_are_those_of_the_loop(fused):
    us, *state, V = problem(3, 1, 2, started=True)

    def penalty(scan):
        given = us.clone().requires_grad_()
        first = torch.autograd.grad(scan(given, tuple(state), V, False, None)[0].sum(), given, create_graph=True)[0]
        return torch.autograd.grad(first.square().sum(), given)[0]

    torch.testing.assert_close(penalty(fused_scan), penalty(plain_loop))


def test_what_the_kernels_do_not_take_is_named(monkeypatch):
    monkeypatch.setattr(devices, "no_triton", lambda *_: None)
    monkeypatch.setattr(slstm, "gated_grid", lambda device, units, batch: Grid(4, 8) if units <= 512 else None)
    gpu = torch.device("cuda")
    assert no_slstm_scan(gpu, torch.float32, 512, 16) is None
    assert "room" in no_slstm_scan(gpu, torch.float32, 513, 16)
    assert "float32" in no_slstm_scan(gpu, torch.float64, 8, 1)
