"""The energy lens: identities by loops and autograd, bounds, Lyapunov functions, counter-examples, wrong arguments."""

from itertools import product
from math import inf, sqrt

import pytest
import torch
from scipy.integrate import simpson

import mnemoscope as ms
from mnemoscope.cells import GRU, LSTM, Elman, EpisodicMemory, EpisodicState
from mnemoscope.cells.lagrangians import Logistic, Polynomial, Softmax, Tanh
from mnemoscope.lenses.energy.bounds import lower_bound
from mnemoscope.lenses.energy.bregman import step_descent
from mnemoscope.lenses.energy.counterexample import periodic_orbit
from mnemoscope.lenses.energy.flow import FlowEnergy
from mnemoscope.lenses.energy.lyapunov import lyapunov_functions
from mnemoscope.lenses.energy.recurrence import Recurrence
from mnemoscope.lenses.energy.schedule import Schedule
from mnemoscope.lenses.energy.symmetry import Symmetry, symmetriser
from mnemoscope.lenses.energy.terms import VARIANTS, flow_energy, flow_energy_rate, map_energy, rates_energy
from mnemoscope.lenses.energy.weights import Weights
from mnemoscope.studies.karuvally2023.energy_rises import descend, random_memory, random_steps
from tests.slow import SLOW, representatives

SIGMAS = ("tanh", "logistic", "softmax", "relu", "polynomial", "linear")
TURN = torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)
"""Phi, whose transpose rotates by 90 degrees."""


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


def weights(sigma_f="tanh", sigma_h="linear", current=True, seed=0, size=(5, 4), gain=0.6):
    u = normal(size[0], seed=seed + 3) if current else None
    Xi, Phi = gain * normal(*size, seed=seed), normal(size[1], size[1], seed=seed + 1)
    return Weights.from_matrices(Xi, Phi, sigma_f, sigma_h, 0.7, -1.3, u)


def symmetric(size=5, seed=0):
    S = normal(size, size, seed=seed)
    return S + S.mT


def along(recurrence, starts=50, steps=6, seed=0):
    rates = [recurrence.sigma(1.5 * normal(starts, recurrence.size, seed=seed))]
    for _ in range(steps):
        rates.append(recurrence.step(rates[-1]))
    return torch.stack(rates)


def rate_by_autograd(function, state, velocities):
    """Return the rate of change of a function of a batch of states, by its gradient."""
    parts = [part.detach().clone().requires_grad_() for part in state]
    gradients = torch.autograd.grad(function(*parts).sum(), parts)
    return sum((gradient * velocity).sum(-1) for gradient, velocity in zip(gradients, velocities, strict=True)).detach()


# the terms


def energy_by_loops(w, V_f, V_h, V_d):
    """Compute Eq 3 entry by entry."""
    g, p = w.sigma_f(V_f), w.sigma_h(V_h)
    E = float(-w.sigma_f.value(V_f) - w.sigma_h.value(V_h))
    E += sum(float(V_f[i] * g[i]) for i in range(len(g))) + sum(float(V_h[m] * p[m]) for m in range(len(p)))
    for i in range(len(g)):
        E -= float(w.current[i] * g[i])
        for m in range(len(p)):
            E -= sqrt(w.alpha_s) * float(g[i] * w.Xi[i, m] * p[m])
            for n in range(len(p)):
                E -= w.alpha_c * float(V_d[i] * w.Xi[i, m] * w.Phi[m, n] * p[n])
    return E


@representatives("logistic-softmax", "relu-linear", "tanh-polynomial")
@pytest.mark.parametrize(("f", "h"), list(product(SIGMAS, ("linear", "softmax", "polynomial"))))
def test_the_energy_of_the_flow_equals_loops(f, h):
    w = weights(f, h)
    V_f, V_h, V_d = normal(5, seed=5), normal(4, seed=6), normal(5, seed=7)
    energy = flow_energy(w, V_f, V_h, V_d)
    assert abs(float(energy.total) - energy_by_loops(w, V_f, V_h, V_d)) < 1e-13 * float(energy.size)


@representatives(
    "linear-polynomial", "logistic-relu", "polynomial-linear", "relu-relu", "softmax-linear", "tanh-polynomial"
)
@pytest.mark.parametrize(("f", "h"), list(product(SIGMAS, SIGMAS)))
def test_the_discrete_energy_is_that_of_the_flow_with_memories_at_rest(f, h):
    w = weights(f, h)
    x, y = normal(30, 5, seed=5), normal(30, 5, seed=6)
    at_rest = w.memory_drive(w.sigma_f(x), y)
    energy = map_energy(w, x, y)
    assert torch.allclose(energy.total, flow_energy(w, x, at_rest, y).total, rtol=1e-12, atol=1e-12)
    assert torch.allclose(energy.total, rates_energy(w, w.sigma_f(x), y).total, rtol=1e-9, atol=1e-9)


