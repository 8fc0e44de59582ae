"""Linear memory capacity: the closed form compared with a slow formula, the measurement with the closed form."""

from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
import torch

import mnemoscope as ms
from mnemoscope.cells import GRU, LSTM, Elman
from mnemoscope.connectivity import Dense
from mnemoscope.lenses.capacity.measurement import RIDGES
from mnemoscope.lenses.capacity.orthonormal_basis import reached_part, takenaka_malmquist
from mnemoscope.lenses.fisher.stein import UnstableError
from mnemoscope.studies.renanse2021.nonlinear_capacity import EDGE, STUDY

F64 = torch.float64


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def stable(size, radius=0.9, seed=0):
    A = randn(size, size, seed=seed)
    return radius * A / torch.linalg.eigvals(A).abs().max()


def linear_cell(V, U):
    cell = Elman(U.shape[1], len(V), "linear", Dense.from_matrix(V), bias=False).double()
    with torch.no_grad():
        cell.drive.weight.copy_(U)
    return cell


def slow(A, w, Q, signal=1.0, lags=20):
    """Return R^2 = c^T C^-1 c / sigma^2, with c the covariance of state and signal, C that of the state."""
    A, w, Q = (np.asarray(x, dtype=float) for x in (A, w, Q))
    C = scipy.linalg.solve_discrete_lyapunov(A, Q + signal * np.outer(w, w))
    c = [signal * np.linalg.matrix_power(A, k) @ w for k in range(lags)]
    return torch.tensor([column @ np.linalg.solve(C, column) / signal for column in c])


@pytest.mark.parametrize("size", [1, 6, 40])
@pytest.mark.parametrize(("noise", "signal"), [(1.0, 1.0), (0.1, 3.0)])
def test_capacity_with_noise_is_that_of_the_slow_formula(size, noise, signal):
    A, w = stable(size), randn(size, seed=1)
    capacity = ms.memory_capacity(A, w, noise=noise, signal=signal, lags=20)
    assert torch.allclose(capacity.curve, slow(A, w, noise * np.eye(size), signal), rtol=1e-9)
    longer = ms.memory_capacity(A, w, noise=noise, signal=signal, lags=1000)
    assert torch.allclose(longer.curve.sum(), capacity.total, rtol=1e-9)
    assert capacity.total < size


@pytest.mark.parametrize("size", [1, 2, 5])
def test_capacity_without_noise_is_that_of_the_slow_formula(size):
    A, w = stable(size), randn(size, seed=1)
    capacity = ms.memory_capacity(A, w, lags=20)
    assert torch.allclose(capacity.curve, slow(A, w, np.zeros((size, size))), rtol=1e-6)
    assert capacity.total == size


def test_little_noise_is_nearly_the_same_as_none():
    A, w = stable(6), randn(6, seed=1)
    none, little = (ms.memory_capacity(A, w, noise=noise) for noise in (0.0, 1e-12))
    assert torch.allclose(none.curve, little.curve, atol=1e-5)


@pytest.mark.parametrize("radius", [0.3, 0.9, 0.999])
def test_without_noise_only_eigenvalues_matter_and_the_total_is_the_number_of_units(radius):
    """Jaeger 2001: the capacity is N, also where the covariance of the state has no correct digit."""
    A, w, T = stable(40, radius), randn(40, seed=1), randn(40, 40, seed=2)
    capacity = ms.memory_capacity(A, w, lags=400)
    other = ms.memory_capacity(T @ A @ torch.linalg.inv(T), randn(40, seed=3), lags=400)
    assert capacity.total == other.total == 40
    assert torch.allclose(capacity.curve, other.curve, rtol=1e-6, atol=1e-8)
    assert (capacity.curve <= 1 + 1e-12).all()
    if radius < 0.99:
        assert abs(capacity.curve.sum() - 40) < 1e-9


