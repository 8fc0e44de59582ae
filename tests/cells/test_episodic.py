"""The episodic memory as a cell: its flow, the limits of fast populations, its maps, and wrong arguments."""

import builtins
from itertools import pairwise
from math import inf, sqrt

import pytest
import torch

import mnemoscope as ms
from mnemoscope.cells import EpisodicMemory, EpisodicState
from mnemoscope.cells.lagrangians import LAGRANGIANS, Polynomial, Tanh
from mnemoscope.networks.recurrent import episodic
from tests.slow import representatives

FLOAT64_ROUNDING = 1e-12  # sums of some tens of terms of order 1
BOTH = [(f, h) for f in LAGRANGIANS for h in LAGRANGIANS]
TIMES = [(1.0, 0.5, 2.0), (0.7, 0.0, 2.0), (1.0, 0.5, 0.0), (0.7, 0.0, 0.0), (1.0, 0.0, inf), (1.0, 0.5, inf)]


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def some_memory(sigma_f="tanh", sigma_h="linear", times=(1.0, 0.5, 2.0), features=5, memories=3, **options):
    options = {"alpha_s": 1.3, "alpha_c": 0.7, **options}
    return EpisodicMemory(
        drawn(features, memories) / 2, drawn(memories, memories, seed=1), sigma_f, sigma_h, *times, **options
    )


def some_state(memory, batch=4):
    f, h = memory.features, memory.memories
    return EpisodicState(drawn(batch, f, seed=2), drawn(batch, h, seed=3), drawn(batch, f, seed=4))


def hadamard(size):
    H = torch.ones(1, 1, dtype=torch.float64)
    while len(H) < size:
        H = torch.cat([torch.cat([H, H], 1), torch.cat([H, -H], 1)])
    return H


def flow_by_loops(memory, x, state):
    """Compute Eq 2 unit by unit, for one member of the batch."""
    Xi, Phi, root = memory.Xi, memory.Phi, sqrt(memory.alpha_s)
    s_f, s_h = memory.sigma_f(state.V_f), memory.sigma_h(state.V_h)
    f, h, d = (torch.zeros_like(part) for part in state)
    for i in range(memory.features):
        total = sum(root * Xi[i, m] * s_h[m] for m in range(memory.memories))
        f[i] = (total - state.V_f[i] + x[i]) / memory.T_f
        d[i] = (s_f[i] - state.V_d[i]) / memory.T_d
    for m in range(memory.memories):
        total = sum(root * Xi[i, m] * s_f[i] for i in range(memory.features))
        for a in range(memory.memories):
            total = total + memory.alpha_c * Phi[a, m] * sum(Xi[i, a] * state.V_d[i] for i in range(memory.features))
        h[m] = (total - state.V_h[m]) / memory.T_h
    return EpisodicState(f, h, d)


@representatives("polynomial-logistic", "relu-tanh", "softmax-linear")
@pytest.mark.parametrize(("sigma_f", "sigma_h"), BOTH)
def test_the_flow_is_equation_2(sigma_f, sigma_h):
    memory = some_memory(sigma_f, sigma_h).requires_grad_(False)
    state, x = some_state(memory), drawn(4, 5, seed=5)
    found = memory(x, state)
    for member in range(4):
        expected = flow_by_loops(memory, x[member], EpisodicState(*(part[member] for part in state)))
        for velocity, reference in zip(found, expected, strict=True):
            torch.testing.assert_close(velocity[member], reference, rtol=0, atol=FLOAT64_ROUNDING)


@representatives("tanh-linear-times0", "tanh-linear-times4")
@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize(
    ("sigma_f", "sigma_h"),
    [
        ("tanh", "linear"),
        ("softmax", "polynomial"),
        ("logistic", "tanh"),
        ("relu", "softmax"),
    ],
)
def test_jacobians_of_the_flow_match_finite_differences(sigma_f, sigma_h, times):
    """Compare the closed form and autograd with differences of the flow."""
    dynamics = ms.Dynamics(some_memory(sigma_f, sigma_h, times), drawn(5, seed=5), continuous=True)
    states, step = drawn(4, 13, seed=6), 1e-4
    for J in (dynamics.jacobian(states), dynamics.jacobian_by_autograd(states)):
        for unit in range(13):
            aside = torch.zeros(13).double()
            aside[unit] = step
            # Richardson extrapolation: the error is of order step^4, and rounding / step
            near, far = ((dynamics(states + k * aside) - dynamics(states - k * aside)) / (2 * k * step) for k in (1, 2))
            torch.testing.assert_close(J[:, :, unit], (4 * near - far) / 3, rtol=0, atol=1e-10)


