"""Latent variables of low-rank networks: exact reductions, mean fields, and published facts about both."""

from math import exp, tanh

import pytest
import torch
from scipy.integrate import quad

import mnemoscope as ms
from mnemoscope.cells import LeakyRNN, Model
from mnemoscope.connectivity import LoadingMixture
from mnemoscope.lenses.low_rank.population_averages import PopulationAverages
from mnemoscope.lenses.low_rank.unit_averages import UnitAverages

STARTS = torch.linspace(-2, 2, 9, dtype=torch.float64)[:, None]


def population(overlaps, **options):
    return LoadingMixture.from_overlaps(torch.tensor(overlaps, dtype=torch.float64), **options)


def two_populations(seed=0):
    """Return a mixture with random means and covariances, of rank 2 with an input, a readout and a bias."""
    torch.manual_seed(seed)
    roots = torch.randn(2, 7, 7, dtype=torch.float64) / 2
    means = torch.randn(2, 7, dtype=torch.float64) / 2
    weights = torch.tensor([0.3, 0.7], dtype=torch.float64)
    return LoadingMixture(weights, means, roots @ roots.mT, (2, 2, 1, 1, 1))


@pytest.mark.parametrize("form", ["current", "rate"])
def test_the_exact_reduction_follows_the_network(form):
    model = Model(ms.networks.low_rank(2, 20, rank=2, form=form, bias=True), 3).double()
    torch.nn.init.normal_(model.cell.bias)
    xs = torch.randn(15, 4, 2, dtype=torch.float64)
    result = ms.measure_reduction(model, xs, starts=torch.zeros(1, 2, dtype=torch.float64))
    torch.testing.assert_close(result.reduced, result.latents, rtol=0, atol=1e-12)
    assert result.outside < 1e-25
    reduced = ms.reduce_network(model)
    assert ms.Dynamics(reduced).size == (5 if form == "current" else 2)
    encoded = Model(model.cell, 3, encode=torch.nn.Linear(1, 2)).double()
    trials = torch.randn(6, 1, 1, dtype=torch.float64)
    found = ms.measure_reduction(encoded, trials, starts=torch.zeros(1, 2, dtype=torch.float64))
    expected = ms.measure_reduction(model, encoded.encode(trials), starts=torch.zeros(1, 2, dtype=torch.float64))
    torch.testing.assert_close(found.latents, expected.latents)
    outputs = ms.scan(reduced, xs)[0]
    if form == "current":
        torch.testing.assert_close(outputs, model(xs)[0], rtol=0, atol=1e-12)
        assert Model(reduced, 3)(xs)[0].shape == (15, 4, 3)
    else:
        torch.testing.assert_close(outputs, result.latents[1:], rtol=0, atol=1e-12)


@pytest.mark.parametrize("form", ["current", "rate"])
def test_fixed_points_of_the_reduction_are_those_of_the_network(form):
    cell = LeakyRNN.from_loadings(population([[2.0]]).sample(60, seed=0), form=form)
    fp = ms.find_fixed_points(ms.reduce_network(cell, settled_inputs=True), STARTS)
    full = ms.Dynamics(cell)
    states = fp.states @ cell.connectivity.left.mT.detach()
    states = states if form == "current" else torch.tanh(states)
    torch.testing.assert_close(full(states), states, rtol=0, atol=1e-12)
    # an eigenvalue of the latent variables is one of the network; all others are those of the leak
    leading = torch.linalg.eigvals(full.jacobian(states)).real
    torch.testing.assert_close(leading.amax(1), fp.eigenvalues[:, 0].real.clamp_min(0.8), rtol=0, atol=1e-12)


