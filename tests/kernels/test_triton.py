"""Scans on the GPU, in Triton's interpreter, and on a GPU where there is one."""

import json
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import mnemoscope as ms
from mnemoscope.cells import Elman, elman
from mnemoscope.kernels import ACTIVATIONS, elementwise_limit, elementwise_scan

pytest.importorskip("triton")
from mnemoscope.kernels import triton_elementwise as kernels, triton_outer
from mnemoscope.kernels.triton_elementwise import Plan
from mnemoscope.kernels.triton_steps import LEFT, RIGHT, _parts
from tests.slow import representatives

ROOT = Path(__file__).parents[2]
GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
needs_gpu = pytest.mark.skipif(not GPU, reason="needs a GPU")
WAYS = {
    "vector": Plan("vector", 64, 2, 4),
    "block": Plan("block", 64, warps=4),
    "grid": Plan("grid", 16, 2, 4),
    "steps": Plan("steps"),
}
BOUND_OF_PARTS = 8e-6 if GPU else 5e-5  # the interpreter cuts off where a GPU rounds
KINDS = [(name, torch.float32) for name in ACTIVATIONS] + [(name, torch.complex64) for name in ("modrelu", "linear")]
CASES = [
    pytest.param(way, name, dtype, id=f"{way}-{name}-{str(dtype)[6:]}")
    for way in WAYS
    for name, dtype in KINDS
    if way != "vector" or not dtype.is_complex
]
SIZES = [(1, 1, 1), (3, 2, 5), *([(4, 17, 20), (40, 3, 31)] if GPU else [(2, 17, 20), (2, 3, 31)])]


def wide(x):
    return x.to(torch.complex128 if x.is_complex() else torch.float64)


def loop(us, h, V, name, bias, mask):
    """Run the recurrence as a loop, in double precision."""
    hs = []
    for t in range(len(us)):
        new = ACTIVATIONS[name](h @ V.mT + us[t], bias)
        h = new if mask is None else torch.where(mask[t].unsqueeze(-1), new, h)
        hs.append(h)
    return torch.stack(hs)


def problem(name, dtype, time, batch, units, masked, scale=1.0):
    torch.manual_seed(time)  # a complex modReLU whose pre-activation happens to be small stretches any rounding
    us, h0, V = (torch.randn(*s, dtype=dtype) for s in ((time, batch, units), (batch, units), (units, units)))
    bias = 0.3 * torch.randn(units) if ACTIVATIONS[name].takes_bias else None
    mask = torch.rand(time, batch) < 0.6 if masked else None
    tensors = (us, h0, scale * V / units**0.5, bias, mask)
    return [None if x is None else x.to(DEVICE) for x in tensors]


def assert_near(found, expected, bound=1e-5):
    """Compare relative to the largest number: float32 rounds each number, and sums cancel."""
    assert found.shape == expected.shape
    assert found.is_contiguous()
    error = (wide(found) - expected).norm()
    assert error <= bound * expected.norm() + 1e-30, f"{error / expected.norm():.1e}"


@representatives(
    "steps-tanh-float32-True-1-1-1",
    "vector-tanh-float32-True-3-2-5",
    "vector-modrelu-float32-False-1-1-1",
    "steps-logistic-float32-True-1-1-1",
    "steps-linear-float32-True-1-1-1",
    "steps-modrelu-complex64-True-1-1-1",
)
@pytest.mark.parametrize(("time", "batch", "units"), SIZES)
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize(("way", "name", "dtype"), CASES)
def test_every_plan_equals_the_recurrence_and_its_gradient(monkeypatch, way, name, dtype, masked, time, batch, units):
    monkeypatch.setattr(kernels, "plan", lambda *_, **__: WAYS[way])
    us, h0, V, bias, mask = problem(name, dtype, time, batch, units, masked)
    hs = kernels.forward(us, h0, V, name, bias, mask)
    g = torch.randn_like(us)
    D, dh0 = kernels.adjoint(g, hs, V, name, bias, mask)
    inputs = [wide(x).requires_grad_() for x in (us, h0)]
    expected = loop(*inputs, wide(V), name, None if bias is None else bias.double(), mask)
    du, dh = torch.autograd.grad(expected, inputs, wide(g))
    assert_near(hs, expected.detach())
    assert_near(D, du)
    assert_near(dh0, dh)