@representatives("times4")
@pytest.mark.parametrize("times", TIMES)
def test_velocities_are_those_of_the_trajectory(times):
    """Compare with differences along the solution, which does not use the velocities of instantaneous populations."""
    memory = some_memory("softmax", "tanh", times).requires_grad_(False)
    step = 1e-3
    path = memory.integrate(some_state(memory), torch.tensor([0.0, 0.4 - step, 0.4, 0.4 + step]).double())
    now = EpisodicState(*(part[2] for part in path))
    for velocity, part in zip(memory(torch.zeros(5).double(), now), path, strict=True):
        difference = (part[3] - part[1]) / (2 * step)
        torch.testing.assert_close(velocity, difference, rtol=0, atol=1e-5)  # step^2 times third derivatives


@representatives("times0")
@pytest.mark.parametrize("times", TIMES[:4])
def test_the_flow_and_its_limits_have_the_fixed_points_of_the_map(times):
    memory = some_memory(times=times, alpha_s=4.0).requires_grad_(False)
    fp = ms.find_fixed_points(ms.Dynamics(memory.discrete()))
    assert fp.may_be_complete
    assert len(fp) == 7
    rates = memory.sigma_f(fp.states)
    rest = torch.cat([fp.states, memory.memory_drive(rates, rates), rates], 1)
    flow = ms.Dynamics(memory, continuous=True)
    assert flow(rest).abs().max() < 1e-10
    found = ms.find_fixed_points(flow, ms.lenses.Box(30, -8.0, 8.0))
    assert len(found) > 2
    assert torch.cdist(found.states, rest).amin(1).max() < 1e-9
    if times[1:] == (0, 0):  # V_f' = (map(V_f) - V_f) / T_f, and -1 / T_f for the instantaneous populations
        expected = torch.cat([(fp.eigenvalues - 1) / times[0], torch.full((7, 8), -1 / times[0])], 1)
        values = torch.linalg.eigvals(flow.jacobian(rest))
        distance = (values.unsqueeze(2) - expected.unsqueeze(1)).abs()
        assert distance.amin(2).max() < 1e-6  # the error of a multiple eigenvalue is the square root of rounding
        assert distance.amin(1).max() < 1e-6


def convergence_rates(errors):
    return [float(large / small) for large, small in pairwise(errors)]


@representatives("T_h-linear", "T_d-softmax")
@pytest.mark.parametrize("sigma_h", ["linear", "tanh", "softmax"])
@pytest.mark.parametrize("which", ["T_h", "T_d"])
def test_small_time_constants_tend_to_the_limit_at_first_order(which, sigma_h):
    times = torch.tensor([0.0, 1.0]).double()

    def end(small):
        memory = some_memory("tanh", sigma_h, (1.0, small, 1.0) if which == "T_h" else (1.0, 1.0, small))
        memory.requires_grad_(False)
        state = some_state(memory)  # a start off the limit would add an error of first order
        start = EpisodicMemory.settled(
            some_memory("tanh", sigma_h, (1.0, 0.0, 1.0) if which == "T_h" else (1.0, 1.0, 0.0)), state
        )
        return memory.integrate(EpisodicState(*(part.detach() for part in start)), times, rtol=1e-6, atol=1e-8)

    limit, *near = (end(small) for small in (0.0, 0.02, 0.01, 0.005))
    for part in range(3):
        errors = [(path[part][1:] - limit[part][1:]).abs().max() for path in near]
        assert all(1.8 < rate < 2.2 for rate in convergence_rates(errors)), errors


def test_a_frozen_copy_is_constant_and_gradients_reach_the_weights():
    memory = some_memory(times=(1.0, 0.0, inf))
    state = some_state(memory)
    path = memory.integrate(state, torch.tensor([0.0, 0.5, 1.0]).double(), input=drawn(5, seed=7))
    assert torch.equal(path.V_d, state.V_d.expand(3, -1, -1))
    assert [part.shape for part in path] == [(3, 4, 5), (3, 4, 3), (3, 4, 5)]
    path.V_f[-1].square().sum().backward()
    assert memory.Xi.grad is not None
    assert memory.Xi.grad.abs().max() > 0
    assert memory.Phi.grad.abs().max() > 0


