"""Fast scans: values and gradients equal those of the loop, or there is a reason why a scan does not run."""

import inspect
import os
import shutil
import subprocess
import sys
from functools import partial

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad as fwd, gradcheck, gradgradcheck
from torch.func import functional_call, jacrev, jvp, vmap

import mnemoscope as ms
from mnemoscope.cells import (
    GORU,
    GRU,
    LSTM,
    SLSTM,
    EchoState,
    Elman,
    FastPath,
    LeakyRNN,
    NoFastPath,
    Stack,
    fused_gated,
)
from mnemoscope.cells.nonlinearities import FusableNonlinearity
from mnemoscope.cells.state import leaves, map_state
from mnemoscope.kernels import (
    ACTIVATIONS,
    diagonal_scan,
    elementwise as elementwise_module,
    elementwise_scan,
    gated,
    leaky,
    linear_scan,
    slstm,
    small_scan,
    stepping,
)
from mnemoscope.kernels.devices import exact_products
from mnemoscope.kernels.linear import MANY
from tests.slow import SLOW, representatives, slow

# torch loads its forward-mode formulas by a deprecated way of its own
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")

REAL = tuple(ACTIVATIONS)
COMPLEX = tuple(name for name, phi in ACTIVATIONS.items() if phi.takes_complex)
KINDS = [(name, torch.float64) for name in REAL] + [(name, torch.complex128) for name in COMPLEX]
ROUNDING = {"rtol": 1e-11, "atol": 1e-11}  # float64, some tens of steps of order 1


def reference(us, h, V, name, bias=None, mask=None):
    """Run the recurrence as a loop; inputs of held steps are ignored."""
    us, hs = us if mask is None else us.masked_fill(~mask.unsqueeze(-1), 0), []
    for t in range(len(us)):
        new = ACTIVATIONS[name](h @ V.mT + us[t], bias)
        h = new if mask is None else torch.where(mask[t].unsqueeze(-1), new, h)
        hs.append(h)
    return torch.stack(hs)


def inputs(name, dtype, time=5, batch=2, units=3):
    us, h0 = torch.randn(time, batch, units, dtype=dtype), torch.randn(batch, units, dtype=dtype)
    V = 0.8 * torch.randn(units, units, dtype=dtype) / units**0.5
    given = [us, h0, V]
    if ACTIVATIONS[name].takes_bias:
        given.append(0.3 * torch.randn(units, dtype=dtype.to_real()))
    return [x.requires_grad_() for x in given]


def both(name, mask=None):
    def fused(us, h0, V, bias=None):
        return elementwise_scan(us, h0, V, name, bias, mask)

    def loop(us, h0, V, bias=None):
        return reference(us, h0, V, name, bias, mask)

    return fused, loop


# --- the elementwise scan ---------------------------------------------------------------------------------------------


@representatives(
    "linear-dtype4-True-1-3-2",
    "logistic-dtype7-True-1-3-2",
    "modrelu-dtype2-True-6-5-7",
    "modrelu-dtype6-False-1-1-1",
    "relu-dtype1-True-1-3-2",
    "tanh-dtype5-False-1-1-1",
)
@pytest.mark.parametrize(("time", "batch", "units"), [(1, 1, 1), (1, 3, 2), (17, 1, 5), (6, 5, 7)])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("name", "dtype"), KINDS)
def test_elementwise_scan_equals_the_recurrence(name, dtype, masked, time, batch, units):
    given = inputs(name, dtype, time, batch, units)
    mask = torch.rand(time, batch) < 0.6 if masked else None
    fused, loop = both(name, mask)
    hs, expected = fused(*given), loop(*given)
    torch.testing.assert_close(hs, expected, **ROUNDING)
    g = torch.randn_like(hs)
    for one, other in zip(torch.autograd.grad(hs, given, g), torch.autograd.grad(expected, given, g), strict=True):
        torch.testing.assert_close(one, other, **ROUNDING)


@representatives("modrelu-dtype2-False", "modrelu-dtype6-True", "tanh-dtype0-True")
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("name", "dtype"), KINDS)
def test_large_steps_in_torch_equal_the_recurrence(name, dtype, masked, monkeypatch):
    monkeypatch.setattr(small_scan, "ONE_THREAD", 0)
    monkeypatch.setattr(stepping, "PIECE", 1)
    test_elementwise_scan_equals_the_recurrence(name, dtype, masked, 6, 5, 7)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_the_gradient_of_modrelu_takes_whole_pieces(dtype, masked, monkeypatch):
    monkeypatch.setattr(stepping, "PIECE", 8 * 5 * 7 * 3 * 4)  # some steps each, the last piece shorter
    test_elementwise_scan_equals_the_recurrence("modrelu", dtype, masked, 11, 5, 7)


