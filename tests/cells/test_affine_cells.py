"""Affine cells, compared with the published formulas, and the kernel with the loop of steps."""

import pytest
import torch
from torch.nn.functional import silu, softplus

import mnemoscope as ms
from mnemoscope.cells.affine import GLA, MLSTM, AffineCell, DeltaNet, GatedDeltaNet, Mamba2, Parts, ScaledState
from mnemoscope.cells.state import leaves, map_state

ROUNDING = {"rtol": 1e-11, "atol": 1e-12}  # float64, seven steps

CELLS = {
    "mamba2": lambda: Mamba2(3, 6, heads=2, state_size=2),
    "mamba2-groups": lambda: Mamba2(3, 8, heads=4, state_size=2, groups=2),
    "gla": lambda: GLA(3, 6, heads=2, rank=2),
    "mlstm": lambda: MLSTM(3, 6, heads=2),
    "mlstm-exponential": lambda: MLSTM(3, 6, heads=2, forget="exponential", forget_bias=0.5),
    "deltanet": lambda: DeltaNet(3, 6, heads=2, beta_max=2),
    "gated-deltanet": lambda: GatedDeltaNet(3, 6, heads=2, key_size=2),
}


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def random_state(cell, batch):
    return map_state(torch.randn_like, cell.initial_state(batch))


def close(one, other):
    torch.testing.assert_close(one, other, **ROUNDING)


@pytest.fixture(params=CELLS)
def cell(request):
    return CELLS[request.param]().double()


MASK = torch.tensor([[1, 1, 1, 0, 1, 1, 0], [0, 1, 0, 0, 1, 0, 0]], dtype=torch.bool).T


@pytest.mark.parametrize("mask", [None, MASK], ids=["whole", "masked"])
def test_the_kernel_is_the_loop_with_all_gradients(cell, mask):
    xs, start = randn(7, 2, 3).requires_grad_(), random_state(cell, 2)
    start = map_state(lambda part: part.requires_grad_(), start)
    wanted = [xs, *leaves(start), *cell.parameters()]
    found = []
    for backend in ("loop", "fused"):
        outputs, last = ms.scan(cell, xs, start, mask=mask, backend=backend)
        loss = outputs.square().sum() + sum((part * part.conj()).real.sum() for part in leaves(last))
        found.append((outputs, *leaves(last), *torch.autograd.grad(loss, wanted)))
    for one, other in zip(*found, strict=True):
        close(one, other)


def test_the_state_holds_nothing_but_the_memory(cell):
    state = cell.initial_state(1)
    assert state._fields == (("S", "m") if cell.scaled else ("S",))
    assert ms.cells.Layout(state).size == cell.state_size
    assert state.S.shape == (1, cell.heads, cell.keys, cell.values)


def test_the_step_is_affine_in_the_state(cell):
    if cell.scaled:
        pytest.skip("the scale of its state depends on the state")
    x, states = randn(1, 3), [random_state(cell, 1) for _ in range(2)]
    mixed = map_state(lambda one, other: 0.3 * one + 0.7 * other, *states)
    one, other = (cell(x, state).S for state in states)
    close(cell(x, mixed).S, 0.3 * one + 0.7 * other)


def test_a_cache_holds_the_parts(cell):
    _, cache = ms.run_with_cache(cell, randn(5, 2, 3))
    assert {"S", "q", "k", "v", "g"} <= set(cache)
    assert ("a" in cache) == (cell.parts(cell.project(randn(1, 3))).erase is not None)


def vectors(weight, x, sizes):
    return [part @ x for part in weight.split(sizes)]


def unit(vector):
    return vector / (vector @ vector + 1e-6).sqrt()


def literal_mamba2(cell, x, S, head):
    H, P, N = cell.heads, cell.values, cell.keys
    u, B, C, dt = vectors(cell.project.weight, x, [H * P, N, N, H])
    u, B, C = silu(u)[head * P : (head + 1) * P], silu(B), silu(C)
    dt = softplus(dt[head] + cell.rate_bias[head])
    S = torch.exp(-cell.log_decay[head].exp() * dt) * S + dt * torch.outer(B, u)
    return S, C @ S + cell.skip[head] * u