@representatives(
    "linear-steps", "logistic-steps", "modrelu-block", "modrelu-steps", "relu-steps", "tanh-grid", "tanh-steps"
)
@pytest.mark.filterwarnings("ignore:(invalid|overflow).*:RuntimeWarning")  # of numpy, behind the interpreter
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_nan_and_infinity_spread_as_in_the_loop(monkeypatch, way, name):
    monkeypatch.setattr(kernels, "plan", lambda *_, **__: WAYS[way])
    us, h0, V, bias, _ = problem(name, torch.float32, 2, 3, 4, False)
    us[0, 0, 1], us[0, 1, 2], us[1, 2, 0] = torch.nan, torch.inf, -torch.inf
    hs = kernels.forward(us, h0, V, name, bias, None)
    expected = loop(us, h0, V, name, bias, None)
    assert not hs[~expected.isfinite()].isfinite().any()
    if not GPU:  # the matrix units sum parts, of which infinities have none: NaN follows
        assert hs.isnan().equal(expected.isnan())
        assert hs.isinf().equal(expected.isinf())
    untouched = expected.isfinite() & hs.isfinite()
    assert untouched[:, 2, 1:].all() or name in ("relu", "modrelu", "linear")
    torch.testing.assert_close(hs[untouched], expected[untouched], rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:(invalid|overflow).*:RuntimeWarning")  # of numpy, behind the interpreter
@pytest.mark.parametrize("way", WAYS)
def test_a_unit_that_is_off_blocks_an_infinite_gradient(monkeypatch, way):
    monkeypatch.setattr(kernels, "plan", lambda *_, **__: WAYS[way])
    hs = torch.tensor([[[0.0, 2.0]]], device=DEVICE)
    V = torch.eye(2, device=DEVICE)
    for name, bias in (("relu", None), ("modrelu", torch.zeros(2, device=DEVICE))):
        D, _ = kernels.adjoint(torch.full_like(hs, torch.inf), hs, V, name, bias, None)
        assert D.tolist() == [[[0.0, torch.inf]]]


@pytest.mark.parametrize("way", [way for way in WAYS if way != "vector"])
def test_complex_numbers_of_any_magnitude(monkeypatch, way):
    """The squares of the smallest and of the largest are not representable."""
    monkeypatch.setattr(kernels, "plan", lambda *_, **__: WAYS[way])
    us = torch.tensor([[[1e-24 + 0j, 0, 1e20 + 1e20j, 3 + 4j]]], dtype=torch.complex64, device=DEVICE)
    bias = torch.full((4,), 0.01, device=DEVICE)
    zero = torch.zeros(4, 4, dtype=torch.complex64, device=DEVICE)
    hs = kernels.forward(us, zero[:1], zero, "modrelu", bias, None)
    torch.testing.assert_close(hs, ACTIVATIONS["modrelu"](us, bias))


@pytest.mark.parametrize("way", WAYS)
def test_memory_layout_does_not_matter(monkeypatch, way):
    monkeypatch.setattr(kernels, "plan", lambda *_, **__: WAYS[way])
    us, h0, V, _, mask = problem("tanh", torch.float32, 3, 4, 5, True)
    straight = kernels.forward(us, h0, V, "tanh", None, mask)
    other = [x.mT.contiguous().mT for x in (us, h0, V, mask)]
    assert not any(x.is_contiguous() for x in other)
    assert torch.equal(kernels.forward(*other[:3], "tanh", None, other[3]), straight)


def test_three_bfloat16_parts_sum_to_a_float32_number():
    x = torch.cat([torch.randn(1000) * 10.0**k for k in (-20, 0, 20)]).reshape(30, 100)
    parts = _parts(x, (0, 1, 2), 0).double().unflatten(0, (3, 30))
    torch.testing.assert_close(parts.sum(0), x.double(), rtol=2**-23, atol=0)
    assert _parts(torch.tensor([[torch.inf]]), (0, 1, 2), 0)[:, 0].tolist() == [torch.inf, 0, 0]
    assert _parts(torch.tensor([[torch.nan]]), (0,), 0).isnan().all()


def test_six_bfloat16_products_approximate_a_float32_product():
    x, W = torch.randn(8, 64), torch.randn(64, 64)
    product = _parts(x, LEFT, 1).double() @ _parts(W, RIGHT, 0).double()
    exact = x.double() @ W.double()
    assert (product - exact).norm() < 2**-22 * exact.norm()
    for left_out in range(6):  # and none too many
        kept = [i for i in range(6) if i != left_out]
        fewer = _parts(x, [LEFT[i] for i in kept], 1).double() @ _parts(W, [RIGHT[i] for i in kept], 0).double()
        assert (fewer - exact).norm() > 2 * (product - exact).norm()


@representatives("1")
@pytest.mark.parametrize("rows", [1, 7, 64, 130, 1000 if GPU else 200])
def test_the_gradient_of_the_matrix(monkeypatch, rows):
    monkeypatch.setattr(triton_outer, "GROUP", 64)
    monkeypatch.setattr(triton_outer, "AT_ONCE", 128 * 33)  # two groups at once
    left, right = torch.randn(rows, 33, device=DEVICE), torch.randn(rows, 20, device=DEVICE)
    assert_near(kernels.outer_products(left, right), left.double().mT @ right.double(), BOUND_OF_PARTS)


@needs_gpu
def test_the_gradient_of_a_large_matrix():
    left, right = torch.rand(10_000, 1024, device=DEVICE), torch.randn(10_000, 1024, device=DEVICE)
    found = torch.ops.mnemoscope.outer_products(left, right)
    assert_near(found, left.double().mT @ right.double(), 3e-5)


LIMITS = {"H200": (132, 227), "A100": (108, 163), "RTX 4090": (128, 99), "RTX 3060": (28, 99)}
"""Multiprocessors, and the KiB of shared memory that a block may have."""


@pytest.fixture
def pretend(monkeypatch):
    """Let torch report the limits of a GPU."""

    def report(gpu):
        processors, shared = LIMITS[gpu]
        properties = SimpleNamespace(multi_processor_count=processors, shared_memory_per_block_optin=1024 * shared)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)

    return report