def test_equation_25_and_its_printed_variants_equal_matrix_products():
    w = Weights.from_matrices(normal(4, 3), normal(3, 3, seed=1), "tanh")
    x, y = normal(4, seed=2), normal(4, seed=3)
    g, X, P = torch.tanh(x), w.Xi, w.Phi
    terms = x @ g, torch.cosh(x).log().sum(), g @ X @ X.T @ g / 2, g @ X @ P.T @ X.T @ y, y @ X @ P @ P.T @ X.T @ y / 2
    signs = {"exact": "+----", "printed 28": "+-+--", "printed 35": "++---", "printed 45": "+-+++"}
    assert set(signs) == set(VARIANTS)
    for variant, signed in signs.items():
        total = sum(term if sign == "+" else -term for sign, term in zip(signed, terms, strict=True))
        assert torch.allclose(map_energy(w, x, y, variant).total, total)
    with pytest.raises(ValueError, match="linear sigma_h"):
        map_energy(Weights.from_matrices(X, P, "tanh", "relu"), x, y, "printed 28")


@representatives("0.0-0.0-tanh-linear", "0.4-inf-logistic-softmax", "0.4-inf-softmax-relu")
@pytest.mark.parametrize(
    ("f", "h"), [("tanh", "linear"), ("softmax", "relu"), ("logistic", "softmax"), ("tanh", "tanh")]
)
@pytest.mark.parametrize(("T_h", "T_d"), [(0.4, 2.0), (0.0, 2.0), (0.4, 0.0), (0.0, 0.0), (0.4, inf)])
def test_the_rate_of_the_flow_equals_autograd(f, h, T_h, T_d):
    w = weights(f, h)
    memory = EpisodicMemory(w.Xi, w.Phi, f, h, 1.7, T_h, T_d, w.alpha_s, w.alpha_c)
    state = memory.settled(EpisodicState(normal(20, 5, seed=4), normal(20, 4, seed=5), normal(20, 5, seed=6)))
    velocities = memory(w.current, state)
    rate = flow_energy_rate(w, state, velocities, 1.7, T_h)
    expected = rate_by_autograd(lambda *parts: flow_energy(w, *parts).total, state, velocities)
    assert torch.allclose(rate.total, expected, rtol=1e-11, atol=1e-12)
    assert bool((rate["V_f"] <= 0).all())
    assert bool((rate["V_h"] <= 0).all())


@representatives("1.5")
@pytest.mark.parametrize("T_d", [0.0, 1.5])
def test_the_rate_integrates_to_the_change_along_a_trajectory(T_d):
    w = weights("tanh", "linear", current=False)
    memory = EpisodicMemory(w.Xi, w.Phi, "tanh", "linear", 1.0, 0.5, T_d, w.alpha_s, w.alpha_c)
    times = torch.linspace(0, 3, 401, dtype=torch.float64)
    start = memory.settled(EpisodicState(normal(3, 5, seed=4), normal(3, 4, seed=5), normal(3, 5, seed=6)))
    with torch.no_grad():
        states = memory.integrate(start, times, rtol=1e-11, atol=1e-12)
        rate = flow_energy_rate(w, states, memory(torch.zeros(5).double(), states), 1.0, 0.5).total
    energy = flow_energy(w, *states).total
    summed = simpson(rate.numpy(), x=times.numpy(), axis=0)
    assert torch.allclose(energy[-1] - energy[0], torch.from_numpy(summed), rtol=1e-7, atol=1e-8)  # Simpson, h = 0.0075


# the descent


@SLOW
def test_a_hundred_thousand_random_steps_never_rise():
    steps = 0
    for number, sigma in enumerate(SIGMAS):
        for network in range(20):
            w = random_memory(generator(100 * number + network), sigma)
            x, y = random_steps(generator(network), w, 840)
            result = step_descent(w, x, y)
            assert bool((result.change <= 0).all())
            assert float(result.error.max()) < 1e-12
            steps += len(x)
    assert steps >= 100_000


@representatives("logistic-linear", "polynomial-tanh", "relu-softmax")
@pytest.mark.parametrize(("f", "h"), list(product(SIGMAS, SIGMAS)))
def test_the_identity_holds_for_any_two_convex_functions(f, h):
    w = weights(f, h)
    x, y = 2 * normal(300, 5, seed=5), normal(300, 5, seed=6)
    result = step_descent(w, x, y)
    assert not bool(result.rises.any())
    assert float(result.error.max()) < 1e-13
    assert bool((result.causes["features"] <= 1e-14 * result.size).all())
    assert bool((result.causes["memories"] <= 1e-14 * result.size).all())
    free = step_descent(w, x, y, following=True)
    assert float(free.error.max()) < 1e-13
    assert bool(free.causes["move of V_d"].any())


def test_the_linear_case_equals_its_derivation_by_hand():
    """E(x+) - E(x) = -D_L(x+ || x) - |Xi^T (g+ - g)|^2 / 2, computed step by step."""
    w = Weights.from_matrices(normal(4, 3), normal(3, 3, seed=1), "tanh")
    for seed in range(20):
        x, y = normal(4, seed=seed), normal(4, seed=seed + 50)
        after = w.Xi @ (w.Xi.T @ torch.tanh(x) + w.Phi.T @ w.Xi.T @ y)
        D = (torch.cosh(after) / torch.cosh(x)).log().sum() - torch.tanh(x) @ (after - x)
        square = (w.Xi.T @ (torch.tanh(after) - torch.tanh(x))).square().sum() / 2
        assert abs(float(step_descent(w, x, y).change + D + square)) < 1e-11


