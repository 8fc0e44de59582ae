"""The speed of trajectories, where conditions run along one curve at known speeds."""

import numpy as np
import pytest
import torch

import mnemoscope as ms
from mnemoscope.lenses.traversal.kinematics import nearest_times

RATES = (0.04, 0.03, 0.02)


def circles(noise=0.0, trials=1, offset=0.0):
    """Trials along a quarter of a circle at three rates; `offset` lifts the last condition off the plane."""
    rate = torch.tensor(RATES, dtype=torch.float64).repeat_interleave(trials)
    angle = torch.arange(39).double()[:, None] * rate
    lift = torch.zeros_like(angle)
    lift[:, rate == rate.min()] = offset
    states = torch.stack([angle.cos(), angle.sin(), lift], 2)
    states = states + noise * torch.randn(states.shape, generator=torch.Generator().manual_seed(0)).double()
    table = ms.TrialTable.of({"interval": torch.tensor([400, 533, 800]).repeat_interleave(trials)}, step=10.0)
    return ms.Recording(states, table)


def test_nearest_times_agree_with_a_fine_search():
    generator = np.random.default_rng(0)
    path, states = np.cumsum(generator.standard_normal((12, 3)), 0), generator.standard_normal((7, 3))
    times, apart = nearest_times(path, states)
    fine = np.linspace(0, 11, 11001)
    places = np.stack([np.interp(fine, np.arange(12), path[:, axis]) for axis in range(3)], 1)
    distances = np.linalg.norm(states[:, None] - places, axis=2)
    assert np.allclose(apart, distances.min(1), atol=1e-5)
    assert np.allclose(times, fine[distances.argmin(1)], atol=2e-3)


def test_speeds_and_distances_are_relative_to_the_reference():
    found = ms.measure_speed(circles(offset=0.5), "interval", reference=400, draws=2)
    assert torch.allclose(found.ratio, torch.tensor(RATES, dtype=torch.float64) / 0.04, rtol=1e-3)
    assert torch.allclose(found.speed[0], torch.tensor(RATES, dtype=torch.float64), rtol=1e-3)
    assert torch.allclose(found.distance[:18, 2], torch.full((18,), 0.5).double(), atol=1e-3)
    assert found.ratio_low.isnan().all()  # one trial has no scatter
    assert found.scatter.isnan().all()
    assert "800: 0.50;" in found.summary() or "800: 0.50." in found.summary()
    assert found.figure().axes[0].get_xlabel() == "time of the reference (ms)"


def test_intervals_over_trials_hold_the_truth_and_scatter_explains_the_distance():
    recording = circles(noise=0.05, trials=30)
    found = ms.measure_speed(recording, "interval", components=2, draws=60)
    assert found.reference == 1
    truth = torch.tensor(RATES, dtype=torch.float64) / 0.03
    assert ((found.ratio_low <= truth + 1e-9) & (truth - 1e-9 <= found.ratio_high)).all()
    assert (found.distance[5:20].mean(0) < 2 * found.scatter[5:20].mean(0) + 1e-9).all()
    assert "scatter alone" in found.summary()


def test_trials_of_unequal_length_are_compared_where_they_are_known():
    recording = circles()
    recording.activity[20:, 0] = torch.nan
    found = ms.measure_speed(recording, "interval", reference=400, draws=1)
    assert found.aligned[20:].isnan().all()
    assert found.ratio[2] == pytest.approx(0.5, rel=1e-3)
    recording.activity[1:, 1] = torch.nan
    found = ms.measure_speed(recording, "interval", reference=400, draws=1)
    assert found.summary().count("533: unknown") == 2


def test_a_path_that_runs_backwards_has_no_relative_speed():
    forward = circles().activity[:, :1]
    table = ms.TrialTable.of({"interval": [400, 800]})
    found = ms.measure_speed(ms.Recording(torch.cat([forward, forward.flip(0)], 1), table), "interval", draws=1)
    assert found.reference == 1
    assert found.ratio[0].isnan()


def test_wrong_conditions_raise():
    with pytest.raises(ValueError, match="no value of 'interval'"):
        ms.measure_speed(circles(), "interval", reference=1)
    with pytest.raises(ValueError, match="two or more"):
        ms.measure_speed(circles().part([0]), "interval")