def drive(batch, units, dtype=torch.float32):
    return kernels.Drive((10, batch, units), dtype, torch.device("cuda"))


def test_the_plan_follows_the_size(pretend):
    pretend("H200")
    sizes = {(4096, 128): "block", (16, 1024): "grid", (32, 1024): "grid", (48, 1024): "steps", (128, 512): "grid"}
    sizes |= {(1, 129): "grid", (1024, 256): "steps", (16, 1025): "steps"}
    assert {size: kernels.plan(drive(*size), tiled=True).way for size in sizes} == sizes
    assert {kernels.plan(drive(1, units), tiled=False).way for units in (1, 32, 100, 200)} == {"vector"}
    assert kernels.plan(drive(4096, 64), tiled=False).way == "block"


def test_an_h200_has_room_for_every_plan(pretend):
    pretend("H200")
    for tiled, dtype in product((True, False), (torch.float32, torch.bfloat16)):
        for units, batch in product((1, 16, 17, 64, 128, 129, 256, 300, 512, 513, 1024, 1025), (1, 16, 100, 1024)):
            asked = drive(batch, units, dtype)
            assert kernels.plan(asked, tiled) == kernels.plans(asked, tiled)[0]
            assert kernels.limited_choice(asked, tiled) is None


def test_a_plan_that_does_not_fit_on_the_gpu_gives_way_to_the_next(pretend):
    ways = {}
    for gpu in ("A100", "RTX 4090", "RTX 3060"):
        pretend(gpu)
        ways[gpu] = [kernels.plan(drive(batch, units), tiled=False).way for units, batch in SCARCE]
    assert ways["A100"] == ["vector", "vector", "grid", "grid"]
    assert ways["RTX 4090"] == ["vector", "grid", "grid", "steps"]
    assert ways["RTX 3060"] == ["vector", "grid", "steps", "steps"]
    pretend("RTX 4090")
    assert kernels.plan(drive(16, 1024, torch.bfloat16), tiled=False).way == "grid"  # half of the room


SCARCE = [(128, 16), (256, 16), (512, 16), (1024, 16)]
"""Units and sequences whose plans on an H200 take 0 to 160 KiB of shared memory."""


def test_scan_reports_what_the_gpu_has_no_room_for(pretend):
    pretend("RTX 4090")
    gpu, cpu = torch.device("cuda"), torch.device("cpu")
    assert elementwise_limit((10, 16, 256), torch.float32, gpu) == (
        "; programs that share the units: one program for each sequence would need 129 KiB of shared memory, "
        "and this GPU has 99"
    )
    assert elementwise_limit((10, 16, 512), torch.complex64, gpu).startswith("; one matrix product for each step: ")
    assert elementwise_limit((10, 16, 128), torch.float32, gpu) == ""
    assert elementwise_limit((10, 16, 256), torch.float32, cpu) == ""
    pretend("H200")
    assert elementwise_limit((10, 16, 256), torch.float32, gpu) == ""


def test_the_route_of_an_elman_cell_names_the_limit(pretend, monkeypatch):
    pretend("RTX 4090")
    limit = elementwise_limit((10, 16, 256), torch.float32, torch.device("cuda"))
    monkeypatch.setattr(elman, "elementwise_limit", lambda shape, *_: limit if shape == (10, 16, 256) else "")
    routes = [ms.scan(Elman(3, 256), torch.zeros(10, batch, 3), explain=True)[2] for batch in (16, 2)]
    assert limit in str(routes[0])
    assert "KiB" not in str(routes[1])


