"""The factories of `ms.networks`: one for every name in the registries, with a description."""

import inspect

import pytest
import torch

import mnemoscope as ms
from mnemoscope import networks, registry
from mnemoscope.connectivity import LoadingMixture
from mnemoscope.relational import RelationalModel, Sizes

RENAMED = {"lstm": "relational_lstm", "ntm": "relational_ntm"}
"""Relational networks whose names belong to cells too."""


@pytest.mark.parametrize("entry", registry.cells, ids=lambda entry: entry.name)
def test_every_registered_cell_has_a_factory(entry):
    factory = getattr(networks, entry.name.replace("-", "_"))
    assert factory is entry.load()


@pytest.mark.parametrize("entry", registry.networks, ids=lambda entry: entry.name)
def test_every_registered_relational_network_has_a_factory(entry):
    name = RENAMED.get(entry.name, entry.name.replace("-", "_"))
    factory = getattr(networks, name)
    assert factory is entry.load()


@pytest.mark.parametrize("name", [name for name, member in vars(networks).items() if callable(member)])
def test_every_factory_is_described(name):
    description = inspect.getdoc(getattr(networks, name))
    assert description
    assert description.split("\n\n")[0].rstrip().endswith(".")
    assert "partial(" not in description


def test_a_factory_builds_the_named_network_with_its_published_defaults():
    cell = ms.networks.nnrnn(10, 128)
    assert (cell.input_size, cell.hidden_size) == (10, 128)
    assert (cell.connectivity.modulus_penalty, cell.connectivity.decay) == (1e-4, 1e-6)


def test_options_override_the_defaults_of_a_relational_factory():
    problem = Sizes(objects=4, choices=2)
    model = ms.networks.corelnet_l1(problem, l1=5.0)
    assert isinstance(model, RelationalModel)
    assert model.sparse.strength == 5.0
    assert ms.networks.corelnet(problem).sparse is None


def test_the_vectors_of_a_low_rank_network_start_from_one_population_or_from_several(monkeypatch):
    def numbered(populations, rank, inputs, seed, *, overlap, input_scale):
        assert (populations, overlap, input_scale) == (2, 0.5, 0.3)
        columns = 2 * rank + inputs
        means, covariances = torch.arange(1.0, columns + 1).expand(2, -1), torch.zeros(2, columns, columns)
        return LoadingMixture(torch.full((2,), 0.5), means, covariances, (rank, rank, inputs, 0, 0))

    monkeypatch.setattr(LoadingMixture, "with_random_overlaps", numbered)
    cell = networks.low_rank(1, 5, overlap=0.5, input_scale=0.3, populations=2)
    assert cell.loadings().table().tolist() == [[1.0, 2.0, 3.0]] * 5
    assert cell.connectivity.left.requires_grad
    assert networks.low_rank(1, 5).loadings().table().unique().numel() == 15
    with pytest.raises(ValueError, match="populations must be a whole number"):
        networks.low_rank(1, 10, populations=0)


def test_a_low_rank_network_has_no_more_populations_than_units():
    with pytest.raises(ValueError, match="pass fewer populations"):
        networks.low_rank(3, 32, populations=40)


@pytest.mark.parametrize("factory", [networks.memrnn, networks.relrnn])
def test_the_matrix_of_an_attentive_network_can_stay_orthogonal(factory):
    cell = factory(3, 6, nonlinearity="modrelu", scale=0.5, orthogonal=True)
    outputs, _ = ms.scan(cell, torch.randn(5, 2, 3))
    outputs.square().sum().backward()
    torch.optim.SGD(cell.parameters(), lr=0.1).step()
    V = cell.cell.connectivity()
    assert torch.allclose(V @ V.mT, torch.eye(6), atol=1e-6)
    assert factory(3, 6).cell.connectivity.unconstrained