@pytest.mark.parametrize("size", [1, 2, 100])
def test_a_delay_line_recovers_as_many_signals_as_units(size):
    line = torch.diag(torch.full((size - 1,), 0.7, dtype=F64), -1)
    capacity = ms.memory_capacity(line, torch.eye(size)[0], lags=size + 5)
    assert capacity.curve.tolist() == [1.0] * size + [0.0] * 5
    assert capacity.total == size


def test_directions_that_signals_do_not_reach_add_no_capacity():
    blocks, w = torch.block_diag(stable(4), stable(5, seed=1)), torch.cat([randn(4), torch.zeros(5)])
    Q = torch.linalg.qr(randn(9, 9, seed=2))[0]
    capacity = ms.memory_capacity(Q @ blocks @ Q.mT, Q @ w)
    assert capacity.total == 4
    assert torch.allclose(capacity.curve, ms.memory_capacity(stable(4), randn(4)).curve, atol=1e-10)
    assert ms.memory_capacity(0.5 * torch.eye(3), torch.ones(3)).total == 1


def test_the_reached_part_has_the_same_responses():
    A, w = stable(7), randn(7, seed=1)
    part = reached_part(A, w)
    assert torch.allclose(torch.linalg.eigvals(part).abs().sort()[0], torch.linalg.eigvals(A).abs().sort()[0])
    response = w.norm() * torch.eye(7, dtype=F64)[0]
    for _ in range(5):
        assert torch.allclose(response.norm(), w.norm())
        w, response = A @ w, part @ response


@pytest.mark.parametrize("eigenvalues", [[0.0, 0.0, 0.0], [0.9, 0.9, -0.9], [0.5 + 0.5j, 0.5 - 0.5j, 0.99]])
def test_the_takenaka_malmquist_basis_is_orthonormal(eigenvalues):
    values = torch.tensor(eigenvalues, dtype=torch.complex128)
    B, y = takenaka_malmquist(values)
    assert torch.allclose(B @ B.mH + y[:, None] * y.conj(), torch.eye(3, dtype=torch.complex128), atol=1e-14)
    assert torch.equal(B.diagonal(), values)
    terms = [y]
    for _ in range(3000):
        terms.append(B @ terms[-1])
    Y = torch.stack(terms)
    assert torch.allclose(Y.mH @ Y, torch.eye(3, dtype=torch.complex128), atol=1e-10)


@pytest.mark.parametrize("alpha", [(), (0.1,)])
def test_matrix_networks_have_the_capacity_of_their_flat_network(alpha):
    system = ms.MatrixSystem(stable(2, 0.8), stable(3, 0.8, 1), randn(2, 3, seed=2), 0.5, 2.0, alpha)
    A, w, L = system.map().dense(), system.source(), system.noise_factor()
    capacity = ms.memory_capacity(system, lags=20)
    assert torch.allclose(capacity.curve, slow(A, w, L @ L.mT), rtol=1e-9)
    assert ms.memory_capacity(system, noise=0).total == system.size


def test_gradients_with_noise_are_those_of_finite_differences():
    inputs = (stable(4).requires_grad_(), randn(4, seed=1).requires_grad_())
    assert torch.autograd.gradcheck(lambda A, w: ms.memory_capacity(A, w, noise=0.3, lags=4).total, inputs)


def assert_within(measured, exact, errors=5.0):
    """Assert agreement up to the standard errors, which cover the evaluated steps, not the fitted ones."""
    fitted = (measured.size + 1) / 4000
    assert ((measured.curve - exact.curve).abs() <= errors * measured.curve_error + fitted).all()
    assert abs(measured.total - exact.total) <= errors * measured.total_error + fitted * len(measured)


