"""The page section on the latent variables of a low-rank network."""

from functools import partial

import pytest
import torch

import mnemoscope as ms
from mnemoscope.inspection.low_rank import low_rank_sections
from mnemoscope.report import InspectedNetwork


def inspected(cell):
    dynamics = ms.Dynamics(cell)
    fp = ms.find_fixed_points(dynamics, torch.zeros(1, dynamics.size, dtype=torch.float64))
    return InspectedNetwork(cell, dynamics, fp, torch.zeros(3, 2, dynamics.size, dtype=torch.float64))


@pytest.mark.usefixtures("undrawn")
def test_a_low_rank_network_has_a_section_on_its_latent_variables(monkeypatch):
    from_zero = partial(ms.measure_reduction, starts=torch.zeros(1, 1, dtype=torch.float64))
    monkeypatch.setattr("mnemoscope.inspection.low_rank.measure_reduction", from_zero)
    (section,) = low_rank_sections(inspected(ms.networks.low_rank(1, 5)))
    assert section.title == "Latent variables"
    assert section.lead.startswith("A network of 5 units and rank 1 follows 1 latent variable")


def test_other_networks_have_none():
    assert low_rank_sections(inspected(ms.networks.leaky_rnn(1, 5))) == []
    assert low_rank_sections(inspected(ms.networks.low_rank(1, 5, gain=0.5))) == []
