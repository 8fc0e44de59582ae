"""Fisher memory of matrix cells, and its section on the page."""

import pytest
import torch

import mnemoscope as ms
from mnemoscope.cells.matrix import MatrixRNN, QueueMemory
from mnemoscope.connectivity import Dense
from mnemoscope.inspection.memory import memory_section
from mnemoscope.lenses.fisher.stein import UnstableError
from tests.lenses.fisher_reference import slow_curve


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def matrix_rnn(shape, phi="tanh", bias=True, inputs=(2, 2), radius=0.8):
    """Return a cell with U and V of one spectral radius, and random input weights."""
    factors = [randn(size, size) for size in shape]
    rows, columns = (Dense.from_matrix(radius * A / torch.linalg.eigvals(A).abs().max()) for A in factors)
    cell = MatrixRNN(inputs, shape, phi, rows, columns, bias).double()
    with torch.no_grad():
        for weight in cell.drive.parameters():
            weight.copy_(0.5 * randn(*weight.shape))
    return cell


@pytest.mark.parametrize("method", ["exact", "published"])
def test_a_linear_matrix_cell_is_its_matrix_system(method):
    torch.manual_seed(0)
    cell = matrix_rnn((4, 3), "linear")
    U, V = (factor.detach() for factor in cell.connectivity.factors())
    W = (cell.drive.maps[0].U.mT @ torch.tensor([[0.0, 1], [0, 0]]).double() @ cell.drive.maps[0].V).detach()
    expected = ms.fisher_memory(ms.MatrixSystem(U, V, W, eps1=0.3), method=method)
    dynamics = ms.Dynamics(cell, randn(4))
    for found in (
        ms.fisher_memory(cell, 1, noise=0.3, method=method),
        ms.fisher_memory(dynamics, 1, state=randn(12), noise=0.3, method=method),  # linear: the same everywhere
        ms.fisher_memory(cell, W, noise=0.3, method=method),
    ):
        torch.testing.assert_close(found.curve, expected.curve, rtol=1e-12, atol=0)
        torch.testing.assert_close(found.total, expected.total, rtol=1e-12, atol=0)
        torch.testing.assert_close(found.amplification, expected.amplification, rtol=1e-12, atol=0)
        assert (found.shape, found.method, found.route) == ((4, 3), method, expected.route)


def test_published_sums_need_more_than_a_stationary_state():
    """U / c and c V define the same network with the same exact memory, but the published sums differ or diverge."""
    torch.manual_seed(0)
    U, V, W = (torch.linalg.qr(randn(size, size))[0] for size in (4, 3, 4))
    split = [ms.MatrixSystem(0.84 * U / c, c * V, W[:, :3]) for c in (0.9, 0.95, 0.7)]
    exact = [ms.fisher_memory(system).curve for system in split]
    for other in exact[1:]:
        torch.testing.assert_close(other, exact[0], rtol=1e-12, atol=1e-14)
    first, second = (ms.fisher_memory(system, method="published").total for system in split[:2])
    assert abs(first / second - 1) > 0.01
    message = r'each must be below 1, but they are 1\.2 and 0\.7.*0\.84, is below 1: method="exact" takes it'
    with pytest.raises(ValueError, match=message) as raised:
        ms.fisher_memory(split[2], method="published")
    assert not isinstance(raised.value, UnstableError)
    cell = MatrixRNN(
        (2, 2), (4, 3), "tanh", Dense.from_matrix(1.2 * U), Dense.from_matrix(0.7 * V), bias=False
    ).double()
    dynamics = ms.Dynamics(cell)
    for system, state in ((cell, None), (dynamics, dynamics.origin[0])):
        assert ms.fisher_memory(system, 0, state=state).total > 0
        with pytest.raises(ValueError, match=message):
            ms.fisher_memory(system, 0, state=state, method="published")
    with pytest.raises(UnstableError, match=r"spectral radius is 1\.08"):  # the product, not one of the matrices
        ms.fisher_memory(ms.MatrixSystem(1.2 * U, 0.9 * V, W[:, :3]), method="published")
    with pytest.raises(ValueError, match="horizon=<steps> takes any"):
        ms.fisher_memory(ms.MatrixSystem(1.2 * U, 0.7 * V, W[:, :3], alpha=(1.0,)), method="published")


@pytest.mark.parametrize("observed", ["all", "newest"])
def test_a_linear_queue_cell_is_its_matrix_system(observed):
    torch.manual_seed(1)
    cell = QueueMemory(matrix_rnn((3, 2), "linear"), [0.2, -0.1])
    U, V = (factor.detach() for factor in cell.cell.connectivity.factors())
    W = randn(3, 2)
    expected = ms.fisher_memory(ms.MatrixSystem(U, V, W, alpha=cell.alpha), observed=observed, lags=20)
    found = ms.fisher_memory(cell, W, observed=observed, lags=20)
    torch.testing.assert_close(found.curve, expected.curve, rtol=1e-12, atol=0)
    assert found.shape == expected.shape