def test_the_fixed_points_of_a_large_network_can_be_certified():
    cell = LeakyRNN.from_loadings(population([[1.8]], inputs=torch.tensor([[0.3]])).sample(40, seed=1))
    dynamics = ms.Dynamics(ms.reduce_network(cell, settled_inputs=True), [0.1])
    fp = ms.find_fixed_points(dynamics, STARTS, certify=True)
    assert fp.certificate.complete
    assert len(fp) == 3
    with pytest.raises(ValueError, match="define enclose"):
        ms.find_fixed_points(ms.Dynamics(ms.reduce_network(cell), [0.1]), certify=True)


def test_population_averages_are_gaussian_integrals():
    mixture = two_populations()
    cell = ms.reduce_network(LeakyRNN.from_loadings(mixture.sample(10, 0)), mixture=mixture)
    latents, drive = torch.randn(1, 2, dtype=torch.float64) / 2, torch.tensor([[0.4, 1.0]], dtype=torch.float64)
    factors = torch.cat([latents[0], torch.zeros(2), drive[0, :1], torch.zeros(1), drive[0, 1:]])
    expected = 0
    for weight, mean, covariance in zip(mixture.weights, mixture.means, mixture.covariances, strict=True):
        mu, sigma = float(mean @ factors), float((factors @ covariance @ factors).sqrt())
        along = covariance @ factors / sigma  # E[c | z] = mean_c + along (z - mu) / sigma

        def weighted(x, power, mu=mu, sigma=sigma):
            return tanh(mu + sigma * x) * exp(-x * x / 2) * x**power

        zeroth, first = (quad(weighted, -9, 9, args=(power,), epsabs=1e-11)[0] for power in (0, 1))
        expected = expected + weight * (mean * zeroth + along * first) / (2 * torch.pi) ** 0.5
    torch.testing.assert_close(cell.right_average(latents, drive)[0], expected[2:4], rtol=0, atol=1e-10)
    torch.testing.assert_close(cell.readout_average(latents, drive)[0], expected[5:6], rtol=0, atol=1e-10)


def test_the_error_of_the_mean_field_falls_as_the_root_of_the_size():
    mixture = two_populations()
    mean = PopulationAverages(mixture, ms.networks.low_rank(1, 2).phi, 0.2, filtered=True)
    latents, drive = torch.randn(20, 2, dtype=torch.float64), torch.ones(20, 2, dtype=torch.float64)
    sizes = torch.tensor([100, 400, 1600, 6400])
    errors = []
    for size in sizes.tolist():
        units = [UnitAverages(mixture.sample(size, seed), mean.phi, 0.2, filtered=True) for seed in range(20)]
        away = [unit.right_average(latents, drive) - mean.right_average(latents, drive) for unit in units]
        errors.append(torch.stack(away).square().mean().sqrt())
    slope = torch.log(errors[-1] / errors[0]) / torch.log(sizes[-1] / sizes[0])
    assert -0.6 < slope < -0.4


def test_one_gaussian_population_of_rank_one_has_a_pitchfork_at_overlap_one():
    for overlap, kinds in [(0.95, ["stable"]), (1.05, ["stable", "stable", "unstable"])]:
        cell = ms.mean_field(population([[overlap]]), leak=0.3)
        fp = ms.find_fixed_points(cell, STARTS)
        assert sorted(fp.kind) == kinds
        at_zero = ms.Dynamics(cell).jacobian(torch.zeros(1, 1, dtype=torch.float64))
        assert at_zero.item() == pytest.approx(0.7 + 0.3 * overlap, abs=1e-12)  # phi'(0) = 1


def test_mean_field_fixed_points_match_a_simulated_network():
    mixture = population([[1.5]])
    cell = LeakyRNN.from_loadings(mixture.sample(20_000, seed=0), leak=0.5)
    state = cell.connectivity.left.detach().mT.clone()  # kappa = 1
    with torch.no_grad():
        for _ in range(100):
            state = cell(torch.zeros(1, 1, dtype=torch.float64), state)
    kappa = (state @ torch.linalg.pinv(cell.connectivity.left.detach()).mT).item()
    expected = ms.find_fixed_points(ms.mean_field(mixture), STARTS).states.max().item()
    assert kappa == pytest.approx(expected, abs=0.05)  # 1 / sqrt(20,000) is 0.007; slow at the fixed point