def test_the_printed_energies_rise():
    w = random_memory(generator(4), "tanh")
    x, y = random_steps(generator(), w, 2000)
    after = w.step(x, y)
    for variant in VARIANTS:
        change = map_energy(w, after, y, variant).total - map_energy(w, x, y, variant).total
        assert bool((change > 1e-6).any()) == (variant != "exact")


# bounds


@representatives("logistic-softmax", "relu-logistic", "polynomial-h34", "f46-polynomial")
@pytest.mark.parametrize(
    ("f", "h"), list(product((*SIGMAS, Polynomial(1.5), Softmax(2.0)), (*SIGMAS, Polynomial(1.4))))
)
def test_no_energy_is_below_its_bound(f, h):
    w = weights(f, h, gain=0.1)
    y = normal(20, 5, seed=3)
    bound = lower_bound(w, y)
    if not bound.exists:  # then there are arbitrarily low states
        assert bound.exists is False
        far = torch.stack([10.0**k * normal(20, 5, seed=4) for k in range(8)])
        assert float(map_energy(w, far, y.expand_as(far)).total.min()) < -1e6
        return
    assert bool(torch.isfinite(bound.value).all())
    for scale in (0.1, 1.0, 10.0, 100.0):
        x = scale * normal(400, 20, 5, seed=4)
        energy = map_energy(w, x, y.expand_as(x))
        assert bool((energy.total >= bound.value - 1e-12 * energy.size).all())
    x = descend(w, normal(20, 5, seed=8), y)  # a search for the minimum never passes the bound
    assert bool((map_energy(w, x, y).total >= bound.value - 1e-9).all())
    V_h = 3 * normal(20, 4, seed=9)  # nor does the energy of the flow
    assert bool((flow_energy(w, x, V_h, y).total >= bound.value - 1e-9).all())


def test_bounds_equal_their_derivation_by_hand():
    Xi, Phi, y = normal(4, 3), normal(3, 3, seed=1), normal(4, seed=2)
    c = Phi.T @ Xi.T @ y
    by_hand = -sum((float(Xi[:, m].abs().sum()) + abs(float(c[m]))) ** 2 for m in range(3)) / 2
    assert float(lower_bound(Weights.from_matrices(Xi, Phi, Tanh(3.0)), y).value) == pytest.approx(by_hand, rel=1e-14)
    logistic = lower_bound(Weights.from_matrices(torch.zeros(4, 3), Phi, Logistic(2.0)), y).value
    assert float(logistic) == pytest.approx(-4 * torch.tensor(2.0).log().item() / 2)
    loose = -torch.tensor(4.0).log() / 2 - sum((Xi[:, m].abs().max() + c[m].abs()) ** 2 for m in range(3)) / 2
    assert float(lower_bound(Weights.from_matrices(Xi, Phi, Softmax(2.0)), y).value) >= float(loose)


def test_the_quadratic_bound_is_reached():
    w = weights("linear", "linear", gain=0.2)
    y = normal(5, seed=3)
    bound = lower_bound(w, y)
    x = normal(5, seed=4)
    for _ in range(2000):
        x = w.step(x, y)
    assert bound.exists
    assert float(map_energy(w, x, y).total) == pytest.approx(float(bound.value), rel=1e-12)


@pytest.mark.parametrize("f", ["linear", "relu", "polynomial"])
@pytest.mark.parametrize("h", ["linear", "relu", "polynomial"])
def test_unbounded_energies_have_no_bound(f, h):
    w = Weights.from_matrices(2 * normal(4, 3).abs(), torch.zeros(3, 3), f, h)
    assert lower_bound(w, torch.zeros(4).double()).exists is False
    x = torch.full((4,), 1e8, dtype=torch.float64)
    assert float(map_energy(w, x, torch.zeros_like(x)).total) < -1e6


# Lyapunov functions


@representatives(
    "any-relu", "any-sigma6", "positive-softmax", "symmetric-linear", "symmetric-polynomial", "weighted-logistic"
)
@pytest.mark.parametrize("sigma", [*SIGMAS, Tanh(2.0), Logistic(3.0)])
@pytest.mark.parametrize("kind", ["symmetric", "positive", "weighted", "any"])
def test_every_lyapunov_function_satisfies_its_identity(sigma, kind):
    D = torch.rand(5, generator=generator(2)).double() + 0.3
    W = {
        "symmetric": symmetric() / 3,
        "positive": symmetric() @ symmetric() / 20,
        "weighted": symmetric() / 3 * D,
        "any": normal(5, 5),
    }[kind]
    recurrence = Recurrence.from_matrix(W / 4 if sigma == "polynomial" else W, normal(5, seed=1), sigma)
    rates = along(recurrence)
    found = lyapunov_functions(recurrence)
    if kind != "any" and (kind != "weighted" or recurrence.sigma.elementwise):
        assert "two-step" in [function.kind for function in found]
    if kind == "positive":
        assert found[0].kind == "one-step"
    for function in found:
        change = function.energy(rates).total.diff(dim=0)
        size = function.size(rates)
        assert float(((change - function.change(rates).total).abs() / size).max()) < 1e-13
        if function.kind != "none":
            assert bool((change <= 1e-14 * size).all())