@pytest.mark.parametrize("signal", ["uniform", "normal"])
def test_the_measurement_agrees_with_the_closed_form(signal):
    V, U = stable(5, 0.8), randn(5, 2, seed=1)
    cell = linear_cell(V, U)
    measured = ms.measure_memory_capacity(cell, 1, signal=signal, delays=60, steps=4000, strength=0.1)
    assert_within(measured, ms.memory_capacity(cell, 1, lags=60))
    assert measured.total <= 5 + 3 * measured.total_error
    assert measured.total_error < 0.15


def test_the_measurement_under_noise_agrees_with_the_closed_form():
    V, w = stable(6, 0.9), randn(6, seed=1)
    cell = linear_cell(V, torch.cat([w[:, None], torch.eye(6, dtype=F64)], 1))
    noise = torch.tensor([0.0, *[0.3] * 6], dtype=F64)
    measured = ms.measure_memory_capacity(cell, noise=noise, strength=2.0, delays=60, steps=4000, seed=1)
    assert_within(measured, ms.memory_capacity(V, w, noise=0.3, signal=4.0, lags=60))


def test_a_measured_delay_line_recovers_as_many_signals_as_units():
    line = torch.diag(torch.ones(9, dtype=F64), -1)
    capacity = ms.measure_memory_capacity(linear_cell(line, torch.eye(10, dtype=F64)[:, :1]), delays=15, steps=2000)
    assert torch.allclose(capacity.curve[:10], torch.ones(10, dtype=F64))
    assert abs(capacity.total - 10) < 5 * capacity.total_error < 0.1
    assert (capacity.curve[10:] < 0.02).all()


def test_delays_beyond_all_memory_add_no_bias():
    torch.manual_seed(0)
    measured = ms.measure_memory_capacity(torch.nn.RNN(1, 2), delays=300, steps=2000)
    assert abs(measured.curve[100:].mean()) < 5e-4  # 2 numbers, 2,000 steps: 1e-3 by chance
    assert measured.total < 2 + 3 * measured.total_error


def orthogonal_network(size, radius):
    """Return a linear network whose capacity is its size, and whose successive states depend on each other."""
    Q = torch.linalg.qr(randn(size, size))[0]
    return linear_cell(radius * Q, randn(size, 1, seed=1))


def test_dependent_states_add_no_bias_to_the_total_over_many_delays():
    """The capacity is 30. A correction for independent steps gives 31.1 +- 0.4 and a standard deviation of 2.4."""
    network = orthogonal_network(30, 0.98)
    exact = float(ms.memory_capacity(network, lags=400).curve.sum())
    assert exact == pytest.approx(30, abs=1e-4)
    measured = [ms.measure_memory_capacity(network, steps=800, delays=400, seed=seed) for seed in range(20)]
    totals = torch.stack([capacity.total for capacity in measured])
    assert abs(totals.mean() - exact) < 3 * totals.std() / 20**0.5
    assert totals.std() < 1.7
    expected = sum(capacity.total_error for capacity in measured) / 20
    assert expected == pytest.approx(float(totals.std()), rel=0.4)
    assert sum("above this bound" in capacity.summary() for capacity in measured) <= 2


def test_the_summary_tells_which_lags_were_summed_and_whether_longer_ones_would_add():
    network = orthogonal_network(30, 0.98)
    short = ms.measure_memory_capacity(network, steps=400, delays=10).summary()
    assert "past signals over lags 0 to 9 (at most 30 over all lags); the last 10 of these lags add" in short
    assert "and longer lags would add more" in short
    one = ms.measure_memory_capacity(network, steps=400, delays=1).summary()
    assert "at lag 0 (at most 30 over all lags); the last lag adds" in one
    line = linear_cell(torch.diag(torch.ones(4, dtype=F64), -1), torch.eye(5, dtype=F64)[:, :1])
    long = ms.measure_memory_capacity(line, steps=400, delays=30)
    assert "over lags 0 to 29 (at most 5 over all lags). At least" in long.summary()
    above = replace(long, total=long.total + 10 * long.total_error)
    assert "above this bound by more than two standard errors" in above.summary()
    assert "in total (at most 4)" in ms.memory_capacity(stable(4), randn(4), lags=2).summary()