def test_threads_that_a_scan_starts_do_not_flush_denormal_numbers():
    """In a new process, where the scan has the first operation that several threads share."""
    program = (
        "import numpy, torch, mnemoscope as ms\n"
        "torch.set_num_threads(2)\n"
        "ms.scan(torch.nn.GRU(4, 700), torch.randn(5, 1, 4))\n"
        "x = torch.from_numpy(numpy.full(2_000_000, 1e-30, 'float32'))\n"
        "print(int((x * 1e-10 == 0).sum()))"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout == "0\n"


@pytest.mark.parametrize("already", [False, True])
def test_scans_flush_denormal_gradients_and_restore_the_setting(already):
    if not torch.set_flush_denormal(already):
        pytest.skip("this processor cannot flush denormal numbers")
    try:
        torch.set_num_threads(1)
        us, h0 = torch.zeros(60, 1, 1, requires_grad=True), torch.zeros(1, 1)
        elementwise_scan(us, h0, torch.full((1, 1), 0.1), "tanh")[-1].sum().backward()
        gradient = us.grad.flatten()
        assert not gradient[:20].any()  # 1e-60 to 1e-41
        torch.testing.assert_close(gradient[30:], 0.1 ** torch.arange(29.0, -1, -1))
        assert bool(torch.tensor(1e-40) * torch.ones(()) == 0) == already
    finally:
        torch.set_flush_denormal(False)


@representatives("linear-dtype4-True", "modrelu-dtype6-True")
@pytest.mark.parametrize("masked", [True, *slow(False)])
@pytest.mark.parametrize(("name", "dtype"), KINDS)
def test_first_and_second_derivatives(name, dtype, masked):
    given = inputs(name, dtype, time=3, units=2)  # few numbers: each is nudged for the derivative by each other
    mask = torch.tensor([[True, False], [False, True], [True, True]])
    fused, _ = both(name, mask if masked else None)
    assert gradcheck(fused, given)
    assert gradgradcheck(fused, given)


def test_third_derivatives():
    given = inputs("tanh", torch.float64, time=3)

    def third(scan):
        value = scan(*given).pow(3).sum()
        for _ in range(3):
            value = sum(g.square().sum() for g in torch.autograd.grad(value, given, create_graph=True))
        return value

    one, other = (third(scan) for scan in both("tanh"))
    torch.testing.assert_close(one, other, rtol=1e-9, atol=0)  # four nested sums of squares


def test_only_requested_gradients_are_computed():
    us, h0, V = inputs("tanh", torch.float64)
    hs = elementwise_scan(us.detach(), h0.detach(), V, "tanh")
    hs.sum().backward()
    assert V.grad is not None
    assert us.grad is None
    assert h0.grad is None
    assert not elementwise_scan(us.detach(), h0.detach(), V.detach(), "tanh").requires_grad


def test_memory_layout_does_not_matter():
    us, h0, V = (x.detach() for x in inputs("tanh", torch.float64, 6, 4, 4))
    expected = elementwise_scan(us, h0, V, "tanh")
    awkward = us.transpose(0, 2).contiguous().transpose(0, 2), h0.mT.contiguous().mT, V.mT.contiguous().mT
    awkward = [x.requires_grad_() for x in awkward]
    assert not any(x.is_contiguous() for x in awkward)
    hs = elementwise_scan(*awkward, "tanh")
    torch.testing.assert_close(hs, expected, **ROUNDING)
    g = torch.randn(4, 4, 6, dtype=torch.float64).permute(2, 1, 0)  # neither is the gradient's
    for one, other in zip(
        torch.autograd.grad(hs, awkward, g),
        torch.autograd.grad(reference(*awkward, "tanh"), awkward, g),
        strict=True,
    ):
        torch.testing.assert_close(one, other, **ROUNDING)
    held = h0[:1].expand(4, 4)
    torch.testing.assert_close(elementwise_scan(us, held, V, "tanh"), reference(us, held, V, "tanh"), **ROUNDING)


@representatives("linear-True-nan", "logistic-False-nan", "modrelu-False-nan", "relu-False-inf", "tanh-False-nan")
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", REAL)
def test_nan_spreads_as_in_the_loop(name, masked, bad):
    given = inputs(name, torch.float64, 6, 3, 4)
    with torch.no_grad():
        given[0][2, 1, 3] = bad
    mask = torch.ones(6, 3, dtype=torch.bool) if masked else None
    if mask is not None:
        mask[2, 1] = False  # the one bad step is held over
    fused, loop = both(name, mask)
    hs, expected = fused(*given), loop(*given)
    assert masked == bool(hs.isfinite().all()) or (bad == torch.inf and name in ("tanh", "logistic"))
    torch.testing.assert_close(hs, expected, equal_nan=True, **ROUNDING)
    for g in (torch.randn_like(hs), 2 * expected.detach()):  # a finite gradient, and that of a squared loss
        for one, other in zip(
            torch.autograd.grad(hs, given, g, retain_graph=True),
            torch.autograd.grad(expected, given, g, retain_graph=True),
            strict=True,
        ):
            torch.testing.assert_close(one, other, equal_nan=True, **ROUNDING)


def test_units_that_are_off_block_infinite_gradients():
    for name in ("relu", "modrelu"):
        given = inputs(name, torch.float64, 3, 2, 4)
        if name == "modrelu":
            given[3] = torch.full((4,), -0.5, dtype=torch.float64)
        fused, loop = both(name)
        hs, expected = fused(*given), loop(*given)
        g = torch.randn_like(hs)
        g[expected == 0] = torch.nan
        assert g.isnan().any()
        one, other = torch.autograd.grad(hs, given[0], g)[0], torch.autograd.grad(expected, given[0], g)[0]
        assert torch.equal(one.isnan(), other.isnan())


def test_modrelu_at_the_origin():
    bias = torch.tensor([0.5, -0.5, 0.5], dtype=torch.float64, requires_grad=True)
    for dtype in (torch.float64, torch.complex128):
        us = torch.zeros(2, 1, 3, dtype=dtype, requires_grad=True)
        hs = elementwise_scan(us, torch.zeros(1, 3, dtype=dtype), torch.eye(3, dtype=dtype), "modrelu", bias)
        assert not hs.any()
        hs.real.sum().backward() if dtype.is_complex else hs.sum().backward()
        assert not us.grad.any()
    assert not bias.grad.any()


def test_complex_modrelu_near_the_origin_stays_finite():
    us = torch.full((1, 1, 1), 1e-30 + 1e-30j, dtype=torch.complex128, requires_grad=True)
    h0, V, bias = torch.zeros(1, 1) + 0j, torch.zeros(1, 1) + 0j, torch.ones(1, dtype=torch.float64)
    hs = elementwise_scan(us, h0.to(us), V.to(us), "modrelu", bias)
    hs.imag.sum().backward()
    assert us.grad.isfinite().all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"activation": "tnah"}, "Unknown activation"),
        ({"bias": torch.zeros(3)}, "takes no bias"),
        ({"activation": "modrelu"}, "takes a bias"),
        ({"h0": torch.zeros(2, 3, dtype=torch.float64)}, "one dtype"),
        ({"activation": "modrelu", "bias": torch.zeros(3).double()}, "bias must be torch.float32"),
        (
            {
                "us": torch.zeros(5, 2, 3) + 0j,
                "h0": torch.zeros(2, 3) + 0j,
                "V": torch.zeros(3, 3) + 0j,
                "activation": "relu",
            },
            "not defined for complex",
        ),
    ],
)
def test_bad_scan_arguments_raise_with_an_explanation(change, message):
    given = {"us": torch.zeros(5, 2, 3), "h0": torch.zeros(2, 3), "V": torch.zeros(3, 3), "activation": "tanh"}
    with pytest.raises(ValueError, match=message):
        elementwise_scan(**{**given, **change})


# --- linear recurrences -----------------------------------------------------------------------------------------------


def linear_inputs(time, dtype, which):
    us, h0 = torch.randn(time, 2, 3, dtype=dtype), torch.randn(2, 3, dtype=dtype)
    A = torch.randn({"constant": (3,), "varying": (time, 2, 3), "dense": (3, 3)}[which], dtype=dtype) / 2
    if which != "dense":
        A[..., 0] = 0
    return [x.requires_grad_() for x in (A, us, h0)]


def linear_reference(A, us, h):
    hs = []
    for t in range(len(us)):
        h = (h @ A.mT if A.dim() == 2 else A * h if A.dim() == 1 else A[t] * h) + us[t]
        hs.append(h)
    return torch.stack(hs)


