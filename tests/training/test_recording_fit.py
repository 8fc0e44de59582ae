"""Networks fitted to recordings: planted dynamics, missing data, and scores beside simple alternatives."""

import json
from pathlib import Path

import pytest
import torch

import mnemoscope as ms
from mnemoscope.training.forced_run import ForcedRun
from mnemoscope.training.least_squares import ridge
from mnemoscope.training.network_fit import prediction_score
from mnemoscope.training.unit_run import SPAN
from tests.slow import SLOW


def bistable(trials=24, time=30, units=12, noise=0.3):
    """Activity of units that read one variable, which a pulse drives into one of two states at -1 and 1."""
    generator = torch.Generator().manual_seed(0)
    strength = torch.linspace(-1, 1, trials, dtype=torch.float64)
    strength += 0.3 * strength.sign()  # trials of weak pulses stay near the saddle, and end on either side
    inputs = torch.zeros(time, trials, 1, dtype=torch.float64)
    inputs[2:8, :, 0] = strength
    path = [torch.zeros(trials, dtype=torch.float64)]
    for step in range(1, time):
        x = path[-1]
        path.append(x + 0.3 * (x - x**3 + inputs[step, :, 0]))
    directions = torch.randn(units, dtype=torch.float64, generator=generator)
    activity = torch.stack(path).unsqueeze(2) * directions + 3
    activity = activity + noise * torch.randn(activity.shape, dtype=torch.float64, generator=generator)
    return ms.Recording(activity, ms.TrialTable.of({"side": (strength > 0).long()}), inputs), directions


def test_a_correction_moves_the_state_to_the_data_that_are_known():
    """A slow reference: ridge regression of each trial on its known units alone."""
    model = ms.Model(ms.cells.GRU(1, 3), 5).double()
    data = torch.randn(2, 5, dtype=torch.float64)
    data[1, 2] = torch.nan
    state = torch.randn(2, 3, dtype=torch.float64)
    corrected = ForcedRun(model, 0.2).corrected(state, data, 0.5)
    for trial in range(2):
        known = ~data[trial].isnan()
        weights = model.readout.weight.detach()[known]
        penalty = 1e-2 * (weights.T @ weights).diagonal().mean() * torch.eye(3, dtype=torch.float64)
        rest = data[trial, known] - model.readout(state[trial])[known]
        step = torch.linalg.solve(weights.T @ weights + penalty, weights.T @ rest)
        torch.testing.assert_close(corrected[trial], state[trial] + 0.5 * step)


def test_predictions_use_only_earlier_data_and_none_after_the_warm_up():
    recording, _ = bistable(trials=3, time=8, units=4)
    run = ForcedRun(ms.Model(ms.cells.GRU(1, 3), 4).double(), 0.3)
    data, inputs = recording.activity, recording.inputs
    changed = data.clone()
    changed[5] += 1
    with torch.no_grad():
        before, after = run.predict(data, inputs), run.predict(changed, inputs)
        assert torch.equal(before[:5], after[:5])  # predictions of steps 1 to 5
        assert not torch.equal(before[5], after[5])
        assert torch.equal(run.predict(data, inputs, warm_up=5), run.predict(changed, inputs, warm_up=5))
        assert not torch.equal(run.filter(data, inputs)[5], run.filter(changed, inputs)[5])


def test_the_score_is_one_minus_the_share_of_squares_that_is_left():
    data = torch.tensor([1.0, -2.0, torch.nan])
    assert prediction_score(torch.tensor([1.0, -1.0, 5.0]), data) == pytest.approx(1 - 1 / 5)


@pytest.mark.parametrize("updates", [pytest.param(3, id="few updates"), pytest.param(300, id="fit", marks=SLOW)])
def test_a_network_is_fitted_to_trials_of_different_lengths_with_missing_units(updates):
    recording, _ = bistable() if updates > 100 else bistable(time=8)
    recording.activity[-3:, ::3] = torch.nan
    recording.activity[:, 1::4, 2] = torch.nan
    fit = ms.fit_network(recording, hidden_size=4, updates=updates, progress=False)
    assert float(fit.losses[-1]) < float(fit.losses[0])
    assert len(fit.held_out_trials) == 5
    assert len(fit.held_out_units) == 2
    assert "held-out trials" in fit.summary()
    if updates < 100:
        again = ms.fit_network(recording, hidden_size=4, updates=updates, progress=False)
        assert torch.equal(fit.losses, again.losses)
        return
    assert fit.free > fit.persistence


@SLOW
def test_the_fixed_points_of_an_easy_fit_are_those_of_the_planted_system():
    recording, directions = bistable(noise=0.05)
    fit = ms.fit_network(recording, hidden_size=3, updates=300, learning_rate=0.03, progress=False)
    points = ms.find_fixed_points(fit.model.cell)
    variable = (fit.model.readout(points.states.double()).detach() - 3) @ directions / directions.square().sum()
    by_kind = sorted(zip(points.kind, variable.tolist(), strict=True))
    assert [kind for kind, _ in by_kind] == ["saddle", "stable", "stable"]
    assert [value for _, value in by_kind] == pytest.approx([0, -1, 1], abs=0.3)


