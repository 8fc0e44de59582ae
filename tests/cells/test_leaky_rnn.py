"""Leaky units with a trainable matrix, and the loadings of low-rank networks."""

import pytest
import torch

import mnemoscope as ms
from mnemoscope.cells import EchoState, LeakyRNN
from mnemoscope.connectivity import Dense, Exponential, LoadingMixture, Loadings, LowRank


@pytest.mark.parametrize("form", ["current", "rate"])
@pytest.mark.parametrize("gain", [0.0, 0.8])
def test_a_low_rank_step_is_its_formula(form, gain):
    cell = ms.networks.low_rank(2, 5, rank=2, leak=0.3, form=form, gain=gain, bias=True).double()
    torch.nn.init.normal_(cell.bias)
    m, n, chi = cell.connectivity.left, cell.connectivity.right, cell.connectivity.random
    u, x = torch.randn(2, dtype=torch.float64), torch.randn(5, dtype=torch.float64)
    W = sum(torch.outer(m[:, r], n[:, r]) for r in range(2)) / 5 + (0 if chi is None else chi)
    current = form == "current"
    inner = W @ (torch.tanh(x) if current else x) + cell.drive @ u + cell.bias
    expected = 0.7 * x + 0.3 * (inner if current else torch.tanh(inner))
    torch.testing.assert_close(cell(u[None], x[None])[0], expected)
    torch.testing.assert_close(cell.output(x), torch.tanh(x) if current else x)
    torch.testing.assert_close(cell.intermediates(u[None], x[None])["pre"][0], inner)


def test_leaky_units_and_a_reservoir_of_the_same_weights_are_equal():
    cell = LeakyRNN(2, 6, leak=0.4).double()
    reservoir = EchoState.from_weights(cell.combined(), cell.drive, bias=cell.bias, leak=0.4)
    xs = torch.randn(7, 3, 2, dtype=torch.float64)
    torch.testing.assert_close(ms.scan(cell, xs)[0], ms.scan(reservoir, xs)[0])


@pytest.mark.parametrize("leak", [0.1, 0.5, 1.0])
def test_noise_has_the_stated_deviation_and_acts_in_training_only(leak):
    torch.manual_seed(0)
    cell = LeakyRNN(1, 1000, leak=leak, noise=0.3).double()
    with torch.no_grad():
        cell.connectivity.matrix.zero_()
    states = ms.scan(cell, torch.zeros(100, 4, 1, dtype=torch.float64))[1]  # 10 time constants or more
    expected = 0.3 / (1 - leak / 2) ** 0.5  # of x' = (1 - leak) x + sqrt(2 leak) 0.3 xi
    assert states.std().item() == pytest.approx(expected, rel=0.05)  # 4 standard errors of 4,000 numbers
    assert bool((ms.scan(cell.eval(), torch.zeros(100, 4, 1, dtype=torch.float64))[1] == 0).all())
    with pytest.raises(ValueError, match="standard deviation"):
        LeakyRNN(1, 2, noise=-1.0)


@pytest.mark.parametrize("form", ["current", "rate"])
def test_leaky_units_have_their_jacobian_and_a_proof_of_their_fixed_points(form):
    torch.manual_seed(0)
    cell = LeakyRNN(1, 2, leak=0.5, form=form, bias=False, noise=0.3).double().eval()
    with torch.no_grad():
        cell.connectivity.matrix.copy_(torch.tensor([[1.5, 0.0], [0.0, 0.5]]))
    x, state = torch.randn(1, 1, dtype=torch.float64), torch.randn(1, 2, dtype=torch.float64)
    expected = torch.func.jacrev(lambda h: cell(x, h[None])[0])(state[0])
    torch.testing.assert_close(cell.jacobian(x, state)[0], expected)
    assert ms.find_fixed_points(cell, certify=True).certificate.complete  # 0 and two others of the first unit


def test_loadings_survive_a_round_trip():
    model = ms.cells.Model(ms.networks.low_rank(2, 6, rank=2, bias=True), 3)
    loadings = model.cell.loadings(model.linear_readout)
    assert loadings.widths == (2, 2, 2, 3, 1)
    again = LeakyRNN.from_loadings(Loadings.from_table(loadings.table(), loadings.widths))
    xs = torch.randn(5, 1, 2)
    assert torch.equal(ms.scan(model.cell, xs)[0], ms.scan(again, xs)[0])
    torch.testing.assert_close(loadings.readouts.mT / 6, model.linear_readout.weight)


