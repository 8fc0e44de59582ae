"""Affine cells, compared with the published formulas, and the kernel with the loop of steps."""

import pytest
import torch
from torch.nn.functional import silu, softplus

import mnemoscope as ms
from mnemoscope.cells import SLSTM
from mnemoscope.cells.affine import (
    GLA,
    HGRN2,
    KDA,
    LRU,
    MLSTM,
    RGLRU,
    RWKV7,
    S4D,
    S5,
    AffineCell,
    DeltaNet,
    DeltaProduct,
    GatedDeltaNet,
    Mamba,
    Mamba2,
    MinGRU,
    MinLSTM,
    Parts,
    RetNet,
    ScaledState,
    cell as cell_module,
)
from mnemoscope.cells.affine.state_space import _hippo_normal
from mnemoscope.cells.state import leaves, map_state
from tests.slow import representatives

ROUNDING = {"rtol": 1e-11, "atol": 1e-12}  # float64, seven steps

CELLS = {
    "s4d": lambda: S4D(3, 2, state_size=4),
    "s5": lambda: S5(3, 3),
    "lru": lambda: LRU(3, 3, state_size=2),
    "mingru": lambda: MinGRU(3, 3),
    "minlstm": lambda: MinLSTM(3, 3),
    "rg-lru": lambda: RGLRU(3, 4, gate_blocks=2),
    "retnet": lambda: RetNet(3, 6, heads=2, key_size=4),
    "hgrn2": lambda: HGRN2(3, 6, heads=2),
    "hgrn2-bound": lambda: HGRN2(3, 6, heads=2, key_size=2, lower_bound=0.3),
    "mamba": lambda: Mamba(3, 3, state_size=2),
    "mamba-negative": lambda: decaying_fast(Mamba(3, 3, state_size=2, beta_max=2)),
    "deltaproduct": lambda: DeltaProduct(3, 6, heads=2),
    "deltaproduct-gated": lambda: DeltaProduct(3, 6, heads=2, factors=3, key_size=2, gated=True),
    "deltaproduct-one": lambda: DeltaProduct(3, 6, heads=2, factors=1, gated=True),
    "kda": lambda: KDA(3, 6, heads=2, key_size=2),
    "rwkv7": lambda: with_bonus(RWKV7(3, 6, heads=2, rank=2)),
    "mamba2": lambda: Mamba2(3, 6, heads=2, state_size=2),
    "mamba2-groups": lambda: Mamba2(3, 8, heads=4, state_size=2, groups=2),
    "gla": lambda: GLA(3, 6, heads=2, rank=2),
    "mlstm": lambda: MLSTM(3, 6, heads=2),
    "mlstm-exponential": lambda: MLSTM(3, 6, heads=2, forget="exponential", forget_bias=0.5),
    "deltanet": lambda: DeltaNet(3, 6, heads=2, beta_max=2),
    "gated-deltanet": lambda: GatedDeltaNet(3, 6, heads=2, key_size=2),
}


def with_bonus(cell):
    torch.nn.init.normal_(cell.bonus)
    return cell


def decaying_fast(cell):
    torch.nn.init.normal_(cell.rate.bias)  # time steps near 1, so that eigenvalues have both signs
    return cell


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def random_state(cell, batch):
    return map_state(torch.randn_like, cell.initial_state(batch))


def close(one, other):
    torch.testing.assert_close(one, other, **ROUNDING)


@pytest.fixture(params=CELLS)
def cell(request):
    return CELLS[request.param]().double()


def test_no_sequences_give_no_outputs_and_zero_gradients(cell):
    xs = randn(4, 0, 3).requires_grad_()
    outputs, _ = ms.scan(cell, xs)
    outputs.sum().backward()
    assert outputs.shape[:2] == (4, 0)
    assert not any(parameter.grad.any() for parameter in cell.parameters() if parameter.grad is not None)


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
    assert ms.cells.Layout(state).size == cell.memory_size
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


