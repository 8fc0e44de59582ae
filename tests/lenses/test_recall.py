"""The episodic memory: its flow, limits and maps, what it recalls, and what it has stored."""

import builtins
from dataclasses import replace
from itertools import pairwise
from math import inf, sqrt

import numpy as np
import pytest
import torch

import mnemoscope as ms
from mnemoscope.cells import EpisodicMemory, EpisodicState
from mnemoscope.cells.lagrangians import LAGRANGIANS, Logistic, Polynomial, Softmax, Tanh
from mnemoscope.connectivity.signed_selection import SignedSelection
from mnemoscope.lenses.recall.classes import MemoryClass, duals
from mnemoscope.lenses.recall.lens import successors
from mnemoscope.lenses.recall.overlap import overlap_with, read_features
from mnemoscope.lenses.variables.angles import angle_error
from mnemoscope.lenses.variables.theory import BindingNetwork
from mnemoscope.networks.recurrent import episodic
from mnemoscope.replication import Finished
from mnemoscope.studies.karuvally2023 import sequence_recall

FLOAT64_ROUNDING = 1e-12  # sums of some tens of terms of order 1
BOTH = [(f, h) for f in LAGRANGIANS for h in LAGRANGIANS]
TIMES = [(1.0, 0.5, 2.0), (0.7, 0.0, 2.0), (1.0, 0.5, 0.0), (0.7, 0.0, 0.0), (1.0, 0.0, inf), (1.0, 0.5, inf)]


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def some_memory(sigma_f="tanh", sigma_h="linear", times=(1.0, 0.5, 2.0), features=5, memories=3, **options):
    options = {"alpha_s": 1.3, "alpha_c": 0.7, **options}
    return EpisodicMemory(drawn(features, memories) / 2, drawn(memories, memories, seed=1), sigma_f, sigma_h, *times,
                          **options)  # fmt: skip


def some_state(memory, batch=4):
    f, h = memory.features, memory.memories
    return EpisodicState(drawn(batch, f, seed=2), drawn(batch, h, seed=3), drawn(batch, f, seed=4))


def hadamard(size):
    H = torch.ones(1, 1, dtype=torch.float64)
    while len(H) < size:
        H = torch.cat([torch.cat([H, H], 1), torch.cat([H, -H], 1)])
    return H


def by_hand(memory, x, state):
    """Eq 2, unit by unit, for one member of the batch."""
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


@pytest.mark.parametrize(("sigma_f", "sigma_h"), BOTH)
def test_the_flow_is_equation_2(sigma_f, sigma_h):
    memory = some_memory(sigma_f, sigma_h).requires_grad_(False)
    state, x = some_state(memory), drawn(4, 5, seed=5)
    found = memory(x, state)
    for member in range(4):
        expected = by_hand(memory, x[member], EpisodicState(*(part[member] for part in state)))
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one[member], other, rtol=0, atol=FLOAT64_ROUNDING)


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize(("sigma_f", "sigma_h"), [
    ("tanh", "linear"), ("softmax", "polynomial"), ("logistic", "tanh"), ("relu", "softmax"),
])  # fmt: skip
def test_jacobians_of_the_flow(sigma_f, sigma_h, times):
    """Against differences of the flow itself, in closed form and by autograd."""
    dynamics = ms.Dynamics(some_memory(sigma_f, sigma_h, times), drawn(5, seed=5), continuous=True)
    states, step = drawn(4, 13, seed=6), 1e-4
    for J in (dynamics.jacobian(states), dynamics.jacobian_by_autograd(states)):
        for unit in range(13):
            aside = torch.zeros(13).double()
            aside[unit] = step
            # errors of order step^2 fall out; what is left is of order step^4, and rounding / step
            near, far = ((dynamics(states + k * aside) - dynamics(states - k * aside)) / (2 * k * step) for k in (1, 2))
            torch.testing.assert_close(J[:, :, unit], (4 * near - far) / 3, rtol=0, atol=1e-10)


@pytest.mark.parametrize("times", TIMES)
def test_velocities_are_those_of_the_trajectory(times):
    """Of what follows at once too: by differences along the solution, which is solved without using them."""
    memory = some_memory("softmax", "tanh", times).requires_grad_(False)
    step = 1e-3
    path = memory.integrate(some_state(memory), torch.tensor([0.0, 0.4 - step, 0.4, 0.4 + step]).double())
    now = EpisodicState(*(part[2] for part in path))
    for velocity, part in zip(memory(torch.zeros(5).double(), now), path, strict=True):
        difference = (part[3] - part[1]) / (2 * step)
        torch.testing.assert_close(velocity, difference, rtol=0, atol=1e-5)  # step^2 times third derivatives