def test_plans_allow_for_the_shared_memory_that_the_compiler_takes():
    rows = [row for row in COMPILED if row["family"] == "elman" and row["kernel"] != "elementwise"]
    assert {"vector_forward", "grid_forward", "grid_adjoint"} <= {row["kernel"] for row in rows}
    for row in rows:
        way, _, _ = row["kernel"].partition("_")
        columns = int(row["sizes"].split()[0].removeprefix("COLUMNS="))
        parts = {"vector": max(1, columns // kernels.REGISTER_UNITS), "block": 1, "grid": row["warps"]}[way]
        allowed = kernels.shared_bytes(Plan(way, columns, parts), drive(row["batch"], row["units"]))
        assert 0.5 * allowed <= row["shared"] <= allowed, row


def test_every_kernel_that_the_rules_choose_fits_on_its_gpu():
    own = [row for row in COMPILED if row["choice"] == "own"]
    assert {row["gpu"] for row in own} >= {"H200", "RTX 4090"}
    assert [row for row in own if not row["fits"]] == []


COMPILED = [
    row
    for file in (ROOT / "benchmarks" / "results").glob("kernel_limits*.json")
    for row in json.loads(file.read_text())["rows"]
]
"""Kernels that benchmarks/kernel_limits.py compiled for several GPUs."""


@needs_gpu
@pytest.mark.parametrize(
    ("units", "batch"), [(100, 5), (128, 33), (200, 17), (512, 128), (1024, 16), (256, 300), (1500, 3)]
)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_large_scans_keep_their_accuracy(name, units, batch):
    us, h0, V, bias, _ = problem(name, torch.float32, 60, batch, units, False, scale=0.5)
    if bias is not None:
        bias.abs_().neg_()  # above 0 modReLU jumps at 0, and rounding decides on which side a number falls
    g = torch.randn_like(us)
    given = [x.requires_grad_() for x in (us, h0, V, *([] if bias is None else [bias]))]
    hs = elementwise_scan(us, h0, V, name, bias)
    double = [x.detach().double().requires_grad_() for x in given]
    expected = loop(*double[:3], name, None if bias is None else double[3], None)
    assert_near(hs.detach(), expected.detach(), 1e-4)
    if name != "modrelu":  # its slope jumps too: rounding decides which gradient passes
        for one, other in zip(
            torch.autograd.grad(hs, given, g), torch.autograd.grad(expected, double, g.double()), strict=True
        ):
            assert_near(one.contiguous(), other, 1e-4)


@needs_gpu
def test_a_thousand_orthogonal_steps():
    V = torch.linalg.qr(torch.randn(128, 128, dtype=torch.float64))[0].to(DEVICE)
    us, h0 = torch.zeros(1000, 16, 128, device=DEVICE), torch.randn(16, 128, device=DEVICE)
    hs = elementwise_scan(us, h0, V.float(), "linear")
    assert_near(hs, loop(us.double(), h0.double(), V.float().double(), "linear", None, None), 1e-4)


@needs_gpu
def test_cached_graphs_are_correct_for_other_lengths():
    us, h0, V, _, _ = problem("tanh", torch.float32, 100, 300, 256, False, scale=0.5)
    for length in (100, 31, 33, 64, 1, 31, 100, 33, 64, 1):
        found = elementwise_scan(us[:length], h0, V, "tanh")
        assert_near(found, loop(us[:length].double(), h0.double(), V.double(), "tanh", None, None))


@needs_gpu
@pytest.mark.parametrize("units", [64, 256, 1500])
def test_autocast_and_tf32(units):
    cell = Elman(3, units).to(DEVICE)
    xs = torch.randn(30, 5, 3, device=DEVICE)
    exact = ms.scan(cell, xs, backend="loop")[0]
    with torch.autocast("cuda", torch.bfloat16):
        outputs, _, route = ms.scan(cell, xs, explain=True)
    assert route.fused
    assert outputs.dtype == torch.bfloat16
    torch.testing.assert_close(outputs.float(), exact, rtol=0, atol=0.03)
    torch.set_float32_matmul_precision("high")
    try:
        rough = ms.scan(cell, xs)[0]
    finally:
        torch.set_float32_matmul_precision("highest")
    error = (rough - exact).norm() / exact.norm()
    assert 1e-6 < error < 3e-3