def literal_delta_rule(cell, x, S, head):
    H, d, e, n = cell.heads, cell.keys, cell.values, cell.factors
    sizes = [H * d, *n * [H * d], *n * [H * e], *n * [H]]
    q, *rest = vectors(cell.project.weight, x, [*sizes, len(cell.project.weight) - sum(sizes)])
    ks, vs, betas, gates = rest[:n], rest[n : 2 * n], rest[2 * n : 3 * n], rest[-1]
    alpha = torch.ones(d).double()
    if isinstance(cell, KDA):
        rate = softplus(cell.decay(gates) + cell.rate_bias)[head * d : (head + 1) * d]
        alpha = torch.exp(-cell.log_decay[head].exp() * rate)
    elif len(gates):
        alpha = alpha * torch.exp(-cell.log_decay[head].exp() * softplus(gates[head] + cell.rate_bias[head]))
    S = alpha[:, None] * S
    for k, v, beta in zip(ks, vs, betas, strict=True):
        k, v = unit(silu(k[head * d : (head + 1) * d])), silu(v[head * e : (head + 1) * e])
        beta = cell.beta_max * torch.sigmoid(beta[head])
        S = (torch.eye(d) - beta * torch.outer(k, k)) @ S + beta * torch.outer(k, v)
    return S, unit(silu(q[head * d : (head + 1) * d])) @ S


def literal_hgrn2(cell, x, S, head):
    H, d, e = cell.heads, cell.keys, cell.values
    q, f, v = vectors(cell.project.weight, x, [H * d, H * d, H * e])
    q, f, v = silu(q)[head * d : (head + 1) * d], f[head * d : (head + 1) * d], v[head * e : (head + 1) * e]
    f = cell.lower_bound + (1 - cell.lower_bound) * torch.sigmoid(f)
    S = f[:, None] * S + torch.outer(1 - f, v)
    return S, q @ S


def literal_rwkv7(cell, x, S, head):
    H, d, rank = cell.heads, cell.keys, cell.decay.in_features
    r, k, v, w, a = vectors(cell.project.weight, x, [*3 * [H * d], rank, rank])
    w = torch.exp(-(torch.tensor(-0.5).double().exp()) * torch.sigmoid(cell.decay(torch.tanh(w))))
    a = torch.sigmoid(cell.rate(a))
    r, k, v, w, a = (part[head * d : (head + 1) * d] for part in (r, k, v, w, a))
    c = unit(k * cell.key_scale[head])
    k = k * (1 + (a - 1) * cell.key_mix[head])
    S = (torch.diag(w) - torch.outer(a * c, c)) @ S + torch.outer(k, v)
    return S, r @ S + (r * cell.bonus[head] * k).sum() * v


LITERAL = {
    "mamba2": literal_mamba2,
    "gla": literal_gla,
    "hgrn2": literal_hgrn2,
    "hgrn2-bound": literal_hgrn2,
    "rwkv7": literal_rwkv7,
    "deltanet": literal_delta_rule,
    "gated-deltanet": literal_delta_rule,
    "deltaproduct": literal_delta_rule,
    "deltaproduct-gated": literal_delta_rule,
    "deltaproduct-one": literal_delta_rule,
    "kda": literal_delta_rule,
}


@pytest.mark.parametrize("name", LITERAL)
@torch.no_grad()
def test_a_matrix_memory_is_the_published_formula(name):
    """Compute one head of one sequence as the paper writes it."""
    cell = CELLS[name]().double()
    xs, start = randn(5, 2, 3), random_state(cell, 2)
    outputs, last = ms.scan(cell, xs, start)
    S, e = start.S[1, 1], cell.values
    for t, x in enumerate(xs[:, 1]):
        S, o = LITERAL[name](cell, x, S, head=1)
        close(outputs[t, 1, e : 2 * e], o)
    close(last.S[1, 1], S)


def literal_mingru(cell, x, h):
    z, n = cell.project(x).chunk(2)
    z = torch.sigmoid(z)
    h = (1 - z) * h + z * n
    return h, h


def literal_minlstm(cell, x, c):
    f, i, n = cell.project(x).chunk(3)
    f, i = torch.sigmoid(f), torch.sigmoid(i)
    c = f / (f + i) * c + i / (f + i) * n
    return c, c


def literal_rglru(cell, x, h):
    u = cell.project(x)
    W_r, W_i = (torch.block_diag(*gate.weight) for gate in (cell.recurrence_gate, cell.input_gate))
    r = torch.sigmoid(W_r @ u + cell.recurrence_gate.bias)
    i = torch.sigmoid(W_i @ u + cell.input_gate.bias)
    a = torch.exp(-softplus(cell.rate_bias)) ** (8 * r)
    h = a * h + (1 - a**2).sqrt() * (i * u)
    return h, h


