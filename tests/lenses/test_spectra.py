"""The spectra lens, compared with slow references."""

from math import comb, e

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given, settings, strategies as st

import mnemoscope as ms
from mnemoscope.cells import Elman
from mnemoscope.connectivity import Dense
from mnemoscope.lenses import Spectrum, schur_form
from mnemoscope.lenses.spectra.powers import power_norms, spectral_norm
from mnemoscope.lenses.spectra.pseudospectra import Pseudospectrum
from mnemoscope.lenses.spectra.resolvent import SMALL, smallest_singular_values, smallest_triplet
from tests.slow import SLOW, representatives


def gaussian(size, gain=0.9, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return gain * torch.randn(size, size, dtype=dtype, generator=generator) / size**0.5


def orthogonal(size, seed=0):
    return torch.linalg.qr(gaussian(size, seed=seed)).Q


def delay_line(size, entry, diagonal=0.0):
    return torch.diag(torch.full((size - 1,), entry).double(), -1) + diagonal * torch.eye(size).double()


MATRICES = {
    "one": torch.tensor([[-0.7]]).double(),
    "zero": torch.zeros(4, 4).double(),
    "identity": torch.eye(5).double(),
    "gaussian 2": gaussian(2),
    "gaussian 9": gaussian(9, seed=1),
    "gaussian 40": gaussian(40, seed=2),
    "complex 12": gaussian(12, seed=3, dtype=torch.complex128),
    "complex 30": gaussian(30, seed=4, dtype=torch.complex128),
    "orthogonal": orthogonal(10),
    "symmetric": gaussian(8) + gaussian(8).T,
    "delay line": delay_line(7, 2.0),
    "Jordan": delay_line(6, 1.0, 0.9),
    "hidden Jordan": orthogonal(6) @ delay_line(6, 1.0, 0.9) @ orthogonal(6).T,
    "block": torch.tensor([[0.5, -3.0], [0.1, 0.5]]).double(),
    "large": 1e8 * gaussian(6),
    "small": 1e-8 * gaussian(6),
}


def defective(A):
    return np.linalg.cond(np.linalg.eig(A.numpy())[1]) > 1e6


every = pytest.mark.parametrize("A", MATRICES.values(), ids=MATRICES.keys())


# --- Schur form -----------------------------------------------------------------------------------------------------


@representatives("complex 12", "small")
@every
def test_the_schur_form_is_unitary_normal_and_lower_triangular(A):
    form = schur_form(A)
    size = float(A.norm()) or 1.0
    assert (form.P @ (form.Lambda + form.T) @ form.P.mH - A).norm() < 1e-13 * len(A) * size
    assert (form.P.mH @ form.P - torch.eye(len(A))).norm() < 1e-13 * len(A)
    assert (form.Lambda @ form.Lambda.mH - form.Lambda.mH @ form.Lambda).norm() <= 1e-13 * size**2  # normal
    above = torch.triu(form.T)
    above.diagonal(1)[form.block] = 0
    assert not above.any()  # strictly lower, except for the blocks


@every
def test_eigenvalues_are_those_of_lapack_in_descending_order(A):
    values = ms.spectrum(A).eigenvalues
    moduli = values.abs()
    assert (moduli[1:] <= moduli[:-1] + 1e-9 * moduli[0]).all()
    expected = np.linalg.eigvals(A.numpy())
    close = 1e-2 if defective(A) else 1e-12  # one of multiplicity 6 is exact to the sixth root of rounding only
    distances = np.abs(values.numpy()[:, None] - expected)
    assert distances.min(1).max() <= close * max(np.abs(expected).max(), 1e-300) + 1e-300
    assert distances.min(0).max() <= close * max(np.abs(expected).max(), 1e-300) + 1e-300


def test_lambda_has_rotations_by_less_than_half_a_turn_and_the_eigenvalues():
    form = schur_form(gaussian(31, seed=5))
    first = form.block.nonzero()[:, 0]
    assert len(first) > 5
    for row in first.tolist():
        block = form.Lambda[row : row + 2, row : row + 2]
        gamma, theta = block[:, 0].norm(), torch.atan2(block[1, 0], block[0, 0])
        turn = torch.stack([torch.stack([theta.cos(), -theta.sin()]), torch.stack([theta.sin(), theta.cos()])])
        torch.testing.assert_close(block, gamma * turn, rtol=0, atol=1e-15)
        assert 0 < theta < torch.pi
    on_lambda = np.sort(np.linalg.eigvals(form.Lambda.numpy()))
    np.testing.assert_allclose(on_lambda, np.sort(np.linalg.eigvals(gaussian(31, seed=5).numpy())), atol=1e-12)
    assert len(form.angles) == 31 - len(first)


@every
def test_departure_is_that_of_henrici(A):
    result = ms.spectrum(A)
    triangle = scipy.linalg.schur(A.numpy().astype(complex), output="complex")[0]
    reference = np.linalg.norm(np.triu(triangle, 1))
    close = 1e-5 if defective(A) else 1e-12  # the eigenvalues differ by more than rounding, and so does the rest
    assert result.departure == pytest.approx(reference, rel=close, abs=1e-13 * float(A.norm()))
    squares = float(A.norm() ** 2 - (result.eigenvalues.abs() ** 2).sum())
    assert result.departure**2 == pytest.approx(squares, rel=1e-6, abs=1e-11 * float(A.norm()) ** 2)
    assert float(result.schur.T.norm()) <= result.departure * (1 + 1e-12)  # equal where all blocks are rotations


@pytest.mark.parametrize("A", [orthogonal(12), gaussian(9) + gaussian(9).T, torch.eye(3), torch.zeros(2, 2)])
def test_normal_matrices_have_no_departure(A):
    result = ms.spectrum(A)
    assert result.relative_departure < 1e-14 * len(A)
    assert "It is normal." in result.summary()


def test_sub_diagonals_exclude_rotation_blocks():
    form = schur_form(gaussian(10, seed=6))
    found = form.sub_diagonals()
    T = form.T.numpy()
    inside = {(row + 1, row) for row in form.block.nonzero()[:, 0].tolist()}
    assert inside
    for offset in range(1, 10):
        entries = np.array([T[j + offset, j] for j in range(10 - offset) if (j + offset, j) not in inside])
        assert float(found.mean[offset - 1]) == pytest.approx(entries.mean(), abs=1e-15)
        assert float(found.std[offset - 1]) == pytest.approx(entries.std(), abs=1e-15)
        assert float(found.magnitude[offset - 1]) == pytest.approx(np.abs(entries).mean(), abs=1e-15)
    assert len(schur_form(torch.ones(1, 1).double()).sub_diagonals().mean) == 0
    line = schur_form(delay_line(5, 2.0)).sub_diagonals()
    assert line.magnitude.tolist() == [2.0, 0.0, 0.0, 0.0]


# --- norms of powers ------------------------------------------------------------------------------------------------


@every
def test_growth_is_the_norm_of_matrix_powers(A):
    curve = power_norms(A, 6)
    expected = [np.linalg.norm(np.linalg.matrix_power(A.numpy(), power), 2) for power in range(7)]
    np.testing.assert_allclose(curve.norms.numpy(), expected, rtol=1e-11, atol=1e-300)
    assert curve.times.tolist() == list(range(7))


def test_growth_of_a_flow_is_the_norm_of_exponentials():
    A = gaussian(5, 2.0) - 1.5 * torch.eye(5)
    curve = power_norms(A, 200, continuous=True)
    for time, norm in list(zip(curve.times.tolist(), curve.norms.tolist(), strict=True))[::17]:
        assert norm == pytest.approx(np.linalg.norm(scipy.linalg.expm(time * A.numpy()), 2), rel=1e-9)
    assert curve.times[-1] > 20 * curve.times[64] / 5  # the step has doubled


def test_the_spectral_norm_is_exact_for_large_and_extreme_matrices():
    for A in (gaussian(50), 1e-200 * gaussian(50), 1e200 * gaussian(50), gaussian(40, dtype=torch.complex128)):
        assert spectral_norm(A.numpy()) == pytest.approx(np.linalg.norm(A.numpy(), 2), rel=1e-12)


def test_amplification_is_the_largest_norm_of_a_power():
    for seed in range(5):
        A = gaussian(8, 0.8, seed)
        result = ms.spectrum(A)
        norms = [np.linalg.norm(np.linalg.matrix_power(A.numpy(), power), 2) for power in range(300)]
        if result.radius >= 1:
            assert result.amplification == float("inf")
        else:
            assert result.growth_until_settled.settled
            assert result.amplification == pytest.approx(max(norms), rel=1e-12)
            assert result.growth_until_settled.time == int(np.argmax(norms))


def test_a_delay_line_amplifies_until_it_ends():
    result = ms.spectrum(delay_line(20, 1.5))
    assert result.radius == 0
    assert result.amplification == pytest.approx(1.5**19, rel=1e-12)
    assert result.growth_until_settled.time == 19
    assert result.relative_departure == 1
    assert "grow up to" in result.summary()


@pytest.mark.parametrize(("size", "x", "t"), [(6, 0.3, 1), (6, 0.3, 9), (5, -0.7, 40), (4, 2.0, 100)])
def test_powers_of_a_unit_triangle_are_the_polynomials_of_proposition_3_4_2(size, x, t):
    A = np.eye(size) + x * np.triu(np.ones((size, size)), 1)
    power = np.linalg.matrix_power(A, t)
    for i in range(size):
        for j in range(i + 1, size):
            k = j - i
            polynomial = sum(comb(t, order) * comb(k - 1, order - 1) * x**order for order in range(1, k + 1))
            terms = sum(comb(t, order) * comb(k - 1, order - 1) * abs(x) ** order for order in range(1, k + 1))
            assert abs(power[i, j] - polynomial) <= 1e-12 * terms


@representatives("True-2")
@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("full", [True, False])
def test_unit_eigenvalues_grow_like_a_power_of_time(size, full):
    A = torch.eye(size).double() + 0.3 * (torch.triu(torch.ones(size, size), 1) if full else delay_line(size, 1.0).T)
    curve = power_norms(A, 4000)
    assert curve.exponent == pytest.approx(size - 1, abs=0.02)  # the next term is smaller by (N - 1) / (x t)
    assert not curve.settled
    result = ms.spectrum(A)
    assert result.kreiss == float("inf")
    assert result.unbounded
    assert result.amplification == float("inf")


# --- resolvent, pseudospectrum, Kreiss constant ---------------------------------------------------------------------


def slow_sigma(A, z):
    return np.array([np.linalg.svd(point * np.eye(len(A)) - A.numpy(), compute_uv=False)[-1] for point in z])


@every
def test_smallest_singular_values_are_those_of_the_svd(A):
    size = max(1.0, float(A.abs().max()))
    z = size * (np.linspace(-1.5, 1.6, 7) + 1j * np.linspace(-1, 1.3, 6)[:, None]).ravel()
    found = smallest_singular_values(ms.spectrum(A).triangle, z)
    np.testing.assert_allclose(found, slow_sigma(A, z), rtol=1e-5, atol=1e-14 * size)


def test_lanczos_and_svd_find_the_same_smallest_singular_values(monkeypatch):
    A = gaussian(SMALL - 2)
    triangle, z = ms.spectrum(A).triangle, np.linspace(-1, 1, 9) + 0.3j
    by_svd = smallest_singular_values(triangle, z)
    monkeypatch.setattr("mnemoscope.lenses.spectra.resolvent.SMALL", 0)
    np.testing.assert_allclose(smallest_singular_values(triangle, z, 1e-10), by_svd, rtol=1e-8)


def test_the_smallest_singular_value_vanishes_at_an_eigenvalue():
    A = gaussian(30)
    result = ms.spectrum(A)
    found = smallest_singular_values(result.triangle, result.eigenvalues.numpy())
    assert (found < 1e-13).all()
    assert (smallest_singular_values(ms.spectrum(torch.zeros(20, 20)).triangle, np.zeros(2, complex)) < 1e-100).all()


def test_the_smallest_triplet_is_a_singular_triplet():
    for A in (gaussian(40), gaussian(6)):
        S, z = ms.spectrum(A).triangle, 1.1 + 0.2j
        sigma, left, right, _ = smallest_triplet(S, z)
        assert sigma == pytest.approx(slow_sigma(A, [z])[0], rel=1e-12)
        assert np.linalg.norm((z * np.eye(len(A)) - S) @ right - sigma * left) < 1e-13


@pytest.mark.parametrize("A", [gaussian(15), gaussian(14, dtype=torch.complex128)], ids=["real", "complex"])
@pytest.mark.parametrize("resolution", [6, 7])
def test_a_pseudospectrum_is_the_smallest_singular_value_on_its_grid(A, resolution, tmp_path):
    grid = ms.spectrum(A).pseudospectrum(resolution)
    z = (grid.x.numpy() + 1j * grid.y.numpy()[:, None]).ravel()
    np.testing.assert_allclose(grid.sigma.numpy().ravel(), slow_sigma(A, z), rtol=1e-5)
    shifted = ms.spectrum(A).pseudospectrum(3, (0.0, 1.0, 0.5, 2.0))
    assert shifted.y.tolist() == [0.5, 1.25, 2.0]
    grid.save(tmp_path / "grid.safetensors")
    assert torch.equal(Pseudospectrum.load(tmp_path / "grid.safetensors").sigma, grid.sigma)


def test_pseudospectrum_of_a_normal_matrix_is_the_distance_to_the_spectrum():
    result = ms.spectrum(orthogonal(16))
    grid = result.pseudospectrum(8)
    z = grid.x.numpy() + 1j * grid.y.numpy()[:, None]
    distance = np.abs(z[..., None] - result.eigenvalues.numpy()).min(-1)
    np.testing.assert_allclose(grid.sigma.numpy(), distance, rtol=1e-5)


def test_a_pseudospectrum_describes_and_draws_itself():
    grid = ms.spectrum(delay_line(8, 1.0)).pseudospectrum(21)
    share = float((grid.sigma < 0.01).double().mean())
    assert "at 21 x 21 points with Re z from -1.3 to 1.3" in grid.summary()
    assert f"one of norm 0.01 to {share:.1%}." in grid.summary()
    (axes,) = grid.figure().axes
    assert axes.get_title() == "Pseudospectra"
    assert axes.collections  # contours


@pytest.mark.parametrize("box", [(1, 0, 0, 1), (0, 1, 0, float("nan"))])
def test_a_wrong_grid_raises(box):
    with pytest.raises(ValueError, match="left < right"):
        ms.spectrum(torch.eye(2)).pseudospectrum(5, tuple(map(float, box)))
    with pytest.raises(ValueError, match="at least 2"):
        ms.spectrum(torch.eye(2)).pseudospectrum(1)


def slow_kreiss(A, continuous=False):
    best = 1.0
    for height in np.geomspace(1e-4, 20, 150):
        along = np.linspace(-np.pi, np.pi, 241) if not continuous else np.linspace(-5, 5, 241)
        z = height + 1j * along if continuous else (1 + height) * np.exp(1j * along)
        sigma = np.linalg.svd(z[:, None, None] * np.eye(len(A)) - A.numpy(), compute_uv=False)[:, -1]
        best = max(best, float((height / sigma).max()))
    return best


@representatives("gaussian", "rotation")
@pytest.mark.parametrize(
    "A",
    [
        gaussian(6, 0.9, 1),
        gaussian(5, 0.7, 2, torch.complex128),
        delay_line(6, 2.0),
        delay_line(4, 1.0, 0.9),
        torch.tensor([[0.99, 30.0], [0.0, -0.2]]).double(),
        torch.tensor([[0.4, -2.7], [0.3, 0.4]]).double(),
    ],
    ids=["gaussian", "complex", "delay line", "Jordan", "spike", "rotation"],
)
def test_the_kreiss_constant_is_the_maximum_of_a_fine_grid(A):
    found, slow = ms.spectrum(A).kreiss, slow_kreiss(A)
    assert slow <= found * (1 + 1e-9)  # no point of the grid is missed
    assert found <= slow * 1.01  # and the grid comes near


def test_the_kreiss_constant_of_a_flow_is_the_maximum_of_a_fine_grid():
    A = torch.tensor([[-0.5, 8.0, 1.0], [0.0, -0.3, 2.0], [0.0, -1.0, -0.4]]).double()
    result = Spectrum(A, schur_form(A), torch.linalg.svdvals(A), continuous=True)
    slow = slow_kreiss(A, continuous=True)
    assert slow <= result.kreiss * (1 + 1e-9)
    assert result.kreiss <= slow * 1.01
    assert 1 <= result.kreiss <= result.amplification <= e * 3 * result.kreiss
    assert "t =" in result.summary()
    assert Spectrum(-A, schur_form(-A), torch.linalg.svdvals(A), continuous=True).amplification == float("inf")


@representatives("complex 12", "gaussian 2", "gaussian 40", "one")
@every
def test_the_kreiss_matrix_theorem_holds(A):
    result = ms.spectrum(A)
    assert result.kreiss >= 1
    if result.radius > 1 + 1e-6:
        assert result.kreiss == result.amplification == float("inf")
    else:
        assert result.kreiss <= result.amplification * (1 + 1e-9) <= e * len(A) * result.kreiss * (1 + 1e-8)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 20), st.floats(0.05, 0.95), st.floats(0, 3), st.integers(0, 10**6))