@pytest.mark.parametrize("times", TIMES[:4])
def test_the_flow_and_its_limits_rest_where_the_map_rests(times):
    memory = some_memory(times=times, alpha_s=4.0).requires_grad_(False)
    fp = ms.find_fixed_points(ms.Dynamics(memory.discrete()))
    assert fp.may_be_complete
    assert len(fp) == 7
    fired = memory.sigma_f(fp.states)
    rest = torch.cat([fp.states, memory.memory_drive(fired, fired), fired], 1)
    flow = ms.Dynamics(memory, continuous=True)
    assert flow(rest).abs().max() < 1e-10
    found = ms.find_fixed_points(flow, ms.lenses.Box(30, -8.0, 8.0))
    assert len(found) > 2
    assert torch.cdist(found.states, rest).amin(1).max() < 1e-9
    if times[1:] == (0, 0):  # what is left of the flow is V_f' = (map(V_f) - V_f) / T_f, and -1 / T_f for what follows
        expected = torch.cat([(fp.eigenvalues - 1) / times[0], torch.full((7, 8), -1 / times[0])], 1)
        values = torch.linalg.eigvals(flow.jacobian(rest))
        distance = (values.unsqueeze(2) - expected.unsqueeze(1)).abs()
        assert distance.amin(2).max() < 1e-6  # a multiple eigenvalue is known to the root of rounding
        assert distance.amin(1).max() < 1e-6


def rates(errors):
    return [float(large / small) for large, small in pairwise(errors)]


@pytest.mark.parametrize("sigma_h", ["linear", "tanh", "softmax"])
@pytest.mark.parametrize("which", ["T_h", "T_d"])
def test_small_time_constants_tend_to_the_limit_at_first_order(which, sigma_h):
    times = torch.tensor([0.0, 1.0]).double()

    def end(small):
        memory = some_memory("tanh", sigma_h, (1.0, small, 1.0) if which == "T_h" else (1.0, 1.0, small))
        memory.requires_grad_(False)
        state = some_state(memory)  # a start off the limit leaves within a time that is short, but of first order too
        start = EpisodicMemory.settled(
            some_memory("tanh", sigma_h, (1.0, 0.0, 1.0) if which == "T_h" else (1.0, 1.0, 0.0)), state
        )
        return memory.integrate(EpisodicState(*(part.detach() for part in start)), times, rtol=1e-6, atol=1e-8)

    limit, *near = (end(small) for small in (0.0, 0.02, 0.01, 0.005))
    for part in range(3):
        errors = [(one[part][1:] - limit[part][1:]).abs().max() for one in near]
        assert all(1.8 < rate < 2.2 for rate in rates(errors)), errors


def test_a_frozen_copy_stays_and_gradients_flow():
    memory = some_memory(times=(1.0, 0.0, inf))
    state = some_state(memory)
    path = memory.integrate(state, torch.tensor([0.0, 0.5, 1.0]).double(), input=drawn(5, seed=7))
    assert torch.equal(path.V_d, state.V_d.expand(3, -1, -1))
    assert [part.shape for part in path] == [(3, 4, 5), (3, 4, 3), (3, 4, 5)]
    path.V_f[-1].square().sum().backward()
    assert memory.Xi.grad is not None
    assert memory.Xi.grad.abs().max() > 0
    assert memory.Phi.grad.abs().max() > 0


def test_inputs_of_integrate():
    memory = some_memory().requires_grad_(False)
    times, state, x = torch.tensor([0.0, 1.0]).double(), some_state(memory), drawn(5, seed=7)
    held = memory.integrate(state, times, input=x)
    for same in (x.expand(4, -1), lambda t: x):
        assert torch.allclose(memory.integrate(state, times, input=same).V_f, held.V_f, atol=1e-12)
    rising = memory.integrate(state, times, input=lambda t: t * x)
    assert (rising.V_f[-1] - held.V_f[-1]).abs().max() > 0.01


@pytest.mark.parametrize(("sigma_f", "sigma_h"), BOTH)
def test_the_maps_their_jacobians_and_the_semi_conjugacy(sigma_f, sigma_h):
    memory = some_memory(sigma_f, sigma_h).requires_grad_(False)
    f, g = memory.discrete(), memory.conjugate()
    V_f, x, root = drawn(4, 5, seed=2), drawn(4, 5, seed=3), sqrt(memory.alpha_s)
    s = memory.sigma_f(V_f)
    h = root * s @ memory.Xi + memory.alpha_c * s @ memory.Xi @ memory.Phi
    torch.testing.assert_close(f(x, V_f), root * memory.sigma_h(h) @ memory.Xi.T + x, rtol=0, atol=FLOAT64_ROUNDING)
    for _ in range(3):
        assert torch.equal(memory.sigma_f(f(x, V_f)), g(x, memory.sigma_f(V_f)))  # no rounding: the same operations
        assert torch.equal(f.output(V_f), g.output(memory.sigma_f(V_f)))
        V_f = f(x, V_f)
    for cell in (f, g):
        dynamics = ms.Dynamics(cell, x[0])
        states = drawn(4, 5, seed=4)
        by_autograd = dynamics.jacobian_by_autograd(states)
        size = by_autograd.abs().max().clamp_min(1)
        assert (dynamics.jacobian(states) - by_autograd).abs().max() <= FLOAT64_ROUNDING * size