def literal_mamba(cell, x, s):
    u = silu(cell.project(x))
    low, B, C = cell.select(u).split([cell.rate.in_features, cell.keys, cell.keys])
    dt = softplus(cell.rate(low))
    decay = torch.exp(-cell.log_decay.exp() * dt[:, None])
    if cell.beta_max == 2:  # Grazzi et al. 2025
        decay = 2 * decay - 1
    s = decay * s.view(-1, cell.keys) + dt[:, None] * B * u[:, None]
    return s.flatten(), s @ C + cell.skip * u


def literal_s4d(cell, x, s):
    u, A, dt = cell.project(x), torch.complex(-cell.log_rate.exp(), cell.frequency), cell.log_step.exp()
    s = torch.exp(A * dt) * s.view(A.shape) + (torch.exp(A * dt) - 1) / A * u[:, None]
    return s.flatten(), 2 * (torch.view_as_complex(cell.C) * s).sum(1).real + cell.skip * u


def matrices(cell):
    """B, C and D of a complex vector cell."""
    pairs, D = cell.project.weight.split([2 * cell.heads, cell.hidden_size])
    C = cell.C.weight.unflatten(1, (-1, 2))
    return torch.complex(pairs[::2], pairs[1::2]), torch.complex(C[..., 0], -C[..., 1]), D


def literal_lru(cell, x, s):
    B, C, D = matrices(cell)
    s = torch.exp(torch.complex(-cell.nu.exp(), cell.theta.exp())) * s + cell.log_gamma.exp() * (B @ x.cdouble())
    return s, (C @ s).real + D @ x


def literal_s5(cell, x, s):
    (B, C, D), dt = matrices(cell), cell.log_step.exp()
    L = torch.complex(-cell.log_rate.exp(), cell.frequency)
    s = torch.exp(L * dt) * s + (torch.exp(L * dt) - 1) / L * (B @ x.cdouble())
    return s, (C @ s).real + D @ x


VECTORS = {
    "mingru": literal_mingru,
    "minlstm": literal_minlstm,
    "rg-lru": literal_rglru,
    "mamba": literal_mamba,
    "mamba-negative": literal_mamba,
    "s4d": literal_s4d,
    "lru": literal_lru,
    "s5": literal_s5,
}


@pytest.mark.parametrize("name", VECTORS)
@torch.no_grad()
def test_a_diagonal_recurrence_is_the_published_formula(name):
    cell = CELLS[name]().double()
    xs, start = randn(5, 2, 3), random_state(cell, 2)
    outputs, last = ms.scan(cell, xs, start)
    s = start.S[1].flatten()
    for t, x in enumerate(xs[:, 1]):
        s, o = VECTORS[name](cell, x, s)
        close(outputs[t, 1], o)
    close(last.S[1].flatten(), s)


@torch.no_grad()
def test_retention_is_attention_with_rotated_queries_and_keys():
    """Rotate queries and keys by their positions and weight them by gamma^(t - s), head by head."""
    cell, xs = RetNet(3, 6, heads=2, key_size=4).double(), randn(6, 1, 3)
    q, k, v = cell.project(xs[:, 0]).split([8, 8, 6], dim=1)
    position = torch.arange(6.0).double()
    angles = position[:, None] * 10_000.0 ** (-torch.tensor([0.0, 2.0]).double() / 4)
    cos, sin = torch.cos(angles), torch.sin(angles)

    def turned(x):
        a, b = x.unflatten(1, (2, 2)).unbind(2)
        return torch.stack([a * cos - b * sin, a * sin + b * cos], 2).flatten(1)

    for head in range(2):
        gamma = 1 - 2.0 ** (-5 - head)
        lag = position[:, None] - position
        weights = torch.where(lag >= 0, gamma**lag, 0)
        part = slice(4 * head, 4 * head + 4)
        scores = weights * (turned(q[:, part]) @ turned(k[:, part]).T) / 2
        expected = scores @ v[:, 3 * head : 3 * head + 3]
        close(ms.scan(cell, xs)[0][:, 0, 3 * head : 3 * head + 3], expected)


def test_new_cells_have_the_default_precision_of_torch():
    torch.set_default_dtype(torch.float64)
    try:
        cells = [make() for make in CELLS.values()]
    finally:
        torch.set_default_dtype(torch.float32)
    assert {parameter.dtype for cell in cells for parameter in cell.parameters()} == {torch.float64}