def test_integrate_takes_inputs_as_tensors_and_functions():
    memory = some_memory().requires_grad_(False)
    times, state, x = torch.tensor([0.0, 1.0]).double(), some_state(memory), drawn(5, seed=7)
    held = memory.integrate(state, times, input=x)
    for same in (x.expand(4, -1), lambda t: x):
        assert torch.allclose(memory.integrate(state, times, input=same).V_f, held.V_f, atol=1e-12)
    rising = memory.integrate(state, times, input=lambda t: t * x)
    assert (rising.V_f[-1] - held.V_f[-1]).abs().max() > 0.01


@representatives("linear-relu", "relu-softmax", "softmax-logistic", "tanh-polynomial")
@pytest.mark.parametrize(("sigma_f", "sigma_h"), BOTH)
def test_the_maps_their_jacobians_and_the_semi_conjugacy(sigma_f, sigma_h):
    memory = some_memory(sigma_f, sigma_h).requires_grad_(False)
    f, g = memory.discrete(), memory.conjugate()
    V_f, x, root = drawn(4, 5, seed=2), drawn(4, 5, seed=3), sqrt(memory.alpha_s)
    s = memory.sigma_f(V_f)
    h = root * s @ memory.Xi + memory.alpha_c * s @ memory.Xi @ memory.Phi
    torch.testing.assert_close(f(x, V_f), root * memory.sigma_h(h) @ memory.Xi.T + x, rtol=0, atol=FLOAT64_ROUNDING)
    for _ in range(3):
        assert torch.equal(memory.sigma_f(f(x, V_f)), g(x, memory.sigma_f(V_f)))  # bit for bit: the same operations
        assert torch.equal(f.output(V_f), g.output(memory.sigma_f(V_f)))
        V_f = f(x, V_f)
    for cell in (f, g):
        dynamics = ms.Dynamics(cell, x[0])
        states = drawn(4, 5, seed=4)
        by_autograd = dynamics.jacobian_by_autograd(states)
        size = by_autograd.abs().max().clamp_min(1)
        assert (dynamics.jacobian(states) - by_autograd).abs().max() <= FLOAT64_ROUNDING * size


@pytest.mark.parametrize(
    ("sigma", "inverse"),
    [
        ("linear", lambda r: r),
        ("tanh", torch.atanh),
        ("logistic", torch.logit),
        (Polynomial(3.0), lambda r: r.sign() * r.abs().sqrt()),
    ],
)
def test_maps_with_an_invertible_nonlinearity_are_conjugate(sigma, inverse):
    memory = some_memory(sigma).requires_grad_(False)
    V_f, x = drawn(4, 5, seed=2), drawn(4, 5, seed=3)
    back = inverse(memory.conjugate()(x, memory.sigma_f(V_f)))
    torch.testing.assert_close(back, memory.discrete()(x, V_f), rtol=1e-10, atol=1e-10)  # the inverse has large slopes


def test_weights_are_those_of_equation_7():
    memory = some_memory().requires_grad_(False)
    eye = torch.eye(3).double()
    W = memory.Xi @ (memory.alpha_s * eye + sqrt(memory.alpha_s) * memory.alpha_c * memory.Phi.T) @ memory.Xi.T
    torch.testing.assert_close(memory.weights(), W, rtol=0, atol=FLOAT64_ROUNDING)
    V_f = drawn(4, 5, seed=2)
    expected = torch.tanh(V_f) @ W.T
    torch.testing.assert_close(memory.discrete()(torch.zeros(4, 5).double(), V_f), expected, rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="sigma_h is softmax"):
        some_memory(sigma_h="softmax").weights()


@pytest.mark.parametrize(
    ("sigma_f", "sigma_h", "known"),
    [
        ("tanh", "linear", True),
        ("logistic", "polynomial", True),
        ("softmax", "tanh", True),
        ("linear", "softmax", True),
        ("relu", "tanh", True),
        ("relu", "linear", False),
        ("linear", "linear", False),
    ],
)
def test_the_declared_bounds_are_invariant(sigma_f, sigma_h, known):
    memory = some_memory(sigma_f, sigma_h)
    for cell in (memory.discrete(), memory.conjugate()):
        dynamics = ms.Dynamics(cell, drawn(5, seed=3))
        assert (dynamics.bounds is not None) == known
        if dynamics.bounds is not None:
            low, high = dynamics.bounds
            for weight in (torch.rand(200, 5), torch.randint(0, 2, (200, 5))):
                assert dynamics.inside(dynamics(low + (high - low) * weight.double())).all()