@representatives("constant-dtype0-1", "dense-dtype0-1")
@pytest.mark.parametrize("time", [1, 2, 16, *slow(3, 7, 33)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("which", ["constant", "varying", "dense"])
def test_parallel_scans_equal_the_recurrence(which, dtype, time):
    given = linear_inputs(time, dtype, which)
    scan = linear_scan if which == "dense" else diagonal_scan
    torch.testing.assert_close(scan(*given), linear_reference(*given), **ROUNDING)
    if time in (1, 7):
        assert gradcheck(scan, given, check_forward_ad=True)
        assert gradgradcheck(scan, given)


def test_parallel_scans_stay_accurate_on_the_unit_circle():
    time = 4096
    a = torch.polar(torch.ones(3), torch.tensor([0.1, 1.0, 2.0])).to(torch.complex64)
    us, h0 = torch.zeros(time, 1, 3, dtype=torch.complex64), torch.ones(1, 3, dtype=torch.complex64)
    exact = a.to(torch.complex128) ** torch.arange(1, time + 1).unsqueeze(-1)
    error = (diagonal_scan(a, us, h0)[:, 0] - exact).abs().max()
    assert error < 2 * time * torch.finfo(torch.float32).eps  # each factor of the power is off by a rounding
    V = torch.diag(a)
    assert (linear_scan(V, us, h0)[:, 0] - exact).abs().max() < 2 * time * torch.finfo(torch.float32).eps


def test_parallel_scans_under_torch_func():
    for which, scan in (("constant", diagonal_scan), ("dense", linear_scan)):
        given = [x.detach() for x in linear_inputs(5, torch.float64, which)]
        torch.testing.assert_close(jacrev(scan)(*given), jacrev(linear_reference)(*given), **ROUNDING)
        many = torch.stack([given[0], 2 * given[0]])
        one = vmap(scan, (0, None, None))(many, *given[1:])
        torch.testing.assert_close(one[1], linear_reference(many[1], *given[1:]), **ROUNDING)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("which", ["constant", "varying"])
def test_many_units_are_scanned_step_by_step(which, dtype):
    units = MANY // 2
    a = 0.8 * torch.randn(*([] if which == "constant" else [11, 2]), units, dtype=dtype)
    given = [x.requires_grad_() for x in (a, *torch.randn(12, 2, units, dtype=dtype).split([11, 1]))]
    found, expected = diagonal_scan(*given[:2], given[2][0]), linear_reference(*given[:2], given[2][0])
    torch.testing.assert_close(found, expected, **ROUNDING)
    into = torch.randn_like(found)
    gradients = (torch.autograd.grad(hs, given, into) for hs in (found, expected))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, **ROUNDING)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("which", ["constant", "varying"])
def test_a_diagonal_scan_restarts_packed_sequences(which, dtype):
    a, us, h0 = linear_inputs(9, dtype, which)
    resets = torch.zeros(9, len(h0), dtype=torch.bool)
    resets[4] = True
    hs = diagonal_scan(a, us, h0, resets)
    later = a if which == "constant" else a[4:]
    torch.testing.assert_close(hs[:4], diagonal_scan(a if which == "constant" else a[:4], us[:4], h0), **ROUNDING)
    torch.testing.assert_close(hs[4:], diagonal_scan(later, us[4:], torch.zeros_like(h0)), **ROUNDING)


# --- the door: every cell ---------------------------------------------------------------------------------------------

CELLS = {
    **{f"elman-{phi}": lambda phi=phi: Elman(3, 7, nonlinearity=phi) for phi in REAL},
    "elman-unbiased": lambda: Elman(3, 8, connectivity=ms.connectivity.Dense(8, init="orthogonal"), bias=False),
    "torch-rnn": lambda: ms.adapt(torch.nn.RNN(3, 6, num_layers=2, nonlinearity="relu")),
    "gru": lambda: GRU(3, 7),
    "gru-unbiased": lambda: GRU(3, 7, bias=False),
    "lstm": lambda: LSTM(3, 7),
    "lstm-unbiased": lambda: LSTM(3, 7, bias=False),
    "goru": lambda: GORU(3, 7),
    "leaky-current": lambda: LeakyRNN(3, 7, leak=0.3),
    "leaky-rate": lambda: LeakyRNN(3, 7, "logistic", leak=0.3, form="rate", bias=False),
    "echo-state": lambda: EchoState(3, 7, 2).requires_grad_(),
    "slstm": lambda: SLSTM(3, 7),
    "slstm-exponential": lambda: SLSTM(3, 8, heads=2, forget="exponential", forget_bias=0.0),
    "stack": lambda: Stack([LSTM(3, 5), GRU(5, 4), Elman(4, 3)]),
    "mixed": lambda: Stack([Elman(3, 5, nonlinearity=torch.sin), Elman(5, 4)]),
}
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA"))]


def everything(cell, xs, state, backend, mask=None, **options):
    """Return the outputs, the last state, and the gradients of a loss that depends on all of them."""
    outputs, last = ms.scan(cell, xs, state, backend=backend, mask=mask, **options)
    generator = torch.Generator().manual_seed(1)
    loss = sum((p * torch.randn(p.shape, generator=generator).to(p)).sum() for p in (outputs, *leaves(last)))
    wanted = [xs, *leaves(state), *cell.parameters()]
    return [outputs, *leaves(last), *torch.autograd.grad(loss.real, wanted)]


def random_state(cell, batch):
    state = map_state(lambda part: 0.7 * torch.randn_like(part), cell.initial_state(batch))
    if isinstance(cell, SLSTM):
        state = state._replace(n=state.n.abs())  # a normaliser is not negative
    return map_state(lambda part: part.requires_grad_(), state)


@representatives(
    "elman-linear-cpu-9-1",
    "elman-logistic-cpu-1-3",
    "elman-modrelu-cpu-1-1",
    "mixed-cpu-1-1",
    "stack-cpu-9-1",
    "torch-rnn-cpu-1-1",
)
@pytest.mark.parametrize(("time", "batch"), [(1, 1), (1, 3), (9, 1), (12, 5)])
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", CELLS)
def test_fast_path_equals_the_loop(name, device, time, batch):
    cell = CELLS[name]().to(device, torch.float64)
    if device != "cpu" and isinstance(cell.fast_path(*_given(cell, time, batch), None), NoFastPath):
        pytest.skip("none in float64 on this device")
    xs = torch.randn(batch, time, 3, dtype=torch.float64, device=device).transpose(0, 1).requires_grad_()
    state = random_state(cell, batch)
    for one, other in zip(everything(cell, xs, state, "fused"), everything(cell, xs, state, "loop"), strict=True):
        torch.testing.assert_close(one, other, **ROUNDING)


def test_low_rank_leaky_units_keep_their_factors():
    cell = LeakyRNN(3, 7, connectivity=ms.connectivity.LowRank(7, 1))
    assert "low-rank" in str(ms.scan(cell, torch.zeros(4, 2, 3), explain=True)[2])


def test_large_products_keep_the_heads_of_an_slstm_apart():
    xs = torch.zeros(1, 40, 3)
    assert "each" in str(ms.scan(SLSTM(3, 128, heads=2), xs, explain=True)[2])
    assert ms.scan(SLSTM(3, 128), xs, explain=True)[2].why == "fused slstm (cpu)"


def test_long_linear_networks_use_the_parallel_scan():
    cell = Elman(3, 7, nonlinearity="linear").double()
    xs, state = torch.randn(301, 2, 3, dtype=torch.float64, requires_grad=True), random_state(cell, 2)
    assert ms.scan(cell, xs, state, explain=True)[2].why == "parallel linear scan"
    assert "elementwise" in ms.scan(cell, xs[:50], state, explain=True)[2].why
    for one, other in zip(everything(cell, xs, state, "fused"), everything(cell, xs, state, "loop"), strict=True):
        torch.testing.assert_close(one, other, **ROUNDING)


def _given(cell, time, batch):
    state = cell.initial_state(batch)
    return torch.zeros(time, batch, 3).to(leaves(state)[0]), state


@pytest.mark.parametrize("name", CELLS)
def test_these_cells_have_a_fast_path_on_the_cpu(name):
    cell = CELLS[name]()
    assert isinstance(cell.fast_path(*_given(cell, 4, 2), None), FastPath)
    assert ms.scan(cell, torch.zeros(4, 2, 3), explain=True)[2].fused


def test_float32_lstm_in_another_library_agrees():
    cell, xs = LSTM(3, 33), torch.randn(40, 5, 3, requires_grad=True)
    state = random_state(cell, 5)
    for one, other in zip(everything(cell, xs, state, "fused"), everything(cell, xs, state, "loop"), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)  # float32, sums over 40 steps and 5 members
    one, other = (_second_derivative(cell, xs, backend) for backend in ("fused", "loop"))
    torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


def _second_derivative(cell, xs, backend):
    (g,) = torch.autograd.grad(ms.scan(cell, xs, backend=backend)[0].square().sum(), xs, create_graph=True)
    return torch.autograd.grad(g.square().sum(), xs)[0]


@pytest.mark.parametrize("name", CELLS)
def test_second_derivatives_through_scan(name):
    cell, xs = CELLS[name]().double(), torch.randn(5, 2, 3, dtype=torch.float64, requires_grad=True)
    one, other = (_second_derivative(cell, xs, backend) for backend in ("fused", "loop"))
    torch.testing.assert_close(one, other, **ROUNDING)


@pytest.mark.parametrize("kind", [GRU, LSTM])
def test_sequences_that_cudnn_refuses_run_in_parts(kind, monkeypatch):
    """Torch's networks on the CPU take the place of cuDNN."""
    cell, xs, lengths = kind(3, 4), torch.randn(10, 2, 3), []

    def run(sizes, xs, h, c, *weights):
        lengths.append(len(xs))
        options = (list(weights), True, 1, 0.0, True, False, False)
        return torch._VF.gru(xs, h, *options) if c is None else torch._VF.lstm(xs, [h, c], *options)

    monkeypatch.setattr(fused_gated._Cudnn, "apply", run)
    monkeypatch.setattr(fused_gated, "LONGEST", 4)
    weights = {name: getattr(cell, name) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
    name, state = ("lstm", tuple(torch.randn(2, 2, 4))) if kind is LSTM else ("gru", (torch.randn(2, 4),))
    parts, last = fused_gated._on_cudnn(name, weights, xs, state)
    whole, last_of_whole = fused_gated._on_cpu(name, weights, xs, state)
    assert lengths == [4, 4, 2]
    torch.testing.assert_close((parts, last), (whole, last_of_whole))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA")
def test_second_derivatives_through_cudnn_raise():
    cell, xs = LSTM(3, 4).cuda(), torch.randn(5, 2, 3, device="cuda", requires_grad=True)
    with pytest.raises(RuntimeError, match="backend='loop'"):
        _second_derivative(cell, xs, "fused")


@pytest.mark.parametrize("name", [*CELLS, "function"])
def test_masks_hold_the_state(name):
    function = ms.adapt(lambda x, s: (torch.tanh(s[0] + s[1][:, :3] + x), s[1] * 0.5), state_size=(3, 4))
    cell = (function if name == "function" else CELLS[name]()).double()
    xs, state = torch.randn(6, 3, 3, dtype=torch.float64), random_state(cell, 3)
    mask = torch.tensor([[1, 1, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [1, 1, 0], [1, 0, 0]], dtype=torch.bool)
    outputs, last = ms.scan(cell, xs, state, mask=mask)
    for member in range(3):  # alone, on the inputs that it has
        own = xs[mask[:, member], member : member + 1]
        start = map_state(lambda part, m=member: part[m : m + 1], state)
        alone, end = (cell.output(start)[None], start) if len(own) == 0 else ms.scan(cell, own, start, backend="loop")
        for one, other in zip(leaves(last), leaves(end), strict=True):
            torch.testing.assert_close(one[member], other[0], **ROUNDING)
        if len(own):
            torch.testing.assert_close(outputs[mask[:, member], member], alone[:, 0], **ROUNDING)
    assert torch.equal(outputs[0, 2], cell.output(state)[2])
    held = torch.zeros(6, 3, dtype=torch.bool)
    assert torch.equal(ms.scan(cell, xs, state, mask=held)[0], cell.output(state).expand(6, -1, -1))


@pytest.mark.parametrize("name", ["goru", "elman-modrelu", "complex modrelu"])
@pytest.mark.parametrize("masked", [False, True])
def test_a_batch_without_sequences_has_gradients_of_zero(name, masked):
    """As the loop has: the last batch of a stream may be empty."""
    cell = ms.networks.urnn(3, 4) if name == "complex modrelu" else CELLS[name]()
    xs, mask = torch.randn(4, 0, 3, requires_grad=True), torch.ones(4, 0, dtype=torch.bool) if masked else None
    outputs, last, route = ms.scan(cell, xs, mask=mask, explain=True)
    assert route.fused
    loss = outputs.abs().sum() + last.abs().sum()
    gradients = torch.autograd.grad(loss, [xs, *cell.parameters()], allow_unused=True)
    assert all(gradient is None or not gradient.any() for gradient in gradients)


def test_the_last_state_is_no_view_of_the_outputs():
    for name in CELLS:
        with torch.no_grad():
            outputs, last = ms.scan(CELLS[name](), torch.randn(4, 2, 3))
            before = outputs.clone()
            map_state(lambda part: part.zero_(), last)
            assert torch.equal(outputs, before), name


class ComplexDense(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.matrix = torch.nn.Parameter(0.4 * torch.randn(5, 5, dtype=torch.complex128))

    def forward(self):
        return self.matrix


@pytest.mark.parametrize("phi", COMPLEX)
def test_complex_elman(phi):
    cell = Elman(3, 5, nonlinearity=phi, connectivity=ComplexDense())
    cell.drive.double()
    cell.phi.double()
    xs = torch.randn(6, 2, 3, dtype=torch.float64, requires_grad=True)
    state = random_state(cell, 2)
    assert state.is_complex()
    for one, other in zip(everything(cell, xs, state, "fused"), everything(cell, xs, state, "loop"), strict=True):
        torch.testing.assert_close(one, other, **ROUNDING)
    with pytest.raises(ValueError, match="not defined for complex"):
        ms.scan(Elman(3, 5, nonlinearity="relu", connectivity=ComplexDense()), xs, backend="fused")


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("phi", REAL)
def test_autocast_gives_the_dtype_of_the_loop(phi, masked):
    cell, xs = Elman(3, 16, nonlinearity=phi), torch.randn(5, 4, 3)
    mask = torch.rand(5, 4) < 0.7 if masked else None
    with torch.autocast("cpu", torch.bfloat16):
        outputs, last, route = ms.scan(cell, xs, mask=mask, explain=True)
        expected, _ = ms.scan(cell, xs, mask=mask, backend="loop")
        assert route.fused
        outputs.float().square().sum().backward()
    assert outputs.dtype == last.dtype == expected.dtype
    torch.testing.assert_close(outputs, expected, rtol=0.05, atol=0.05)  # bfloat16 has 8 bits, over 5 steps
    exact = torch.autograd.grad(ms.scan(cell, xs, mask=mask)[0].square().sum(), cell.connectivity.matrix)[0]
    assert cell.connectivity.matrix.grad.dtype == torch.float32
    assert (cell.connectivity.matrix.grad - exact).norm() < 0.05 * exact.norm()


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", ["gru", "lstm", "goru"])
def test_gated_scans_equal_the_loop_over_several_pieces(name, masked, monkeypatch):
    monkeypatch.setattr(stepping, "PIECE", 2 * 4 * 7 * 8 * 3)  # two of eleven steps
    cell = CELLS[name]().double()
    xs, state = torch.randn(11, 3, 3, dtype=torch.float64, requires_grad=True), random_state(cell, 3)
    mask = torch.rand(11, 3) < 0.7 if masked else None
    assert ms.scan(cell, xs, state, mask=mask, explain=True)[2].why == f"fused {name} (cpu)"
    found, expected = (everything(cell, xs, state, backend, mask) for backend in ("fused", "loop"))
    for one, other in zip(found, expected, strict=True):
        assert (one - other).norm() <= 1e-14 * 11 * other.norm()
    outputs = ms.scan(cell, xs, state, mask=mask)[0]
    with torch.no_grad():  # no gates are saved
        assert torch.equal(ms.scan(cell, xs, state, mask=mask)[0], outputs)


def test_gated_scans_in_float32_are_as_accurate_as_the_loop(monkeypatch):
    monkeypatch.setattr(fused_gated, "_prefers_torch", lambda *_: False)
    for kind in (GRU, LSTM, GORU):
        cell, xs = kind(3, 33), torch.randn(60, 5, 3)
        assert "(cpu)" in ms.scan(cell, xs, explain=True)[2].why
        by_scan, by_loop = (ms.scan(cell, xs, backend=backend)[0] for backend in ("fused", "loop"))
        exact = ms.scan(cell.double(), xs.double(), backend="loop")[0]
        assert (by_scan - exact).abs().max() <= 2 * (by_loop - exact).abs().max() + 1e-6


@pytest.mark.parametrize(("machine", "route"), [("x86_64", "torch's lstm (cpu)"), ("aarch64", "fused lstm (cpu)")])
def test_on_x86_torch_runs_lstms_in_float32_and_large_grus(machine, route, monkeypatch):
    monkeypatch.setattr(fused_gated.platform, "machine", lambda: machine)
    cell, xs = LSTM(3, 4), torch.randn(5, 2, 3)
    if torch.backends.mkldnn.is_available():
        assert ms.scan(cell, xs, explain=True)[2].why == route
    large = GRU(3, 512), torch.randn(1, 8, 3)
    expected = "torch's gru (cpu)" if machine == "x86_64" else "fused gru (cpu)"
    assert ms.scan(*large, explain=True)[2].why == expected
    masked = ms.scan(cell, xs, mask=xs[..., 0] > 0, explain=True)[2].why
    assert masked == ms.scan(cell.double(), xs.double(), explain=True)[2].why == "fused lstm (cpu)"


@pytest.mark.parametrize("name", ["gru", "lstm", "goru"])
def test_autocast_runs_gated_cells_in_the_loop(name):
    with torch.autocast("cpu", torch.bfloat16):
        assert "autocast" in str(ms.scan(CELLS[name](), torch.randn(5, 4, 3), explain=True)[2])


# --- when there is none -----------------------------------------------------------------------------------------------


def test_torch_func_uses_the_loop_and_is_correct():
    cell = Elman(3, 4, nonlinearity="modrelu").double()
    xs, h0 = torch.randn(5, 2, 3, dtype=torch.float64), torch.randn(2, 4, dtype=torch.float64)
    routes = []

    def outputs(xs, h0, backend="auto"):
        hs, _, route = ms.scan(cell, xs, h0, backend=backend, explain=True)
        routes.append(route)
        return hs

    def by_loop(xs, h0):
        return outputs(xs, h0, "loop")

    tangents = torch.randn_like(xs), torch.randn_like(h0)
    with torch.no_grad():  # so that nothing but the transform differentiates
        torch.testing.assert_close(jacrev(outputs, (0, 1))(xs, h0), jacrev(by_loop, (0, 1))(xs, h0))
        torch.testing.assert_close(jvp(outputs, (xs, h0), tangents), jvp(by_loop, (xs, h0), tangents))
        batched = vmap(outputs, (None, 0))(xs, torch.stack([h0, 2 * h0]))
        torch.testing.assert_close(batched[1], outputs(xs, 2 * h0))
    assert any("torch.func" in route.why for route in routes)
    expected = torch.autograd.functional.jacobian(lambda h: by_loop(xs, h), h0)
    torch.testing.assert_close(torch.autograd.functional.jacobian(lambda h: outputs(xs, h), h0), expected)
    with pytest.raises(ValueError, match=r"torch\.func"):
        vmap(lambda h: ms.scan(cell, xs, h, backend="fused")[0])(torch.stack([h0, h0]))


def test_parameters_swapped_by_functional_call_are_the_ones_used():
    model = ms.Model(Elman(3, 4), 2)
    doubled = {name: 2 * value.detach() for name, value in model.named_parameters()}
    xs = torch.randn(5, 2, 3)
    outputs, _ = functional_call(model, doubled, (xs,))
    model.load_state_dict(doubled)
    torch.testing.assert_close(outputs, model(xs)[0])


def test_forward_mode_uses_the_loop():
    cell, xs, tangent = Elman(3, 4), torch.randn(5, 2, 3), torch.randn(5, 2, 3)
    with fwd.dual_level():
        outputs, _, route = ms.scan(cell, fwd.make_dual(xs, tangent), explain=True)
        found = fwd.unpack_dual(outputs).tangent
    assert "forward-mode" in str(route)
    torch.testing.assert_close(found, jvp(lambda x: ms.scan(cell, x, backend="loop")[0], (xs,), (tangent,))[1])


def test_hooks_see_every_step():
    cell, seen = Stack([Elman(3, 4), GRU(4, 4)]), []
    handle = cell.layers[0].phi.register_forward_hook(lambda *_: seen.append(1))
    _, _, route = ms.scan(cell, torch.randn(5, 2, 3), explain=True)
    assert len(seen) == 5
    assert "hooks are registered on its part layers.0.phi" in str(route)
    with pytest.raises(ValueError, match="hooks"):
        ms.scan(cell, torch.randn(5, 2, 3), backend="fused")
    handle.remove()
    assert ms.scan(cell, torch.randn(5, 2, 3), explain=True)[2].fused
    handle = torch.nn.modules.module.register_module_forward_hook(lambda *_: None)
    assert "hooks on all modules" in str(ms.scan(cell, torch.randn(5, 2, 3), explain=True)[2])
    handle.remove()


def test_a_subclass_with_another_step_has_no_fast_path():
    class Leaky(Elman):
        def prepare(self, xs):
            us, step = super().prepare(xs)
            return us, lambda u, h: 0.5 * h + 0.5 * step(u, h)

    class LeakyChild(Leaky):
        pass

    class Shown(GRU):
        def output(self, state):
            return -state

    class Harmless(Elman):
        def bounds(self, low, high):
            return None

    class Knowing(Elman):
        def output(self, state):
            return -state

        def fast_path(self, xs, state, mask):
            path = Elman.fast_path(self, xs, state, mask)
            return FastPath("own", lambda: (-path.run()[0], path.run()[1]))

    class Loud(FusableNonlinearity):
        def forward(self, z):
            return 2 * super().forward(z)

    xs = torch.randn(5, 2, 3)
    for cell in (Leaky(3, 4), LeakyChild(3, 4), Shown(3, 4), Elman(3, 4, nonlinearity=Loud(ACTIVATIONS["tanh"]))):
        outputs, _, route = ms.scan(cell, xs, explain=True)
        assert not route.fused
        h = cell.initial_state(2)
        for t in range(5):
            h = cell(xs[t], h) if not isinstance(cell, Leaky) else cell.prepare(xs[t])[1](cell.prepare(xs[t])[0], h)
            torch.testing.assert_close(outputs[t], cell.output(h))
    with pytest.raises(ValueError, match="Leaky overrides prepare of Elman"):
        ms.scan(LeakyChild(3, 4), xs, backend="fused")
    assert ms.scan(Harmless(3, 4), xs, explain=True)[2].fused
    knowing = Knowing(3, 4)
    assert ms.scan(knowing, xs, explain=True)[2].why == "own"
    torch.testing.assert_close(ms.scan(knowing, xs)[0], ms.scan(knowing, xs, backend="loop")[0])


def test_a_replaced_forward_disables_the_fast_path():
    cell = GRU(3, 4)
    cell.prepare = lambda xs: (xs, lambda u, h: h + 1)
    outputs, _, route = ms.scan(cell, torch.zeros(3, 1, 3), explain=True)
    assert outputs[:, 0, 0].tolist() == [1, 2, 3]
    assert "replaced" in str(route)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda xs: ms.scan(Elman(3, 4, nonlinearity=torch.sin), xs, backend="fused"), "no description"),
        (lambda xs: ms.scan(ms.adapt(lambda x, h: h, state_size=2), xs, backend="fused"), "FunctionCell has none"),
        (lambda xs: ms.scan(LSTM(3, 4, projection_size=2), xs, backend="fused"), "projection"),
        (lambda xs: ms.scan(LSTM(3, 4, projection_size=2), xs, mask=xs[..., 0] > 0, backend="fused"), "no mask, and"),
        (lambda xs: ms.scan(GORU(3, 4).bfloat16(), xs.bfloat16(), backend="fused"), "float32 or float64"),
        (lambda xs: ms.scan(Stack([Elman(3, 4, nonlinearity=torch.sin)]), xs, backend="fused"), "layer 0: its nonlin"),
        (lambda xs: ms.scan(GRU(3, 4), xs, torch.zeros(2, 4).double(), backend="fused"), "differ in dtype"),
    ],
)
def test_missing_fast_paths_have_a_reason(call, message):
    with pytest.raises(ValueError, match=message):
        call(torch.randn(5, 2, 3))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "fast"}, "'auto', 'loop', 'fused', 'newton'"),
        ({"outputs": "first"}, "'all' or 'last'"),
        ({"checkpoint": 0}, "number of steps"),
        ({"checkpoint": "log"}, "number of steps"),
        ({"mask": torch.ones(5, 2)}, "of bool"),
        ({"mask": torch.ones(2, 5, dtype=torch.bool)}, r"\(5, 2\)"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(ValueError, match=message):  # without the type checks of the tests, which would answer first
        inspect.unwrap(ms.scan)(Elman(3, 4), torch.randn(5, 2, 3), **options)


def test_other_devices_have_no_fused_scan():
    why = elementwise_module.no_elementwise_scan
    assert why(torch.device("cpu"), torch.float32, "tanh") is None
    assert "meta" in why(torch.device("meta"), torch.float32, "tanh")
    assert "no description" in why(torch.device("cpu"), torch.float32, "sin")


# --- checkpoints ------------------------------------------------------------------------------------------------------


@representatives("elman-tanh-100", "torch-rnn-sqrt", "lstm-unbiased-100")
@pytest.mark.parametrize("checkpoint", ["sqrt", 1, 4, 100])
@pytest.mark.parametrize("name", CELLS)
def test_checkpoints_change_nothing(name, checkpoint):
    cell = CELLS[name]().double()
    xs, state = torch.randn(11, 2, 3, dtype=torch.float64, requires_grad=True), random_state(cell, 2)
    for mask in (None, torch.rand(11, 2) < 0.7):
        expected = everything(cell, xs, state, "loop", mask)
        found = everything(cell, xs, state, "auto", mask, checkpoint=checkpoint)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, **ROUNDING)
    outputs, _, route = ms.scan(cell, xs, state, checkpoint=checkpoint, outputs="last", explain=True)
    torch.testing.assert_close(outputs, ms.scan(cell, xs, state)[0][-1:], **ROUNDING)
    assert route.chunks == {"sqrt": 3, 1: 11, 4: 3, 100: 1}[checkpoint]
    assert torch.equal(ms.scan(cell, xs, state, outputs="last")[0], ms.scan(cell, xs, state)[0][-1:])