def test_the_two_step_energy_equals_loops():
    W, b = symmetric() / 2, normal(5, seed=1)
    recurrence = Recurrence.from_matrix(W, b, "tanh")
    (function,) = lyapunov_functions(recurrence)
    rates = along(recurrence, starts=1, steps=3)

    def conjugate(g):
        return sum(float(v * torch.atanh(v) + (1 - v * v).log() / 2) for v in g)

    for t in range(3):
        old, new = rates[t, 0], rates[t + 1, 0]
        V = conjugate(old) + conjugate(new) - float(new @ W @ old) - float(b @ (old + new))
        assert float(function.energy(rates).total[t, 0]) == pytest.approx(V, rel=1e-9)


def test_the_one_step_energy_exists_up_to_the_inverse_slope():
    """-1 / (largest slope) is sharp: beyond it the network flips, and no energy of one state can fall."""
    for beta in (0.5, 1.0, 3.0):
        matrices = (torch.tensor([[w / beta]]).double() for w in (-0.99, -1.2))
        recurrences = [Recurrence.from_matrix(W, None, Tanh(beta)) for W in matrices]
        kinds = [[function.kind for function in lyapunov_functions(recurrence)] for recurrence in recurrences]
        assert "one-step" in kinds[0]
        assert kinds[1] == ["two-step"]
    orbit = periodic_orbit(lambda g: torch.tanh(-1.2 * g), normal(4, 1))
    assert orbit is not None
    assert orbit.shape == (2, 1)


def test_the_symmetriser_finds_row_weights():
    D = torch.rand(6, generator=generator(3)).double() + 0.1
    for W in (symmetric(6) * D, symmetric(6) / D[:, None]):
        found = symmetriser(W)
        assert found is not None
        assert torch.allclose(found / found[0], D / D[0], rtol=1e-12)
        assert Symmetry.from_matrix(W, found).asymmetry < 1e-14
    blocks = torch.block_diag(symmetric(3) * D[:3], symmetric(3, seed=1) * D[3:])  # two components without links
    found = symmetriser(blocks)
    assert found is not None
    assert Symmetry.from_matrix(blocks, found).asymmetry < 1e-14
    assert [
        function.kind for function in lyapunov_functions(Recurrence.from_matrix(3 * normal(6, 6), None, "tanh"))
    ] == ["none"]


def test_a_contraction_shrinks_by_its_factor():
    W = normal(6, 6)
    W = 0.8 * W / torch.linalg.matrix_norm(W, 2)
    recurrence = Recurrence.from_matrix(W, normal(6, seed=1), "tanh")
    found = lyapunov_functions(recurrence)
    assert found[0].kind == "contraction"
    assert found[0].factor == pytest.approx(0.8)
    assert found[0].centre is not None
    assert float((recurrence.step(found[0].centre) - found[0].centre).abs().max()) < 1e-15
    distance = found[0].energy(along(recurrence)).total
    assert bool((distance[1:] <= 0.8 * distance[:-1] + 1e-15).all())
    chain = torch.diag(torch.full((4,), 5.0), -1)  # |W| = 5, but there is no feedback
    (line,) = lyapunov_functions(Recurrence.from_matrix(chain, None, "tanh"))
    assert line.kind == "contraction"
    assert not line.euclidean
    far = line.energy(along(Recurrence.from_matrix(chain, None, "tanh"))).total
    assert bool((far[1:] <= line.factor * far[:-1] + 1e-15).all())


def test_the_settled_energy_falls_on_every_schedule_of_v_d():
    S = symmetric(3) @ symmetric(3)
    w = Weights.from_matrices(normal(5, 3), S, "tanh", "linear", 0.8, 1.2, normal(5, seed=4))
    for hold in (1, 2, 5):
        schedule = Schedule(w, hold=hold, kind="schedule")
        rates = schedule.run(torch.tanh(normal(40, 5, seed=2)), 20)
        energy, change = schedule.energy(rates), schedule.change(rates)
        size = energy.size[1:] + energy.size[:-1]
        assert float(((energy.total.diff(dim=0) - change.total).abs() / size).max()) < 1e-14
        assert bool((change["move of V_d"] <= 1e-14 * size).all())
        assert torch.equal(schedule.following(rates), rates[1:])


# the lens


def test_a_rotation_of_two_memories_is_a_counter_example():
    memory = EpisodicMemory(torch.eye(2, dtype=torch.float64), TURN)
    step = memory.discrete()
    states = [torch.tensor([[0.8, 0.1]], dtype=torch.float64)]
    with torch.no_grad():
        for _ in range(10):
            states.append(step(torch.zeros(1, 2).double(), states[-1]))
    descent = ms.energy_descent(step, torch.stack(states))
    assert not descent.guaranteed
    assert int(descent.rises.sum()) >= 3
    assert descent.error < 1e-14
    assert descent.orbit is not None
    assert len(descent.orbit) == 8
    assert descent.rise is not None
    assert descent.rise_energy is not None
    before, after = descent.rise_energy.tolist()
    w = Weights.from_memory(memory)
    assert before == pytest.approx(float(rates_energy(w, descent.rise[0], descent.rise[0]).total))
    assert after > before
    assert torch.allclose(torch.tanh(descent.rise[0] @ w.recurrent().T), descent.rise[1])
    assert "not guaranteed" in descent.summary()
    assert "orbit of 8 steps" in descent.summary()
    energies = [float(map_energy(w, x, torch.tanh(x)).total) for x in states]
    assert torch.allclose(descent.energy[:, 0], torch.tensor(energies, dtype=torch.float64))