@pytest.mark.parametrize(("sigma", "inverse"), [
    ("linear", lambda r: r),
    ("tanh", torch.atanh),
    ("logistic", torch.logit),
    (Polynomial(3.0), lambda r: r.sign() * r.abs().sqrt()),
])  # fmt: skip
def test_invertible_ones_are_conjugate(sigma, inverse):
    memory = some_memory(sigma).requires_grad_(False)
    V_f, x = drawn(4, 5, seed=2), drawn(4, 5, seed=3)
    back = inverse(memory.conjugate()(x, memory.sigma_f(V_f)))
    torch.testing.assert_close(back, memory.discrete()(x, V_f), rtol=1e-10, atol=1e-10)  # slopes of the inverse


def test_weights():
    memory = some_memory().requires_grad_(False)
    eye = torch.eye(3).double()
    W = memory.Xi @ (memory.alpha_s * eye + sqrt(memory.alpha_s) * memory.alpha_c * memory.Phi.T) @ memory.Xi.T
    torch.testing.assert_close(memory.weights(), W, rtol=0, atol=FLOAT64_ROUNDING)
    V_f = drawn(4, 5, seed=2)
    expected = torch.tanh(V_f) @ W.T
    torch.testing.assert_close(memory.discrete()(torch.zeros(4, 5).double(), V_f), expected, rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="sigma_h is softmax"):
        some_memory(sigma_h="softmax").weights()


@pytest.mark.parametrize(("sigma_f", "sigma_h", "known"), [
    ("tanh", "linear", True), ("logistic", "polynomial", True), ("softmax", "tanh", True), ("linear", "softmax", True),
    ("relu", "tanh", True), ("relu", "linear", False), ("linear", "linear", False),
])  # fmt: skip
def test_boxes_are_invariant(sigma_f, sigma_h, known):
    memory = some_memory(sigma_f, sigma_h)
    for cell in (memory.discrete(), memory.conjugate()):
        dynamics = ms.Dynamics(cell, drawn(5, seed=3))
        assert (dynamics.bounds is not None) == known
        if dynamics.bounds is not None:
            low, high = dynamics.bounds
            for weight in (torch.rand(200, 5), torch.randint(0, 2, (200, 5))):
                assert dynamics.inside(dynamics(low + (high - low) * weight.double())).all()


@pytest.mark.parametrize("sigma", ["tanh", "logistic", "relu", "linear"])
def test_as_elman_is_the_same_network_and_takes_the_fast_way(sigma):
    memory = some_memory(sigma, alpha_s=0.2)
    cell, xs = memory.conjugate(), drawn(7, 4, 5)
    start = cell.initial_state(4)
    expected, _ = ms.scan(cell, xs, start, backend="loop")
    fused, _, route = ms.scan(cell, xs, start, explain=True)
    assert route.fused
    for outputs in (fused, ms.scan(cell.as_elman(), xs, start)[0]):
        torch.testing.assert_close(outputs, expected, rtol=0, atol=FLOAT64_ROUNDING)
    ms.scan(cell.as_elman(), xs, start)[0].square().sum().backward()
    assert memory.Phi.grad is not None  # shared


@pytest.mark.parametrize(("cell", "why"), [
    (lambda: some_memory().discrete(), "conjugate"),
    (lambda: some_memory("softmax").conjugate(), "no nonlinearity 'softmax'"),
    (lambda: some_memory(Tanh(2.0)).conjugate(), "beta = 2"),
    (lambda: some_memory(sigma_h="relu").conjugate(), "not linear but relu"),
])  # fmt: skip
def test_other_maps_are_no_elman_networks(cell, why):
    with pytest.raises(ValueError, match=why):
        cell().as_elman()
    assert not ms.scan(cell(), drawn(3, 2, 5), explain=True)[2].fused


def test_the_cell_that_learns_starts_on_the_circle():
    W = episodic(3, 24, memories=6).connectivity().detach()
    moduli = torch.linalg.eigvals(W).abs().sort(descending=True).values
    torch.testing.assert_close(moduli[:6], torch.ones(6), rtol=0, atol=1e-5)  # float32
    assert moduli[6:].max() < 1e-3
    with pytest.raises(ValueError, match="at least one memory"):
        episodic(3, 8, memories=0)
    with pytest.raises(ValueError, match="softmax"):
        episodic(3, 8, sigma="softmax")


@pytest.mark.parametrize(("change", "why"), [
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
])  # fmt: skip
def test_bad_memories_are_refused(change, why):
    with pytest.raises(ValueError, match=why):
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


def cycle(memories, gain=1.2, features=64, scale=1.0):
    Xi = hadamard(features)[:, 1 : memories + 1] / sqrt(features)
    return EpisodicMemory(scale * Xi, gain * torch.eye(memories).double().roll(1, 1), Tanh(2.0))


