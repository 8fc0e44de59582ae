"""The matrix-free route: compared with slow formulas and the dense route; errors that it raises."""

from itertools import islice

import pytest
import torch

import mnemoscope as ms
from mnemoscope.lenses.fisher import matrix_free
from mnemoscope.lenses.fisher.operators import Dense, Kronecker, powers
from mnemoscope.lenses.fisher.products import stationary_products, stein_residual
from mnemoscope.lenses.fisher.stein import UnstableError
from tests.slow import SLOW, representatives

LAGS = 30


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def stable(size, radius=0.9, seed=0):
    A = randn(size, size, seed=seed)
    return radius * A / torch.linalg.eigvals(A).abs().max()


def covariance(size, seed):
    L = randn(size, size, seed=seed)
    Q = L @ L.mT / size + 0.1 * torch.eye(size)
    return (Q + Q.mT) / 2


def network(rows, columns, radius=0.9, coloured=False):
    noise = (covariance(rows, 3), covariance(columns, 4)) if coloured else (0.5, 2.0)
    return ms.MatrixSystem(stable(rows, radius), stable(columns, radius, 1), randn(rows, columns, seed=2), *noise)


def orthogonal(size, seed):
    return torch.linalg.qr(randn(size, size, seed=seed))[0]


def slow(system, lags=LAGS, steps=3000):
    """Return J and the total by C as a sum of Kronecker products, its inverse and powers."""
    C, signals = 0, []
    P, Q, Y = *system.covariances, system.W
    for _ in range(steps):
        C = C + torch.kron(P, Q)
        signals.append(Y.flatten())
        P, Q, Y = system.U.mT @ P @ system.U, system.V.mT @ Q @ system.V, system.U.mT @ Y @ system.V
    signals = torch.stack(signals)
    J = signals @ torch.linalg.solve(C, signals.mT)
    return J[:lags, :lags], J.trace()


def relative_error(found, expected):
    """Return the largest error of J_kl relative to the information about the two signals."""
    scale = expected.diagonal().sqrt()
    return float(((found - expected).abs() / torch.outer(scale, scale)).max())


@representatives("1-1-False", "6-6-True")
@pytest.mark.parametrize("coloured", [False, True])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 3), (4, 5), (6, 6)])
def test_memory_is_that_of_the_slow_formulas(rows, columns, coloured):
    system = network(rows, columns, coloured=coloured)
    memory = ms.fisher_memory(system, lags=LAGS, route="matrix-free")
    J, total = slow(system)
    assert relative_error(memory.matrix, J) < 1e-10
    assert abs(memory.total / total - 1) < 1e-10
    assert memory.error < 1e-10


@representatives("12-12-0.999", "12-7-0.95", "7-20-0.99")
@pytest.mark.parametrize(("rows", "columns", "radius"), [(12, 7, 0.95), (12, 12, 0.999), (7, 20, 0.99), (32, 32, 0.95)])
def test_memory_is_that_of_the_dense_route(rows, columns, radius):
    system = network(rows, columns, radius, coloured=rows == 7)
    free = ms.fisher_memory(system, lags=LAGS, route="matrix-free")
    dense = ms.fisher_memory(system, lags=LAGS, route="dense")
    assert free.route.startswith("matrix-free")
    assert dense.factor is not None
    assert relative_error(free.matrix, dense.matrix) < 1e-10
    assert torch.allclose(free.curve, dense.curve, rtol=1e-10)
    assert abs(free.total / dense.total - 1) < 1e-10
    assert torch.equal(free.amplification, dense.amplification)


@representatives("5", "77")
@pytest.mark.parametrize("horizon", [1, 5, 30, 31, 77])
def test_a_finite_horizon_is_the_sum_over_its_steps(horizon):
    """For a stable network, and for one where noise accumulates."""
    rotation = ms.MatrixSystem(orthogonal(5, 0), orthogonal(4, 1), randn(5, 4, seed=2))
    for system in (network(5, 4, coloured=True), rotation):
        free = ms.fisher_memory(system, lags=LAGS, horizon=horizon, route="matrix-free")
        J, total = slow(system, min(LAGS, horizon), horizon)
        assert relative_error(free.matrix[:horizon, :horizon], J) < 1e-10
        assert not free.curve[horizon:].any()
        assert abs(free.total / total - 1) < 1e-10


def test_the_compressed_sum_is_the_sum():
    A = Kronecker(stable(5, 0.97), stable(6, 0.97, 1))
    C, power = torch.zeros(30, 30, dtype=torch.float64), torch.eye(30, dtype=torch.float64)
    for _ in range(1500):
        C, power = C + power @ power.mT, A.dense() @ power
    products = stationary_products(A)
    X = randn(30, 4, seed=3)
    out = products(X.view(5, 6, 4).mT.contiguous()).mT.reshape(30, 4)
    assert torch.allclose(out, C @ X, rtol=1e-12, atol=1e-12)
    assert torch.allclose(products.diagonal().flatten(), C.diagonal(), rtol=1e-12)
    assert len(products.P) <= 5 * 6 // 2 + 1  # the dimension of symmetric 5 x 5 matrices
    half = torch.linalg.inv(torch.linalg.cholesky(C))
    error = half @ (sum(map(torch.kron, products.P, products.Q)) - C) @ half.mT
    residual = stein_residual(products, A, None)
    assert torch.linalg.matrix_norm(error, 2) < residual + 1e-14  # the reference is rounded too
    assert residual < 1e-11