def network(W, bias=True, nonlinearity="tanh"):
    rnn = torch.nn.RNN(2, len(W), nonlinearity=nonlinearity, bias=bias)
    rnn.weight_hh_l0.data = W.float()
    return rnn


@representatives("relu-False", "relu-True", "tanh-False")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("phi", ["tanh", "relu"])
def test_torch_networks_have_the_expected_kind_of_energy(bias, phi):
    expected = {"one-step": symmetric() @ symmetric() / 20, "two-step": symmetric(), "none": 2 * normal(5, 5)}
    for kind, W in expected.items():
        rnn = network(W, bias, phi)
        descent = ms.energy_descent(rnn, input=torch.tensor([0.3, -1.0]), steps=20)
        assert descent.kind == kind, W
        assert descent.guaranteed == (kind != "none")
        assert bool(descent.rises.any()) == (kind == "none")
        assert descent.error < 1e-13
        assert (descent.rise is not None) == (kind == "none")


def test_parametrised_weights_are_computed():
    class Symmetric(torch.nn.Module):
        def forward(self, X):
            return X.triu() + X.triu(1).mT

    rnn = torch.nn.RNN(2, 5)
    torch.nn.utils.parametrize.register_parametrization(rnn, "weight_hh_l0", Symmetric())
    descent = ms.energy_descent(rnn)
    assert descent.guaranteed
    assert descent.asymmetry == 0


def test_a_given_float32_trajectory_is_recognised():
    rnn = network(symmetric() @ symmetric() / 5)
    u = torch.tensor([0.5, 0.1])
    with torch.no_grad():
        outputs, _ = rnn(u.expand(60, 7, 2), torch.tanh(torch.randn(1, 7, 5, generator=generator())))
    descent = ms.energy_descent(rnn, outputs, input=u)
    assert descent.given
    assert descent.deviation < 1e-6
    assert not bool(descent.rises.any())
    driven = ms.energy_descent(rnn, outputs)  # at another input it is no trajectory of the network
    assert driven.deviation > 1e-3
    assert "does not belong to this system" in driven.summary()


def test_the_bound_is_never_passed():
    descent = ms.energy_descent(network(symmetric() @ symmetric() / 5), steps=200)
    assert descent.kind == "one-step"
    assert float(descent.energy.min()) >= descent.bound > -inf
    steep = ms.energy_descent(Elman(2, 5, "linear", bias=False), steps=5)
    assert steep.kind in ("contraction", "none")


@pytest.mark.parametrize("sigma", SIGMAS)
def test_memories_with_frozen_v_d_fall(sigma):
    w = weights(sigma, current=False)
    memory = EpisodicMemory(w.Xi, w.Phi, sigma)
    for cell in (memory.discrete(), memory.conjugate()):
        descent = ms.energy_descent(cell, delayed=normal(5, seed=9), steps=8, input=normal(5, seed=2))
        assert descent.kind == "frozen"
        assert not bool(descent.rises.any())
        assert descent.error < 1e-13


def test_each_episodic_map_has_the_expected_kind():
    Xi, S = normal(5, 3), symmetric(3) @ symmetric(3) / 5
    kinds = {
        "one-step": EpisodicMemory(Xi, S).discrete(),
        "frozen": EpisodicMemory(Xi, S, "tanh", "relu", alpha_c=0.0).discrete(),
        "none": EpisodicMemory(Xi, S, "tanh", "relu").conjugate(),
    }
    for kind, cell in kinds.items():
        assert ms.energy_descent(cell).kind == kind
    held = ms.energy_descent(EpisodicMemory(Xi, S).discrete(), hold=3)
    assert held.kind == "schedule"
    assert not bool(held.rises.any())
    turning = ms.energy_descent(EpisodicMemory(2 * torch.eye(2).double(), TURN).discrete(), hold=4)
    assert turning.kind == "none"
    moves = turning.rises.any(1).nonzero().flatten() + 1
    assert bool((moves % 4 == 0).all())  # only when V_d moves


@representatives("options0-Phi0-frozen", "options2-Phi2-settling", "options8-Phi8-none")
@pytest.mark.parametrize(
    ("options", "Phi", "kind"),
    [
        ({"T_d": inf}, TURN, "frozen"),
        ({"alpha_c": 0.0}, TURN, "frozen"),
        ({"T_h": 0.0, "T_d": 0.0}, TURN.abs(), "settling"),
        ({"T_h": 0.0, "T_d": 1.0}, torch.eye(2).double(), "settling"),
        ({"T_h": 0.2, "T_d": 1.0}, torch.eye(2).double(), "settling"),
        ({"T_h": 9.0, "T_d": 1.0}, torch.eye(2).double(), "none"),
        ({"T_h": 0.2, "T_d": 1.0}, TURN.abs(), "none"),
        ({}, TURN, "none"),
        ({"sigma_h": "relu"}, torch.eye(2).double(), "none"),
    ],
)
def test_flows_have_the_expected_kind(options, Phi, kind):
    memory = EpisodicMemory(1.3 * torch.eye(2).double(), Phi, **options)
    descent = ms.energy_descent(memory, input=torch.tensor([0.2, -0.1]))
    assert descent.kind == kind
    assert descent.guaranteed == (kind != "none")
    if descent.guaranteed:
        assert not bool(descent.rises.any())
        assert bool((descent.energy.diff(dim=0) <= 1e-7).all())  # the integrator's tolerance
    elif kind == "none" and Phi is TURN:
        assert descent.rise is not None
        state = EpisodicState(*descent.rise.split((2, 2, 2), 1))
        w = Weights.from_memory(memory, torch.tensor([0.2, -0.1]))
        with torch.no_grad():
            velocity = memory(torch.tensor([0.2, -0.1]).double(), state)
        expected = rate_by_autograd(lambda *parts: flow_energy(w, *parts).total, state, velocity)
        assert float(expected) == pytest.approx(float(descent.rise_energy), rel=1e-9)
        assert float(expected) > 0