def test_the_kreiss_matrix_theorem_holds_for_any_matrix(size, radius, coupling, seed):
    turn = orthogonal(size, seed)
    T = coupling * torch.tril(gaussian(size, seed=seed + 1), -1)
    A = turn @ (radius * torch.diag(torch.linspace(-1, 1, size).double()) + T) @ turn.T
    result = ms.spectrum(A)
    if result.growth_until_settled.settled:
        assert result.kreiss <= result.amplification * (1 + 1e-9) <= e * size * result.kreiss * (1 + 1e-8)
    squares = float(A.norm() ** 2 - (result.eigenvalues.abs() ** 2).sum())  # |T| may be ill-conditioned
    assert result.departure**2 == pytest.approx(squares, abs=1e-12 * float(A.norm() ** 2))


@pytest.mark.parametrize("A", [orthogonal(12), 0.5 * orthogonal(9), torch.eye(4), torch.zeros(3, 3)])
def test_a_stable_normal_matrix_has_kreiss_constant_1(A):
    assert ms.spectrum(A).kreiss == 1
    assert ms.spectrum(A).amplification == pytest.approx(1, abs=1e-14)


def test_the_search_finds_kreiss_constant_1_for_a_stable_normal_matrix():
    from mnemoscope.lenses.spectra.kreiss import kreiss_constant

    for A in (0.9 * orthogonal(9), orthogonal(9), orthogonal(30)):
        assert kreiss_constant(ms.spectrum(A).triangle, 1.0, real=True) == pytest.approx(1, abs=1e-8)