def test_a_normal_network_takes_one_conjugate_gradient_step():
    system = ms.MatrixSystem(0.9 * orthogonal(60, 0), 0.95 * orthogonal(60, 1), randn(60, 60, seed=2), 0.5, 2.0)
    free, normal = (ms.fisher_memory(system, lags=LAGS, route=route) for route in ("matrix-free", "auto"))
    assert "normal" in normal.route
    assert relative_error(free.matrix, normal.matrix) < 1e-10
    assert abs(free.relative - 1) < 1e-10
    assert ", 1 step" in free.route


def test_signals_that_vanish_have_no_information():
    """Two delay lines: after three steps nothing is left."""
    U, V = torch.diag(torch.ones(2), -1), torch.diag(torch.full((3,), 1.5), 1)
    system = ms.MatrixSystem(U, V, randn(3, 4))
    free, dense = (ms.fisher_memory(system, lags=6, route=route) for route in ("matrix-free", "dense"))
    assert torch.allclose(free.matrix, dense.matrix, atol=1e-12)
    assert torch.allclose(free.total, dense.total, rtol=1e-12)
    assert free.curve[3:].max() < 1e-30


@SLOW
def test_a_large_network_takes_the_matrix_free_route_by_default():
    system = network(51, 50)
    memory = ms.fisher_memory(system, lags=10)
    assert memory.route.startswith("matrix-free")
    assert memory.error < 1e-10
    assert (memory.curve.diff() <= 0).all()
    assert (memory.curve <= memory.amplification_bound).all()
    assert (memory.curve >= ms.fisher_memory(system, lags=10, method="published").curve).all()
    assert memory.curve.sum() < memory.total < memory.bound


def test_the_error_is_an_upper_bound(monkeypatch):
    """It holds if the iteration stops early, and it is as small as the square of the residual."""
    system = network(12, 12, 0.95)
    dense = ms.fisher_memory(system, lags=LAGS, route="dense")
    for digits in (1e-2, 1e-4, 1e-6, 1e-8):
        monkeypatch.setattr(matrix_free, "DIGITS", digits)
        monkeypatch.setattr(matrix_free, "TOLERANCE", 1.0)
        free = ms.fisher_memory(system, lags=LAGS, route="matrix-free")
        assert relative_error(free.matrix, dense.matrix) <= free.error <= digits * 1.01
        assert abs(free.total / dense.total - 1) <= 2 * free.error


def test_load_reads_what_save_wrote(tmp_path):
    memory = ms.fisher_memory(network(4, 5), lags=LAGS, route="matrix-free")
    memory.save(tmp_path / "memory.safetensors")
    again = ms.FisherMemory.load(tmp_path / "memory.safetensors")
    assert torch.equal(again.traces, memory.traces)
    torch.testing.assert_close(again.matrix, memory.matrix, rtol=1e-12, atol=1e-12)  # other strides round differently
    assert (again.summary(), again.error, again.route) == (memory.summary(), memory.error, memory.route)
    assert len(again.figure().axes) == 4  # three panels and a colour bar


@pytest.mark.parametrize("A", [Dense(stable(6)), Kronecker(stable(2), stable(3, seed=1))])
def test_powers_in_blocks_are_the_powers(A):
    x = w = randn(6, seed=1)
    for found in islice(powers(A, w), 150):
        assert torch.allclose(found, x, rtol=1e-12, atol=1e-14 * float(x.norm()))
        x = A.dense() @ x


def matrix_free_memory(**options):
    return lambda: ms.fisher_memory(network(3, 4), **{"route": "matrix-free", **options})


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (ValueError, "for a MatrixSystem", lambda: ms.fisher_memory(stable(3), torch.ones(3), route="matrix-free")),
        (
            ValueError,
            "no queue",
            lambda: ms.fisher_memory(
                ms.MatrixSystem(stable(3), stable(3), randn(3, 3), alpha=(0.1,)), route="matrix-free"
            ),
        ),
        (
            ValueError,
            "no gradients",
            lambda: ms.fisher_memory(
                ms.MatrixSystem(stable(3).requires_grad_(), stable(3), randn(3, 3)), route="matrix-free"
            ),
        ),
        (UnstableError, "spectral radius is 1.21", lambda: ms.fisher_memory(network(3, 3, 1.1), route="matrix-free")),
        (ValueError, "not known by this route", lambda: matrix_free_memory()().spatial),
        (ValueError, "not formed by this route", lambda: matrix_free_memory()().saturation_bound(1.0)),
    ],
)
def test_wrong_arguments_raise(error, message, call):
    with pytest.raises(error, match=message):
        call()


def test_too_much_work_raises(monkeypatch):
    monkeypatch.setattr(matrix_free, "MOST_DIRECTIONS", 3)
    with pytest.raises(ValueError, match="fade so slowly"):
        matrix_free_memory(lags=1)()
    monkeypatch.setattr(matrix_free, "MOST_STEPS", 2)
    with pytest.raises(ValueError, match="do not converge within 2 steps"):
        matrix_free_memory()()


def test_excessive_amplification_raises():
    line = torch.diag(torch.full((19,), 30.0, dtype=torch.float64), -1)
    with pytest.raises(ValueError, match="amplified"):
        ms.fisher_memory(ms.MatrixSystem(line, line, randn(20, 20)), route="matrix-free")