LONG = """
import torch, mnemoscope as ms
from pathlib import Path

def status(name):
    return next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if name in line)

torch.set_num_threads(1)
torch.manual_seed(0)
cell = ms.cells.Elman(1, {units})
def run(time):
    outputs, _ = ms.scan(cell, torch.zeros(time, 1, 1), {options})
    outputs[-1].sum().backward()
run(400)  # loads what every run needs
before = status("VmRSS")
run(100_000)
print((status("VmHWM") - before) * 1024)
"""


def peak_bytes(units, options):
    # large blocks go back to the system at once: what is measured is what is held, not the holes of the C heap
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    code = LONG.format(units=units, options=options)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return int(done.stdout)


@SLOW
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory from /proc")
def test_memory_of_a_hundred_thousand_steps():
    # N = 64, batch 1, float32: one (time, N) tensor is 25.6 MB, and a plain scan holds five of them at its peak
    # (drive, states, gates, gradient of each, states shifted by one). With 317 chunks of 316 steps it is 0.16 MB of
    # states between chunks and as much for each such tensor of one chunk, beside the inputs (0.4 MB) and what the
    # graph and the allocator take.
    units, time = 64, 100_000
    whole = 4 * units * time
    plain, chunked = peak_bytes(units, ""), peak_bytes(units, "checkpoint='sqrt', outputs='last'")
    assert plain > 3 * whole
    chunk = 4 * units * 317
    assert chunked < 4 * time + 8 * chunk + 12e6
    assert chunked < plain / 6


