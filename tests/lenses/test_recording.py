"""Recordings: the activity of a network or of neurons, averaged over conditions and aligned to epochs."""

import sys
import warnings
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import mnemoscope as ms
from mnemoscope.lenses.recording.binning import bin_samples
from mnemoscope.lenses.recording.nwb import read_contents


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


def test_lengths_are_those_of_the_table():
    network, inputs, lengths = torch.nn.RNN(2, 3), torch.randn(6, 2, 2), torch.tensor([4, 6])
    table = ms.TrialTable(lengths=lengths)
    found = ms.record_activity(network, inputs, table)
    given = ms.record_activity(network, inputs, lengths=lengths)
    torch.testing.assert_close(found.activity, given.activity, equal_nan=True)
    assert found.part([0]).table.lengths.tolist() == [4]
    with pytest.raises(ValueError, match="lengths of a table must have the same number of trials"):
        replace(ms.TrialTable.of({"side": [0, 1, 2]}), lengths=lengths)


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
    with pytest.raises(ValueError, match='units must be "state" or "output", but is \'states\''):
        ms.record_activity(torch.nn.GRU(1, 2), torch.zeros(3, 1, 1), units="states")
    empty = ms.TrialTable.of({"choice": [torch.nan, torch.nan]})
    with pytest.raises(ValueError, match="No trial has a value of each of the conditions choice"):
        ms.Recording(torch.zeros(3, 2, 1), empty).average("choice")


# --- data of neurons ------------------------------------------------------------------------------------------------


def test_spikes_are_counted_in_bins_from_the_start_of_each_trial():
    """A slow reference: count the spikes of each bin one after another."""
    generator = torch.Generator().manual_seed(0)
    spikes = [3 * torch.rand(40, generator=generator).double() for _ in range(2)]
    starts, stops = [0.2, 1.0, 2.0], [0.7, 1.3, 2.5]
    recording = ms.Recording.from_spikes(spikes, starts, stops, step=100)
    assert recording.activity.shape == (5, 3, 2)
    assert recording.activity[3:, 1].isnan().all()
    for trial, (start, length) in enumerate(zip(starts, (5, 3, 5), strict=True)):
        for step in range(length):
            low, high = start + 0.1 * step, start + 0.1 * (step + 1)
            for unit in range(2):
                count = sum(low <= time < high for time in spikes[unit].tolist())
                assert float(recording.activity[step, trial, unit]) == pytest.approx(10 * count)
    assert "spikes in bins of 100 ms, as rates in Hz" in recording.summary()
    with pytest.raises(ValueError, match="shorter than a bin"):
        ms.Recording.from_spikes(spikes, [0.0], [0.01], step=20)
    some = ms.Recording.from_spikes(spikes, starts, stops, step=100, observed=[None, [[0.9, 1.4]]])
    assert some.activity[0, :, 1].isnan().tolist() == [True, False, True]
    assert "Units are missing in" in some.summary()


def test_smoothing_keeps_constants_and_ends_and_states_itself(recording):
    constant = ms.Recording(torch.ones_like(recording.activity).masked_fill(recording.activity.isnan(), torch.nan))
    smoothed = constant.smoothed(1.5)
    torch.testing.assert_close(smoothed.activity, constant.activity, equal_nan=True)
    assert smoothed.processing == "smoothed by a Gaussian of 1.5 steps"
    single = torch.zeros(9, 1, 1, dtype=torch.float64)
    single[4] = 1
    course = ms.Recording(single).smoothed(1.0).activity[:, 0, 0]
    assert float(course[5] / course[4]) == pytest.approx(2.718281828**-0.5, rel=1e-2)
    assert "20 ms" in ms.Recording.from_spikes([[0.1]], [0.0], [0.2], step=10, smoothing=20).processing
    with pytest.raises(ValueError, match="must be positive"):
        recording.smoothed(0)


def test_units_are_selected_and_scaled_by_their_range(recording):
    assert torch.equal(recording.select([1]).activity.nan_to_num(), recording.activity[..., 1:].nan_to_num())
    means = recording.average("choice").activity
    ranges = means.nan_to_num(nan=0).amax((0, 1)) - means.nan_to_num(nan=99).amin((0, 1))
    torch.testing.assert_close(
        recording.scaled("choice", soften=2.0).activity, recording.activity / (ranges + 2), equal_nan=True
    )
    with pytest.raises(ValueError, match="Unit 0 has the same mean"):
        ms.Recording(torch.ones(3, 2, 1)).scaled()


def test_the_complete_part_has_the_units_of_most_trials_and_the_trials_with_all_of_them():
    activity = torch.rand(4, 5, 3, dtype=torch.float64)
    activity[3, 0] = torch.nan  # a shorter trial, which is complete
    activity[:, 1:4, 1] = torch.nan
    activity[2, 4, 2] = torch.nan
    recording = ms.Recording(activity, ms.TrialTable.of({"side": range(5)}))
    complete = recording.complete()
    assert complete.table["side"].values.tolist() == [0, 1, 2, 3]
    torch.testing.assert_close(complete.activity, activity[:, :4, [0, 2]], equal_nan=True)
    assert recording.complete(0.4).table["side"].values.tolist() == [0]
    with pytest.raises(ValueError, match="No trial has all of the 0 units"):
        ms.Recording(activity[:, 1:4, 1:2]).complete()


