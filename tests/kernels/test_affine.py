"""Affine recurrences in chunks: values and gradients equal those of the literal loop."""

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad as fwd, gradcheck, gradgradcheck
from torch.func import jacrev, jvp, vjp, vmap

from mnemoscope.kernels import affine_scan, affine_step
from tests.kernels.affine_problems import FAMILIES, equal_keys, errors, problem
from tests.slow import SLOW

# torch loads its forward-mode formulas in a deprecated way
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")


@pytest.mark.parametrize("family", FAMILIES)
def test_chunks_of_any_size_equal_the_loop_in_values_and_gradients(family):
    given = problem(family, 21, packed=True)
    expected = given.results(backend="loop")
    for chunk in (1, 4, 5, 64, None):
        assert max(errors(given.results(chunk=chunk), expected)) < 1e-14


@SLOW
@pytest.mark.parametrize("decay", [1.0, 40.0])
@pytest.mark.parametrize("family", FAMILIES)
def test_long_sequences_equal_the_loop(family, decay):
    given = problem(family, 2048, batch=1, keys=16, values=16, decay=decay)
    expected = given.results(backend="loop")
    for chunk in (16, 100, 256):
        assert max(errors(given.results(chunk=chunk), expected)) < 1e-12


@pytest.mark.parametrize(("decay", "forget"), [(1.0, 0.0), (40.0, 0.0), (1.0, 0.3)])
@pytest.mark.parametrize("family", FAMILIES)
def test_float32_survives_strong_decays_and_hard_resets(family, decay, forget):
    given = problem(family, 40, decay=decay, forget=0.0 if family == "deltanet" else forget).to(torch.float32)
    found, expected = given.results(chunk=32), given.to(torch.float64).results(backend="loop")
    assert max(errors(found, expected)) < 2e-6


def test_a_decay_of_minus_infinity_forgets_exactly():
    given = problem("kda", 8, forget=0.0)
    q, k, v, g, a, b, state = (x.detach() for x in given.leaves)
    g[4], b[4] = -torch.inf, 0
    outputs, final = affine_scan(q, k, v, g, (a, b), state=state)
    again, end = affine_scan(*(x[4:] for x in (q, k, v, g)), (a[4:], b[4:]))
    assert max(errors((outputs[4:], final), (again, end))) < 1e-15
    huge = affine_scan(q, k, v, g, (a, b), state=1e300 * state)[1]
    assert errors([huge], [final])[0] < 1e-15


def test_packed_sequences_equal_separate_ones():
    given = problem("gated deltanet", 9)
    q, k, v, g, a, b, _ = (x.detach() for x in given.leaves)
    resets = torch.zeros(9, 2, dtype=torch.bool)
    resets[5, 0] = resets[3, 1] = True
    outputs, _ = affine_scan(q, k, v, g, (a, b), resets=resets, chunk=4)
    for row, start in ((0, 5), (1, 3)):
        for part in (slice(0, start), slice(start, None)):
            alone = affine_scan(*(x[part, [row]] for x in (q, k, v, g)), (a[part, [row]], b[part, [row]]))[0]
            assert errors([outputs[part, [row]]], [alone])[0] < 1e-14


@pytest.mark.parametrize("family", ["gla", "deltaproduct"])
def test_steps_continue_a_scan(family):
    given = problem(family, 3)
    q, k, v, g, *erase, state = (x.detach() for x in given.leaves)
    outputs, final = given.scan()
    for t in range(3):
        now = slice(t * given.micro_steps, (t + 1) * given.micro_steps)
        pair = tuple(x[now] for x in erase) or None
        output, state = affine_step(state, q[t], k[now], v[now], g[now], pair)
        assert errors([output], [outputs[t]])[0] < 1e-14
    assert errors([state], [final])[0] < 1e-14


@pytest.mark.parametrize("family", ["mamba-2", "kda"])
def test_second_derivatives_and_forward_mode(family):
    given = problem(family, 3, batch=1, heads=1, keys=2, values=1)
    assert gradcheck(lambda *x: given.scan(*x, chunk=2), given.leaves, check_forward_ad=True, fast_mode=True)
    assert gradgradcheck(lambda *x: given.scan(*x, chunk=2), given.leaves, fast_mode=True)


@pytest.mark.parametrize("family", ["mamba-2", "kda"])
def test_transforms_of_torch_func(family):
    given = problem(family, 5, batch=1)
    leaves = tuple(x.detach() for x in given.leaves)

    def scan(*x, **options):
        return given.scan(*x, chunk=4, **options)

    def loop(*x):
        return given.scan(*x, backend="loop")

    (_, found), (_, expected) = jvp(scan, leaves, leaves), jvp(loop, leaves, leaves)
    assert max(errors(found, expected)) < 1e-14
    into = loop(*leaves)
    assert max(errors(vjp(scan, *leaves)[1](into), vjp(loop, *leaves)[1](into))) < 1e-14
    every = tuple(range(len(leaves)))
    found, expected = (jacrev(lambda *x, f=f: f(*x)[0], every)(*leaves) for f in (scan, loop))
    assert max(errors(found, expected)) < 1e-14
    two = tuple(torch.stack([x, 0.5 * x]) for x in leaves)
    assert max(errors(vmap(scan)(*two), vmap(loop)(*two))) < 1e-14
    with fwd.dual_level():
        outputs, _ = scan(*(fwd.make_dual(x, x) for x in leaves))
        tangent = fwd.unpack_dual(outputs).tangent
    assert errors([tangent], [jvp(loop, leaves, leaves)[1][0]])[0] < 1e-14