# --- torch.compile ----------------------------------------------------------------------------------------------------


COMPILED = """
import torch, mnemoscope as ms
from mnemoscope.cells import GORU, GRU, LSTM, SLSTM, Elman, LeakyRNN

def loss(cell, xs, backend):
    return ms.scan(cell, xs, backend=backend)[0].square().sum()

xs = torch.randn(7, 2, 3)
for cell, backend, compiler in (
    (Elman(3, 4, nonlinearity="modrelu"), "fused", "inductor"),
    (GRU(3, 4), "fused", "aot_eager"),
    (LSTM(3, 4), "fused", "inductor"),
    (GORU(3, 4, ms.connectivity.Dense(4, init="orthogonal")), "fused", "aot_eager"),
    (LeakyRNN(3, 4), "fused", "aot_eager"),
    (SLSTM(3, 4), "fused", "aot_eager"),
    (ms.networks.urnn(3, 4), "fused", "aot_eager"),
):
    weights = list(cell.parameters())
    compiled = torch.compile(lambda xs: loss(cell, xs, backend), fullgraph=True, backend=compiler)
    found = torch.autograd.grad(compiled(xs), weights)
    expected = torch.autograd.grad(loss(cell, xs, "loop"), weights)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
print("same")
"""


@SLOW
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler, and there is no g++")
def test_compiled_scan_is_one_graph():
    # in a process of its own: torch.compile cannot look through the shape checks of the tests
    done = subprocess.run([sys.executable, "-c", COMPILED], capture_output=True, text=True)
    assert done.stdout == "same\n", done.stderr[-3000:]