def test_s5_begins_at_the_normal_part_of_hippo():
    """P P^T plus the HiPPO-LegS matrix is normal; its eigenvalues come in pairs."""
    n = torch.arange(6).double()
    A = -torch.tril(torch.outer((2 * n + 1).sqrt(), (2 * n + 1).sqrt()), -1) - torch.diag(n + 1)
    normal = A + torch.outer((n + 0.5).sqrt(), (n + 0.5).sqrt())
    eigenvalues, V = _hippo_normal(6)
    assert (eigenvalues.imag > 0).all()
    V, D = V.to(torch.complex128), torch.diag(eigenvalues.to(torch.complex128))
    torch.testing.assert_close((2 * V @ D @ V.mH).real, normal, rtol=0, atol=1e-5)  # float32


def test_new_cells_remember_as_long_as_they_should():
    lru = LRU(3, 200, r_min=0.8, r_max=0.9)
    modulus = torch.exp(-lru.nu.exp())
    assert modulus.min() > 0.8
    assert modulus.max() < 0.9
    torch.testing.assert_close(lru.log_gamma.exp(), (1 - modulus**2).sqrt())
    slowest = torch.exp(-8 * softplus(RGLRU(3, 200).rate_bias))
    assert 0.899 < slowest.min() < slowest.max() < 0.9991
    torch.testing.assert_close(Mamba(3, 4).log_decay.exp(), torch.arange(1, 17.0).expand(4, 16))
    decays = torch.exp(RWKV7(3, 50).parts(torch.zeros(1, 150 + 64)).log_decays)
    assert 0.545 < decays.min() < decays.max() < 1


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


@torch.no_grad()
def test_the_eigenvalues_of_a_mamba_reach_from_1_to_1_less_beta_max():
    xs = torch.tensor([0.1, 3.0, 30.0], dtype=torch.float64).repeat(100).unsqueeze(1) * randn(300, 3)
    for beta_max in (1.0, 1.5, 2.0):
        cell = decaying_fast(Mamba(3, 4, beta_max=beta_max).double())
        eigenvalues = cell.jacobian(xs, cell.initial_state(300)).diagonal(dim1=1, dim2=2)
        assert 1 - beta_max <= eigenvalues.min() < 1.02 - beta_max
        assert 0.98 < eigenvalues.max() <= 1


def counting(beta_max):
    """Return a Mamba of tokens (keep, flip, start) whose first channel holds a number that flips negate."""
    cell = Mamba(3, 3, state_size=1, rank=1, beta_max=beta_max).double().requires_grad_(False)
    cell.project.weight.copy_(32 * torch.eye(3))
    ones, flip, start = torch.tensor([[1.0, 1, 1], [0, 1, 0], [0, 0, 1]]) / 32
    cell.select.weight.copy_(torch.stack([60 * flip + 30 * start, start, ones]))  # W_1, B and C
    cell.rate.weight.fill_(1)
    cell.rate.bias.fill_(-30)  # dt is 0 for keep, 30 for flip, log 2 for start, a write of 32 dt
    cell.log_decay.zero_()
    cell.skip.zero_()
    return cell


def test_a_mamba_with_eigenvalues_from_minus_1_counts_modulo_2():
    flips = torch.rand(256, 4) < 0.5
    xs = torch.nn.functional.one_hot(torch.cat([torch.full((1, 4), 2), flips.long()]), 3).double()
    parity = flips.cumsum(0) % 2
    held = 32 * torch.tensor(2.0).log()
    outputs = ms.scan(counting(beta_max=2.0), xs)[0][1:, :, 2]
    torch.testing.assert_close(outputs, held * (1.0 - 2 * parity).double(), rtol=1e-7, atol=0)
    forgotten = ms.scan(counting(beta_max=1.0), xs)[0][1:, :, 2]  # a flip cannot negate, only remove
    assert forgotten[flips.cumsum(0) > 0].abs().max() < 1e-10


def test_decays_of_a_new_gated_deltanet_lie_where_they_should():
    cell = GatedDeltaNet(3, 64, heads=64)
    rate, decay = softplus(cell.rate_bias), cell.log_decay.exp()
    assert 9e-4 < rate.min() < rate.max() < 0.11
    assert 0 < decay.min() < 1.5
    assert 14 < decay.max() <= 16


