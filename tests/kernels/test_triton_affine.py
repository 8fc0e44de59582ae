"""Affine recurrences as Triton kernels, run on a GPU or in the interpreter."""

from types import SimpleNamespace

import pytest
import torch

from mnemoscope.kernels import affine as affine_module, affine_gradients, diagonal_scan, linear as linear_module

pytest.importorskip("triton")
from mnemoscope.kernels import triton_affine, triton_linear
from tests.kernels.affine_problems import FAMILIES, equal_keys, errors, problem
from tests.slow import SLOW, representatives, slow

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"


@pytest.fixture
def fused(monkeypatch):
    """Take the kernels of a GPU for tensors on a CPU too, where Triton's interpreter runs them."""
    if not GPU:
        monkeypatch.setattr(affine_module, "no_triton_affine_scan", lambda *_: None)


@representatives("kda-9-0.3", "deltaproduct-6-0.0")
@pytest.mark.parametrize("forget", [0.0, 0.3])
@pytest.mark.parametrize("tokens", [6, 9, 40])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.usefixtures("fused")
def test_every_family_equals_the_loop_in_values_and_gradients(family, tokens, forget):
    forget = 0.0 if family == "deltanet" else forget
    given = problem(family, tokens, batch=1, heads=1, keys=5, forget=forget, packed=True)
    given = given.to(torch.float32).to(DEVICE)
    found, expected = given.results(backend="triton", chunk=16), given.to(torch.float64).results(backend="loop")
    assert max(errors(found, expected)) < 2e-6


@pytest.mark.usefixtures("fused")
def test_second_derivatives_go_through_torch():
    given = problem("mamba-2", 2, batch=1, heads=1, keys=2, values=1).to(torch.float32).to(DEVICE)
    found = []
    for this, backend in ((given, "triton"), (given.to(torch.float64), "loop")):
        outputs, _ = this.scan(backend=backend)
        first = torch.autograd.grad(outputs.square().sum(), this.leaves, create_graph=True)
        found.append(torch.autograd.grad(sum(x.square().sum() for x in first), this.leaves))
    assert max(errors(*found)) < 1e-5


@pytest.mark.usefixtures("fused")
def test_the_operator_for_torch_compile_runs_the_kernels(monkeypatch):
    given = problem("deltaproduct", 3, batch=1, heads=1).to(torch.float32).to(DEVICE)
    expected = given.to(torch.float64).results(backend="loop")
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert max(errors(given.results(backend="triton"), expected)) < 2e-6


@SLOW
@pytest.mark.usefixtures("fused")
def test_equal_keys_at_beta_2_cost_no_digits():
    given = equal_keys("deltanet", 512, size=16).to(DEVICE)
    found, expected = given.results(backend="triton"), given.to(torch.float64).results()
    assert max(errors(found, expected)) < 1e-5


@pytest.mark.parametrize("family", [*slow(*FAMILIES)])
@pytest.mark.usefixtures("fused")
def test_bfloat16_stays_near_the_exact_result(family):
    given = problem(family, 20, keys=20, values=70, batch=1).to(torch.bfloat16).to(DEVICE)
    outputs, state = given.scan(backend="triton")
    assert (outputs.dtype, state.dtype) == (torch.bfloat16, torch.float32)
    assert max(errors((outputs, state), given.to(torch.float64).scan(backend="loop"))) < 1e-2


@SLOW
@pytest.mark.parametrize("keys", [1, 17, 64, 128])
@pytest.mark.usefixtures("fused")
def test_heads_of_any_size_equal_the_loop(keys):
    given = problem("kda", 20, batch=1, heads=1, keys=keys, values=70).to(torch.float32).to(DEVICE)
    found, expected = given.results(backend="triton"), given.to(torch.float64).results(backend="loop")
    assert max(errors(found, expected)) < 2e-6


def test_there_is_a_reason_without_kernels(monkeypatch):
    given = problem("gla", 2)
    if not GPU:
        with pytest.raises(ValueError, match="no affine scan in Triton for the device cpu"):
            given.scan(backend="triton")
    monkeypatch.setattr(affine_gradients, "no_triton", lambda *_: None)
    with pytest.raises(ValueError, match="bfloat16 or float16, not in"):
        given.scan(backend="triton")
    assert "up to 128 keys" in (affine_gradients.no_triton_affine_scan(torch.device(DEVICE), torch.float32, 129) or "")
    leaves = tuple(x.detach() for x in given.to(torch.float32).leaves)
    with pytest.raises(ValueError, match="no rule for transforms"):
        torch.func.vmap(lambda *x: given.scan(*x, backend="triton"))(*(x.unsqueeze(0) for x in leaves))


@pytest.mark.parametrize(
    ("which", "dtype"),
    [
        ("constant", torch.float32),
        ("varying", torch.complex64),
        *slow(("constant", torch.complex64), ("varying", torch.float32)),
    ],
)
def test_a_diagonal_scan_is_one_kernel(monkeypatch, which, dtype):
    if not GPU:
        monkeypatch.setattr(linear_module, "_fused_on_gpu", lambda us: us.dtype in (torch.float32, torch.complex64))
        monkeypatch.setattr(triton_linear, "STEPS", 4)
    shape = (3,) if which == "constant" else (9, 2, 3)
    a = torch.polar(torch.rand(shape), torch.randn(shape)) if dtype.is_complex else torch.rand(shape)
    us, h0 = torch.randn(9, 2, 3, dtype=dtype), torch.randn(2, 3, dtype=dtype)
    given = [x.to(DEVICE).requires_grad_() for x in (a, us, h0)]
    into = torch.randn_like(us).to(DEVICE)
    results = []
    for wide in (False, True):
        double = torch.complex128 if dtype.is_complex else torch.float64
        these = [x.detach().to(double).requires_grad_() for x in given] if wide else given
        hs = diagonal_scan(*these)
        results.append((hs, *torch.autograd.grad(hs, these, into.to(hs.dtype))))
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected.to(dtype), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("kibibytes", "keys", "erases", "stages"),
    [(227, 128, True, 2), (163, 128, True, 2), (99, 128, True, 1), (99, 64, True, 2), (99, 128, False, 2)],
)
def test_a_walk_loads_ahead_where_the_gpu_has_room(kibibytes, keys, erases, stages):
    """A GPU of 99 KiB has no room for a factor of 128 x 128 numbers and a second chunk."""
    plan = triton_affine.Plan(100, 1, 1, 16, keys, keys, 1, erases, "tf32x3", 1024 * kibibytes)
    assert plan.narrow() == {"E": 32, "num_stages": stages}


def test_the_plan_asks_the_gpu_for_its_shared_memory(monkeypatch):
    class OnGPU(torch.Tensor):
        is_cuda = True

    properties = SimpleNamespace(shared_memory_per_block_optin=1024 * 99)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    x = torch.empty(100, 1, 128, device="meta").as_subclass(OnGPU)
    plan = triton_affine.plan(triton_affine.Sequences(x, x, x, x, x, x), 1, None)
    assert (plan.shared, plan.narrow()["num_stages"]) == (1024 * 99, 1)