def test_the_operators_pass_opcheck():
    for name in ("tanh", "modrelu"):
        us, h0, V, *bias = inputs(name, torch.float64)
        given = (us, h0, V, name, bias[0] if bias else None, None)
        tests = ("test_schema", "test_autograd_registration", "test_faketensor")
        torch.library.opcheck(elementwise_module._scan, given, test_utils=tests)
        hs = elementwise_scan(us, h0, V, name, *bias).detach().requires_grad_()
        given = (torch.randn_like(hs), hs, V, name, bias[0] if bias else None, None)
        torch.library.opcheck(elementwise_module._adjoint, given, test_utils=tests)


STATEFUL = {
    "leaky_scan": lambda us, state, W: (us, state(), W, 0.3, "tanh", False, None),
    "leaky_scan, rate": lambda us, state, W: (us, state(), W, 0.3, "tanh", True, None),
    "lstm_scan": lambda us, state, W: (us.repeat(1, 1, 4), state(), state(), W.repeat(4, 1), None, True),
    "gru_scan": lambda us, state, W: (us.repeat(1, 1, 3), state(), W.repeat(3, 1), W[0], "tanh", None, None, True),
    "slstm_scan": lambda us, state, W: (us.repeat(1, 1, 4), *(state() for _ in range(4)), W.repeat(4, 1), False, None),
}