def test_recall_against_the_loop_and_the_cycle():
    memory = cycle(5).requires_grad_(False)
    found = ms.measure_recall(memory, 2, periods=7, k=20)
    assert found.sequence[:, 0].tolist() == [3, 4, 0, 1, 2, 3, 4]
    assert found.exact.all()
    assert found.margin.min() > 0.9
    x = memory.Xi[:, 2] * 8
    y = torch.tanh(2 * x)
    for step in range(1, 141):
        g = torch.tanh(2 * x)
        x = memory.Xi @ (memory.Xi.T @ g + memory.Phi.T @ memory.Xi.T @ y)
        torch.testing.assert_close(found.states[step, 0], x, rtol=0, atol=1e-10)  # 140 steps of rounding
        if step % 20 == 0:
            y = torch.tanh(2 * x)
    fired = torch.tanh(2 * found.states)
    cosine = torch.nn.functional.cosine_similarity(fired.unsqueeze(-1), memory.Xi, dim=2)
    torch.testing.assert_close(found.overlaps, cosine, rtol=0, atol=FLOAT64_ROUNDING)


def test_one_inner_step_is_the_discrete_map():
    memory = some_memory("softmax", "tanh").requires_grad_(False)
    start = drawn(4, 5, seed=2)
    found, cell, V_f = ms.measure_recall(memory, start, periods=6, k=1), memory.discrete(), start
    for t in range(1, 7):
        V_f = cell(torch.zeros(4, 5).double(), V_f)
        torch.testing.assert_close(found.states[t], V_f, rtol=0, atol=FLOAT64_ROUNDING)


def test_signs_and_ends_of_chains_are_followed():
    memory = cycle(4)
    chain = torch.zeros(4, 4).double()
    chain[0, 2], chain[2, 1] = 1.5, -1.5  # 0 calls for 2, 2 for -1, which calls for nothing
    memory = EpisodicMemory(memory.Xi.detach(), chain, Tanh(2.0))
    found = ms.measure_recall(memory, 0, periods=4)
    assert found.sequence[:, 0].tolist() == [2, 1, 1, 1]
    assert found.overlap.sign()[:, 0].tolist() == [1, -1, -1, -1]
    assert found.exact.all()
    reversed_start = ms.measure_recall(memory, -8 * memory.Xi.detach()[:, :1].T, periods=2)
    assert reversed_start.overlap.sign()[:, 0].tolist() == [-1, 1]
    assert reversed_start.exact.all()
    assert successors(EpisodicMemory(memory.Xi.detach(), chain, alpha_c=-1.0))[1].tolist() == [-1, 1, 1, 1]


def test_phi_that_calls_for_several_predicts_nothing(tmp_path):
    memory = some_memory()
    assert successors(memory) is None
    found = ms.measure_recall(memory, 0, periods=2, k=3)
    with pytest.raises(ValueError, match="several memories"):
        _ = found.exact
    assert "predicts no sequence" in found.summary()
    found.save(tmp_path / "recall.safetensors")
    again = ms.lenses.Recall.load(tmp_path / "recall.safetensors")
    assert torch.equal(again.states, found.states)
    assert again.expected is None
    assert len(found.figure().axes) == 3


def test_mixed_recall_is_told():
    found = ms.measure_recall(cycle(5, gain=1.0), 0, periods=20, k=1)
    assert not found.exact.all()
    assert found.margin.min() < 0.1
    assert "0 of 1 starts in every period" in found.summary()


@pytest.mark.parametrize(("change", "why"), [
    ({"periods": 0}, "periods must be"), ({"k": True}, "k must be"), ({"start": 5}, "There are 5 memories"),
    ({"start": -1}, "There are 5 memories"), ({"start": torch.zeros(2, 3)}, r"shape \(batch, 64\)"),
    ({"start": torch.full((1, 64), inf)}, "finite"), ({"threshold": 1.0}, "threshold"),
])  # fmt: skip
def test_bad_recalls_are_refused(change, why):
    with pytest.raises(ValueError, match=why):
        ms.measure_recall(**{"memory": cycle(5), "start": 0, "periods": 2, **change})


def test_stored_mixed_and_reversed_memories(tmp_path):
    """Three orthogonal memories: 3 stored, 3 reversed, 8 mixtures of all three, and nothing else is stable."""
    memory = EpisodicMemory(hadamard(16)[:, 1:4] / 4, None, Tanh(3.0))
    for cell, conjugate in ((memory.discrete(), False), (memory.conjugate(), True)):
        fp = ms.find_fixed_points(ms.Dynamics(cell))
        kinds = ms.classify_memories(memory, fp, conjugate=conjugate)
        count = [int((kinds.classes == kind).sum()) for kind in MemoryClass]
        assert count == [3, 3, 8, 0, 0, len(fp) - 14]
        mixtures = {name for name in kinds.names if name.startswith("mixture")}
        assert mixtures == {f"mixture of {a}0 {b}1 {c}2" for a in "+-" for b in "+-" for c in "+-"}
        assert kinds.lost == []
        assert (torch.isinf(kinds.dwell) == (fp.unstable == 0)).all()
        silent = fp.states.norm(dim=1).argmin()
        assert kinds.names[silent] == "unstable"  # the direction of nothing is no overlap
    kinds.save(tmp_path / "kinds.safetensors")
    again = ms.lenses.MemoryClasses.load(tmp_path / "kinds.safetensors")
    assert again.names == kinds.names
    assert "3 stored, 3 reversed, 8 mixture" in again.summary()
    assert kinds.figure().axes