# --- invariance, numerical range ------------------------------------------------------------------------------------


def test_an_orthogonal_change_of_basis_changes_nothing():
    A, turn = gaussian(12, 0.8), orthogonal(12, 7)
    first, other = ms.spectrum(A), ms.spectrum(turn @ A @ turn.T)
    for name in ("radius", "abscissa", "norm", "departure", "numerical_abscissa", "numerical_radius", "kreiss"):
        assert getattr(first, name) == pytest.approx(getattr(other, name), rel=1e-8), name
    assert first.amplification == pytest.approx(other.amplification, rel=1e-12)


def test_a_similarity_keeps_eigenvalues_but_not_the_departure():
    A = gaussian(6)
    change = torch.diag(torch.linspace(1, 4, 6).double())
    first, other = ms.spectrum(A), ms.spectrum(change @ A @ torch.linalg.inv(change))
    torch.testing.assert_close(first.eigenvalues, other.eigenvalues, rtol=1e-10, atol=1e-12)
    assert abs(first.departure - other.departure) > 0.1


@representatives("complex 12", "small")
@every
def test_abscissa_and_radius_are_those_of_the_numerical_range(A):
    result = ms.spectrum(A)
    turns = np.exp(1j * np.linspace(0, 2 * np.pi, 721))[:, None, None] * A.numpy()
    support = np.linalg.eigvalsh((turns + turns.conj().swapaxes(1, 2)) / 2)[:, -1]
    assert result.numerical_abscissa == pytest.approx(support[0], rel=1e-12, abs=1e-300)
    assert support.max() * (1 - 1e-8) <= result.numerical_radius <= support.max() / np.cos(np.pi / 720) + 1e-300
    assert result.norm / 2 <= result.numerical_radius * (1 + 1e-12)