def test_folds_test_every_trial_once_and_keep_the_conditions(recording):
    table = ms.TrialTable.of({"choice": [0, 0, 0, 1, 1, 1, torch.nan]})
    trials = ms.Recording(torch.arange(7.0).expand(2, 7).unsqueeze(2).double(), table)
    folds = trials.folds(3, "choice")
    tested = torch.cat([test.activity[0, :, 0] for _, test in folds])
    assert sorted(tested.tolist()) == [*range(7)]
    for fitted, test in folds:
        assert {0.0, 1.0} <= {*test.table["choice"].values.tolist()}
        assert not {*fitted.activity[0, :, 0].tolist()} & {*test.activity[0, :, 0].tolist()}
    assert len(trials.folds(7)) == 7
    with pytest.raises(ValueError, match="cannot be divided into 8 folds"):
        trials.folds(8)


class Columns(dict):
    """A table as pynwb returns it."""

    @property
    def colnames(self):
        return tuple(self)

    def __len__(self):
        return len(next(iter(self.values())))


def nwb_contents():
    trials = {
        "start_time": [0.0, 1.0, 2.0], "stop_time": [0.5, 1.4, float("nan")], "cue": [0.1, float("nan"), 2.1],
        "side": ["left", "right", "left"], "contrast": [0.5, 1.0, 0.25], "path": [[0, 1], [0, 1], [0, 1]],
    }  # fmt: skip
    units = {"spike_times": [[0.05, 0.31], [1.05]], "obs_intervals": [[[0, 3]], [[0.9, 1.5]]]}
    return SimpleNamespace(trials=Columns(trials), units=Columns(units), objects={})


def sampled(name, data, **times):
    absent = {"timestamps": None, "starting_time": None, "rate": None}
    return SimpleNamespace(name=name, data=data, **absent | times)


def test_samples_are_averaged_in_the_bins_of_trials():
    """A slow reference: the mean of the samples of each bin, in a loop."""
    generator = np.random.default_rng(0)
    samples, times = generator.normal(size=(40, 2)), np.arange(40) * 0.05
    samples[3, 0] = np.nan
    starts, stops = torch.tensor([[0.1, 0.93], [0.45, 1.53]], dtype=torch.float64)
    means = bin_samples(samples, times, starts, stops, 0.1)
    assert means.shape == (6, 2, 2)
    assert means[3:, 0].isnan().all()  # after the end of the first trial
    for trial, bins in ((0, 3), (1, 6)):
        for step in range(bins):
            low = float(starts[trial]) + 0.1 * step
            inside = samples[(times >= low - 1e-9) & (times < low + 0.1 - 1e-9)]
            np.testing.assert_allclose(means[step, trial], np.nanmean(inside, 0))
    with pytest.raises(ValueError, match="samples are 50 ms apart"):
        bin_samples(samples, times, starts, stops, 0.02)
    with pytest.raises(ValueError, match="as many rising times"):
        bin_samples(samples, times[::-1].copy(), starts, stops, 0.1)
    with pytest.raises(ValueError, match="do not overlap"):
        bin_samples(samples, times + 9, starts, stops, 0.1)


def test_a_series_of_an_nwb_file_becomes_activity():
    options = {"start": "start_time", "stop": "stop_time", "trials": None, "units": [1]}
    contents = nwb_contents()
    ramp = np.stack([np.arange(30.0), np.arange(30.0) + 100], 1)
    series = [
        sampled("dff", ramp, starting_time=0.0, rate=20.0),
        sampled("eye", ramp[:, 0], timestamps=ramp[:, 0] / 20),
    ]
    contents.objects = {each.name: each for each in (*series, sampled("video", np.zeros((3, 2, 2)), rate=1.0))}
    activity, _ = read_contents(contents, 100.0, [], {}, **options, series="dff")
    assert activity[:, 0, 0].tolist() == [100.5, 102.5, 104.5, 106.5, 108.5]
    eye, _ = read_contents(contents, 100.0, [], {}, **options | {"units": None}, series="eye")
    assert eye[:2, 0, 0].tolist() == [0.5, 2.5]
    with pytest.raises(KeyError, match="Did you mean 'dff'"):
        read_contents(contents, 100.0, [], {}, **options, series="df")
    with pytest.raises(ValueError, match="'video' has 3 dimensions"):
        read_contents(contents, 100.0, [], {}, **options, series="video")
    contents.units = None
    with pytest.raises(ValueError, match="there are dff, eye, video"):
        read_contents(contents, 100.0, [], {}, **options)


