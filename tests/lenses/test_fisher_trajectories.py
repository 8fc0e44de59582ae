"""Fisher memory along inputs, compared with slow loops, experiments and the memory of linear systems."""

from pathlib import Path

import pytest
import torch

import mnemoscope as ms
from mnemoscope.cells import GRU, LSTM, Elman
from mnemoscope.connectivity import Dense
from mnemoscope.networks.recurrent import urnn
from mnemoscope.studies.renanse2021.nonlinear_capacity import Preactivations
from tests.slow import representatives

F64 = torch.float64


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def linear_cell(V, U):
    cell = Elman(U.shape[1], len(V), "linear", Dense.from_matrix(V), bias=False).double()
    with torch.no_grad():
        cell.drive.weight.copy_(U)
    return cell


def stable(size, radius=0.9, seed=0):
    A = randn(size, size, seed=seed)
    return radius * A / torch.linalg.eigvals(A).abs().max()


def slow(cell, xs, d, Q, state=None):
    """Return the matrix of each trajectory from autograd's Jacobians, the covariance and its inverse, step by step."""
    dynamics = ms.Dynamics(cell)
    layout, cell = dynamics.layout, dynamics.cell
    start = cell.initial_state(xs.shape[1]) if state is None else state
    h = layout.flatten(start).double()
    curves = []

    def step(x, at):
        return layout.flatten(cell(x, layout.unflatten(at)))

    for member in range(xs.shape[1]):
        at, C, signals = h[member : member + 1], torch.zeros_like(Q), []
        for x in xs[:, member : member + 1].double():
            by_input, by_state = torch.autograd.functional.jacobian(step, (x, at))
            A, b = by_state[0, :, 0], by_input[0, :, 0] @ d
            C = A @ C @ A.mT + Q
            signals = [*(A @ signal for signal in signals), b]
            at = step(x, at).detach()
        Y = torch.stack(signals[::-1])
        curves.append(Y @ torch.linalg.inv(C) @ Y.mT)
    return torch.stack(curves)


CELLS = {
    "tanh": lambda: Elman(2, 5, "tanh"),
    "relu": lambda: Elman(2, 5, "relu"),
    "gru": lambda: GRU(2, 5),
    "lstm": lambda: LSTM(2, 3),
    "projected lstm": lambda: LSTM(2, 4, projection_size=2),
    "unitary": lambda: urnn(2, 4),
    "torch gru of two layers": lambda: torch.nn.GRU(2, 3, num_layers=2),
    "torch lstm": lambda: torch.nn.LSTM(2, 3),
    "function": lambda: ms.adapt(
        lambda x, h: torch.tanh(1.2 * h.roll(1, -1)) + x.sum(-1, keepdim=True) * h.cos(), state_size=4, input_size=2
    ),
}


@representatives("tanh", "function")
@pytest.mark.parametrize("name", CELLS)
def test_every_cell_has_the_memory_of_the_slow_loop(name):
    cell, xs, d = CELLS[name](), randn(12, 3, 2), randn(2, seed=1)
    size = ms.Dynamics(cell).size
    memory = ms.fisher_memory(cell, d, along=xs)
    expected = slow(cell, xs, d, torch.eye(size, dtype=F64))
    assert torch.allclose(memory.matrix, expected, rtol=1e-9, atol=1e-12 * float(expected.max()))
    assert torch.allclose(memory.total, memory.curve.sum(1))
    assert (memory.total <= memory.bound).all()
    assert (memory.curve <= memory.input_information * (1 + 1e-12)).all()


def test_any_noise_state_and_number_of_lags():
    cell, xs, L = GRU(2, 5), randn(15, 4, 2), randn(5, 5, seed=2)
    state = torch.tanh(randn(4, 5, seed=3))
    memory = ms.fisher_memory(cell, 1, along=xs, state=state, noise=L @ L.mT, lags=6)
    expected = slow(cell, xs, torch.tensor([0.0, 1.0], dtype=F64), L @ L.mT, state)
    assert torch.allclose(memory.matrix, expected[:, :6, :6], rtol=1e-8, atol=1e-10)
    assert torch.allclose(memory.total, expected.diagonal(dim1=1, dim2=2).sum(1))  # of all steps
    half = ms.fisher_memory(cell, 1, along=xs, state=state, noise=0.5)
    assert torch.allclose(half.curve, 2 * ms.fisher_memory(cell, 1, along=xs, state=state).curve)


@pytest.mark.parametrize("steps", [1, 2, 25])
def test_a_linear_network_has_the_memory_of_as_many_steps(steps):
    V, U = stable(7, 1.05), randn(7, 3, seed=1)
    along = ms.fisher_memory(linear_cell(V, U), 2, along=randn(steps, 2, 3))
    memory = ms.fisher_memory(V, U[:, 2], lags=steps, horizon=steps)
    for member in range(2):
        assert torch.allclose(along.matrix[member], memory.matrix, rtol=1e-9, atol=1e-12)
        assert torch.allclose(along.total[member], memory.total, rtol=1e-9)