def test_the_numerical_radius_of_a_delay_line_is_the_closed_form():
    # a nilpotent shift has the disc of radius cos(pi / (N + 1)) as its numerical range (Haagerup & de la Harpe 1992)
    assert ms.spectrum(delay_line(9, 1.0)).numerical_radius == pytest.approx(np.cos(np.pi / 10), rel=1e-12)


# --- systems and results ---------------------------------------------------------------------------------------------


def test_every_kind_of_system_is_accepted():
    V = gaussian(6).float()
    cell = Elman(2, 6, connectivity=Dense.from_matrix(V))
    network = torch.nn.RNN(2, 6)
    with torch.no_grad():
        network.weight_hh_l0.copy_(V)
    for system in (
        V,
        V.numpy(),
        Dense.from_matrix(V),
        cell,
        network,
        torch.nn.utils.parametrizations.weight_norm(network, "weight_hh_l0"),
    ):
        torch.testing.assert_close(ms.spectrum(system).matrix, V.double(), rtol=1e-6, atol=1e-6)
    assert ms.spectrum(torch.eye(2).int()).norm == 1
    dynamics = ms.Dynamics(cell)
    state = torch.linspace(-1, 1, 6).double()
    torch.testing.assert_close(ms.spectrum(dynamics, state).matrix, dynamics.jacobian(state[None])[0])
    fp = ms.find_fixed_points(dynamics)
    torch.testing.assert_close(ms.spectrum(fp[0]).matrix, fp.jacobians[0])