def test_force_with_full_forcing_is_a_ridge_regression_of_each_unit_on_the_steps_at_which_it_is_known():
    """A slow reference: with forcing 1, the state before each step is that of the data."""
    recording, _ = bistable(trials=6, time=9, units=3)
    activity, inputs = recording.activity, recording.inputs
    activity[-2:, 0] = torch.nan  # a shorter trial
    activity[-1, 3, 2] = torch.nan  # a unit that is missing
    test = recording.part([1])
    fit = ms.fit_network(
        recording, units="recorded", method="force", forcing=1.0, updates=1, alpha=0.3, test=test, progress=False
    )
    rows = activity.flatten(0, 1)
    mean = rows.nanmean(0)
    spread = (rows - mean).square().nanmean(0).sqrt()
    currents = ((activity - mean) / spread / SPAN).clamp(-0.95, 0.95).atanh()
    cell = fit.model.cell
    weights = torch.cat([cell.combined(), cell.drive, cell.bias.unsqueeze(1)], 1).detach()
    ones = torch.ones(8, 6, 1, dtype=torch.float64)
    features = torch.cat([currents[:-1].tanh(), inputs[1:], ones], 2)
    targets = (currents[1:] - 0.8 * currents[:-1]) / 0.2
    for unit in range(3):
        known = ~targets[..., unit].isnan()
        reference = ridge(features[known], targets[known][:, unit : unit + 1], 0.3)
        torch.testing.assert_close(weights[unit : unit + 1], reference)
    torch.testing.assert_close(fit.model.readout.weight.detach(), torch.diag(SPAN * spread))
    torch.testing.assert_close(fit.model.readout.bias.detach(), mean)
    assert fit.held_out_trials.tolist() == [0]


@pytest.mark.parametrize("method", ["gradient", "force"])
def test_units_of_a_network_are_the_recorded_units_and_hidden_ones(method):
    recording, _ = bistable(trials=6, time=9, units=3)
    recording.activity[:, ::2, 1] = torch.nan
    options = {"units": "recorded", "method": method, "hidden_size": 2, "updates": 3, "progress": False}
    fit = ms.fit_network(recording, **options)
    assert fit.model.cell.combined().shape == (5, 5)
    assert fit.model.readout.weight[:, 3:].eq(0).all()
    assert torch.equal(fit.losses, ms.fit_network(recording, **options).losses)
    if method == "force":
        with torch.random.fork_rng():
            torch.manual_seed(0)
            random = ms.cells.LeakyRNN(1, 5)
        torch.testing.assert_close(fit.model.cell.combined()[3:], random.combined()[3:].double())
    else:
        assert float(fit.losses[-1]) < float(fit.losses[0])


@SLOW
@pytest.mark.parametrize("method", ["gradient", "force"])
def test_a_network_of_recorded_and_hidden_units_has_the_fixed_points_of_the_planted_system(method):
    recording, directions = bistable(noise=0.05)
    slow = {"updates": 150, "learning_rate": 0.03, "hidden_size": 4}
    options = slow if method == "gradient" else {"hidden_size": 12}
    fit = ms.fit_network(recording, units="recorded", method=method, progress=False, **options)
    points = ms.find_fixed_points(fit.model.cell)
    rates = fit.model.readout(fit.model.cell.output(points.states.double())).detach()
    variable = (rates - 3) @ directions / directions.square().sum()
    by_kind = sorted(zip(points.kind, variable.tolist(), strict=True))
    assert [kind for kind, _ in by_kind] == ["saddle", "stable", "stable"]
    assert [value for _, value in by_kind] == pytest.approx([0, -1, 1], abs=0.3)


def test_the_folds_of_a_recording_are_fitted_and_tested():
    recording, _ = bistable(trials=6, time=6, units=3)
    fits = [ms.fit_network(fit, test=test, updates=1, progress=False) for fit, test in recording.folds(3, "side")]
    assert [fit.held_out_trials.tolist() for fit in fits] == [[0, 1]] * 3
    longer = ms.Recording(torch.cat([recording.activity, recording.activity]))
    shorter = ms.Recording(recording.activity)
    assert ms.fit_network(shorter, test=longer, updates=1, warm_up=8, progress=False).warm_up == 8


def test_networks_without_inputs_and_other_cells_are_fitted(capsys):
    recording, _ = bistable(trials=5, time=6, units=3)
    plain = ms.Recording(recording.activity)
    fit = ms.fit_network(plain, cell=torch.nn.GRU(1, 3), updates=1, warm_up=2)
    assert "fit:" in capsys.readouterr().err
    assert fit.model.readout.weight.shape == (3, 3)
    plain.activity[:, :, 0] = torch.nan
    with pytest.raises(ValueError, match="Unit 0 is missing in all trials"):
        ms.fit_network(plain, updates=1, progress=False)