def test_contents_of_an_nwb_file_become_counts_conditions_and_epochs():
    options = {"start": "start_time", "stop": "stop_time", "trials": None, "units": None}
    counts, table = read_contents(nwb_contents(), 100.0, ["side", "contrast"], {"cue": ("cue", 0.3)}, **options)
    assert counts.shape == (5, 2, 2)  # the third trial has no end
    assert counts[:, 0, 0].tolist() == [1, 0, 0, 1, 0]
    assert counts[:, 0, 1].isnan().all()  # not observed
    assert counts[0, 1, 1] == 1
    assert table["side"].labels == ("left", "right")
    assert table["contrast"].values.tolist() == [0.5, 1.0]
    assert table.epoch("cue").starts.tolist() == [1, 3]  # unknown in the second trial: empty
    assert table.epoch("cue").stops.tolist() == [3, 3]
    with pytest.raises(KeyError, match="Did you mean 'side'"):
        read_contents(nwb_contents(), 100.0, ["sid"], {}, **options)
    with pytest.raises(ValueError, match="'path' has 2 dimensions"):
        read_contents(nwb_contents(), 100.0, ["path"], {}, **options)
    with pytest.raises(ValueError, match="needs a table of trials"):
        read_contents(SimpleNamespace(trials=None, units=None), 100.0, [], {}, **options)
    one, _ = read_contents(nwb_contents(), 100.0, [], {}, **options | {"trials": [1], "units": [False, True]})
    assert one.shape == (4, 1, 1)


def test_denoised_activity_is_that_of_the_first_components():
    """A slow reference: a singular value decomposition of all steps that were recorded."""
    activity = torch.randn(5, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    activity[3:, 1] = torch.nan
    found = ms.Recording(activity).denoised(2)
    assert torch.equal(found.activity.isnan(), activity.isnan())
    assert found.processing == "reduced to 2 components"
    rows = activity.flatten(0, 1)
    rows = rows[~rows.isnan().any(1)].numpy()
    left, lengths, right = np.linalg.svd(rows - rows.mean(0), full_matrices=False)
    expected = (left[:, :2] * lengths[:2]) @ right[:2] + rows.mean(0)
    reduced = found.activity.flatten(0, 1)
    np.testing.assert_allclose(reduced[~reduced.isnan().any(1)], expected, atol=1e-12)
    with pytest.raises(ValueError, match="3 components at most"):
        ms.Recording(activity).denoised(4)
    activity[0, 0, 0] = torch.nan
    with pytest.raises(ValueError, match=r"use recording.complete\(\) first"):
        ms.Recording(activity).denoised(1)


def test_an_nwb_file_is_read(tmp_path):
    import pynwb

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the package about its own files
        file = pynwb.NWBFile("trials", "id", datetime(2026, 1, 1, tzinfo=UTC))
        file.add_trial_column("side", "side of the stimulus")
        for start, side in ((0.0, "left"), (1.0, "right")):
            file.add_trial(start_time=start, stop_time=start + 0.5, side=side)
        file.add_unit(spike_times=[0.05, 0.07, 1.31], obs_intervals=[[0.0, 3.0]])
        file.add_unit(spike_times=[1.05], obs_intervals=[[0.9, 1.6]])
        samples = np.arange(40.0).reshape(20, 2)
        file.add_acquisition(pynwb.TimeSeries(name="rates", data=samples, unit="Hz", starting_time=0.0, rate=10.0))
        with pynwb.NWBHDF5IO(str(tmp_path / "data.nwb"), "w") as target:
            target.write(file)
        sampled = ms.Recording.from_nwb(tmp_path / "data.nwb", step=100, series="rates", smoothing=100)
        recording = ms.Recording.from_nwb(
            tmp_path / "data.nwb", step=100, conditions=["side"], epochs={"cue": (0, 0.2)}
        )
    assert sampled.processing == "means of rates in bins of 100 ms, smoothed by a Gaussian of 100 ms"
    assert sampled.activity.shape == (5, 2, 2)
    assert recording.activity[0, 0, 0] == 20
    assert recording.activity[:, 0, 1].isnan().all()
    assert recording.table["side"].labels == ("left", "right")
    assert recording.table.epoch("cue").stops.tolist() == [2, 2]


def test_without_pynwb_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynwb", None)
    with pytest.raises(ImportError, match=r"pip install 'mnemoscope\[nwb\]'"):
        ms.Recording.from_nwb("data.nwb", step=20)


@pytest.mark.parametrize(
    ("starts", "stops", "options", "message"),
    [
        ([0.0], [1.0], {"step": 0}, "must be positive"),
        ([0.0, 1.0], [1.0], {"step": 50}, "a start and a stop"),
        ([], [], {"step": 50}, "a start and a stop"),
        ([0.0, torch.nan], [1.0, 2.0], {"step": 50}, "is NaN"),
        ([0.0], [1.0], {"step": 50, "observed": [[[0, 1]]]}, "2 units, but the observed intervals of 1"),
    ],
)
def test_spikes_need_trials_bins_and_intervals_of_every_unit(starts, stops, options, message):
    with pytest.raises(ValueError, match=message):
        ms.Recording.from_spikes([[0.1, 0.2], [0.3]], starts, stops, **options)