def test_a_state_of_fresh_noise_recovers_nothing():
    """The noise has as many dimensions as a tenth of the steps."""

    class Noise(ms.cells.Cell):
        input_size = 41

        def initial_state(self, batch):
            return torch.zeros(batch, 40, dtype=F64)

        def forward(self, x, state):
            return x[:, 1:]

    noise = torch.tensor([0.0, *[1.0] * 40], dtype=F64)
    totals = [
        ms.measure_memory_capacity(Noise(), 0, noise=noise, delays=50, steps=400, washout=0, seed=seed).total
        for seed in range(8)
    ]
    assert abs(sum(totals) / 8) < 0.7  # 50 delays of 40 / 400 each would be 5
    with pytest.raises(ValueError, match="at least four times as many"):
        ms.measure_memory_capacity(Noise(), 0, noise=noise, delays=5, steps=100, washout=0)


def test_the_readout_is_least_squares():
    torch.manual_seed(0)
    cell = Elman(1, 4, "relu").double()
    capacity = ms.measure_memory_capacity(cell, delays=2, steps=500, washout=10, strength=0.5, seed=3)
    generator = torch.Generator().manual_seed(3)
    s = 0.5 * 12**0.5 * (torch.rand(512, 2, generator=generator, dtype=F64) - 0.5)
    s = s - s.mean(0)
    with torch.no_grad():
        h = ms.scan(cell, s.unsqueeze(-1))[0][-500:]
    ones = torch.ones(500, 1, dtype=F64)
    for k in range(2):
        y = [s[12 - k : 512 - k, sequence] for sequence in (0, 1)]  # fitted and evaluated
        beta = torch.linalg.lstsq(torch.cat([h[:, 0], ones], 1), y[0][:, None], driver="gelsd").solution
        errors = [y[each] - (torch.cat([h[:, each], ones], 1) @ beta)[:, 0] for each in (0, 1)]
        shares = [error.square().mean() / each.square().mean() for error, each in zip(errors, y, strict=True)]
        assert torch.allclose(capacity.curve[k], 1 - (shares[0] * shares[1]).sqrt())  # the error of the best readout
    ridged = ms.measure_memory_capacity(cell, delays=2, steps=500, washout=10, strength=0.5, seed=3, ridge=1e6)
    assert ridged.total < 1e-3


def test_the_chosen_ridge_has_the_least_error_on_further_sequences():
    """Against ridge regressions by normal equations, one delay and one candidate at a time."""
    torch.manual_seed(0)
    cell, n, steps, washout, delays = Elman(1, 4, "tanh").double(), 5, 30, 10, 6
    capacity = ms.measure_memory_capacity(
        cell, delays=delays, steps=steps, washout=washout, strength=0.5, seed=3, sequences=n, ridge=None
    )
    length = washout + delays + steps
    draws = torch.rand(length, 3 * n, generator=torch.Generator().manual_seed(3), dtype=F64)
    s = 0.5 * 12**0.5 * (draws - 0.5)
    fit, test, choose = (s[:, k * n : (k + 1) * n] - s[:, k * n : (k + 1) * n].mean() for k in range(3))
    with torch.no_grad():
        X, X_test, X_choose = (ms.scan(cell, each[..., None])[0][-steps:].flatten(0, 1) for each in (fit, test, choose))
    mean, rows = X.mean(0), steps * n
    unit = (X - mean).square().sum() / (rows * 4)
    for k in range(delays):
        y, y_test, y_choose = (each[length - steps - k : length - k].flatten() for each in (fit, test, choose))
        best = None
        for ridge in RIDGES[:-1]:
            gram = (X - mean).mT @ (X - mean) + ridge * unit * rows * torch.eye(4, dtype=F64)
            beta = torch.linalg.solve(gram, (X - mean).mT @ (y - y.mean()))
            chosen_error = (y_choose - y.mean() - (X_choose - mean) @ beta).square().mean()
            hat = torch.linalg.solve(gram, (X - mean).mT @ (X - mean))
            share = hat.matrix_power(2).trace() / hat.trace()
            errors = [each - y.mean() - (rows - mean) @ beta for each, rows in ((y, X), (y_test, X_test))]
            fitted, tested = errors[0].square().mean() / y.square().mean(), errors[1].square().mean()
            tested = tested / y_test.square().mean()
            best = min(best or (inf,), (chosen_error, tested * (fitted / tested) ** (share / 2)))
        nothing = (y_test - y.mean()).square().mean() / y_test.square().mean()
        best = min(best, ((y_choose - y.mean()).square().mean(), nothing))
        assert torch.allclose(capacity.curve[k], 1 - best[1], atol=1e-8)


