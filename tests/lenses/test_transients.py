"""The transient lens: ensembles compared with a loop over single states and with Kerg's thesis."""

import numpy as np
import pytest
import torch

import mnemoscope as ms
from mnemoscope.cells import Elman
from mnemoscope.connectivity import Dense


def theta(size, alpha, beta, d=0.0):
    """Return the matrix of Kerg's thesis, Eq 3.4.2: d on the diagonal, alpha just below it, beta in the rest below."""
    ones = torch.ones(size, size, dtype=torch.float64)
    return (
        d * torch.eye(size).double()
        + alpha * (torch.tril(ones, -1) - torch.tril(ones, -2))
        + beta * torch.tril(ones, -2)
    )


def test_norms_and_spreads_are_those_of_single_states():
    A = torch.randn(5, 5).double()
    starts = torch.randn(4, 5).double()
    result = ms.transients(A, 6, starts)
    for number, start in enumerate(starts.numpy()):
        for time in range(7):
            state = np.linalg.matrix_power(A.numpy(), time) @ start
            assert float(result.norms[time, number]) == pytest.approx(np.linalg.norm(state), rel=1e-12)
            assert float(result.spreads[time, number]) == pytest.approx(state.std(), rel=1e-12)
    assert result.norm[0][2] == pytest.approx(result.norms[2].mean())
    assert result.spread[1][3] == pytest.approx(result.spreads[3].numpy().std())


def test_starts_are_uniform_on_the_sphere():
    result = ms.transients(torch.eye(3), 1, number=4000, radius=0.5)
    torch.testing.assert_close(result.norms[0], torch.full((4000,), 0.5).double())
    # every coordinate of a uniform direction has the mean square radius^2 / N
    mean_square = float((ms.transients(torch.diag(torch.tensor([1.0, 0, 0])), 1, number=4000).norms[1] ** 2).mean())
    assert mean_square == pytest.approx(1 / 3, abs=0.02)  # standard error 0.005


def test_curves_are_those_of_figure_1b_of_the_thesis():
    curves = {
        (alpha, beta): ms.transients(theta(100, alpha, beta), 120) for alpha in (0.95, 1.0, 1.05) for beta in (0, 0.005)
    }
    for result in curves.values():
        assert not result.norms[100:].any()  # nilpotent: the transient ends at t = N
        assert result.norms[99].any()
    for low, high in ((0.95, 1.0), (1.0, 1.05)):
        for beta in (0, 0.005):
            assert curves[high, beta].peak >= curves[low, beta].peak  # stronger with alpha
    for alpha in (0.95, 1.0, 1.05):
        assert curves[alpha, 0.005].norm[0][60] > curves[alpha, 0].norm[0][60]  # and with beta
    # a delay line multiplies by alpha and loses one of N equal shares of the square at each step
    mean_square = (curves[1.05, 0].norms ** 2).mean(1)[:80]
    time = torch.arange(80).double()
    expected = 1.05 ** (2 * time) * (1 - time / 100)
    torch.testing.assert_close(mean_square, expected, rtol=0.05, atol=0)  # standard error at most 1 %


def test_growth_of_a_unit_triangle_is_polynomial():
    """Kerg's thesis, Prop 3.4.2: the mean norm of an ensemble grows like t^(N-1)."""
    for size in (2, 3, 4):
        A = torch.eye(size).double() + 0.5 * torch.triu(torch.ones(size, size), 1)
        mean = ms.transients(A, 4000, number=50).norm[0]
        exponent = float((mean[4000] / mean[2000]).log2())
        assert exponent == pytest.approx(size - 1, abs=0.02)


def test_an_orthogonal_matrix_keeps_every_norm():
    result = ms.transients(Dense(8, "orthogonal"), 50)
    torch.testing.assert_close(result.norms, torch.ones_like(result.norms), rtol=0, atol=1e-5)  # float32 weights
    assert result.peak == pytest.approx(1, abs=1e-5)


def test_a_unitary_matrix_keeps_every_norm():
    A = torch.linalg.qr(torch.randn(6, 6, dtype=torch.complex128)).Q
    result = ms.transients(A, 5)
    torch.testing.assert_close(result.norms, torch.ones_like(result.norms))
    assert result.spreads.dtype == torch.float64


@pytest.mark.parametrize(
    "network", [Elman(2, 5), torch.nn.GRU(2, 5), torch.nn.LSTM(2, 5)], ids=lambda network: type(network).__name__
)
def test_a_network_takes_its_nonlinear_step(network):
    dynamics = ms.Dynamics(network, torch.tensor([0.3, -0.2]))
    starts = torch.randn(3, dynamics.size).double()
    result = ms.transients(dynamics, 4, starts)
    states = starts
    for time in range(5):
        torch.testing.assert_close(result.norms[time], states.norm(dim=1))
        states = dynamics(states)
    assert ms.transients(network, 2).norms.shape == (3, 1000)