@pytest.mark.parametrize("sigma", ["tanh", "logistic", "relu", "linear"])
def test_as_elman_is_the_same_network_and_runs_fused(sigma):
    memory = some_memory(sigma, alpha_s=0.2)
    cell, xs = memory.conjugate(), drawn(7, 4, 5)
    start = cell.initial_state(4)
    expected, _ = ms.scan(cell, xs, start, backend="loop")
    fused, _, route = ms.scan(cell, xs, start, explain=True)
    assert route.fused
    for outputs in (fused, ms.scan(cell.as_elman(), xs, start)[0]):
        torch.testing.assert_close(outputs, expected, rtol=0, atol=FLOAT64_ROUNDING)
    ms.scan(cell.as_elman(), xs, start)[0].square().sum().backward()
    assert memory.Phi.grad is not None  # the weights are shared


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (lambda: some_memory().discrete(), "conjugate"),
        (lambda: some_memory("softmax").conjugate(), "no nonlinearity 'softmax'"),
        (lambda: some_memory(Tanh(2.0)).conjugate(), "beta = 2"),
        (lambda: some_memory(sigma_h="relu").conjugate(), "not linear but relu"),
    ],
)
def test_other_maps_cannot_become_elman_networks(cell, message):
    with pytest.raises(ValueError, match=message):
        cell().as_elman()
    assert not ms.scan(cell(), drawn(3, 2, 5), explain=True)[2].fused


def test_the_trainable_cell_starts_with_eigenvalues_on_the_unit_circle():
    W = episodic(3, 24, memories=6).connectivity().detach()
    moduli = torch.linalg.eigvals(W).abs().sort(descending=True).values
    torch.testing.assert_close(moduli[:6], torch.ones(6), rtol=0, atol=1e-5)  # float32
    assert moduli[6:].max() < 1e-3
    with pytest.raises(ValueError, match="at least one memory"):
        episodic(3, 8, memories=0)
    with pytest.raises(ValueError, match="softmax"):
        episodic(3, 8, sigma="softmax")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"Xi": torch.zeros(4)}, "one memory per column"),
        ({"Xi": torch.full((4, 2), inf)}, "Xi has infinite"),
        ({"Phi": torch.zeros(3, 3)}, "must be 2 x 2"),
        ({"Phi": torch.full((2, 2), torch.nan)}, "Phi has infinite or NaN"),
        ({"T_f": 0}, "T_f must be positive"),
        ({"T_f": inf}, "T_f must be positive and finite"),
        ({"T_h": -1.0}, "T_h must be 0"),
        ({"T_h": inf}, "T_h must be 0"),
        ({"T_d": -1.0}, "T_d must be 0"),
        ({"T_d": torch.nan}, "T_d must be 0"),
        ({"alpha_s": 0.0}, "alpha_s must be positive"),
        ({"alpha_c": inf}, "alpha_c must be finite"),
        ({"sigma_f": "nonsense"}, "Unknown nonlinearity"),
    ],
)
def test_bad_memories_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        EpisodicMemory(**{"Xi": torch.eye(4, 2), **change})


def test_bad_integrations_are_refused(monkeypatch):
    memory = some_memory()
    state, times = some_state(memory), torch.tensor([0.0, 1.0]).double()
    with pytest.raises(ValueError, match="increasing numbers"):
        memory.integrate(state, times.flip(0))
    with pytest.raises(ValueError, match="A state is V_f"):
        memory.integrate(state._replace(V_h=torch.zeros(4, 2).double()), times)
    with pytest.raises(ValueError, match=r"must be torch\.float64"):
        memory.integrate(EpisodicState(*(part.float() for part in state)), times)
    with pytest.raises(ValueError, match="beyond float32"):
        memory.float().integrate(EpisodicState(*(part.float() for part in state)), times.float())
    with pytest.raises(ValueError, match=r"shape \(5,\) or \(batch, 5\)"):
        memory.double().integrate(state, times, input=torch.zeros(4).double())
    original = builtins.__import__

    def missing(name, *arguments):
        if name == "torchdiffeq":
            raise ImportError(name)
        return original(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match=r"mnemoscope\[ode\]"):
        memory.integrate(state, times)