@pytest.mark.parametrize(
    "cell",
    [Elman(1, 8, "tanh"), GRU(2, 8), LSTM(1, 4), torch.nn.LSTM(1, 4, num_layers=2)],
    ids=["tanh", "gru", "lstm", "two layers"],
)
def test_any_cell_can_be_measured(cell):
    capacity = ms.measure_memory_capacity(cell, strength=0.5, delays=30, steps=1000)
    assert 0.5 < capacity.total <= capacity.size
    assert capacity.curve.max() <= 1
    again = ms.measure_memory_capacity(cell, strength=0.5, delays=30, steps=1000)
    assert torch.equal(again.curve, capacity.curve)


def test_a_nonlinear_network_recovers_less():
    linear, tanh = (Elman(1, 12, phi, Dense.from_matrix(stable(12))) for phi in ("linear", "tanh"))
    tanh.load_state_dict(linear.state_dict())
    weak, strong = (ms.measure_memory_capacity(tanh, strength=s, delays=40, steps=2000) for s in (0.01, 3.0))
    assert strong.total < weak.total


def test_a_cell_that_ignores_its_input_recovers_nothing():
    cell = ms.adapt(lambda x, h: torch.sin(1e3 * h + 1 + 0 * x), state_size=4, input_size=1)
    capacity = ms.measure_memory_capacity(cell, delays=50, steps=1000)
    assert capacity.total < 0.05


def test_load_reads_what_save_wrote(tmp_path):
    for capacity in (
        ms.memory_capacity(stable(4), randn(4)),
        ms.memory_capacity(stable(4), randn(4), noise=0.1),
        ms.measure_memory_capacity(Elman(1, 4), delays=10, steps=200),
    ):
        capacity.save(tmp_path / "capacity.safetensors")
        again = ms.MemoryCapacity.load(tmp_path / "capacity.safetensors")
        assert torch.equal(again.curve, capacity.curve)
        assert (again.summary(), again.size, again.route) == (capacity.summary(), 4, capacity.route)
        assert (again.curve_error is None) == (capacity.curve_error is None)
        assert len(capacity.figure().axes) == 2
    assert "recovered at no lag" in ms.memory_capacity(stable(4), randn(4), noise=1e3).summary()


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (UnstableError, "spectral radius is 1", lambda: ms.memory_capacity(torch.eye(3), torch.ones(3))),
        (UnstableError, "spectral radius is 1", lambda: ms.memory_capacity(torch.eye(3), torch.ones(3), noise=1.0)),
        (ValueError, "network of tanh units is not known", lambda: ms.memory_capacity(Elman(1, 3))),
        (ValueError, "GRU is not known in closed form: measure", lambda: ms.memory_capacity(torch.nn.GRU(1, 3))),
        (ValueError, "A matrix has no input", lambda: ms.memory_capacity(stable(3))),
        (ValueError, "positive variance", lambda: ms.memory_capacity(stable(3), torch.ones(3), signal=0.0)),
        (ValueError, "must be positive", lambda: ms.memory_capacity(stable(3), torch.ones(3), noise=-1.0)),
        (
            ValueError,
            "its own direction",
            lambda: ms.memory_capacity(ms.MatrixSystem(stable(2), stable(2), randn(2, 2)), noise=2.0),
        ),
        (ValueError, "strength must be positive", lambda: ms.measure_memory_capacity(GRU(1, 3), strength=0.0)),
        (ValueError, "At least 40 steps of all sequences", lambda: ms.measure_memory_capacity(GRU(1, 3), steps=10)),
        (ValueError, "2 input features, numbered", lambda: ms.measure_memory_capacity(GRU(2, 3), 2)),
        (ValueError, "one for each of the 2", lambda: ms.measure_memory_capacity(GRU(2, 3), noise=-1.0)),
        (
            ValueError,
            "unstable under these",
            lambda: ms.measure_memory_capacity(Elman(1, 3, "linear", Dense.from_matrix(1e3 * stable(3)))),
        ),
    ],
)
def test_wrong_arguments_raise(error, message, call):
    with pytest.raises(error, match=message):
        call()