def test_a_sampled_population_has_the_prescribed_moments():
    overlaps = torch.tensor([[0.5, -1.0], [1.0, 0.5]], dtype=torch.float64)
    mixture = LoadingMixture.from_overlaps(overlaps, inputs=torch.tensor([[0.3], [0.0]], dtype=torch.float64))
    loadings = mixture.sample(40_000, seed=1)
    found = loadings.right.mT @ torch.cat([loadings.left, loadings.inputs], 1) / 40_000
    expected = torch.cat([overlaps, torch.tensor([[0.3], [0.0]])], 1)
    assert (found - expected).abs().max() < 0.05  # 6 standard errors of products of variance below 3
    eigenvalues = torch.linalg.eigvals(LowRank.from_factors(loadings.left, loadings.right).overlaps())
    assert (eigenvalues.imag.abs() - 1).abs().max() < 0.05


def test_a_low_rank_network_starts_with_the_given_overlap():
    torch.manual_seed(0)
    matrix = ms.networks.low_rank(1, 40_000, rank=2, overlap=1.2).connectivity
    difference = matrix.overlaps() - 1.2 * torch.eye(2)
    assert difference.abs().max() < 0.05  # 5 standard errors of products of variance below 4
    torch.manual_seed(0)
    independent = LowRank(40_000, 2)
    assert torch.equal(matrix.left, independent.left)
    torch.testing.assert_close(matrix.right - 1.2 * matrix.left, independent.right, atol=1e-5, rtol=0)


def test_input_weights_start_with_the_given_scale():
    torch.manual_seed(0)
    wide = LeakyRNN(2, 6)
    torch.manual_seed(0)
    torch.testing.assert_close(LeakyRNN(2, 6, input_scale=0.3).drive, 0.3 * wide.drive)


def test_units_belong_to_populations_in_proportion():
    means = torch.tensor([[5.0, 0.0, 1.0], [-5.0, 0.0, 2.0]])
    mixture = LoadingMixture(torch.tensor([0.25, 0.75]), means, torch.zeros(2, 3, 3), (1, 1, 0, 1, 0))
    loadings, population = mixture.sample_with_populations(4000, seed=0)
    assert torch.equal(loadings.left[:, 0] > 0, population == 0)
    assert (population.double().mean() - 0.75).abs() < 0.03  # 4 standard errors
    assert loadings.readouts.unique().tolist() == [1.0, 2.0]
    assert LeakyRNN.from_loadings(loadings).input_size == 1  # without effect
    assert torch.equal(mixture.sample(10, seed=3).table(), mixture.sample(10, seed=3).table())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LowRank(4, 5), "at most the size 4"),
        (lambda: LowRank(4, 1, gain=-1.0), "gain must be 0 or positive"),
        (lambda: LowRank(4, 1, overlap=float("nan")), "overlap must be finite"),
        (lambda: LeakyRNN(2, 4, connectivity=Dense(5)), "5 x 5"),
        (lambda: LeakyRNN(2, 4, connectivity=Exponential(4, complex=True)), "complex"),
        (lambda: LeakyRNN(2, 4, leak=0.0), "leak"),
        (lambda: LeakyRNN(2, 4, input_scale=0.0), "input_scale must be positive"),
        (lambda: LeakyRNN(2, 4, gain=0.0), "gain must be positive"),
        (lambda: LeakyRNN(2, 4, connectivity=Dense(4), gain=0.5), "gain scales the default matrix"),
        (lambda: LeakyRNN(2, 4).loadings(), "Only a low-rank matrix"),
        (lambda: LoadingMixture(torch.ones(1), torch.zeros(1, 3), torch.eye(3)[None], (1, 2, 0, 0, 0)), "widths"),
        (lambda: LoadingMixture(torch.ones(1) / 2, torch.zeros(1, 2), torch.eye(2)[None], (1, 1, 0, 0, 0)), "weights"),
        (lambda: LoadingMixture.from_overlaps(torch.tensor([[2.0]]), variance=1.0), "negative eigenvalue"),
    ],
)
def test_bad_parts_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