def test_bad_options_are_refused():
    for make, message in [
        (lambda: MLSTM(3, 8, heads=3), "multiple of heads"),
        (lambda: MLSTM(3, 8, forget="tanh"), "'exponential'"),
        (lambda: GatedDeltaNet(3, 0), "hidden_size must be"),
        (lambda: GatedDeltaNet(3, 4, key_size=0), "keys must be"),
        (lambda: DeltaNet(3, 4, beta_max=2.5), "at most 2"),
        (lambda: Mamba2(3, 4, heads=2, groups=4), "multiple of groups"),
        (lambda: Mamba(3, 4, rank=0), "rank must be"),
        (lambda: Mamba(3, 4, beta_max=2.5), "at most 2"),
        (lambda: RGLRU(3, 4, gate_blocks=3), "multiple of 3 blocks"),
        (lambda: HGRN2(3, 4, lower_bound=1.0), "lower_bound must be"),
        (lambda: RetNet(3, 4, key_size=3), "key_size must be even"),
        (lambda: S4D(3, 4, state_size=5), "state_size must be even"),
        (lambda: LRU(3, 4, r_min=0.9, r_max=0.5), "r_min < r_max"),
        (lambda: DeltaProduct(3, 4, factors=0), "factors must be"),
        (lambda: SLSTM(3, 4, heads=3), "multiple of heads"),
        (lambda: SLSTM(3, 4, forget="tanh"), "'exponential'"),
    ]:
        with pytest.raises(ValueError, match=message):
            make()
    with pytest.raises(NotImplementedError, match="must define parts"):
        AffineCell(3, 4, heads=1).parts(randn(1, 3))


@pytest.mark.parametrize("forget", ["sigmoid", "exponential"])
@torch.no_grad()
def test_slstm_is_the_published_formula(forget):
    """Compute Eq 8-14 of Beck et al. 2024 with an unscaled exp."""
    cell = SLSTM(3, 4, heads=2, forget=forget, forget_bias=0.5).double()
    xs = randn(6, 1, 3)
    h = c = n = torch.zeros(4, dtype=torch.float64)
    for x, output in zip(xs[:, 0], ms.scan(cell, xs)[0][:, 0], strict=True):
        R = [torch.block_diag(*cell.recurrent[gate]) for gate in range(4)]
        i, f, z, o = (u + r @ h for u, r in zip(cell.project(x).chunk(4), R, strict=True))
        i, f = torch.exp(i), torch.sigmoid(f) if forget == "sigmoid" else torch.exp(f)
        c, n = f * c + i * torch.tanh(z), f * n + i
        h = torch.sigmoid(o) * c / n
        close(output, h)
    _, cache = ms.run_with_cache(cell, xs)
    assert {"h", "c", "n", "m", "z", "log_i", "log_f", "o"} == set(cache)


@pytest.mark.parametrize("backend", ["loop", "fused"])
@pytest.mark.parametrize(
    ("forget", "write", "keep"),
    [("exponential", 0.0, 100.0), ("exponential", 100.0, 100.0), ("sigmoid", -100.0, 3.0), ("sigmoid", 100.0, -100.0)],
)
def test_the_first_write_of_an_slstm_counts_whatever_its_gates(forget, write, keep, backend):
    """Outputs and gradients in float32 are those in float64, whose exp has room for such gates."""
    cell = SLSTM(3, 4, heads=2, forget=forget)
    with torch.no_grad():
        cell.project.bias[:8] = torch.tensor([write, keep]).repeat_interleave(4)
    found, xs, mask = [], torch.randn(6, 2, 3), torch.tensor([[False, True], [False, True], *[[True, True]] * 4])
    for dtype in (torch.float32, torch.float64):
        inputs = xs.to(dtype).requires_grad_()
        outputs, last = ms.scan(cell.to(dtype), inputs, backend=backend, mask=mask)
        assert torch.equal(outputs[:2, 0], torch.zeros_like(outputs[:2, 0]))  # held while it is empty
        scored = outputs.sin().sum() + (last.c / last.n).sum()
        found.append((outputs, *torch.autograd.grad(scored, [inputs, *cell.parameters()])))
    for single, double in zip(*found, strict=True):
        assert double.any()
        torch.testing.assert_close(single.double(), double, rtol=1e-4, atol=2e-5)


def test_weights_of_earlier_versions_fit():
    shapes = {name: tuple(weight.shape) for name, weight in GatedDeltaNet(3, 8, heads=2).state_dict().items()}
    assert shapes == {"project.weight": (28, 3), "rate_bias": (2,), "log_decay": (2,)}
    shapes = {name: tuple(weight.shape) for name, weight in MLSTM(3, 8, heads=2).state_dict().items()}
    assert shapes == {"project.weight": (36, 3), "project.bias": (36,)}