@representatives("1.05-0.005-0.2-7.65432767559342-1e-13")
@pytest.mark.parametrize(
    ("alpha", "beta", "d", "total", "digits"),
    [(1.05, 0.005, 0.2, 7.65432767559342, 1e-13), (3.0, 0.0, 0.5, 27.6243868802599, 1e-12)],
)
def test_totals_stay_exact_where_noise_is_amplified(alpha, beta, d, total, digits):
    """Amplified up to 3e3 and 1e22 times; the totals were computed with 120 digits, C by doubling, and its inverse."""
    V = torch.full((30, 30), beta, dtype=F64).tril(-2) + torch.diag(torch.full((29,), alpha, dtype=F64), -1)
    V = V + d * torch.eye(30, dtype=F64)
    along = ms.fisher_memory(linear_cell(V, torch.eye(30, dtype=F64)[:, :1]), along=torch.zeros(400, 1, 1))
    assert abs(along.total.item() / total - 1) < digits
    assert along.error < 1e-8


def test_memory_lies_within_the_error_bars_of_the_linearised_experiment():
    """Send noise through the Jacobians of a trajectory; compare its covariance and the information in it."""
    cell, xs, runs = GRU(1, 4).double(), randn(10, 1, 1), 40_000
    memory = ms.fisher_memory(cell, along=xs)
    dynamics, h = ms.Dynamics(cell), torch.zeros(1, 4, dtype=F64)
    e = torch.zeros(runs, 4, dtype=F64)
    noise = randn(10, runs, 4, seed=5)
    for x, z in zip(xs, noise, strict=True):
        e = e @ dynamics.jacobian(h, x)[0].mT + z
        h = dynamics.driven(x, h)
    C, S = e.mT @ e / runs, memory.factor[0]
    assert (C - S @ S.mT).abs().max() < 5 * (2 / runs) ** 0.5 * (S @ S.mT).diagonal().max()
    signals = S @ memory.traces[0].mT
    J = (signals * torch.linalg.solve(C, signals)).sum(0)
    assert (J / memory.curve[0] - 1).abs().max() < 5 * (2 / runs) ** 0.5


@pytest.mark.parametrize("cell", [GRU(1, 4), Elman(1, 4, "tanh")], ids=["gru", "tanh"])
def test_memory_lies_within_the_error_bars_of_the_nonlinear_network(cell):
    """Add little noise to the network, shift one signal at a time, and compare the linear estimate's error."""
    cell, xs, runs, noise = cell.double(), randn(8, 1, 1), 40_000, 1e-6
    memory = ms.fisher_memory(cell, along=xs, noise=noise)
    zs = noise**0.5 * randn(8, runs, 4, seed=6)

    def last_state(xs, zs):
        h = torch.zeros(zs.shape[1], 4, dtype=F64)
        for x, z in zip(xs, zs, strict=True):
            h = cell(x.expand(len(h), 1), h) + z
        return h

    with torch.no_grad():
        ends = last_state(xs, zs)
        C = (ends - ends.mean(0)).mT @ (ends - ends.mean(0)) / runs
        shift, none = 1e-5, torch.zeros(8, 1, 4, dtype=F64)
        shifts = torch.eye(8, dtype=F64)[:, :, None, None] * shift
        signals = torch.cat(
            [(last_state(xs + at, none) - last_state(xs - at, none)) / (2 * shift) for at in shifts.flip(0)]
        ).mT
    J = (signals * torch.linalg.solve(C, signals)).sum(0)
    assert (J / memory.curve[0] - 1).abs().max() < 5 * (2 / runs) ** 0.5


def test_saturated_units_receive_and_hold_almost_nothing():
    cell = Elman(1, 6, "tanh").double()
    free, saturated = (ms.fisher_memory(cell, along=level * torch.ones(30, 1, 1)) for level in (0.0, 100.0))
    assert saturated.input_information.max() < 1e-3 * free.input_information.max()
    assert saturated.total < 1e-3 * free.total


@pytest.mark.parametrize("phi", ["linear", "tanh", "relu"])
def test_over_all_directions_a_state_holds_as_many_signals_as_numbers(phi):
    """`sum_k tr(C^-1 Phi_k Phi_k^T) = N`: noise and signals enter alike, whatever the nonlinearity."""
    received = Preactivations(1.5 * randn(5, 5) / 5**0.5, randn(5, seed=1), phi)
    xs = randn(20, 3, 6, seed=2)
    totals = [ms.fisher_memory(received, feature, along=xs).total for feature in range(1, 6)]
    assert torch.allclose(sum(totals), torch.full((3,), 5.0, dtype=F64), rtol=1e-10)


def test_the_network_is_not_changed():
    gru = torch.nn.GRU(2, 3)
    before = [weight.clone() for weight in gru.parameters()]
    ms.fisher_memory(gru, 0, along=torch.randn(5, 1, 2))
    assert all(torch.equal(old, new) for old, new in zip(before, gru.parameters(), strict=True))
    assert all(weight.requires_grad and weight.dtype == torch.float32 for weight in gru.parameters())