def test_the_flow_and_the_map_agree_on_what_is_stored():
    memory = EpisodicMemory(hadamard(8)[:, 1:3] / 2, None)
    fp = ms.find_fixed_points(ms.Dynamics(memory, continuous=True), seed=1)
    kinds = ms.classify_memories(memory, fp)
    assert {name for name, kind in zip(kinds.names, kinds.classes.tolist(), strict=True) if kind < 4} == {
        "stored 0", "stored 1", "reversed 0", "reversed 1"}  # fmt: skip


def test_metastable_states_hold_as_long_as_their_eigenvalue_says():
    """A gain just above 1: the silent state is left slowly, and its dwell time is that of W's largest eigenvalue."""
    memory = EpisodicMemory(sqrt(1.02) * hadamard(8)[:, 1:2] / sqrt(8))
    fp = ms.find_fixed_points(ms.Dynamics(memory.discrete()))
    kinds = ms.classify_memories(memory, fp)
    silent = int(fp.states.norm(dim=1).argmin())
    assert kinds.classes[silent] == MemoryClass.METASTABLE
    assert kinds.dwell[silent].item() == pytest.approx(1 / torch.log(torch.tensor(1.02)).item(), rel=1e-6)
    start = fp.states[silent] + 1e-6 * memory.Xi.detach()[:, 0]
    states = ms.measure_recall(memory, start.unsqueeze(0), periods=200, k=1).states[:, 0]
    away = (states - fp.states[silent]).norm(dim=1)
    grown = int((away > torch.e * away[0]).nonzero()[0])
    assert abs(grown - kinds.dwell[silent]) <= 1
    assert ms.classify_memories(memory, fp, lasting=60.0).classes[silent] == MemoryClass.UNSTABLE


def test_slow_points_are_metastable():
    """A ghost: just below the fold at which a fixed point is born, a state is passed slowly."""
    memory = EpisodicMemory(torch.tensor([[sqrt(2.0)]]).double())
    r = sqrt(1 - 1 / 2.0)
    fold = (
        torch.atanh(torch.tensor(r)).item() - 2 * r
    )  # input at which V = 2 tanh(V) + x has a double root at V = atanh r
    fp = ms.find_fixed_points(ms.Dynamics(memory.discrete(), torch.tensor([-fold + 1e-4])),
                              torch.linspace(-3, 3, 40).double().unsqueeze(1))  # fmt: skip
    assert fp.slow is not None
    assert len(fp.slow)
    kinds = ms.classify_memories(memory, fp)
    assert kinds.slow.sum() == len(fp.slow)
    assert (kinds.classes[kinds.slow] == MemoryClass.METASTABLE).all()
    assert torch.isfinite(kinds.dwell[kinds.slow]).all()


def test_duals_and_who_has_none():
    memory = some_memory()
    torch.testing.assert_close(duals(memory) @ memory.Xi.detach(), torch.eye(3).double(), rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="6 memories of 4 features"):
        duals(EpisodicMemory(drawn(4, 6)))
    doubled = drawn(6, 2)[:, [0, 1, 0]]
    with pytest.raises(ValueError, match="their rank is 2"):
        duals(EpisodicMemory(doubled))
    crowded = EpisodicMemory(hadamard(4)[:, [1, 2, 3, 1]], None, Tanh(3.0))  # dependent, with mixtures
    fp = ms.find_fixed_points(ms.Dynamics(crowded.discrete()))
    single = ms.classify_memories(crowded, fp, threshold=0.01)
    assert torch.isnan(single.components).all()
    with pytest.raises(ValueError, match="duals"):
        single.members(0)


def test_bad_kinds_are_refused():
    memory = EpisodicMemory(hadamard(8)[:, 1:3] / 2)
    fp = ms.find_fixed_points(ms.Dynamics(memory.discrete()))
    with pytest.raises(ValueError, match="have 8 numbers"):
        ms.classify_memories(some_memory(), fp)
    with pytest.raises(ValueError, match="lasting positive"):
        ms.classify_memories(memory, fp, lasting=-1.0)


def hopfield(features, number, corruption, tried, generator):
    """Shares that stay and that are recalled: signs, one pattern at a time, with the diagonal left in."""
    P = generator.choice([-1.0, 1.0], (features, number))
    shares = []
    for flips in (0, round(corruption * features)):
        right = 0
        for pattern in P.T[:tried]:
            s = pattern.copy()
            s[generator.choice(features, flips, replace=False)] *= -1
            for _ in range(100):
                s = np.sign(P @ (P.T @ s))
            right += s @ pattern / features > 0.95
        shares.append(right / min(number, tried))
    return shares