def test_a_float32_matrix_counts_as_orthogonal_up_to_rounding():
    for result in (ms.spectrum(orthogonal(64).float()), ms.spectrum(Dense(64, "orthogonal"))):
        assert result.matrix.dtype == torch.float64
        assert result.norm != 1
        assert result.kreiss == 1
        assert result.amplification == pytest.approx(1, abs=1e-5)
        assert "It is normal. No state ever grows." in result.summary()
    assert ms.spectrum(1.001 * orthogonal(64).float()).amplification == float("inf")


def test_a_flow_is_recognised():
    flow = ms.Dynamics(ms.adapt(lambda x, h: -h + 0.5 * torch.tanh(h), state_size=3), continuous=True)
    result = ms.spectrum(flow, torch.zeros(3))
    assert result.continuous
    assert result.abscissa == pytest.approx(-0.5)
    assert result.amplification == 1


@pytest.mark.parametrize(
    ("system", "error", "message"),
    [
        (torch.zeros(2, 3), ValueError, r"square matrix .* \(2, 3\)"),
        (torch.zeros(0, 0), ValueError, "square matrix"),
        (torch.zeros(3), ValueError, "square matrix"),
        (torch.tensor([[float("nan"), 0], [0, 1]]), ValueError, "1 NaN or infinite entry of 4"),
        (torch.tensor([[float("inf"), 0], [0, float("nan")]]), ValueError, "2 NaN or infinite entries of 4"),
        (torch.nn.GRU(2, 3), TypeError, "GRU has no single recurrent matrix"),
        (torch.nn.RNN(2, 3, num_layers=2), TypeError, "Stack has no single"),
        (torch.nn.Linear(3, 3), TypeError, "A Linear is not known to be a recurrent network"),
    ],
)
def test_a_system_without_a_matrix_raises(system, error, message):
    with pytest.raises(error, match=message):
        ms.spectrum(system)