def literal_gla(cell, x, S, head):
    H, d, e = cell.heads, cell.keys, cell.values
    q, k, v, low = vectors(cell.project.weight, x, [H * d, H * d, H * e, cell.decay.in_features])
    alpha = torch.sigmoid(cell.decay(low)) ** (1 / 16)
    q, k, alpha = (part[head * d : (head + 1) * d] for part in (q, k, alpha))
    S = alpha[:, None] * S + torch.outer(k, v[head * e : (head + 1) * e])
    return S, q @ S / d**0.5


def literal_deltanet(cell, x, S, head):
    H, d, e = cell.heads, cell.keys, cell.values
    q, k, v, beta, *rate = vectors(cell.project.weight, x, [H * d, H * d, H * e, H, *[H] * cell.extra_gates])
    q, k = (unit(silu(part[head * d : (head + 1) * d])) for part in (q, k))
    v, beta = silu(v[head * e : (head + 1) * e]), cell.beta_max * torch.sigmoid(beta[head])
    alpha = 1.0
    if rate:
        alpha = torch.exp(-cell.log_decay[head].exp() * softplus(rate[0][head] + cell.rate_bias[head]))
    S = alpha * (torch.eye(d) - beta * torch.outer(k, k)) @ S + beta * torch.outer(k, v)
    return S, q @ S


LITERAL = {
    "mamba2": literal_mamba2,
    "gla": literal_gla,
    "deltanet": literal_deltanet,
    "gated-deltanet": literal_deltanet,
}


@pytest.mark.parametrize("name", LITERAL)
@torch.no_grad()
def test_a_cell_is_the_published_formula(name):
    """Compute one head of one sequence as the paper writes it."""
    cell = CELLS[name]().double()
    xs, start = randn(5, 2, 3), random_state(cell, 2)
    outputs, last = ms.scan(cell, xs, start)
    S, e = start.S[1, 1], cell.values
    for t, x in enumerate(xs[:, 1]):
        S, o = LITERAL[name](cell, x, S, head=1)
        close(outputs[t, 1, e : 2 * e], o)
    close(last.S[1, 1], S)


def unstabilised(cell, xs):
    """Compute Eq 19-27 of Beck et al. 2024 one trial at a time, with an unscaled exp."""
    d, size, heads = cell.hidden_size, cell.keys, cell.heads
    W, b = cell.project.weight, cell.project.bias
    sizes = [d] * 4 + [heads] * 2
    names = dict(zip("qkvoif", zip(W.split(sizes), b.split(sizes), strict=True), strict=True))
    outputs = torch.zeros(*xs.shape[:2], d, dtype=xs.dtype)
    for trial in range(xs.shape[1]):
        for head in range(heads):
            part = slice(head * size, (head + 1) * size)
            C, n = torch.zeros(size, size, dtype=xs.dtype), torch.zeros(size, dtype=xs.dtype)
            for t in range(len(xs)):
                x = xs[t, trial]
                pre = {name: weight @ x + bias for name, (weight, bias) in names.items()}
                k = (names["k"][0] @ x / size**0.5 + names["k"][1])[part]
                i = torch.exp(pre["i"][head])
                f = (torch.sigmoid if cell.forget == "sigmoid" else torch.exp)(pre["f"][head])
                C, n = f * C + i * torch.outer(pre["v"][part], k), f * n + i * k
                q = pre["q"][part]
                outputs[t, trial, part] = torch.sigmoid(pre["o"][part]) * (C @ q) / torch.clamp((n @ q).abs(), min=1)
    return outputs