def test_jacobians_in_blocks_give_the_same_memory(monkeypatch):
    cell, xs = GRU(2, 5), randn(15, 4, 2)
    whole = ms.fisher_memory(cell, 0, along=xs)
    monkeypatch.setattr("mnemoscope.lenses.fisher.trajectory.WORKSPACE", 300)
    assert torch.allclose(ms.fisher_memory(cell, 0, along=xs).traces, whole.traces, rtol=1e-12, atol=1e-14)


def test_load_reads_what_save_wrote(tmp_path):
    memory = ms.fisher_memory(GRU(2, 5), 0, along=randn(15, 4, 2))
    memory.save(tmp_path / "memory.safetensors")
    again = ms.FisherMemory.load(tmp_path / "memory.safetensors")
    assert torch.equal(again.traces, memory.traces)
    assert again.summary() == memory.summary()
    assert (again.steps, again.error, again.size, again.lags, again.batch) == (15, 0.0, 5, 15, 4)


def test_an_old_trajectory_memory_loads():
    """Files of the kind TrajectoryMemory, which is now a `FisherMemory` along inputs."""
    memory = ms.FisherMemory.load(Path(__file__).parent / "saved" / "TrajectoryMemory.safetensors")
    batch, lags = memory.curve.shape
    assert (memory.batch, memory.lags) == (batch, lags)
    assert memory.input_information.shape == (batch, lags)
    assert torch.allclose(memory.total, memory.curve.sum(1))
    assert (memory.total <= memory.bound).all()


def test_the_summary_names_trajectories_and_steps():
    text = ms.fisher_memory(GRU(2, 5), 0, along=randn(15, 4, 2)).summary()
    assert "After 4 trajectories of 15 steps, a state of 5 numbers holds" in text
    assert ", 95% over 4 trajectories) about past signals" in text
    assert text.count(" to ") == 3 + text.count("up to")  # an interval of the total, the newest signal and the lag
    assert "After a trajectory of 1 step," in ms.fisher_memory(GRU(2, 5), 0, along=randn(1, 1, 2)).summary()


@pytest.mark.parametrize("batch", [1, 4])
def test_the_figure_has_three_panels_and_a_colour_bar(batch):
    assert len(ms.fisher_memory(GRU(2, 5), 0, along=randn(15, batch, 2)).figure().axes) == 4


def test_quantities_of_a_stationary_state_raise():
    memory = ms.fisher_memory(GRU(2, 5), 0, along=randn(15, 4, 2))
    with pytest.raises(ValueError, match="not known by this route"):
        memory.spatial  # noqa: B018
    with pytest.raises(ValueError, match="stationary covariance is not formed"):
        memory.saturation_bound(1.0)
    with pytest.raises(ValueError, match="signals enter with different information"):
        memory.relative  # noqa: B018
    assert memory.amplification_bound.isnan().all()


def memory_along(network, inputs, direction=None, **options):
    return lambda: ms.fisher_memory(network, direction, along=inputs, **options)


AMPLIFYING = torch.diag(10 * torch.ones(29, dtype=F64), -1) + 0.9 * torch.eye(30, dtype=F64)
SINGULAR = torch.diag(torch.tensor([1.0, 1.0, 0.0]))


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (ValueError, "2 input features: pass direction", memory_along(GRU(2, 3), randn(5, 1, 2))),
        (ValueError, "numbered from 0, but direction is 2", memory_along(GRU(2, 3), randn(5, 1, 2), 2)),
        (ValueError, "direction must be 2 finite", memory_along(GRU(2, 3), randn(5, 1, 2), torch.zeros(2))),
        (ValueError, "lags must be 1 to 5, but is 6", memory_along(GRU(1, 3), randn(5, 1, 1), lags=6)),
        (ValueError, r"inputs \(time, batch, features\)", memory_along(GRU(1, 3), randn(0, 1, 1))),
        (ValueError, "takes 2 input features", memory_along(GRU(2, 3), randn(5, 1, 1))),
        (ValueError, "positive definite: along a", memory_along(GRU(1, 3), randn(5, 1, 1), noise=SINGULAR)),
        (ValueError, "symmetric covariance", memory_along(GRU(1, 3), randn(5, 1, 1), noise=randn(2, 2))),
        (ValueError, "NaN or infinite states", memory_along(GRU(1, 3), torch.full((5, 1, 1), torch.nan))),
        (ValueError, "omit horizon and route", memory_along(GRU(1, 3), randn(5, 1, 1), horizon=5, route="dense")),
        (TypeError, "a system is a network, not a Tensor", memory_along(torch.eye(3), randn(5, 1, 1))),
        (
            ValueError,
            "amplified so much",
            memory_along(linear_cell(AMPLIFYING, torch.eye(30, dtype=F64)[:, :1]), torch.zeros(200, 1, 1)),
        ),
        (
            OverflowError,
            "beyond the range of float64",
            memory_along(linear_cell(1e30 * stable(6), randn(6, 1)), torch.zeros(30, 1, 1)),
        ),
    ],
)
def test_wrong_arguments_raise(error, message, call):
    with pytest.raises(error, match=message):
        call()