def test_the_rate_of_the_settling_function_equals_autograd():
    memory = EpisodicMemory(normal(4, 3), symmetric(3) @ symmetric(3), T_h=0.1, alpha_s=0.6, alpha_c=0.9)
    w = Weights.from_memory(memory)
    state = EpisodicState(normal(9, 4, seed=1), normal(9, 3, seed=2), normal(9, 4, seed=3))
    with torch.no_grad():
        velocity = memory(torch.zeros(4).double(), state)
    function = FlowEnergy(memory, w, "settling")
    rate = function.rates(state, velocity).total
    expected = rate_by_autograd(lambda *parts: function.terms(EpisodicState(*parts)).total, state, velocity)
    assert torch.allclose(rate, expected, rtol=1e-11, atol=1e-11)


def test_load_reads_what_save_wrote(tmp_path):
    memory = EpisodicMemory(torch.eye(2).double(), TURN)
    for descent in (
        ms.energy_descent(memory.discrete()),
        ms.energy_descent(memory),
        ms.energy_descent(network(symmetric())),
    ):
        descent.save(tmp_path / "descent.safetensors")
        again = ms.EnergyDescent.load(tmp_path / "descent.safetensors")
        assert again.summary() == descent.summary()
        assert torch.equal(again.terms, descent.terms)
        assert again.names == descent.names
        assert len(descent.figure().axes) == 3


# surfaces


def test_the_surface_is_the_energy_and_moves_with_v_d(tmp_path):
    Xi = 3 * torch.linalg.qr(normal(20, 3))[0]
    memory = EpisodicMemory(Xi, torch.eye(3).roll(1, 1).double())
    surface = ms.energy_surface(memory, grid=21)
    w = Weights.from_memory(memory)
    x = surface.origin + surface.columns[4] * surface.directions[0] + surface.rows[9] * surface.directions[1]
    assert float(surface.energy[2, 9, 4]) == pytest.approx(float(map_energy(w, x, surface.delayed[2]).total))
    assert torch.allclose(surface.directions @ surface.directions.T, torch.eye(2).double(), atol=1e-12)
    assert bool((surface.minima.diff(dim=0).norm(dim=1) > 1).all())
    surface.save(tmp_path / "surface.safetensors")
    assert torch.equal(ms.EnergySurface.load(tmp_path / "surface.safetensors").energy, surface.energy)
    assert "moves by" in surface.summary()
    assert len(surface.figure().axes) == 5  # four panels and the colour bar
    V_f = surface.origin + surface.path @ surface.directions
    assert len(ms.energy_surface(memory.discrete(), V_f, torch.tanh(V_f), panels=3, grid=5)) == 3


# regressions


def rnn_without_bias(W, size=2):
    """Return a float64 torch.nn.RNN without bias."""
    rnn = torch.nn.RNN(1, size, bias=False).double()
    rnn.weight_hh_l0.data = torch.as_tensor(W).double()
    return rnn


def test_a_network_that_converges_to_zero_never_rises():
    descent = ms.energy_descent(rnn_without_bias(0.5 * torch.eye(4), 4))
    assert descent.kind == "one-step"
    assert int(descent.rises.sum()) == 0
    assert descent.error < 1e-15
    tiny = torch.logspace(-9, -20, 12).double()[:, None] * normal(12, 4)
    result = step_descent(Weights.from_matrices(0.7 * torch.eye(4), torch.zeros(4, 4)), tiny, torch.zeros_like(tiny))
    assert bool((result.change < 0).all())  # and not 0: the energy keeps its precision
    assert float(result.error.max()) < 1e-15


@SLOW
def test_a_large_eigenvalue_does_not_hide_a_negative_one():
    descent = ms.energy_descent(rnn_without_bias(torch.diag(torch.tensor([1e7, -5.0]))))
    assert descent.kind == "two-step"
    assert descent.guaranteed
    assert not bool(descent.rises.any())
    Xi, Phi = torch.eye(2, dtype=torch.float64), torch.diag(torch.tensor([1e6, -0.9]))
    for cell, options in ((EpisodicMemory(Xi, Phi).discrete(), {"hold": 3}), (EpisodicMemory(Xi, Phi, T_h=0.0), {})):
        descent = ms.energy_descent(cell, **options)
        assert descent.kind == "none"
        assert not descent.guaranteed
        assert descent.rise is not None
    cubic = Recurrence.from_matrix(torch.diag(torch.tensor([1e6, -0.5])), None, "polynomial")  # unbounded slope
    assert [function.kind for function in lyapunov_functions(cubic)] == ["two-step"]