@pytest.mark.parametrize("beta_max", [1.0, 2.0])
def test_micro_steps_may_write_without_erasing(beta_max):
    class Twice(AffineCell):
        def __init__(self):
            super().__init__(3, 2, heads=1)
            self.project = torch.nn.Linear(3, 10)

        def parts(self, features):
            q, k, v, g = features.split([2, 4, 2, 2], dim=-1)
            k, g = k.unflatten(-1, (2, 1, 2)), -g.abs().unflatten(-1, (2, 1, 1))
            v = torch.stack([v, -v], dim=-2).unsqueeze(-2)
            return Parts(q.unsqueeze(-2), k, v, g, micro_steps=2, beta_max=beta_max)

    cell, xs = Twice().double(), randn(7, 2, 3)
    for mask in (None, MASK):
        one, other = (ms.scan(cell, xs, backend=backend, mask=mask) for backend in ("loop", "fused"))
        close(one[0], other[0])
        close(one[1].S, other[1].S)
    dynamics = ms.Dynamics(cell, torch.randn(3))
    states = randn(2, dynamics.size)
    close(dynamics.jacobian(states), dynamics.jacobian_by_autograd(states))


@representatives("retnet", "s4d", "mamba", "mamba-negative", "mlstm", "gated-deltanet")
@pytest.mark.parametrize("name", CELLS)
def test_low_precision_is_the_same_by_loop_and_kernel(name):
    """Under autocast, and with weights in bfloat16; the state keeps its dtype, and a step continues from it."""
    cell, xs = CELLS[name](), torch.randn(7, 2, 3)
    expected = ms.scan(cell, xs)[0]
    near = {"rtol": 0.1, "atol": 0.05 * (1 + expected.abs().max().item())}  # 8 bits, some products in turn
    for backend in ("loop", "fused"):
        with torch.autocast("cpu", torch.bfloat16):
            outputs, state = ms.scan(cell, xs, backend=backend)
            cell.step(xs[0], state)
        torch.testing.assert_close(outputs.float(), expected, **near)
    cell = cell.bfloat16()
    if cell.complex_state:
        with pytest.raises(TypeError, match="use float32 weights"):
            ms.scan(cell, xs.bfloat16())
        return
    for backend in ("loop", "fused"):
        outputs, state = ms.scan(cell, xs.bfloat16(), backend=backend)
        assert state.S.dtype == torch.bfloat16
        assert cell.step(xs[0].bfloat16(), state)[0].dtype == torch.bfloat16
        torch.testing.assert_close(outputs.float(), expected, **near)


def test_the_route_on_a_gpu_says_whether_triton_runs_it(monkeypatch):
    asked = []
    monkeypatch.setattr(cell_module, "no_triton_affine_scan", lambda *given: asked.append(given) or "no such kernel")
    gpu = torch.device("cuda")
    name = RetNet(3, 6, heads=2, key_size=4).kernel_name(gpu, torch.float64)
    assert name == "affine scan (cuda, operations of torch: no such kernel)"
    assert asked == [(gpu, torch.float64, 4)]  # a complex key is two real ones
    monkeypatch.setattr(cell_module, "no_triton_affine_scan", lambda *_: None)
    assert Mamba(3, 3, state_size=2).kernel_name(gpu, torch.float32) == "affine scan (cuda, Triton)"


def test_parts_are_chosen_by_step_sequence_and_head():
    time, batch, micro, heads = 3, 2, 2, 4
    erase = (torch.randn(time, batch, micro, heads, 5), torch.randn(time, batch, micro, heads, 5))
    whole = Parts(torch.randn(time, batch, heads, 5), torch.randn(time, batch, micro, heads, 5),
                  torch.randn(time, batch, micro, heads, 6), torch.randn(time, batch, micro, heads, 1), erase,
                  micro_steps=micro)  # fmt: skip
    some = whole.chosen((slice(1, 3), torch.tensor([1])), slice(2, 4))
    for part, given in zip(some.tensors(), whole.tensors(), strict=True):
        assert torch.equal(part, given[1:3][:, [1]][..., 2:4, :])
    assert some.micro_steps == micro
    assert all(torch.equal(part, given) for part, given in zip(whole.chosen().tensors(), whole.tensors(), strict=True))
    scaled = Parts(*(torch.randn(time, heads, 5) for _ in range(3)), torch.randn(time, heads, 1), None,
                   torch.randn(time, heads))  # fmt: skip
    assert torch.equal(scaled.chosen(0, slice(1, 2)).log_writes, scaled.log_writes[0, 1:2])
