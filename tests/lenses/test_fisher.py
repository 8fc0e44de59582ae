"""Fisher memory of linear systems: compared with slow formulas, bounds and identities; errors that it raises."""

import numpy as np
import pytest
import scipy.linalg
import torch

import mnemoscope as ms
from mnemoscope.inspection.memory import memory_section
from mnemoscope.lenses.fisher.stein import UnstableError
from tests.slow import representatives

LAGS = 20


def generator(seed):
    return torch.Generator().manual_seed(seed)


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


def stable(size, radius=0.9, seed=0):
    A = randn(size, size, seed=seed)
    return radius * A / torch.linalg.eigvals(A).abs().max()


def normal(size, radius=0.9, seed=0):
    """Return a real normal matrix: rotations and scalings of planes, in a random basis."""
    Q = torch.linalg.qr(randn(size, size, seed=seed))[0]
    angles, moduli = randn(size // 2, seed=seed + 1), radius * torch.rand(size // 2, generator=generator(seed + 2))
    blocks = [m * torch.tensor([[a.cos(), -a.sin()], [a.sin(), a.cos()]]) for m, a in zip(moduli, angles, strict=True)]
    blocks += [torch.full((1, 1), -0.5 * radius)] if size % 2 else []
    return Q @ torch.block_diag(*(block.double() for block in blocks)) @ Q.mT


def spread_out(size):
    """Return a symmetric matrix whose eigenvalues are far apart."""
    Q = torch.linalg.qr(randn(size, size))[0]
    return Q @ torch.diag(0.99 ** (1.0 + 50 * torch.arange(size, dtype=torch.float64))) @ Q.mT


def theta(alpha, beta, d, size=100):
    """Return the matrix of Kerg, Eq 3.4.2: d on the diagonal, alpha just below it, beta in the rest below."""
    M = torch.full((size, size), beta, dtype=torch.float64).tril(-2)
    eye = torch.eye(size, dtype=torch.float64)
    return M + torch.diag(torch.full((size - 1,), alpha, dtype=torch.float64), -1) + d * eye


def unit(size, dtype=torch.float64):
    return torch.eye(size, dtype=dtype)[0]


def slow(A, w, Q, lags=LAGS, observed=None):
    """Return J and the total by a Stein equation, an inverse and powers."""
    A, w, Q = (np.asarray(x, dtype=float) for x in (A, w, Q))
    C = scipy.linalg.solve_discrete_lyapunov(A, Q)
    P = scipy.linalg.solve_discrete_lyapunov(A, np.outer(w, w))
    observed = len(w) if observed is None else observed
    inverse = np.linalg.inv(C[:observed, :observed])
    signals = np.stack([(np.linalg.matrix_power(A, k) @ w)[:observed] for k in range(lags)])
    return signals @ inverse @ signals.T, np.trace(inverse @ P[:observed, :observed])


def assert_same(memory, reference, rtol=1e-10):
    J, total = reference
    lags = len(J)
    assert torch.allclose(memory.matrix[:lags, :lags], torch.from_numpy(J), rtol=rtol, atol=1e-13 * J.max())
    assert abs(float(memory.total) - total) <= rtol * total


@representatives("2")
@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_a_vector_network_has_the_memory_of_the_slow_formulas(size):
    A, w = stable(size), randn(size, seed=1)
    assert_same(ms.fisher_memory(A, w, lags=LAGS), slow(A, w, np.eye(size)))


def test_noise_may_have_any_covariance():
    A, w, L = stable(6), randn(6, seed=1), randn(6, 6, seed=2)
    assert_same(ms.fisher_memory(A, w, noise=L @ L.mT, lags=LAGS), slow(A, w, L @ L.mT))
    assert_same(ms.fisher_memory(A, w, noise=0.3, lags=LAGS), slow(A, w, 0.3 * np.eye(6)))


def test_noise_may_enter_few_units_if_it_reaches_all():
    A, w, L = stable(5), randn(5, seed=1), randn(5, 2, seed=2)
    memory = ms.fisher_memory(A, w, noise=L @ L.mT, lags=LAGS)
    assert_same(memory, slow(A, w, L @ L.mT), 1e-7)
    assert memory.input_information == torch.inf


@representatives("alpha0-6-6", "alpha1-2-2", "alpha2-3-5")
@pytest.mark.parametrize(("rows", "columns"), [(2, 2), (3, 5), (6, 6)])
@pytest.mark.parametrize("alpha", [(), (0.1,), (0.05, -0.1)])
def test_a_matrix_network_has_the_memory_of_its_flat_network(rows, columns, alpha):
    U, V, W = stable(rows, 0.8), stable(columns, 0.8, 1), randn(rows, columns, seed=2)
    system = ms.MatrixSystem(U, V, W, 0.5, 2.0, alpha)
    A, w = system.map().dense(), system.source()
    L = system.noise_factor()
    assert_same(ms.fisher_memory(system, lags=LAGS), slow(A, w, L @ L.mT))
    if alpha:
        newest = ms.fisher_memory(system, lags=LAGS, observed="newest")
        assert_same(newest, slow(A, w, L @ L.mT, observed=rows * columns))


def test_the_flat_step_is_the_step_of_matrices():
    system = ms.MatrixSystem(stable(3), stable(4), randn(3, 4), alpha=(0.2, 0.3))
    X = [randn(3, 4, seed=seed) for seed in range(3)]
    new = system.U.mT @ X[0] @ system.V + 0.2 * X[1] + 0.3 * X[2]
    flat = system.map()(torch.cat([matrix.flatten() for matrix in X])[:, None])[:, 0]
    assert torch.allclose(flat, torch.cat([new.flatten(), X[0].flatten(), X[1].flatten()]))


@representatives("3-5-alpha0", "3-5-alpha1")
@pytest.mark.parametrize("alpha", [(), (0.05,), (0.03, -0.04, 0.02)])
@pytest.mark.parametrize(("rows", "columns"), [(4, 4), (3, 5)])
def test_normal_matrix_networks_hold_one_signal_per_slot(rows, columns, alpha):
    W = randn(rows, columns, seed=2)
    system = ms.MatrixSystem(normal(rows), normal(columns, seed=5), W, 0.5, 2.0, alpha)
    memory, newest = ms.fisher_memory(system, lags=LAGS), ms.fisher_memory(system, lags=LAGS, observed="newest")
    assert "normal" in memory.route
    L = system.noise_factor()
    assert_same(memory, slow(system.map().dense(), system.source(), L @ L.mT))
    assert_same(newest, slow(system.map().dense(), system.source(), L @ L.mT, observed=rows * columns))
    assert abs(newest.relative - 1) < 1e-12  # erratum of Renanse: exactly |W|^2, with a queue or without
    assert abs(memory.relative - (1 + len(alpha))) < 1e-12


def test_a_normal_vector_network_holds_one_signal():
    memory = ms.fisher_memory(normal(30, 0.99), randn(30))
    assert abs(memory.relative - 1) < 1e-9


def published(system, lags=LAGS):
    """Return J of Renanse, Eq 9 and 12, by slow formulas; Eq 13 with corrected indices."""
    U, V, W = (np.asarray(x) for x in (system.U, system.V, system.W))
    Psi = scipy.linalg.solve_discrete_lyapunov(U.T, np.asarray(system.eps1))
    Sigma = scipy.linalg.solve_discrete_lyapunov(V.T, np.asarray(system.eps2))
    power = np.linalg.matrix_power
    D = [power(U, k).T @ W @ power(V, k) for k in range(lags)]
    return np.array([[np.trace(np.linalg.inv(Sigma) @ a.T @ np.linalg.inv(Psi) @ b) for b in D] for a in D])


def test_the_published_formulas_understate_the_memory():
    system = ms.MatrixSystem(stable(4), stable(5, seed=1), randn(4, 5, seed=2), 0.5, 2.0)
    exact, printed = (ms.fisher_memory(system, lags=LAGS, method=method) for method in ("exact", "published"))
    assert torch.allclose(printed.matrix, torch.from_numpy(published(system)), rtol=1e-10)
    assert (printed.curve <= exact.curve * (1 + 1e-12)).all()
    assert printed.total < exact.total
    assert "understates" in printed.summary()


def test_published_totals_of_normal_networks_are_those_of_theorem_2():
    system = ms.MatrixSystem(normal(4), normal(5, seed=5), randn(4, 5, seed=2))
    printed = ms.fisher_memory(system, method="published")
    lam, E = np.linalg.eig(system.U.T.numpy())
    m, F = np.linalg.eig(system.V.numpy())
    B = np.abs(E.conj().T @ system.W.numpy() @ F) ** 2
    p, q = np.abs(lam)[:, None] ** 2, np.abs(m) ** 2
    assert abs(float(printed.total) - ((1 - p) * (1 - q) / (1 - p * q) * B).sum()) < 1e-10


@pytest.mark.parametrize("alpha", [0.95, 1.0, 1.05])
def test_a_delay_line_has_the_curve_of_the_closed_form(alpha):
    """Kerg, 3.4.2: with sqrt(alpha) on the sub-diagonal, J(k) = alpha^k (alpha - 1) / (alpha^(k+1) - 1)."""
    memory = ms.fisher_memory(theta(alpha**0.5, 0.0, 0.0), unit(100))
    k = torch.arange(100, dtype=torch.float64)
    expected = 1 / (k + 1) if alpha == 1 else alpha**k * (alpha - 1) / (alpha ** (k + 1) - 1)
    assert torch.allclose(memory.curve, expected, rtol=1e-10)
    assert torch.allclose(memory.curve, memory.amplification_bound, rtol=1e-10)  # no network has more
    assert abs(memory.matrix.triu(1)).max() < 1e-12  # and signals do not interfere


@representatives("0.95-0.005-0.2-12.09", "1.0-0-0-5.19", "1.05-0-0.2-20.84")
@pytest.mark.parametrize(
    ("alpha", "beta", "d", "total"),
    [(0.95, 0, 0, 3.03), (1.0, 0, 0, 5.19), (1.05, 0, 0, 12.1), (0.95, 0.005, 0, 3.18), (1.0, 0.005, 0, 5.30),
     (1.05, 0.005, 0, 12.1), (0.95, 0, 0.2, 11.94), (1.0, 0, 0.2, 16.30), (1.05, 0, 0.2, 20.84),
     (0.95, 0.005, 0.2, 12.09), (1.0, 0.005, 0.2, 16.39), (1.05, 0.005, 0.2, 20.88)],
)  # fmt: skip
def test_totals_are_those_of_the_corrected_table(alpha, beta, d, total):
    """Kerg, A.2 Table 5, with the rows of d = 0.2 corrected in many digits: a plain inverse gives 12.0 ... 20.4."""
    memory = ms.fisher_memory(theta(alpha, beta, d), unit(100))
    assert abs(float(memory.total) - total) <= 0.006 if total < 10 else abs(float(memory.total) - total) <= 0.05


def test_ill_conditioned_totals_are_exact_to_many_digits():
    """The references were computed with 120 digits: C by doubling, and its inverse."""
    assert abs(float(ms.fisher_memory(theta(1.05, 0.005, 0.2, 30), unit(30)).total) - 7.65432767559342) < 1e-11
    assert abs(float(ms.fisher_memory(theta(3.0, 0.0, 0.5, 30), unit(30)).total) - 27.6243868802599) < 1e-6


@pytest.mark.parametrize("size", [3, 20])
def test_identities_and_bounds_hold(size):
    A, w = stable(size, 0.95), randn(size, seed=1)
    memory = ms.fisher_memory(A, w)
    assert abs(memory.spatial.trace() - size) < 1e-8 * size  # tr J_spatial = N
    assert torch.allclose(w @ memory.spatial @ w, memory.total, rtol=1e-10)
    assert memory.total <= memory.bound
    assert (memory.curve <= memory.amplification_bound * (1 + 1e-10)).all()
    assert (memory.curve.diff() <= 1e-12).all()
    best = ms.fisher_memory(A, memory.best_direction)
    assert torch.allclose(best.total, memory.best_total, rtol=1e-10)
    assert best.relative >= memory.relative
    assert memory.saturation_bound(100.0) >= float(memory.total)


def test_a_change_of_basis_changes_nothing():
    A, w, Q = stable(12), randn(12, seed=1), torch.linalg.qr(randn(12, 12, seed=2))[0]
    one, two = ms.fisher_memory(A, w), ms.fisher_memory(Q @ A @ Q.mT, Q @ w)
    assert torch.allclose(one.matrix, two.matrix, rtol=1e-9, atol=1e-12)


def test_a_matrix_network_has_a_spatial_matrix():
    system = ms.MatrixSystem(stable(3, 0.8), stable(4, 0.8, 1), randn(3, 4, seed=2))
    memory = ms.fisher_memory(system)
    w = system.source()
    assert abs(memory.spatial.trace() - 12) < 1e-9
    assert torch.allclose(w @ memory.spatial @ w, memory.total, rtol=1e-10)
    assert memory.best_direction.shape == (3, 4)


def test_a_finite_horizon_is_the_sum_over_its_steps():
    """For an orthogonal network, where noise accumulates, and for a stable one."""
    Q, w = torch.linalg.qr(randn(6, 6))[0], randn(6, seed=1)
    for A, steps in ((Q, 7), (1.1 * Q, 12), (stable(6), 1), (stable(6), 13)):
        C = sum(torch.linalg.matrix_power(A, k) @ torch.linalg.matrix_power(A, k).mT for k in range(steps))
        signals = torch.stack([torch.linalg.matrix_power(A, k) @ w for k in range(steps)])
        J = signals @ torch.linalg.solve(C, signals.mT)
        memory = ms.fisher_memory(A, w, lags=20, horizon=steps)
        lags = min(steps, 20)
        assert torch.allclose(memory.matrix[:lags, :lags], J[:lags, :lags], rtol=1e-9, atol=1e-12)
        assert not memory.curve[steps:].any()
        assert torch.allclose(memory.total, J.trace(), rtol=1e-9)
    forever = ms.fisher_memory(stable(6), w)
    assert torch.allclose(ms.fisher_memory(stable(6), w, horizon=2000).total, forever.total, rtol=1e-10)


def many_digits(A, w, steps):
    """Return the total over so many steps, computed with 200 digits."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(200):
        A, x = mpmath.matrix(A.tolist()), mpmath.matrix(w.tolist())
        power, C, signals = mpmath.eye(len(x)), mpmath.zeros(len(x)), []
        for _ in range(steps):
            signals.append(power * x)
            C, power = C + power * power.T, A * power
        inverse = C**-1
        return float(sum((signal.T * inverse * signal)[0] for signal in signals))


def test_a_finite_horizon_is_exact_where_noise_is_amplified():
    Q = torch.linalg.qr(randn(8, 8))[0]
    jordan = torch.eye(8, dtype=torch.float64) + torch.diag(torch.ones(7, dtype=torch.float64), -1)
    grows = randn(4, 4) @ torch.diag(torch.tensor([1.3, 0.9, 0.5, -0.7], dtype=torch.float64)) @ randn(4, 4).inverse()
    for A, steps in ((Q @ jordan @ Q.mT, 40), (grows, 60)):
        w = randn(len(A), seed=1)
        memory = ms.fisher_memory(A, w, horizon=steps)
        assert "single steps" in memory.route
        assert abs(float(memory.total) / many_digits(A, w, steps) - 1) < max(1e-9, 10 * memory.error)
    with pytest.raises(ValueError, match="amplified so much"):
        ms.fisher_memory(theta(1.0, 0.0, 0.9), unit(100), horizon=100)


def test_normal_networks_with_an_unstable_queue_hold_one_signal_per_slot():
    """Noise enters only the newest matrix; normal networks hold exactly 1 and p + 1 signals, stable or not."""
    system = ms.MatrixSystem(normal(4), normal(4, seed=5), randn(4, 4, seed=2), alpha=(1.0,))
    for steps in (2, 8, 150):
        newest, whole = (ms.fisher_memory(system, horizon=steps, observed=part) for part in ("newest", "all"))
        assert abs(newest.relative - 1) < max(1e-9, 10 * newest.error)
        assert abs(whole.relative - 2) < max(1e-9, 10 * whole.error)
    assert "factor" in whole.route


def test_later_changes_of_the_arguments_change_no_result():
    A, w, U = stable(4), randn(4), stable(3)
    memory, system = ms.fisher_memory(A, w), ms.MatrixSystem(U, stable(3), randn(3, 3))
    spatial, before = ms.fisher_memory(A, w).spatial, ms.fisher_memory(system).total
    A.mul_(0.1)
    U.mul_(0.1)
    assert torch.equal(memory.spatial, spatial)
    assert torch.equal(ms.fisher_memory(system).total, before)


def test_the_saturation_bound_is_that_of_the_observed_state():
    system = ms.MatrixSystem(stable(3, 0.6), stable(3, 0.6, 1), randn(3, 3), alpha=(0.3,))
    newest = ms.fisher_memory(system, observed="newest")
    L = system.noise_factor()
    C = scipy.linalg.solve_discrete_lyapunov(system.map().dense().numpy(), (L @ L.mT).numpy())[:9, :9]
    assert abs(newest.saturation_bound(3.0) - (81 - np.trace(C)) / np.linalg.eigvalsh(C)[0]) < 1e-9


def test_tiny_signals_are_measured_in_units_of_tiny_noise():
    """The units of the state do not matter, however small signals and noise are."""
    D = torch.diag(torch.tensor([1.0, 1e-13, 1e-26], dtype=torch.float64))
    line = torch.diag(torch.ones(2, dtype=torch.float64), -1)
    system = ms.MatrixSystem((D @ line @ D.inverse()).mT, torch.ones(1, 1), D[:, :1], eps1=D @ D)
    for lags in (1, 5):
        assert abs(float(ms.fisher_memory(system, lags=lags).total) - 11 / 6) < 1e-10


def test_the_error_covers_rounding_near_the_edge_of_stability():
    A = torch.diag(torch.tensor([1 - 1e-11, 0.5], dtype=torch.float64))
    memory = ms.fisher_memory(A, torch.ones(2))
    assert abs(float(memory.total) / 2 - 1) < memory.error < 1e-2
    with pytest.raises(ValueError, match="so near to 1"):
        ms.fisher_memory(torch.diag(torch.tensor([1 - 1e-15, 0.5], dtype=torch.float64)), torch.ones(2))


@pytest.mark.parametrize("radius", [1 - 1e-4, 1 - 1e-9])
def test_normal_networks_near_the_edge_of_stability_hold_one_signal(radius):
    memory = ms.fisher_memory(normal(8, 1.0) / torch.linalg.eigvals(normal(8, 1.0)).abs().max() * radius, randn(8))
    assert abs(memory.relative - 1) < 1e-6


def test_gradients_are_those_of_finite_differences():
    A, w = stable(5), randn(5, seed=1)
    A.requires_grad_()
    w.requires_grad_()
    assert torch.autograd.gradcheck(lambda A, w: ms.fisher_memory(A, w, lags=4).total, (A, w))
    assert torch.autograd.gradcheck(lambda A, w: ms.fisher_memory(A, w, lags=4).curve, (A, w))
    U, V, W = stable(2, seed=3), stable(3, seed=4), randn(2, 3, seed=5)
    inputs = tuple(x.requires_grad_() for x in (U, V, W))
    assert torch.autograd.gradcheck(lambda *parts: ms.fisher_memory(ms.MatrixSystem(*parts), lags=4).total, inputs)
    for queue, method in (((0.1,), "exact"), ((), "published")):
        assert torch.autograd.gradcheck(
            lambda *parts, queue=queue, method=method: (
                ms.fisher_memory(ms.MatrixSystem(*parts, alpha=queue), lags=4, method=method).curve
            ),
            inputs,
        )


def test_second_derivatives_are_those_of_finite_differences():
    A, w = stable(3).requires_grad_(), randn(3, seed=1).requires_grad_()
    assert torch.autograd.gradgradcheck(lambda A, w: ms.fisher_memory(A, w, lags=3).total, (A, w))
    assert torch.autograd.gradgradcheck(lambda A, w: ms.fisher_memory(A, w, lags=3).curve, (A, w))


def test_gradients_flow_through_a_horizon_and_to_queue_weights():
    A, w = stable(3, 1.1).requires_grad_(), randn(3, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda A, w: ms.fisher_memory(A, w, lags=3, horizon=6).total, (A, w))
    alpha = torch.tensor([0.1, 0.05], dtype=torch.float64, requires_grad=True)
    U, V, W = stable(2, 0.7), stable(3, 0.7), randn(2, 3)
    assert torch.autograd.gradcheck(
        lambda alpha: ms.fisher_memory(ms.MatrixSystem(U, V, W, alpha=alpha)).total, (alpha,)
    )


def test_gradients_are_exact_where_noise_is_amplified():
    A, w = theta(1.05, 0.0, 0.2, 40), unit(40)
    A.requires_grad_()
    memory = ms.fisher_memory(A, w)
    (slope,) = torch.autograd.grad(memory.total, A)
    E = randn(40, 40, seed=1).tril()
    step = 1e-6
    with torch.no_grad():
        high, low = (ms.fisher_memory(A + sign * step * E, w).total for sign in (1, -1))
    assert abs((high - low) / (2 * step) - (slope * E).sum()) < 1e-5 * (slope * E).sum().abs()


def test_information_lies_within_the_error_bars_of_an_experiment():
    """The least-squares estimate of the signals from the state reaches the Fisher information: errors are J^-1."""
    A, w, steps, runs = stable(5, 0.8), randn(5, seed=1), 12, 40_000
    memory = ms.fisher_memory(A, w, lags=1, horizon=steps)
    noise = torch.randn(steps, runs, 5, generator=generator(3), dtype=torch.float64)
    x = torch.zeros(runs, 5, dtype=torch.float64)
    for z in noise:
        x = x @ A.mT + z
    C = x.mT @ x / runs
    J = w @ torch.linalg.solve(C, w)
    assert abs(J / memory.curve[0] - 1) < 4 * (2 / runs) ** 0.5 * 5


def test_systems_of_every_kind_are_accepted():
    cell = ms.cells.Elman(2, 6, "tanh", connectivity=ms.connectivity.Dense.from_matrix(stable(6).float()))
    V, U = stable(6).float().double(), cell.drive.weight.detach().double()
    expected = ms.fisher_memory(V, U[:, 1]).total
    assert torch.allclose(ms.fisher_memory(cell, 1).total, expected, rtol=1e-6)
    dynamics = ms.Dynamics(cell)
    state = randn(6, seed=4)
    there = ms.fisher_memory(dynamics, 1, state=state)
    slope = 1 - torch.tanh(V @ state + cell.drive.bias.detach().double()) ** 2
    assert torch.allclose(there.total, ms.fisher_memory(slope[:, None] * V, slope * U[:, 1]).total, rtol=1e-6)
    gru = ms.Dynamics(torch.nn.GRU(1, 4))
    assert ms.fisher_memory(gru, state=torch.zeros(4)).curve.shape == (100,)


def test_load_reads_what_save_wrote(tmp_path):
    for memory in (
        ms.fisher_memory(stable(4), randn(4)),
        ms.fisher_memory(ms.MatrixSystem(stable(2), stable(3), randn(2, 3))),
        ms.fisher_memory(ms.MatrixSystem(normal(2), normal(3), randn(2, 3), alpha=(0.1,))),
    ):
        memory.save(tmp_path / "memory.safetensors")
        again = ms.FisherMemory.load(tmp_path / "memory.safetensors")
        assert torch.equal(again.traces, memory.traces)
        # products of equal matrices with other strides may round differently, on some processors
        torch.testing.assert_close(again.curve, memory.curve, rtol=1e-12, atol=0)
        assert (again.summary(), again.shape, again.route) == (memory.summary(), memory.shape, memory.route)
        if memory.factor is not None:
            assert torch.equal(again.factor, memory.factor)
            torch.testing.assert_close(again.spatial, memory.spatial, rtol=1e-12, atol=1e-12)


def test_the_page_of_a_network_shows_its_memory():
    torch.manual_seed(0)
    dynamics = ms.Dynamics(torch.nn.GRU(2, 6))
    section = memory_section(dynamics, ms.find_fixed_points(dynamics, "adaptive", progress=False))
    assert section is not None
    assert "input 1" in section.html
    assert memory_section(dynamics, ms.find_fixed_points(dynamics, "adaptive", progress=False)[[]]) is None


def test_the_figure_has_three_panels_and_a_colour_bar():
    figure = ms.fisher_memory(stable(4), randn(4)).figure()
    assert len(figure.axes) == 4


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (UnstableError, "spectral radius is 1: noise and", lambda: ms.fisher_memory(torch.eye(3), torch.ones(3))),
        (UnstableError, "spectral radius is 1.2", lambda: ms.fisher_memory(stable(3, 1.2), torch.ones(3))),
        (
            UnstableError,
            "spectral radius",
            lambda: ms.fisher_memory(ms.MatrixSystem(normal(3), normal(3), randn(3, 3), alpha=(1.0,))),
        ),
        (
            UnstableError,
            "spectral radius",
            lambda: ms.fisher_memory(ms.MatrixSystem(stable(3), stable(3), randn(3, 3), alpha=(1.0,))),
        ),
        (
            ValueError,
            "finite weight for every slot",
            lambda: ms.MatrixSystem(stable(3), stable(3), randn(3, 3), alpha=(float("nan"),)),
        ),
        (ValueError, "U is complex", lambda: ms.MatrixSystem(1j * stable(3), stable(3), randn(3, 3))),
        (ValueError, "W must not be 0", lambda: ms.MatrixSystem(stable(3), stable(3), torch.zeros(3, 3))),
        (
            ValueError,
            "symmetric",
            lambda: ms.fisher_memory(stable(2), torch.ones(2), noise=torch.tensor([[1e-9, 0.0], [5e-10, 1e-9]])),
        ),
        (
            ValueError,
            "one slot of weight 1",
            lambda: ms.fisher_memory(
                ms.MatrixSystem(stable(3), stable(3), randn(3, 3), alpha=(0.5,)), method="published"
            ),
        ),
        (
            ValueError,
            "terms=",
            lambda: ms.fisher_memory(
                ms.MatrixSystem(spread_out(4), normal(3), randn(4, 3), alpha=(1.0,)), method="published", terms=60
            ),
        ),
        (ValueError, "amplified so much|beyond float64", lambda: ms.fisher_memory(theta(1.0, 0.0, 0.9), unit(100))),
        (
            ValueError,
            "does not reach every direction",
            lambda: ms.fisher_memory(
                0.5 * torch.eye(3), torch.ones(3), noise=torch.diag(torch.tensor([1.0, 1.0, 0.0]))
            ),
        ),
        (ValueError, "must be positive", lambda: ms.fisher_memory(stable(3), torch.ones(3), noise=-1.0)),
        (ValueError, "direction must be 3 finite numbers", lambda: ms.fisher_memory(stable(3), torch.ones(4))),
        (ValueError, "A matrix has no input", lambda: ms.fisher_memory(stable(3))),
        (ValueError, "2 input features: pass direction", lambda: ms.fisher_memory(ms.cells.Elman(2, 3))),
        (ValueError, "one method", lambda: ms.fisher_memory(stable(3), torch.ones(3), method="published")),
        (
            ValueError,
            "This network has one method.* X -> U",
            lambda: ms.fisher_memory(ms.cells.matrix.MatrixLSTM((1, 1), (2, 2)), method="published"),
        ),
        (ValueError, "lags must be a whole number", lambda: ms.fisher_memory(stable(3), torch.ones(3), lags=0)),
        (ValueError, "U must be 3 x 3", lambda: ms.MatrixSystem(stable(2), stable(4), randn(3, 4))),
        (ValueError, "eps1 must be positive", lambda: ms.MatrixSystem(stable(3), stable(4), randn(3, 4), eps1=0.0)),
    ],
)
def test_wrong_arguments_raise(error, message, call):
    with pytest.raises(error, match=message):
        call()
