"""Gaussian populations fitted to loadings, and networks drawn from them."""

import pytest
import torch

import mnemoscope as ms
from mnemoscope.cells import LeakyRNN, Model
from mnemoscope.connectivity import LoadingMixture


def two_populations():
    """Return populations with opposite overlaps of m and n: together they look like one without overlap."""
    covariances = torch.tensor([[[1.0, 2.0], [2.0, 4.5]], [[1.0, -2.0], [-2.0, 4.5]]], dtype=torch.float64)
    weights = torch.tensor([0.7, 0.3], dtype=torch.float64)
    return LoadingMixture(weights, torch.zeros(2, 2, dtype=torch.float64), covariances, (1, 1, 0, 0, 0))


def test_one_population_has_the_moments_of_the_loadings():
    loadings = two_populations().sample(500, seed=0)
    mixture, likelihood = ms.fit_mixture(loadings, 1)
    torch.testing.assert_close(mixture.means[0], loadings.table().mean(0))
    covariance = torch.cov(loadings.table().mT, correction=0)
    torch.testing.assert_close(mixture.covariances[0], covariance, rtol=1e-5, atol=1e-5)  # the ridge is 1e-6
    slow = torch.distributions.MultivariateNormal(loadings.table().mean(0), covariance).log_prob(loadings.table())
    assert likelihood == pytest.approx(slow.mean().item(), abs=1e-5)


def test_planted_populations_are_found():
    planted = two_populations()
    mixture, likelihood = ms.fit_mixture(planted.sample(3000, seed=0), 2)
    assert likelihood > ms.fit_mixture(planted.sample(3000, seed=0), 1)[1] + 0.1
    torch.testing.assert_close(mixture.weights, planted.weights, rtol=0, atol=0.05)
    torch.testing.assert_close(mixture.covariances, planted.covariances, rtol=0.15, atol=0.1)


def test_populations_with_random_overlaps_look_like_one_together():
    mixture = LoadingMixture.with_random_overlaps(3, rank=2, inputs=2, seed=0, overlap=0.5, input_scale=0.3)
    loadings, population = mixture.sample_with_populations(20_000, seed=1)
    table = loadings.table()
    for number, covariance in enumerate(mixture.covariances):
        torch.testing.assert_close(torch.cov(table[population == number].mT), covariance, rtol=0.1, atol=0.15)
    together = torch.cov(table.mT)
    torch.testing.assert_close(together[2:4, :2], 0.5 * torch.eye(2), rtol=0, atol=0.08)
    torch.testing.assert_close(together[2:4, 4:], torch.zeros(2, 2), rtol=0, atol=0.03)
    assert (mixture.covariances[0] - mixture.covariances[1])[2:4, :2].abs().max() > 0.5


def readout_model(loadings):
    """Return a model without input that shows kappa: its readout is n."""
    model = Model(LeakyRNN.from_loadings(loadings, leak=0.5), 1).double()
    with torch.no_grad():
        model.linear_readout.weight.copy_(loadings.right.mT / len(loadings.right))
        model.cell.bias = torch.nn.Parameter(loadings.left[:, 0] / 4)
    return model


def test_covariances_explain_a_network_of_one_population(tmp_path):
    torch.manual_seed(0)
    loadings = LoadingMixture.from_overlaps(torch.tensor([[2.0]], dtype=torch.float64)).sample(400, seed=0)
    model, xs = readout_model(loadings), torch.zeros(10, 1, 1, dtype=torch.float64)
    result = ms.measure_resampling(model, xs, model(xs)[0].detach(), populations=[1, 2], draws=3)
    assert result.needed == 1
    assert (result.kept[0] > 0.9).all()
    assert result.bic[0] < result.bic[1]
    result.save(tmp_path / "resampling.safetensors")
    again = ms.Resampling.load(tmp_path / "resampling.safetensors")
    assert "1 Gaussian population explains" in again.summary()
    assert len(again.figure().axes) == 1


def test_the_task_may_be_lost_with_one_population_and_kept_with_two():
    torch.manual_seed(0)
    loadings = two_populations().sample(400, seed=0)
    model = readout_model(loadings)

    def size_of_products(network):  # the mean of |m n| over the units, which one Gaussian without overlap lowers
        part = network.cell.connectivity
        return (part.left * part.right).abs().mean()

    result = ms.measure_resampling(model, score=size_of_products, populations=[1], draws=3, size=3000)
    assert result.needed is None
    assert "None of the mixtures keeps 90%, while networks of 3000 units" in result.summary()
    assert result.kept_by_units == pytest.approx(1, abs=0.2)
    both = ms.measure_resampling(model, score=size_of_products, populations=[1, 2], draws=3)
    assert both.needed == 2
    assert "2 Gaussian populations explain" in both.summary()


def test_a_task_that_depends_on_particular_units_is_lost_when_they_are_drawn_again():
    torch.manual_seed(0)
    model = readout_model(two_populations().sample(100, seed=0))
    trained = model.cell.connectivity.left.detach().clone()

    def share_of_first_units(network):  # only the trained network has its units in this order
        return (network.cell.connectivity.left[:50] == trained[:50]).double().mean()

    result = ms.measure_resampling(model, score=share_of_first_units, populations=[1], draws=3)
    assert result.kept_by_units < 0.2
    assert "neither found nor refuted" in result.summary()


def test_bad_arguments_are_refused():
    cell = ms.networks.low_rank(1, 10)
    with pytest.raises(ValueError, match="need more than 12 units"):
        ms.fit_mixture(cell.loadings(), 4)
    with pytest.raises(ValueError, match="populations must be a whole number"):
        ms.fit_mixture(cell.loadings(), 0)