@pytest.mark.parametrize("forget", ["sigmoid", "exponential"])
@pytest.mark.parametrize("scale", [0.3, 3.0])
@torch.no_grad()
def test_mlstm_is_the_published_formula(forget, scale):
    cell = MLSTM(3, 8, heads=2, forget=forget, forget_bias=0.5).double()
    xs = scale * randn(12, 2, 3)
    expected = unstabilised(cell, xs)
    assert torch.isfinite(expected).all()
    for backend in ("loop", "fused"):
        outputs = ms.scan(cell, xs, backend=backend)[0]
        torch.testing.assert_close(outputs, expected, rtol=1e-10, atol=1e-12)  # weights cancel in n^T q


@pytest.mark.parametrize("backend", ["loop", "fused"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [3e2, -3e2, 3e4])
def test_mlstm_is_finite_where_the_formula_is_not(scale, dtype, backend):
    cell = MLSTM(3, 8).to(dtype)
    with torch.no_grad():
        cell.project.weight[-2] = scale  # of the input gate, exp(scale (x_1 + x_2 + x_3))
    xs = torch.ones(12, 2, 3, dtype=dtype) + 0.1 * torch.randn(12, 2, 3, dtype=dtype)
    outputs, state = ms.scan(cell, xs, backend=backend)
    outputs.square().sum().backward()
    assert all(torch.isfinite(part).all() for part in (outputs, *leaves(state)))
    assert all(torch.isfinite(parameter.grad).all() for parameter in cell.parameters())
    if scale > 0:
        with torch.no_grad():
            assert not torch.isfinite(unstabilised(cell, xs)).all()


def test_the_scale_of_an_mlstm_state_does_not_matter():
    """(S, m) and (S / e^s, m + s) are the same memory."""
    cell = MLSTM(3, 8).double()
    xs, start = randn(6, 2, 3), random_state(cell, 2)
    shifted = ScaledState(start.S * torch.exp(torch.tensor(-2.0)), start.m + 2)
    torch.testing.assert_close(ms.scan(cell, xs, shifted)[0], ms.scan(cell, xs, start)[0], rtol=1e-6, atol=1e-8)


def test_a_delta_rule_replaces_what_a_key_held():
    """With beta = 1 a key returns its last value, and values of orthogonal keys are kept."""

    class Rule(AffineCell):
        def __init__(self):
            super().__init__(8, 4, heads=1)
            self.project = torch.nn.Identity()
            self.like = torch.nn.Parameter(torch.zeros(()))

        def parts(self, features):
            k, v = features.unsqueeze(-2).split([4, 4], dim=-1)
            return Parts(k, k, v, torch.zeros_like(k[..., :1]), erase=(-k, k))

    values, order = randn(5, 4), [0, 1, 2, 3, 1]
    xs = torch.cat([torch.eye(4, dtype=torch.float64)[order], values], dim=1).unsqueeze(1)
    outputs, state = ms.scan(Rule().double(), xs, backend="fused")
    close(outputs[:, 0], values)
    close(state.S[0, 0], values[[0, 4, 2, 3]])


def test_decays_of_a_new_gated_deltanet_lie_where_they_should():
    cell = GatedDeltaNet(3, 64, heads=64)
    rate, decay = softplus(cell.rate_bias), cell.log_decay.exp()
    assert 9e-4 < rate.min() < rate.max() < 0.11
    assert 1 <= decay.min() < decay.max() <= 16


def test_bad_options_are_refused():
    for make, message in [
        (lambda: MLSTM(3, 8, heads=3), "multiple of heads"),
        (lambda: MLSTM(3, 8, forget="tanh"), "'exponential'"),
        (lambda: GatedDeltaNet(3, 0), "hidden_size must be"),
        (lambda: GatedDeltaNet(3, 4, key_size=0), "keys must be"),
        (lambda: DeltaNet(3, 4, beta_max=2.5), "at most 2"),
        (lambda: Mamba2(3, 4, heads=2, groups=4), "multiple of groups"),
    ]:
        with pytest.raises(ValueError, match=message):
            make()
    with pytest.raises(NotImplementedError, match="must define parts"):
        AffineCell(3, 4, heads=1).parts(randn(1, 3))