def test_missing_and_wrong_states_raise():
    dynamics = ms.Dynamics(torch.nn.GRU(2, 3))
    with pytest.raises(ValueError, match="linearised at a state"):
        ms.spectrum(dynamics)
    with pytest.raises(ValueError, match="must have 3 numbers"):
        ms.spectrum(dynamics, torch.zeros(4))
    with pytest.raises(ValueError, match="belongs to a Dynamics"):
        ms.spectrum(torch.eye(3), torch.zeros(3))
    with pytest.raises(TypeError, match=r"network\.cell"):
        ms.spectrum(ms.Model(Elman(2, 3), 1))
    double_well = ms.Dynamics(ms.adapt(lambda x, h: torch.tanh(2 * h + x), state_size=1, bounds=(-1, 1)))
    with pytest.raises(ValueError, match="3 were given"):
        ms.spectrum(ms.find_fixed_points(double_well))
    with pytest.raises(ValueError, match="at least 1 step"):
        ms.spectrum(torch.eye(2)).growth(0)


@pytest.mark.parametrize("name", ["gaussian 9", "complex 12", "one"])
def test_load_reads_what_save_wrote(name, tmp_path):
    result = ms.spectrum(MATRICES[name])
    result.save(tmp_path / "spectrum.safetensors")
    again = Spectrum.load(tmp_path / "spectrum.safetensors")
    assert torch.equal(again.matrix, result.matrix)
    assert torch.equal(again.eigenvalues, result.eigenvalues)
    assert again.kreiss == result.kreiss
    with pytest.raises(ValueError, match="does not hold fixed points"):
        ms.FixedPoints.load(tmp_path / "spectrum.safetensors")