@pytest.mark.parametrize("name", STATEFUL)
def test_operators_return_what_they_promise_the_compiler_for_a_transposed_state(name):
    with FakeTensorMode(allow_non_fake_inputs=True):
        operator = getattr(torch.ops.mnemoscope, name.partition(",")[0])
        given = STATEFUL[name](torch.rand(5, 2, 3), lambda: torch.rand(3, 2).mT.requires_grad_(), torch.rand(3, 3))
        promised = operator(*given)
    given = STATEFUL[name](torch.rand(5, 2, 3), lambda: torch.rand(3, 2).mT.requires_grad_(), torch.rand(3, 3))
    found = operator(*given)
    assert [each.stride() for each in found] == [each.stride() for each in promised]
    starts = [each for each in given if isinstance(each, torch.Tensor) and each.requires_grad]
    # a gradient at the outputs that is transposed too
    weights = torch.rand(3, 5, 2).permute(1, 2, 0)
    gradients = torch.autograd.grad((found[0] * weights).sum(), starts, allow_unused=True)
    assert all(each is None or each.is_contiguous() for each in gradients)


# --- whose step is it? ------------------------------------------------------------------------------------------------


class Sevens(Elman):
    """Overrides `forward`, which the inherited `prepare` would bypass."""

    def forward(self, x, state):
        return 0 * super().forward(x, state) + 7