def test_around_a_fixed_point_small_differences_follow_the_jacobian():
    dynamics = ms.Dynamics(torch.nn.RNN(2, 6))
    fp = ms.find_fixed_points(dynamics)
    step = ms.transients(dynamics, 8, centre=fp.states[0], radius=1e-6, seed=3)
    linear = ms.transients(fp[0], 8, seed=3)
    torch.testing.assert_close(step.norms / 1e-6, linear.norms, rtol=1e-4, atol=1e-5)  # second order is 1e-6


def test_starts_from_inputs_lie_in_the_span_of_the_input_weights():
    cell = Elman(2, 7, "linear", bias=False)
    result = ms.transients(cell, 3, "inputs", number=20)
    U, V = cell.drive.weight.detach().double(), cell.connectivity().detach().double()
    assert torch.linalg.matrix_rank(U) == 2
    torch.testing.assert_close(result.norms[0], torch.ones(20).double())
    reach = torch.linalg.svdvals(V @ torch.linalg.qr(U).Q)  # a unit vector in the span of U
    assert result.norms[1].max() <= reach[0] * (1 + 1e-6)
    assert result.norms[1].min() >= reach[1] * (1 - 1e-6)


def test_the_same_seed_gives_the_same_ensemble(tmp_path):
    A = torch.randn(5, 5)
    first, same, other = (ms.transients(A, 3, number=5, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first.norms, same.norms)
    assert not torch.equal(first.norms, other.norms)
    first.save(tmp_path / "first.safetensors")
    again = ms.Transients.load(tmp_path / "first.safetensors")
    assert torch.equal(again.spreads, first.spreads)
    assert again.times.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("A", [theta(30, 1.05, 0.0), theta(30, 1.4, 0.1), 3 * torch.eye(2)], ids=["line", "log", "exp"])
def test_the_figure_has_a_panel_for_the_spread_and_the_norm(A):
    figure = ms.transients(A, 40, number=20).figure()
    figure.canvas.draw()
    assert [axes.get_title() for axes in figure.axes] == ["Standard deviation across units", "Norm"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps must be a whole number"),
        ({"number": 0}, "number must be a whole number"),
        ({"radius": 0.0}, "radius must be positive"),
        ({"radius": float("nan")}, "radius must be positive"),
        ({"starts": "everywhere"}, "'everywhere'"),
        ({"starts": "inputs"}, "A matrix has no input"),
        ({"starts": torch.zeros(2, 4)}, r"\(starts, 3\)"),
        ({"starts": torch.full((2, 3), float("nan"))}, "must be finite"),
        ({"centre": torch.zeros(2)}, "3 finite numbers"),
    ],
)
def test_wrong_arguments_raise(options, message):
    with pytest.raises(ValueError, match=message):
        ms.transients(torch.eye(3), **options)


def test_the_summary_names_peak_and_end():
    line = ms.transients(theta(30, 1.05, 0.0), 40, number=20)
    assert f"Over 40 steps the mean norm of 20 trajectories rises to {line.peak:.4g} times" in line.summary()
    assert line.summary().endswith(f"at step {line.time}, and ends at 0 times.")
    assert "never exceeds its first value and ends at 0.25 times." in ms.transients(0.5 * torch.eye(2), 2).summary()
    assert "rises to 4 times its first value, at the last step." in ms.transients(2 * torch.eye(2), 2).summary()
    assert "beyond the range of floating point, at step 2." in ms.transients(1e100 * torch.eye(2).double(), 3).summary()


def test_a_flow_and_an_input_without_effect_raise():
    flow = ms.Dynamics(ms.adapt(lambda x, h: -h, state_size=2), continuous=True)
    with pytest.raises(ValueError, match="A flow takes no steps"):
        ms.transients(flow)
    with pytest.raises(ValueError, match="does not reach"):
        ms.transients(ms.adapt(lambda x, h: 0.5 * h, state_size=2), starts="inputs")


def test_numpy_arrays_are_accepted_and_complex_starts_of_a_real_system_raise():
    A = 0.5 * np.eye(2)
    assert ms.transients(A, 3, np.eye(2)).norms.shape == ms.transients(A, 3, torch.eye(2)).norms.shape
    with pytest.raises(ValueError, match="starts are complex"):
        ms.transients(A, 3, torch.eye(2) * 1j)
