"""Computed studies of non-normal matrices, checked by sampling, by matrix powers and by their own rows."""

from pathlib import Path

import pytest
import torch

from mnemoscope.replication import Finished
from mnemoscope.replication.linear_networks import feed_forward
from mnemoscope.studies.kerg2022 import chain_transients, schur_accuracy


def rows(study, preset="cpu"):
    chosen = study.presets[preset]
    trials = study.trials(chosen.settings, chosen.seeds)
    return study.summarise([Finished(trial, study.run(trial, Path(), progress=False)) for trial in trials])


@pytest.mark.parametrize("module", [chain_transients, schur_accuracy])
def test_every_claim_is_compared_and_matches(module):
    table = rows(module.STUDY)
    assert {row.claim for row in table} == {*module.STUDY.claims}
    assert [row.quantity for row in table if row.verdict != "matches"] == []


def test_the_last_unit_is_the_root_mean_square_over_the_sphere():
    theta = feed_forward(1.05, 0.1, 0.0, 6)
    starts = torch.randn(20_000, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    starts /= starts.norm(dim=1, keepdim=True)
    sampled = [(starts @ torch.linalg.matrix_power(theta, t).mT)[:, -1].square().mean().sqrt() for t in range(7)]
    torch.testing.assert_close(chain_transients.last_unit(theta), torch.stack(sampled), rtol=0.03, atol=0.0)


@pytest.mark.parametrize("t", [1, 3, 7])
def test_coefficients_of_powers_are_those_of_the_matrix(t):
    x = 0.3
    A = torch.eye(5, dtype=torch.float64) + x * torch.ones(5, 5, dtype=torch.float64).triu(1)
    powers = torch.tensor([x**power for power in range(5)], dtype=torch.float64)
    values = torch.tensor(chain_transients.power_coefficients(5, t), dtype=torch.float64) @ powers
    torch.testing.assert_close(values, torch.linalg.matrix_power(A, t)[0])


def test_a_wrong_matrix_is_inaccurate_only_if_it_is_far_from_normal():
    """A triangular matrix of small weights is nearly normal: its eigenvalues are found to rounding."""
    nearly = schur_accuracy.decomposition_errors(
        feed_forward(1e-6, 0.0, 0.0, 30).numpy() + torch.arange(30.0).diag().numpy()
    )
    assert (
        nearly["error of the eigenvalues"]
        < 1e-5
        < schur_accuracy.decomposition_errors(schur_accuracy.grcar(40))["error of the eigenvalues"]
    )