def test_a_matrix_cell_at_rest_is_its_linearisation():
    torch.manual_seed(2)
    cell = matrix_rnn((3, 2))
    x = randn(4)
    dynamics = ms.Dynamics(cell, x)
    (point,) = ms.find_fixed_points(dynamics).states
    U, V = (factor.detach() for factor in cell.connectivity.factors())
    slopes = (1 - point.square()).diag()  # tanh' at rest
    A = slopes @ torch.kron(U.T.contiguous(), V.T.contiguous())
    w = slopes @ torch.kron(cell.drive.maps[0].U.T.contiguous(), cell.drive.maps[0].V.T.contiguous())[:, 2]
    found = ms.fisher_memory(dynamics, 2, state=point, lags=12)
    torch.testing.assert_close(found.curve, slow_curve(A, w.detach(), torch.eye(6).double(), 12), rtol=1e-9, atol=0)
    assert found.shape == (3, 2)
    with pytest.raises(ValueError, match="no product of a column and a row"):
        ms.fisher_memory(dynamics, 2, state=point, method="published")
    with pytest.raises(ValueError, match="no product of a column and a row"):
        ms.fisher_memory(dynamics, 2, state=point, route="matrix-free")
    with pytest.raises(ValueError, match="given as a covariance"):
        ms.fisher_memory(cell, 2, noise=torch.eye(6).double(), method="published")
    with pytest.raises(ValueError, match="must have 6 numbers"):
        ms.fisher_memory(cell, 2, state=torch.zeros(5))


def test_a_queue_at_rest_has_noise_in_its_newest_matrix_alone():
    torch.manual_seed(3)
    cell = QueueMemory(matrix_rnn((3, 2)), [0.3, 0.1])
    dynamics = ms.Dynamics(cell, randn(4))
    (point,) = ms.find_fixed_points(dynamics).states
    A = dynamics.jacobian(point[None])[0]
    w = dynamics.input_jacobian(point[None])[:, 0]
    noise = torch.diag(torch.cat([torch.full((6,), 0.5), torch.zeros(12)])).double()
    found = ms.fisher_memory(dynamics, 0, state=point, noise=0.5, lags=10)
    torch.testing.assert_close(found.curve, slow_curve(A, w, noise, 10), rtol=1e-8, atol=0)
    assert found.shape == (3, 3, 2)
    newest = ms.fisher_memory(dynamics, 0, state=point, noise=0.5, lags=10, observed="newest")
    C, P = torch.zeros_like(A), noise
    for _ in range(4000):
        C, P = C + P, A @ P @ A.T
    signals = torch.stack([(torch.linalg.matrix_power(A, k) @ w)[:6] for k in range(10)], 1)
    torch.testing.assert_close(
        newest.curve, (signals * torch.linalg.solve(C[:6, :6], signals)).sum(0), rtol=1e-8, atol=0
    )
    with pytest.raises(ValueError, match="no product"):
        ms.fisher_memory(dynamics, 0, state=point, method="published")
    column = QueueMemory(matrix_rnn((3, 1), inputs=(2, 1)), 1.0)
    with pytest.raises(ValueError, match="not all equal"):
        ms.fisher_memory(column, 0, state=randn(6), method="published")


def test_slopes_that_are_a_product_are_absorbed_by_rows_and_columns():
    """The slopes of a state of one column always are; the memory is that of the flat state."""
    torch.manual_seed(4)
    cell = matrix_rnn((5, 1), inputs=(2, 1))
    dynamics = ms.Dynamics(cell, randn(2))
    state = 0.5 * randn(5)
    A, w = dynamics.jacobian(state[None])[0], dynamics.input_jacobian(state[None])[:, 1]
    found = ms.fisher_memory(dynamics, 1, state=state)
    torch.testing.assert_close(found.curve, ms.fisher_memory(A, w).curve, rtol=1e-9, atol=1e-15)
    assert "Kronecker" in found.route
    # the noise of a column: sigma is a geometric sum over V alone, so that the published curve is below
    published = ms.fisher_memory(dynamics, 1, state=state, method="published")
    assert (published.curve <= found.curve * (1 + 1e-12)).all()
    assert published.total < found.total


def test_the_page_shows_the_published_curve_where_there_is_one():
    pytest.importorskip("matplotlib")
    torch.manual_seed(5)
    for bias, sentence in (
        (False, "The dashed curve follows the formulas published"),
        (True, "do not apply here: the slopes"),
    ):
        dynamics = ms.Dynamics(matrix_rnn((3, 2), bias=bias))
        section = memory_section(dynamics, ms.find_fixed_points(dynamics))
        assert sentence in section.lead
        assert ("stroke-dasharray" in section.html) is (not bias)
    dynamics = ms.Dynamics(QueueMemory(matrix_rnn((3, 2), bias=False), [0.1]))
    assert "every unit of the newest matrix" in memory_section(dynamics, ms.find_fixed_points(dynamics)).lead
    section = memory_section(dynamics := ms.Dynamics(torch.nn.RNN(2, 3)), ms.find_fixed_points(dynamics))
    assert "ublished" not in section.lead