def test_the_loop_uses_an_overridden_forward():
    xs = torch.randn(4, 2, 3)
    cell = Sevens(3, 5)
    assert (ms.scan(cell, xs)[0] == 7).all()
    assert (ms.run_with_cache(cell, xs)[1]["h"] == 7).all()
    below = Stack([cell, GRU(5, 2)])
    torch.testing.assert_close(ms.scan(below, xs)[0], ms.scan(below, xs, backend="loop")[0])
    torch.testing.assert_close(ms.Dynamics(cell)(torch.zeros(1, 5).double()), torch.full((1, 5), 7.0).double())
    plain = Elman(3, 5)
    plain.forward = lambda x, h: h + 1
    assert ms.scan(plain, xs)[0][-1].unique().tolist() == [4]


@pytest.mark.parametrize("make", [lambda: Elman(3, 5), lambda: GRU(3, 5)])
def test_a_hook_on_the_cell_sees_every_step(make):
    cell, seen = make(), []
    cell.register_forward_hook(lambda *_: seen.append(1))
    _, _, route = ms.scan(cell, torch.randn(4, 2, 3), explain=True)
    assert len(seen) == 4
    assert "hooks" in route.why


def test_a_step_replaced_on_the_cell_is_used():
    cell = GRU(3, 5)
    cell._step = lambda u, h: h + 1
    outputs, _, route = ms.scan(cell, torch.randn(4, 2, 3), explain=True)
    assert not route.fused
    assert outputs[-1].unique().tolist() == [4]


BATCHED = {
    **{name: partial(Elman, 2, 3, nonlinearity=name) for name in ("tanh", "modrelu", "linear")},
    **{f"leaky {form}": partial(LeakyRNN, 2, 3, form=form) for form in ("current", "rate")},
    "reservoir": partial(EchoState, 2, 3),
    **{cell.__name__.lower(): partial(cell, 2, 3) for cell in (SLSTM, GRU, LSTM, GORU)},
}


@pytest.mark.parametrize("name", BATCHED)
def test_batched_gradients(name):
    cell, xs = BATCHED[name]().double(), torch.randn(4, 1, 2, dtype=torch.float64)

    def sums(backend):
        return lambda xs: ms.scan(cell, xs, backend=backend)[0].sum((1, 2))

    for backend in ("auto", "loop"):
        one = torch.autograd.functional.jacobian(sums(backend), xs)
        many = torch.autograd.functional.jacobian(sums(backend), xs, vectorize=True)
        torch.testing.assert_close(one, many)


@pytest.mark.parametrize("form", ["current", "rate"])
def test_relu_units_that_are_off_stop_infinite_gradients_as_in_the_loop(form):
    cell = LeakyRNN(2, 2, "relu", form=form, leak=0.5)
    with torch.no_grad():
        cell.connectivity.matrix.copy_(torch.tensor([[300.0, 1.0], [0.0, 0.0]]))
        cell.drive.copy_(torch.tensor([[1.0, 0.0], [0.0, -1.0]]))
        cell.bias.zero_()
    gradients = []
    for backend in ("fused", "loop"):
        xs = torch.full((22, 1, 2), 3e-38, requires_grad=True)
        outputs, _ = ms.scan(cell, xs, backend=backend)
        assert outputs.isfinite().all()
        gradients += torch.autograd.grad(outputs.sum(), xs)
    fused, loop = gradients
    assert not loop.isfinite().all()  # float32 has no such large number
    torch.testing.assert_close(fused, loop, equal_nan=True)


def test_an_exploding_linear_network_stays_finite_where_the_loop_does():
    us = torch.zeros(1000, 1, 2)
    us[-3:] = 1
    hs = linear_scan(100 * torch.eye(2), us, torch.zeros(1, 2))
    assert hs[-1].tolist() == [[10101, 10101]]


def test_checkpoints_under_torch_func_and_wrong_ones():
    cell, xs = Elman(2, 3), torch.randn(9, 1, 2)
    plain, checked = (torch.func.grad(lambda xs, c=c: ms.scan(cell, xs, checkpoint=c)[0].sum())(xs) for c in (None, 3))
    torch.testing.assert_close(plain, checked)
    with pytest.raises(ValueError, match="checkpoint must be"):
        inspect.unwrap(ms.scan)(cell, xs, checkpoint=True)


@SLOW
def test_the_newer_precision_setting_is_respected():
    code = (
        "import torch; from mnemoscope.kernels.devices import exact_products as exact\n"
        "assert exact(); torch.backends.cuda.matmul.fp32_precision = 'tf32'; assert not exact()\n"
        "torch.backends.cuda.matmul.fp32_precision = 'ieee'; assert exact()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    torch.set_float32_matmul_precision("high")
    try:
        assert not exact_products()
    finally:
        torch.set_float32_matmul_precision("highest")
    assert exact_products()


def test_the_gated_operators_pass_opcheck():
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    us, h, c, V = (torch.randn(shape, dtype=torch.float64) for shape in ((4, 2, 12), (2, 3), (2, 3), (12, 3)))
    torch.library.opcheck(gated._lstm, (us.requires_grad_(), h, c, V, None, True), test_utils=tests)
    given = (us[..., :9], h, V[:9], V[0], "modrelu", V[1], None, True)
    torch.library.opcheck(gated._gru, given, test_utils=tests)
    for rate in (False, True):
        given = (us[..., :3], h, V[:3], 0.3, "tanh", rate, None)
        torch.library.opcheck(leaky._leaky, given, test_utils=tests)
    given = (us, h, c, h.abs(), c, V, False, None)
    torch.library.opcheck(slstm._slstm, given, test_utils=tests)


@pytest.mark.parametrize(
    ("cell", "method"), [(LeakyRNN(2, 3), "recurrent_input"), (SLSTM(2, 3), "preactivations")], ids=["leaky", "slstm"]
)
def test_a_part_of_the_step_that_is_replaced_on_a_cell_is_used(cell, method):
    before = getattr(cell, method)
    replaced = {"recurrent_input": lambda: lambda rates: 2 * rates, "preactivations": lambda u: 2 * before(u)}
    setattr(cell, method, replaced[method])
    xs = torch.ones(4, 1, 2)
    found, _, route = ms.scan(cell, xs, torch.ones(1, 3) if method == "recurrent_input" else None, explain=True)
    expected, _ = ms.scan(cell, xs, torch.ones(1, 3) if method == "recurrent_input" else None, backend="loop")
    assert torch.equal(found, expected)
    assert "was replaced on the instance" in str(route)