def test_a_stable_network_may_be_silent_at_first():
    late = ms.adapt(
        lambda x, clock: clock + 1, state_size=1, output=lambda clock: 1e-3 * torch.relu(clock - 250), input_size=1
    )
    found = ms.measure_memory_capacity(late, delays=2, steps=400, washout=0)
    assert found.total < 0.2


def test_the_published_bound_fails_close_to_the_edge():
    """Renanse, Eq 33 for U, V = sqrt(g) times rotations of 2 x 2: the bound is N^2 (1 - g)^2 (1 + N^2) / (1 - g^2),
    while such a network holds exactly one signal.
    """
    settings = {"strengths": (0.1, 1.0), "steps": 20, "batch": 2, "measured": 100, "delays": 5}
    trial = next(trial for trial in STUDY.trials(settings, (0,)) if trial.settings["network"] == EDGE)
    result = STUDY.run(trial, Path(), progress=False)
    g, N = 0.98, 2
    assert result["published_bound"] == pytest.approx(N**2 * (1 - g) ** 2 * (1 + N**2) / (1 - g**2), rel=1e-9)
    assert result["linear_total"] == pytest.approx(1, rel=1e-9)
    assert result["published_total"] < result["published_bound"] < result["linear_total"]


def test_too_few_steps_are_an_error_that_says_how_many_are_needed():
    cell = linear_cell(stable(3), randn(3, 1))
    for steps, sequences in ((39, 1), (3, 13)):
        with pytest.raises(ValueError, match=f"40 steps of all sequences together .* {steps} steps of {sequences} seq"):
            ms.measure_memory_capacity(cell, delays=2, washout=10, steps=steps, sequences=sequences, ridge=None)


def test_two_sequences_in_different_attractors_are_an_error():
    """The second unit stays near 1 or -1 by the first signal, and varies by 1e-7 there."""
    cell = torch.nn.RNN(1, 2, bias=False)
    cell.weight_ih_l0.data.fill_(1.0)
    cell.weight_hh_l0.data = torch.tensor([[0.5, 0.0], [0.0, 8.0]])
    totals, errors = [], []
    for seed in range(6):
        try:
            totals.append(float(ms.measure_memory_capacity(cell, delays=5, steps=400, washout=20, seed=seed).total))
        except ValueError as error:
            errors.append(str(error))
    assert all("visits other states in the second of two sequences" in error for error in errors)
    assert len(errors) in range(1, 6)  # the first signals have the same sign in about half of the pairs
    assert all(0.5 < total < 2.1 for total in totals)
    capacity = ms.measure_memory_capacity(cell, delays=5, steps=20, washout=20, sequences=20, ridge=None)
    assert 0.5 < capacity.total < 2.1  # many sequences visit both attractors