def test_a_small_asymmetry_is_no_guarantee():
    rnn = rnn_without_bias([[3, -2.5e-6], [2.5e-6, -1]])
    rates = [torch.tensor([[0.99, -0.01]], dtype=torch.float64)]
    for _ in range(30):
        rates.append(torch.tanh(rates[-1] @ rnn.weight_hh_l0.data.T))
    descent = ms.energy_descent(rnn, torch.stack(rates))
    assert bool(descent.rises.any())
    assert not descent.guaranteed
    assert "up to 8.3e-07" in descent.summary()
    assert descent.rise is not None


def test_float32_rounding_of_weights_keeps_the_guarantee():
    W = (symmetric() @ symmetric() / 5).float()
    W[0, 1] *= 1 + 2e-7  # one or two machine epsilons
    rnn = torch.nn.RNN(2, 5)
    rnn.weight_hh_l0.data = W
    descent = ms.energy_descent(rnn, steps=300)
    assert 0 < descent.asymmetry < 1e-6
    assert descent.guaranteed
    assert not bool(descent.rises.any())
    assert descent.slack is not None
    asymmetry = descent.changes[descent.causes.index("asymmetry")]
    assert bool((asymmetry <= descent.slack).all())
    assert not ms.energy_descent(rnn.double()).guaranteed  # for float64 weights it is no rounding


@SLOW
def test_a_given_flow_is_compared_with_the_integrated_one():
    memory = EpisodicMemory(2 * torch.eye(2, dtype=torch.float64), T_h=0.0)
    V = torch.linspace(3, 0, 20).double()[:, None, None].expand(20, 1, 2)
    z = torch.zeros(20, 1, 2, dtype=torch.float64)
    descent = ms.energy_descent(memory, EpisodicState(V, z, z))
    assert descent.deviation > 0.1
    assert "does not belong to this system" in descent.summary()
    assert "rises 19 times of 19" in descent.summary()
    even, uneven = torch.linspace(0, 4, 9).double(), torch.tensor([0.0, 0.1, 1.0, 1.5, 4.0]).double()
    for times in (even, uneven):
        with torch.no_grad():
            states = memory.integrate(
                EpisodicState(V[0] + normal(1, 2), z[0], z[0]), times, input=torch.ones(2).double()
            )
        given = ms.energy_descent(memory, states, times=times, input=torch.ones(2))
        assert given.deviation < 1e-7
        assert "falls or rests" in given.summary()
        assert ms.energy_descent(memory, states, times=1.2 * times, input=torch.ones(2)).strays


@SLOW
def test_a_flow_that_rests_does_not_rise():
    memory = EpisodicMemory(normal(6, 6), 3 * torch.eye(6, dtype=torch.float64), T_h=0.0, T_d=1.0)
    descent = ms.energy_descent(memory, times=torch.linspace(0, 200, 101))
    assert descent.kind == "settling"
    assert not bool(descent.rises.any())


def test_float32_states_are_compared_at_their_precision():
    memory = EpisodicMemory(normal(5, 3).float(), symmetric(3).float())
    for cell in (memory.conjugate(), memory.discrete()):
        states = [cell.initial_state(4) + torch.tanh(normal(4, 5)).float()]
        with torch.no_grad():
            for _ in range(20):
                states.append(cell(torch.zeros(4, 5), states[-1]))
        descent = ms.energy_descent(cell, torch.stack(states))
        assert descent.precision == torch.finfo(torch.float32).eps
        assert "does not belong to this system" not in descent.summary()


def test_the_marginal_quadratic_energy_has_no_bound():
    Xi = torch.linalg.qr(normal(6, 3))[0]
    w = Weights.from_matrices(Xi, torch.eye(3).roll(1, 1), "linear")
    y = normal(6, seed=1)
    assert lower_bound(w, y).exists is False
    along = 1e12 * Xi @ (w.Phi.T @ Xi.T @ y)
    assert float(map_energy(w, along, y).total) < -1e10
    bounded = lower_bound(Weights.from_matrices(torch.eye(3), torch.zeros(3, 3), "linear"), torch.ones(3).double())
    assert bounded.exists
    assert float(bounded.value) == 0
    assert lower_bound(w, torch.zeros(6).double()).exists is None  # decided by rounding only


def test_a_distance_has_no_identity():
    descent = ms.energy_descent(rnn_without_bias([[0.3, 0.1], [-0.2, 0.3]]))
    assert descent.kind == "contraction"
    assert "identity" not in descent.summary()


def test_row_weights_beyond_the_ratio_are_reported_as_not_tried():
    descent = ms.energy_descent(rnn_without_bias([[3, 1e-7], [1e6, 3]]))
    assert descent.kind == "none"
    assert "no weights" not in descent.summary()
    assert "factor of 1e+13" in descent.summary()
    assert "no weights" in ms.energy_descent(rnn_without_bias([[3, 1.0], [-1.0, 3]])).summary()