def test_many_gradients_at_a_time():
    given = problem("kda", 5, batch=1)
    outputs, _ = given.scan(chunk=4)
    into = torch.randn(3, *outputs.shape, dtype=torch.float64)
    wanted = given.leaves[:-1]
    many = torch.autograd.grad(outputs, wanted, into, is_grads_batched=True, retain_graph=True)
    for i in range(3):
        one = torch.autograd.grad(outputs, wanted, into[i], retain_graph=True)
        assert max(errors([x[i] for x in many], one)) < 1e-14


def test_bfloat16_is_computed_in_float32():
    given = problem("gated deltanet", 20).to(torch.bfloat16)
    outputs, state = given.scan()
    assert (outputs.dtype, state.dtype) == (torch.bfloat16, torch.float32)
    expected, last = given.to(torch.float64).scan()
    assert errors([outputs, state], [expected, last])[0] < 3e-3  # rounding of the outputs
    assert errors([state], [last])[0] < 1e-6
    loop, _ = given.scan(backend="loop")
    assert errors([outputs], [loop])[0] < 3e-3


@pytest.mark.parametrize("family", ["deltanet", "kda"])
def test_equal_keys_at_beta_2_cost_no_digits_in_float32(family):
    given = equal_keys(family, 512)
    found, expected = given.results(), given.to(torch.float64).results()
    assert max(errors(found, expected)) < 1e-5  # up to 1e-4 if the products of keys are rounded to float32


@pytest.mark.parametrize("family", ["mamba-2", "kda"])
def test_the_operator_for_torch_compile_equals_the_loop(family, monkeypatch):
    given = problem(family, 5, batch=1)
    expected = given.results(backend="loop")
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert max(errors(given.results(chunk=4), expected)) < 1e-14
    with FakeTensorMode(allow_non_fake_inputs=True):  # the shapes that it promises to the compiler
        shapes = [x.shape for x in given.results(chunk=4)]
    assert shapes == [x.shape for x in expected]


COMPILED = """
import torch, mnemoscope as ms

for cell in (ms.networks.gated_deltanet(3, 16, heads=2), ms.networks.mingru(3, 16)):
    xs, weights = torch.randn(40, 4, 3), list(cell.parameters())
    found, expected = (
        torch.autograd.grad(run(xs), weights)
        for loss in [lambda xs: ms.scan(cell, xs)[0].square().sum()]
        for run in (torch.compile(loss, backend="aot_eager"), loss)
    )
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
print("same")
"""


@SLOW
def test_compiled_cells_have_the_same_gradients():
    # in another process: torch.compile cannot look through the shape checks of the tests
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", COMPILED], capture_output=True, text=True)
    assert done.stdout == "same\n", done.stderr[-3000:]


def speed_table():
    """Return the table of the page on speed, from the results of the benchmark."""
    results = Path(__file__).parents[2] / "benchmarks" / "results"
    times = {}
    for name in ("cuda", "cuda_tuned", "cuda_rwkv", "cpu"):
        for row in json.loads((results / f"affine_{name}.json").read_text())["rows"]:
            times[row["family"], name[:4], row["method"], row["dtype"]] = row["both_ms"]
    lines = [
        "| family | H200, float32 | H200, bfloat16 | fla-core, bfloat16 | CPU | CPU, loop |",
        "|---|---|---|---|---|---|",
    ]
    for family in (*FAMILIES, "retnet", "hgrn2"):
        columns = (
            ("cuda", "mnemoscope", "float32", ".2f"),
            ("cuda", "mnemoscope", "bfloat16", ".2f"),
            ("cuda", "fla-core", "bfloat16", ".2f"),
            ("cpu", "mnemoscope", "float32", ".0f"),
            ("cpu", "loop", "float32", ".0f"),
        )
        cells = [format(times[family, *c], f) if (family, *c) in times else "" for *c, f in columns]
        lines.append(f"| {family} | {' | '.join(cells)} |".replace("  ", " "))
    return "\n".join(lines)


def test_the_times_on_the_speed_page_are_those_measured():
    page = (Path(__file__).parents[2] / "docs" / "speed.md").read_text()
    assert page.split("<!-- affine -->")[1].split("<!-- end -->")[0].strip() == speed_table()


def test_wrong_arguments_are_named():
    q = torch.zeros(2, 1, 1, 3)
    for message, arguments in {
        "give the keys of all micro-steps": (q, q, q, q, None, {"micro_steps": 2}),
        "> 0 keys": (q[:0], q[:0], q[:0], q[:0], None, {}),
        "one per key": (q, q, q, q[..., :2], None, {}),
        "at least 1 micro-step": (q, q, q, q, None, {"chunk": 0}),
        "must have one dtype": (q, q, q.double(), q, None, {}),
    }.items():
        *tensors, options = arguments
        with pytest.raises(ValueError, match=message):
            affine_scan(*tensors, **options)
    with pytest.raises(ValueError, match="Unknown backend"):
        inspect.unwrap(affine_scan)(q, q, q, q, backend="cuda")
    for name, arguments in {
        "queries": (q[..., :2], q, q, q),
        "values": (q, q, q[:1], q),
        "log_decays": (q, q, q, q[:1]),
        "b of erase": (q, q, q, q, (q, q[..., :2])),
    }.items():
        with pytest.raises(ValueError, match=f"With keys of size .2, 1, 1, 3., {name} must be"):
            inspect.unwrap(affine_scan)(*arguments)
    for name, size in {"state": (1, 1, 3, 2), "resets": (1, 1)}.items():
        with pytest.raises(ValueError, match=f"{name} must be"):
            inspect.unwrap(affine_scan)(q, q, q, q, **{name: torch.zeros(size)})