def test_linear_memories_are_hopfields():
    """By shares over networks of its own drawing, within what chance allows."""
    numbers, seeds, generator = [4, 12, 16, 20, 30], 12, np.random.default_rng(7)
    load = ms.measure_load(81, numbers, seeds=seeds, tried=20)  # odd, so that no sign is that of 0
    drawn = [[hopfield(81, number, 0.1, 20, generator) for _ in range(seeds)] for number in numbers]
    own = torch.tensor(np.array(drawn)).unbind(2)
    for which, reference in zip(("stable", "recalled"), own, strict=True):
        chance = (load.error(which).square() + reference.var(1) / seeds).sqrt()
        assert ((load.mean(which) - reference.mean(1)).abs() <= 4 * chance + 1e-9).all()
        assert chance.max() < 0.1  # so that a difference would be seen
    assert load.mean()[0] == 1
    assert load.capacity is not None
    assert 0.14 < load.capacity / 81 < 0.35  # above Hopfield's 0.14: the diagonal is left in


def test_dense_memories_hold_far_more(tmp_path):
    numbers = [10, 60, 240]
    shares = {
        sigma.name: ms.measure_load(41, numbers, sigma, seeds=2, tried=20).mean().tolist()
        for sigma in (Tanh(1e-6), Polynomial(3.0), Softmax(1.0))
    }
    assert shares["softmax"] == [1, 1, 1]
    assert shares["polynomial"][1] > 0.9
    assert shares["tanh"][1] < 0.1  # linear, as good as
    load = ms.measure_load(20, [1, 40], seeds=2)
    load.save(tmp_path / "load.safetensors")
    assert ms.lenses.Load.load(tmp_path / "load.safetensors").summary() == load.summary()
    assert load.figure().axes


def test_many_memories_hold_any_state_in_place():
    load = ms.measure_load(60, [60, 3000], seeds=2, tried=20)
    assert load.mean("stable")[1] > 0.9 > load.mean("stable")[0]
    assert load.mean("recalled")[1] == 0


def test_basins_and_their_errors(tmp_path):
    memory = EpisodicMemory(hadamard(64)[:, 1:4])
    found = ms.measure_basin(memory, 1, [0.0, 0.25, 0.5, 1.0], trials=100, seed=3)
    assert found.share[0] == 1
    assert found.share[3] == 0  # reversed
    assert found.share[1] > 0.9 > found.share[2]
    low, high = found.interval
    assert (low <= found.share).all()
    assert (found.share <= high).all()
    assert high[3] == pytest.approx(1.96**2 / (100 + 1.96**2), rel=1e-3)  # Wilson's, for none of 100
    assert 0.25 < found.radius < 0.5
    assert torch.equal(found.returned, ms.measure_basin(memory, 1, [0.0, 0.25, 0.5, 1.0], trials=100, seed=3).returned)
    found.save(tmp_path / "basin.safetensors")
    assert ms.lenses.Basin.load(tmp_path / "basin.safetensors").summary() == found.summary()
    assert found.figure().axes


@pytest.mark.parametrize(("call", "why"), [
    (lambda: ms.measure_load(0, [1]), "features must be"), (lambda: ms.measure_load(9, []), "memories must be"),
    (lambda: ms.measure_load(9, [3, 2]), "that rise"),
    (lambda: ms.measure_load(9, [1], corruption=1.5), "between 0 and 1"),
    (lambda: ms.measure_load(9, [1], seeds=0), "seeds must be"),
    (lambda: ms.measure_basin(cycle(3), 7, [0.1]), "There are 3 memories"),
    (lambda: ms.measure_basin(cycle(3), 0, [0.2, 0.1]), "that rise"),
    (lambda: ms.measure_basin(cycle(3), 0, [0.1], 0), "trials must be"),
    (lambda: ms.measure_basin(cycle(3), 0, [0.1], threshold=2.0), "threshold"),
    (lambda: ms.measure_load(9, [1]).mean("nonsense"), "quantity must be"),
    (lambda: ms.measure_basin(EpisodicMemory(torch.zeros(4, 2)), 0, [0.1]), "is empty"),
])  # fmt: skip
def test_bad_measurements_are_refused(call, why):
    with pytest.raises(ValueError, match=why):
        call()


def test_the_study_tells_what_it_takes(tmp_path):
    study = sequence_recall.STUDY
    settings = {"cases": sequence_recall._cases((1, 5, 20), (0.3, 1.0, 3.0), 6)}
    results = [Finished(trial, study.run(trial, tmp_path, progress=False)) for trial in study.trials(settings, (0,))]
    told = {row.quantity: row for row in study.summarise(results)}
    assert told[sequence_recall.AT_ONE].ours == "0%"
    assert all(one.agreeing is None for one in study.published)  # the source has no number
    assert {row.verdict for row in told.values()} == {"not compared"}
    assert told["k = 1: gains without fault"].ours == "none"
    assert "3" in told["k = 20: gains without fault"].ours
    share = {one.trial.settings["k"]: one.result["periods"] for one in results}
    assert all(few <= many for few, many in zip(share[1], share[20], strict=True))
    assert study.figure(results).axes
    assert sequence_recall._without_fault({0.5: 1.0, 1.0: 1.0, 2.0: 0.5, 3.0: 1.0}) == "0.5 to 1, 3"


