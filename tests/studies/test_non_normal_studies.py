"""Computed studies of non-normal matrices, checked by sampling, by matrix powers and by their own rows."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from mnemoscope.config.run_config import RunConfig
from mnemoscope.connectivity import Schur
from mnemoscope.replication import Finished
from mnemoscope.replication.linear_networks import feed_forward
from mnemoscope.replication.verdicts import Verdict
from mnemoscope.studies.kerg2022 import chain_transients, copy_200, learned_schur, psmnist, ptb_bpc, schur_accuracy
from mnemoscope.tasks import PennTreebank
from mnemoscope.training import build_model, build_task
from tests.tasks import data_sets


def rows(study, preset="cpu"):
    chosen = study.presets[preset]
    trials = study.trials(chosen.settings, chosen.seeds)
    return study.summarise([Finished(trial, study.run(trial, Path(), progress=False)) for trial in trials])


@pytest.mark.parametrize("module", [chain_transients, schur_accuracy])
def test_every_claim_is_compared_and_matches(module):
    table = rows(module.STUDY)
    assert {row.claim for row in table} == {*module.STUDY.claims}
    assert [row.quantity for row in table if row.verdict != "matches"] == []


def test_copying_compares_the_timescale_of_nnrnn_with_the_fastest_orthogonal_network():
    study = copy_200.STUDY
    learned = {"nnrnn": 500, "exprnn": 450, "eurnn": 600}
    chosen = study.presets["paper"]
    results = []
    for trial in study.trials(chosen.settings, chosen.seeds):
        steps = [100.0 * n for n in range(1, 11)]
        last = learned.get(trial.subject.network, 10**6)
        levels = [0.995 if step >= last else 0.12 for step in steps]
        curve = {"step": steps, "accuracy": levels, "loss": [0.1] * 10}
        result = {"parameters": 9, "baseline": 0.0945, "loss": 0.1, "accuracy": levels[-1], "curve": curve}
        results.append(Finished(trial, result))
    found = {row.quantity: row for row in study.summarise(results)}
    speed = found[f"nnrnn: {copy_200.TIMESCALE}"]
    assert speed.measured == pytest.approx([1.0] * 5)  # both have learned it at the evaluation of step 500
    assert speed.verdict is Verdict.MATCHES
    assert "exprnn 500, eurnn 600" in speed.remark
    assert "1 times expRNN's" in speed.remark
    without = [each for each in results if each.trial.subject.network != "exprnn"]
    assert f"nnrnn: {copy_200.TIMESCALE}" not in {row.quantity for row in study.summarise(without)}


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


@pytest.mark.parametrize("size", [6, 7])
def test_moduli_with_the_released_mask_are_those_of_the_matrix(size):
    torch.manual_seed(0)
    matrix = Schur(size, within_pairs=True)
    torch.nn.init.normal_(matrix.T)
    with torch.no_grad():
        expected = torch.linalg.eigvals(matrix().double()).abs().mean().item()
        assert learned_schur.mean_modulus(matrix) == pytest.approx(expected, abs=1e-5)
        assert learned_schur.mean_modulus(Schur(size)) == pytest.approx(1.0)


def test_a_window_of_300_steps_is_as_published_after_100_epochs_only():
    study = ptb_bpc.STUDY
    trials = {trial.name: trial for trial in study.trials(study.presets["paper"].settings, (0,))}
    assert all(map(study.as_published, trials.values()))
    shorter = replace(trials["nnrnn, T 300"], settings={**trials["nnrnn, T 300"].settings, "steps": 131})
    other = replace(trials["nnrnn"], settings={**trials["nnrnn"].settings, "task_options": {"length": 125}})
    assert not study.as_published(shorter)
    assert not study.as_published(other)


def test_recipes_are_not_as_published():
    study = learned_schur.STUDY
    trials = study.trials(study.presets["recipes"].settings, (0,))
    assert len({trial.hash for trial in trials}) == len(learned_schur.RECIPES)
    assert not any(map(study.as_published, trials))


def test_ten_streams_are_evaluated_from_their_start_to_their_end(monkeypatch, tmp_path):
    data_sets.use(monkeypatch, tmp_path)
    config = RunConfig("try", task="ptb", task_options={"length": 7}, cell="rnn", hidden_size=6, embedding=3)
    task = build_task(config)
    model = build_model(config, task)
    found = ptb_bpc.in_released_streams(model, task, config)
    whole = PennTreebank(length=1000).batch(10, 0, 0, "test")
    assert whole.inputs.shape[:2] == (23, 10)  # 240 symbols
    expected = task.scores(model(whole.inputs)[0], whole)
    assert found == pytest.approx({f"{key} in ten streams": value for key, value in expected.items()}, rel=1e-5)


def test_recipes_of_permuted_mnist_change_the_start_alone():
    study = psmnist.STUDY
    recipes = study.trials(study.presets["recipes"].settings, (0,))
    (published,) = [each for each in study.trials(study.presets["paper"].settings, (0,)) if each.name == "rnn-orth"]
    for trial in recipes:
        changed = {name for name in trial.settings if trial.settings[name] != published.settings[name]}
        assert changed <= {"cell", "cell_options", "steps"}