@representatives("one", "small")
@every
def test_every_matrix_has_a_figure(A):
    result = ms.spectrum(A)
    figure = result.figure()
    assert figure.axes[0].get_title() == "Eigenvalues and pseudospectra"
    figure.canvas.draw()
    assert repr(result).startswith("Spectrum(A ")


def test_the_figure_of_a_flow_shows_its_growth_over_time():
    A = torch.tensor([[-0.5, 8.0], [0.0, -0.3]]).double()
    figure = Spectrum(A, schur_form(A), torch.linalg.svdvals(A), continuous=True).figure()
    figure.canvas.draw()
    growth = next(axes for axes in figure.axes if axes.get_title() == "Growth of states")
    assert growth.get_xlabel() == "t"
    assert max(growth.lines[0].get_ydata()) > 1  # it rises before it falls


@pytest.mark.parametrize(("size", "scale"), [(32, 0.1), pytest.param(128, 0.02, marks=SLOW)])
def test_the_kreiss_constant_is_found_with_all_eigenvalues_on_the_circle(size, scale):
    """The matrix of an nnRNN has many resonances; none may be missed, in float64 or float32, in any basis."""
    matrix = ms.connectivity.Schur(size, init="random").double()
    with torch.no_grad():
        matrix.T.normal_(0, scale)
        A = matrix()
    result = ms.spectrum(A)
    angles = np.angle(np.linalg.eigvals(A.numpy()))
    angles = np.unique(np.concatenate([angles[angles >= 0], np.linspace(0, np.pi, 40)]))
    reached = 0.0
    for height in np.geomspace(1e-5, 1, 12):
        z = (1 + height) * np.exp(1j * angles)[:, None, None]
        reached = max(reached, (height / np.linalg.svd(z * np.eye(size) - A.numpy(), compute_uv=False)[:, -1]).max())
    Q = torch.linalg.qr(torch.randn(size, size, dtype=torch.float64))[0]
    assert result.kreiss >= 0.999 * reached
    assert not result.unbounded
    assert ms.spectrum(Q @ A @ Q.mT).kreiss == pytest.approx(result.kreiss, rel=1e-3)
    in_float32 = ms.spectrum(A.float())
    assert not in_float32.unbounded
    assert in_float32.kreiss == pytest.approx(result.kreiss, rel=0.05)
    assert result.amplification >= result.kreiss


@representatives("dtype0")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_near_the_circle_kreiss_and_amplification_agree(dtype):
    for entries, expected in (([[1, 300], [0, 0.99]], 3e4), ([[1, 1], [0, 0.9999]], 1e4)):
        result = ms.spectrum(torch.tensor(entries, dtype=dtype))
        assert not result.unbounded
        assert result.kreiss == pytest.approx(expected, rel=1e-3)
        assert result.amplification >= result.kreiss
    growing = ms.spectrum(torch.tensor([[1.0, 1.0], [0.0, 1.0]], dtype=dtype))
    assert growing.unbounded
    assert growing.kreiss == growing.amplification == float("inf")


def test_the_matrix_is_a_copy():
    A = 0.5 * torch.eye(2, dtype=torch.float64)
    result = ms.spectrum(A)
    A.mul_(4)
    assert result.growth(2).norms.tolist() == [1, 0.5, 0.25]