def test_the_study_says_where_it_is_not_as_expected():
    remark = sequence_recall._remark
    assert remark(20, {0.3: 0.0, 0.5: 0.7, 1.0: 1.0}).endswith("without fault from 0.5 to 3; so not at 0.5")
    assert remark(5, {1.0: 0.5, 1.2: 0.98, 2.0: 1.0}).endswith("from 1.2 on; so not at 1.2")
    assert remark(1, {1.0: 0.0, 8.0: 0.98}).endswith("mix in every network; so not at 8")
    assert remark(20, {0.3: 0.0, 0.5: 1.0}).endswith("so at all of these gains")
    assert "expected" not in remark(2, {1.0: 0.5})


@pytest.mark.parametrize(("k", "gain"), [(20, 0.5), (20, 3.0), (5, 1.2), (1, 5.0)])
def test_orthogonal_patterns_are_recalled_where_random_ones_may_not_be(k, gain):
    patterns = hadamard(64)[:, torch.randperm(64, generator=torch.Generator().manual_seed(0))[:5]]
    assert ms.measure_recall(sequence_recall.cyclic_memory(patterns, gain), 0, 20, k).exact.all()


BALANCED = hadamard(16)[:, 1:4]
EVERY = [*LAGRANGIANS, Tanh(3.0), Softmax(4.0), Polynomial(1.5), Logistic(0.5)]


@pytest.mark.parametrize("sigma", EVERY, ids=str)
def test_signs_of_a_pattern_are_its_whole_overlap(sigma):
    """Of every nonlinearity, whatever the size of V_f, and of patterns that are not balanced too."""
    for patterns in (BALANCED, 2 * (drawn(15, 3) > 0.3).double() - 1):
        memory = EpisodicMemory(patterns, None, sigma).requires_grad_(False)
        V_f = torch.cat([size * patterns.T for size in (1e-3, 1.0, 5.0, -0.1, -3.0)])
        found = overlap_with(memory, read_features(memory, V_f)).reshape(5, 3, 3).diagonal(dim1=1, dim2=2)
        expected = torch.tensor([1.0, 1, 1, -1, -1]).double().unsqueeze(1).expand(5, 3)
        torch.testing.assert_close(found, expected, rtol=0, atol=FLOAT64_ROUNDING)
        assert (overlap_with(memory, read_features(memory, 0 * V_f)) == 0).all()  # silence is near nothing


@pytest.mark.parametrize("sigma", ["tanh", "linear", "polynomial"])
def test_odd_nonlinearities_overlap_by_what_they_fire(sigma):
    memory, V_f = some_memory(sigma).requires_grad_(False), drawn(6, 5, seed=2)
    by_hand = torch.nn.functional.cosine_similarity(memory.sigma_f(V_f).unsqueeze(2), memory.Xi, dim=1)
    torch.testing.assert_close(overlap_with(memory, read_features(memory, V_f)), by_hand, rtol=0, atol=FLOAT64_ROUNDING)


def test_softmax_is_blind_to_what_features_have_in_common():
    """Memories with and without their mean are one memory to it, and one that is the same in all features is none."""
    Xi = torch.eye(8, 3).double()
    memory, shifted = (EpisodicMemory(one, None, Softmax(20.0)).requires_grad_(False) for one in (Xi, Xi + 0.1))
    V_f = drawn(4, 8, seed=2)
    overlaps = overlap_with(memory, read_features(memory, V_f))
    torch.testing.assert_close(overlap_with(shifted, read_features(shifted, V_f + 3)), overlaps, rtol=0, atol=1e-10)
    chosen = overlap_with(memory, read_features(memory, 5 * Xi.T))
    assert torch.allclose(chosen.diagonal(), torch.ones(3).double(), atol=1e-12)  # one feature fires, and no other
    constant = EpisodicMemory(torch.full((7, 1), 0.1).double(), None, "softmax")
    assert (overlap_with(constant, drawn(3, 7)) == 0).all()
    alike = EpisodicMemory(torch.eye(4).double(), None, "softmax")
    with pytest.raises(ValueError, match="without their means"):
        duals(alike)


