"""Recordings: the activity of a network or of neurons, averaged over conditions and aligned to epochs."""

import pytest
import torch

import mnemoscope as ms


@pytest.fixture
def recording():
    activity = torch.arange(5 * 4 * 2, dtype=torch.float64).view(5, 4, 2)
    activity[4, 3] = torch.nan
    table = ms.TrialTable.of(
        {"choice": [0, 1, 0, 1], "reward": [0, 0, 1, 1]}, {"cue": (0, 2), "delay": (2, [5, 5, 4, 4])}, step=10.0
    )
    return ms.Recording(activity, table, activity[..., :1])


def test_averages_are_means_over_the_trials_of_each_group(recording):
    means = recording.average("choice")
    assert torch.equal(means.activity[:, 0], recording.activity[:, [0, 2]].mean(1))
    assert torch.equal(means.activity[4, 1], recording.activity[4, 1])  # the other trial has ended
    assert means.inputs is not None
    assert [epoch.name for epoch in means.table.epochs] == ["cue"]  # the delays of a group differ
    assert means.table["choice"].values.tolist() == [0, 1]
    assert recording.average().activity.shape == (5, 1, 2)


def test_an_epoch_is_aligned_to_its_start(recording):
    delay = recording.in_epoch("delay")
    assert torch.equal(delay.activity[:, 0], recording.activity[2:5, 0])
    assert torch.equal(delay.activity[:2, 3], recording.activity[2:4, 3])
    assert delay.activity[2, 3].isnan().all()
    assert delay.table.epoch("delay").lengths.tolist() == [3, 3, 2, 2]


def test_a_recording_of_a_network_has_its_states_and_ends_with_the_trial():
    network = torch.nn.LSTM(2, 3, batch_first=True)
    inputs = torch.randn(4, 6, 2)
    states = ms.record_activity(network, inputs, ms.TrialTable.of({"side": [0, 1, 0, 1]}), lengths=[6, 6, 4, 6])
    outputs = ms.record_activity(network, inputs, units="output")
    assert states.activity.shape == (6, 4, 6)
    assert states.activity[4:, 2].isnan().all()
    torch.testing.assert_close(states.activity[:4, :, :3], outputs.activity[:4])
    expected = network(inputs)[0].transpose(0, 1).double()
    torch.testing.assert_close(outputs.activity, expected)
    assert "up to 6 steps" in states.summary()
    assert states.part(slice(0, 2)).trials == 2
    assert torch.equal(states.present[:, 2], torch.arange(6) < 4)


def test_a_model_encodes_its_inputs_first():
    model = ms.Model(ms.cells.GRU(2, 3), 1)
    assert ms.record_activity(model, torch.zeros(4, 5, 2)).size == 3


def test_data_come_trials_first_and_are_saved(tmp_path, recording):
    rates = torch.rand(4, 5, 2)
    given = ms.Recording.from_trials(rates.numpy(), recording.table, inputs=rates[..., :1])
    assert torch.equal(given.activity[:, 1], rates[1].double())
    recording.save(tmp_path / "recording.safetensors")
    loaded = ms.Recording.load(tmp_path / "recording.safetensors")
    assert loaded.table.groups("choice", "reward").keys() == recording.table.groups("choice", "reward").keys()
    assert loaded.table.step == 10.0
    assert torch.equal(loaded.table.epoch("delay").stops, recording.table.epoch("delay").stops)
    assert torch.equal(loaded.activity.nan_to_num(), recording.activity.nan_to_num())


def test_figures_draw_conditions_and_single_means(recording):
    assert len(recording.figure().axes) == 2
    assert [line.get_text() for line in recording.figure().axes[0].get_legend().get_texts()] == ["choice 0", "choice 1"]
    assert ms.Recording(recording.activity).figure().axes[0].get_legend() is None


def test_wrong_shapes_are_refused(recording):
    with pytest.raises(ValueError, match="steps, trials and units"):
        ms.Recording(torch.zeros(0, 3, 2))
    with pytest.raises(ValueError, match="The table has 4 trials"):
        ms.Recording(torch.zeros(5, 3, 2), recording.table)
    with pytest.raises(ValueError, match="The inputs have"):
        ms.Recording.from_trials(torch.zeros(3, 5, 2), inputs=torch.zeros(3, 4, 1))
    with pytest.raises(ValueError, match="trials, time, units"):
        ms.Recording.from_trials(torch.zeros(5, 3))