def test_equal_overlaps_make_a_ring_and_a_rotation_makes_a_limit_cycle():
    angles = torch.linspace(0, 6, 7, dtype=torch.float64)
    circle = torch.stack([angles.cos(), angles.sin()], 1)
    scalar = ms.find_fixed_points(ms.mean_field(population([[2.0]])), STARTS)
    radius = scalar.states.max()
    ring = ms.Dynamics(ms.mean_field(population([[2.0, 0.0], [0.0, 2.0]])))
    torch.testing.assert_close(ring(radius * circle), radius * circle, rtol=0, atol=1e-9)
    turned = ms.Dynamics(ms.mean_field(population([[2.0, -0.5], [0.5, 2.0]]), leak=0.01))
    velocity = turned.residual(radius * circle) / 0.01
    radial, tangent = (velocity * circle).sum(1), (velocity * torch.stack([-circle[:, 1], circle[:, 0]], 1)).sum(1)
    torch.testing.assert_close(radial, torch.zeros(7, dtype=torch.float64), rtol=0, atol=1e-9)
    # on the circle the mean slope is 1 / 2, so that kappa turns by 0.5 / 2 radians per time constant
    torch.testing.assert_close(tangent, 0.25 * radius.expand(7), rtol=0, atol=1e-9)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_reduction_saves_and_draws_itself(rank, tmp_path, monkeypatch):
    monkeypatch.setattr("mnemoscope.lenses.low_rank.figure.DENSITY", 0.1)
    mixture = population((1.5 * torch.eye(rank)).tolist())
    cell = LeakyRNN.from_loadings(mixture.sample(50, seed=0), leak=0.5)
    starts = torch.cat([torch.zeros(1, rank), torch.eye(rank)]).double()
    result = ms.measure_reduction(ms.Dynamics(cell), mixture=mixture, starts=starts, steps=5)
    assert (result.rank, len(result.grid)) == (rank, {1: 25, 2: 625, 3: 0}[rank])
    assert result.error < 1e-12 < result.mean_field_error
    result.save(tmp_path / "reduction.safetensors")
    again = ms.Reduction.load(tmp_path / "reduction.safetensors")
    assert again.summary() == result.summary()
    assert f"{rank} latent variable" in result.summary()
    states = result.latents @ cell.connectivity.left.detach().mT
    assert len(again.figure(None if rank == 1 else states).axes) == 2


def test_a_mean_field_of_another_distribution_is_reported_as_far_off():
    cell = LeakyRNN.from_loadings(population([[2.0]]).sample(50, seed=0))
    result = ms.measure_reduction(cell, mixture=population([[0.5]]), starts=STARTS)
    assert "large difference" in result.summary()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ms.reduce_network(LeakyRNN(2, 4)), "LeakyRNN with Dense"),
        (lambda: ms.reduce_network(torch.nn.GRU(2, 4)), "but this is GRU"),
        (lambda: ms.reduce_network(ms.networks.low_rank(2, 4, gain=1.0)), "random part"),
        (lambda: ms.reduce_network(ms.networks.low_rank(2, 4), mixture=population([[1.0]])), "but the network rank"),
        (lambda: ms.mean_field(population([[1.0]]), nonlinearity="modrelu"), "one nonlinearity for all units"),
    ],
)
def test_what_cannot_be_reduced_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_unbounded_nonlinearities_have_no_box():
    mixture = population([[0.5]])
    assert ms.Dynamics(ms.mean_field(mixture, nonlinearity="relu")).bounds is None
    cell = LeakyRNN.from_loadings(mixture.sample(9, seed=0), nonlinearity="relu")
    assert ms.Dynamics(ms.reduce_network(cell)).bounds is None