@pytest.mark.parametrize(("Xi", "sigma_f", "sigma_h", "ways"), [
    (BALANCED, "logistic", "linear", ("stored", "reversed")),
    (BALANCED, "relu", "softmax", ("stored",)),  # such memories turn nothing round
    (2 * torch.eye(8, 3).double(), Softmax(4.0), "linear", ("stored",)),  # one feature each, and none fires below 0
])  # fmt: skip
def test_features_that_fire_nothing_negative_store_memories(Xi, sigma_f, sigma_h, ways):
    memory = EpisodicMemory(Xi, None, sigma_f, sigma_h).requires_grad_(False)
    for cell in (memory.discrete(), memory.conjugate())[: 1 if sigma_f == "relu" else 2]:
        fp = ms.find_fixed_points(ms.Dynamics(cell))
        kinds = ms.classify_memories(memory, fp, conjugate=cell.conjugate)
        held = kinds.classes <= MemoryClass.REVERSED
        names = [name for name, at_memory in zip(kinds.names, held.tolist(), strict=True) if at_memory]
        assert sorted(names) == sorted(f"{way} {one}" for way in ways for one in range(3))
        assert kinds.lost == []
        V_f = memory.feature_drive(memory.memory_drive(*2 * [fp.states])) if cell.conjugate else fp.states
        for point in held.nonzero()[:, 0].tolist():
            signs = Xi[:, kinds.nearest[point]] * (1 - 2 * kinds.classes[point])
            largest = V_f[point].abs().max()
            assert torch.equal((V_f[point] / largest).round(), signs.sign())


def test_logistic_features_recall_a_sequence_exactly():
    Phi = torch.eye(3).double().roll(1, 1)
    found = ms.measure_recall(EpisodicMemory(BALANCED, 1.2 * Phi, "logistic"), 0, periods=6)
    assert found.sequence[:, 0].tolist() == [1, 2, 0, 1, 2, 0]
    assert found.exact.all()
    assert ms.measure_basin(EpisodicMemory(BALANCED, None, "logistic"), 1, [0.0, 0.1], trials=20).share.tolist() == [
        1,
        1,
    ]


@pytest.mark.parametrize("sigma_f", ["tanh", "logistic", "relu", "linear", Softmax(8.0)])
def test_one_pattern_is_held_by_all_features(sigma_f):
    load = ms.measure_load(100, [1], sigma_f=sigma_f, seeds=4)
    assert load.mean("stable") == load.mean("recalled") == 1


def test_where_no_overlap_is_there_words_are():
    with pytest.raises(ValueError, match=r"grown to infinity.*polynomial"):
        ms.measure_load(100, [1], sigma_f="polynomial")
    with pytest.raises(ValueError, match="grown to infinity"):
        ms.measure_recall(EpisodicMemory(100 * BALANCED, None, "linear"), 0, periods=100, k=2)
    memory = EpisodicMemory(BALANCED, None, "relu", "tanh")
    fp = ms.find_fixed_points(ms.Dynamics(memory.conjugate()))
    with pytest.raises(ValueError, match=r"fixed points of memory\.discrete"):
        ms.classify_memories(memory, fp, conjugate=True)


def test_overlaps_know_no_size():
    memory, V_f = some_memory("linear"), drawn(3, 5, seed=2)
    torch.testing.assert_close(overlap_with(memory, 1e200 * V_f), overlap_with(memory, V_f), rtol=0, atol=1e-12)


def test_kinds_say_whether_points_are_missing(tmp_path):
    memory = EpisodicMemory(1.5 / 4 * BALANCED)
    dynamics = ms.Dynamics(memory.discrete())
    whole = ms.find_fixed_points(dynamics, seed=1)
    assert whole.index_sum == 1
    assert "no sign of a missing point, though no proof" in ms.classify_memories(memory, whole).summary()
    stable = (whole.unstable == 0).nonzero()[0, 0]
    rest = [point for point in range(len(whole)) if point != int(stable)]
    parts = {name: getattr(whole, name)[rest] for name in ("states", "q", "jacobians", "reached")}
    fewer = replace(whole, **parts, regular=None, signs=None)
    kinds = ms.classify_memories(memory, fewer)
    assert "The index sum is 0 and must be 1: at least 1 point" in kinds.summary()
    kinds.save(tmp_path / "kinds.safetensors")
    assert ms.lenses.MemoryClasses.load(tmp_path / "kinds.safetensors").summary() == kinds.summary()


def test_loads_tell_the_signs_that_were_flipped():
    load = ms.measure_load(4, [1], corruption=0.1, seeds=1)
    assert load.corruption == 0  # of 4 features a tenth is none
    assert ms.measure_load(10, [1], corruption=0.26, seeds=1).corruption == 0.3
    (axes,) = ms.measure_load(4, [1, 64], corruption=0.1, seeds=2).figure().axes
    assert "recalled, 0% of signs flipped" in axes.get_legend_handles_labels()[1]


def test_numbers_of_another_type_are_told():
    with pytest.raises(ValueError, match=r"floating-point.*torch\.int64"):
        EpisodicMemory(torch.ones(4, 2, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"Phi must be real.*complex64"):
        EpisodicMemory(torch.eye(4, 2), torch.eye(2) * 1j)
    for drive in (inf, torch.nan):
        with pytest.raises(ValueError, match=r"drive.* must be finite"):
            BindingNetwork(SignedSelection.repeat_copy(2, 2)).saturating(drive=drive)
    real = torch.tensor([1.0, -0.95])
    error = angle_error(real, torch.tensor([1, -1, 1j]))
    assert (error.mean, error.matched, error.missing) == (0, 2, 1)
    with pytest.raises(ValueError, match="finite eigenvalues"):
        angle_error(torch.tensor([inf]), real)