def test_the_surface_reports_moving_v_d_and_edges():
    memory = EpisodicMemory(2 * torch.linalg.qr(normal(8, 3))[0], torch.eye(3).roll(1, 1).double())
    V_f = torch.cumsum(normal(30, 8), 0)
    with pytest.raises(ValueError, match="rates"):
        ms.energy_surface(memory.conjugate(), torch.tanh(V_f))
    assert ms.energy_surface(memory.discrete(), V_f).held
    moving = ms.energy_surface(memory, V_f, torch.tanh(V_f), panels=3)
    assert not moving.held
    assert "V_d moves meanwhile" in moving.summary()
    names = [text.get_text() for text in moving.figure().legends[0].get_texts()]
    assert "path from this V_d on" in names
    linear = EpisodicMemory(memory.Xi, memory.Phi, "linear")  # unbounded, as 4 > 1
    far = ms.energy_surface(linear, V_f, panels=2)
    assert bool(far.at_edge.all())
    assert "moves by" not in far.summary()
    assert "on the edge of the grid" in far.summary()
    assert "lowest point of the surface" not in [text.get_text() for text in far.figure().legends[0].get_texts()]


def test_a_surface_around_diverging_recall_is_refused():
    Xi = 3 * torch.linalg.qr(normal(8, 3))[0]
    memory = EpisodicMemory(Xi, torch.eye(3).roll(1, 1).double(), "linear")  # grows ninefold in a step
    with pytest.raises(ValueError, match=r"diverges: V_f exceeds 1e\+06 after \d+ of 40 steps"):
        ms.energy_surface(memory)
    assert ms.energy_surface(memory, torch.cumsum(normal(30, 8), 0), panels=2).energy.isfinite().all()


def test_a_counter_example_with_held_v_d_is_reproducible():
    memory = EpisodicMemory(2 * torch.eye(2).double(), TURN)
    descent = ms.energy_descent(memory.discrete(), hold=4)
    assert descent.rise is not None
    assert descent.rise_delayed is not None
    assert descent.rise_energy is not None
    w = Weights.from_memory(memory)
    (g, after), (y, y_after) = descent.rise, descent.rise_delayed
    assert torch.allclose(w.sigma_f(w.field(g, y)), after, rtol=1e-12, atol=1e-12)
    energies = [float(rates_energy(w, *pair).total) for pair in ((g, y), (after, y_after))]
    assert energies == pytest.approx(descent.rise_energy.tolist())
    assert "with V_d = " in descent.summary()


# wrong arguments


@pytest.mark.parametrize("cell", [GRU(2, 3), LSTM(2, 3), torch.nn.GRU(2, 3), torch.nn.LSTM(2, 3)])
def test_gated_cells_have_no_energy(cell):
    with pytest.raises(TypeError, match="No energy is known"):
        ms.energy_descent(cell)


def test_wrong_arguments_raise():
    memory = EpisodicMemory(torch.eye(2), TURN)
    cases = [
        (lambda: ms.energy_descent(torch.nn.RNN(2, 3, num_layers=2)), TypeError, "stacked layers"),
        (lambda: ms.energy_descent(ms.adapt(lambda x, h: h, state_size=2)), TypeError, "not known to be"),
        (lambda: ms.energy_descent(Elman(2, 3, "modrelu")), ValueError, "modrelu"),
        (lambda: ms.energy_descent(Elman(2, 3, torch.sin)), ValueError, "convex function"),
        (lambda: ms.energy_descent(ms.Model(Elman(2, 3), 1)), TypeError, r"network\.cell"),
        (lambda: ms.energy_descent(Elman(2, 3), torch.zeros(4, 7)), ValueError, "time, batch, 3"),
        (lambda: ms.energy_descent(Elman(2, 3), torch.zeros(1, 3)), ValueError, "at least two"),
        (lambda: ms.energy_descent(Elman(2, 3), torch.full((4, 3), torch.nan)), ValueError, "finite"),
        (lambda: ms.energy_descent(Elman(2, 3), input=torch.zeros(3)), ValueError, "constant input"),
        (lambda: ms.energy_descent(Elman(2, 3), delayed=torch.zeros(3)), ValueError, "delayed and hold belong"),
        (lambda: ms.energy_descent(Elman(2, 3), times=torch.arange(3.0)), ValueError, "moves in steps"),
        (lambda: ms.energy_descent(Elman(2, 3), steps=0), ValueError, "steps"),
        (lambda: ms.energy_descent(Elman(2, 3), tolerance=2.0), ValueError, "tolerance"),
        (lambda: ms.energy_descent(memory, torch.zeros(4, 2)), ValueError, "EpisodicState"),
        (lambda: ms.energy_descent(memory.discrete(), delayed=torch.zeros(3)), ValueError, "delayed"),
        (lambda: ms.energy_surface(Elman(2, 3)), TypeError, "EpisodicMemory"),
        (lambda: ms.energy_surface(memory, torch.zeros(9, 2)), ValueError, "plane"),
        (lambda: ms.energy_surface(memory, panels=0), ValueError, "panels"),
        (lambda: Weights.from_matrices(torch.eye(2), torch.eye(3)), ValueError, "Phi"),
        (lambda: Weights.from_matrices(torch.eye(2), torch.eye(2), alpha_s=-1.0), ValueError, "alpha_s"),
        (lambda: Weights.from_matrices(torch.eye(2), torch.eye(2), "sine"), ValueError, "sine"),
        (lambda: step_descent(weights(), torch.zeros(2, 5), torch.zeros(2, 5)), ValueError, "float64"),
        (lambda: Recurrence.from_matrix(torch.zeros(2, 3)), ValueError, "square"),
    ]
    for call, error, message in cases:
        with pytest.raises(error, match=message):
            call()


# the registry


def test_the_lens_is_listed():
    assert ms.registry.lenses.load("energy") is ms.energy_descent