def test_a_free_run_that_persistence_matches_is_called_so():
    constant = ms.Recording(torch.randn(4, 3, dtype=torch.float64).expand(6, 4, 3).clone())
    summary = ms.fit_network(constant, updates=1, progress=False).summary()
    assert "no better than persistence" in summary
    assert summary.startswith("On 1 held-out trial, R^2")


def test_wrong_arguments_are_refused():
    recording, _ = bistable(trials=4, time=6, units=3)
    with pytest.raises(ValueError, match="forcing must be above 0"):
        ms.fit_network(recording, forcing=0.0)
    with pytest.raises(ValueError, match="warm_up must be between 1 and 5"):
        ms.fit_network(recording, warm_up=6)
    with pytest.raises(ValueError, match="2 trials, 2 units and 3 steps"):
        ms.fit_network(recording.select([0]))
    infinite = ms.Recording(recording.activity.index_fill(0, torch.tensor([1]), torch.inf))
    with pytest.raises(ValueError, match="Unit 0 is infinite at step 1"):
        ms.fit_network(infinite)
    with pytest.raises(ValueError, match="must see its whole state"):
        ms.fit_network(recording, cell=torch.nn.LSTM(1, 3), updates=1, progress=False)
    with pytest.raises(ValueError, match='pass units="recorded"'):
        ms.fit_network(recording, method="force")
    with pytest.raises(ValueError, match="learning_rate is that of Adam: omit it"):
        ms.fit_network(recording, units="recorded", method="force", learning_rate=0.1)
    with pytest.raises(ValueError, match="which Adam does not have: omit it"):
        ms.fit_network(recording, alpha=1.0)
    with pytest.raises(ValueError, match="have 3 units or more"):
        ms.fit_network(recording, units="recorded", cell=ms.cells.LeakyRNN(1, 2), progress=False)
    with pytest.raises(ValueError, match="must have the units of the recording"):
        ms.fit_network(recording, test=recording.select([0, 1]))
    with pytest.raises(ValueError, match="but they are 'latent' and 'FORCE'"):
        ms.fit_network(recording, method="FORCE")
    with pytest.raises(ValueError, match="omit hidden_size"):
        ms.fit_network(recording, cell=torch.nn.GRU(1, 3), hidden_size=3)
    with pytest.raises(ValueError, match="takes 2 inputs, but the recording has 1"):
        ms.fit_network(recording, cell=torch.nn.GRU(2, 3))
    short = ms.Recording(recording.activity[:3], inputs=recording.inputs[:3])
    with pytest.raises(ValueError, match="end within the warm-up of 3 steps"):
        ms.fit_network(recording, test=short, warm_up=3)
    with pytest.raises(ValueError, match="No unit varies"):
        ms.fit_network(ms.Recording(torch.ones(6, 4, 3, dtype=torch.float64)))


def test_the_page_has_the_measured_fits_to_spikes():
    root = Path(__file__).parents[2]
    rows = json.loads((root / "benchmarks/results/recorded_spikes.json").read_text())["rows"]
    shown = (root / "docs/populations.md").read_text().partition("<!-- seeds -->")[2].partition("<!-- end -->")[0]
    lines = [line.strip("| ").split(" | ") for line in shown.strip().splitlines()[2:]]
    errors = [["none" if error is None else f"{error:.1f}" for error in row["errors"]] for row in rows]
    assert lines == [
        [row["design"], str(row["seed"]), f"{row['free']:.2f}", f"{row['stable']} + {row['others']}",
         f"{left}, {right}", saddle]
        for row, (left, right, saddle) in zip(rows, errors, strict=True)
    ]  # fmt: skip


def test_the_page_has_the_measured_sweep_of_fits_to_spikes():
    root = Path(__file__).parents[2]
    rows = json.loads((root / "benchmarks/results/recorded_spikes_sweep.json").read_text())["rows"]
    shown = (root / "docs/populations.md").read_text().partition("<!-- sweep -->")[2].partition("<!-- end -->")[0]
    lines = [line.strip("| ").split(" | ") for line in shown.strip().splitlines()[2:]]
    assert sum(int(line[5]) for line in lines) == len(rows)
    for design, units, components, trials, rate, *counts in lines:
        case = (design, units, None if components == "all" else int(components), int(trials), float(rate))
        found = [
            [error is not None and error < 5 for error in row["errors"]]
            for row in rows
            if case == tuple(row[key] for key in ("design", "units", "components", "trials", "rate"))
        ]
        stable = sum(first and second for first, second, _ in found)
        assert counts == [str(len(found)), str(stable), str(sum(saddle for *_, saddle in found))]


def test_the_network_that_is_fitted_is_a_copy():
    cell = torch.nn.RNN(1, 3)
    before = cell.weight_hh_l0.clone()
    recording = ms.Recording(torch.randn(12, 6, 4, generator=torch.Generator().manual_seed(0)).double().cumsum(0))
    fit = ms.training.fit_network(recording, cell=cell, updates=1, progress=False)
    assert cell.weight_hh_l0.dtype == torch.float32
    assert torch.equal(cell.weight_hh_l0, before)
    assert next(fit.model.parameters()).dtype == torch.float64
