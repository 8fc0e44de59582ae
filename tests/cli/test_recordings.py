"""The commands on files of recordings: arrays of NumPy, saved recordings and NWB files."""

import json

import numpy as np
import pytest
import torch

import mnemoscope as ms
from mnemoscope.cells.fitted_networks import save_fitted_network
from mnemoscope.cli import main
from mnemoscope.lenses.recording.planted import planted_trials
from tests.slow import SLOW


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    recording, _ = planted_trials(repeats=2, units=4, time=8)
    activity = recording.activity.transpose(0, 1).numpy().copy()
    activity[::3, -2:] = np.nan
    path = tmp_path_factory.mktemp("recording") / "rates.npz"
    sides = np.array(["left", "right"])[recording.table["choice"].values.numpy()]
    inputs = np.zeros((*activity.shape[:2], 1))
    np.savez(path, activity=activity, inputs=inputs, stimulus=recording.table["stimulus"].values.numpy(), side=sides)
    return path


def test_arrays_become_a_recording_with_conditions(file, tmp_path):
    recording = ms.read_recording(file, step=20, smoothing=20)
    assert recording.activity.shape == (8, 12, 4)
    assert recording.inputs.shape == (8, 12, 1)
    assert recording.table["side"].labels == ("left", "right")
    assert (recording.table.step, recording.processing) == (20, "smoothed by a Gaussian of 20 ms")
    assert ms.read_recording(file, conditions=["side"]).table.names == ("side",)
    np.save(tmp_path / "rates.npy", np.zeros((2, 3, 4)))
    assert ms.read_recording(tmp_path / "rates.npy").activity.shape == (3, 2, 4)
    recording.save(tmp_path / "saved.safetensors")
    saved = ms.read_recording(tmp_path / "saved.safetensors")
    assert torch.equal(saved.activity.nan_to_num(), recording.activity.nan_to_num())


def test_files_that_hold_no_recording_are_refused(file, tmp_path):
    np.savez(tmp_path / "other.npz", rates=np.zeros(3))
    np.savez(tmp_path / "times.npz", activity=np.zeros((2, 3, 4)), times=np.zeros(3))
    np.savez(tmp_path / "flat.npz", activity=np.zeros((2, 3, 4)), inputs=np.zeros((2, 3)))
    np.save(tmp_path / "words.npy", np.full((2, 3, 4), "word"))
    ms.Recording(torch.zeros(3, 2, 4)).save(tmp_path / "saved.safetensors")
    (tmp_path / "damaged.npy").write_bytes(b"nothing")
    (tmp_path / "data.mat").touch()
    (tmp_path / "data.nwb").touch()
    for name, options, reason in (
        ("none.npy", {}, "There is no file"),
        ("data.mat", {}, "A recording is a file that ends with"),
        ("data.nwb", {}, "name their width"),
        ("other.npz", {}, "needs an array `activity`"),
        ("damaged.npy", {}, "holds no arrays"),
        ("times.npz", {}, "for each of 2 trials, but 'times' in times.npz has the shape"),
        ("flat.npz", {}, "Inputs must be"),
        ("words.npy", {}, "must be real numbers"),
        ("saved.safetensors", {"step": 20}, "omit step and conditions"),
        ("other.npz", {"series": "dff"}, "A series belongs to an NWB file"),
    ):
        with pytest.raises((ValueError, FileNotFoundError), match=reason):
            ms.read_recording(tmp_path / name, **options)
    with pytest.raises(KeyError, match="no condition 'sid': it has stimulus, side"):
        ms.read_recording(file, conditions=["sid"])


@SLOW
def test_a_recording_is_described_with_figures(file, tmp_path, capsys):
    words = ["recording", str(file), "--shuffles", "2", "--rank", "1", "--figures", str(tmp_path / "figures")]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    names = ["recording", "principal components", "demixed components", "rotations", "selectivity", "tensor components"]
    assert [line.partition(": ")[0] for line in lines] == names
    assert {path.stem.replace("_", " ") for path in (tmp_path / "figures").iterdir()} == {*names}


def test_a_lens_that_does_not_apply_gives_the_reason(tmp_path, capsys):
    np.save(tmp_path / "one.npy", np.full((2, 3, 4), np.nan))
    assert main(["recording", str(tmp_path / "one.npy"), "--json"]) == 0
    summaries = json.loads(capsys.readouterr().out)
    assert [*summaries] == ["recording", "principal components", "tensor components"]
    assert summaries["principal components"].startswith("Not applied. ")


@SLOW
@pytest.mark.usefixtures("undrawn")
def test_a_network_is_fitted_to_a_file(file, tmp_path, capsys):
    words = ["fit", str(file), "--updates", "1", "--output", str(tmp_path / "page.html")]
    assert main([*words, "--units", "recorded", "--method", "force", "--folds", "2"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Fold 1: On 6 held-out trials")
    assert "fixed point" in printed
    assert (tmp_path / "page.html").is_file()
    network = tmp_path / "page.network.safetensors"
    assert str(network.resolve()) in printed
    assert main(["inspect", str(network)]) == 0
    assert "fixed point" in capsys.readouterr().out
    assert (tmp_path / "page.network.html").is_file()


@SLOW
def test_a_fit_is_printed_as_json(file, tmp_path, capsys):
    words = ["fit", str(file), "--updates", "1", "--hidden-size", "2", "--output", str(tmp_path / "page.html")]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [*found] == ["fits", "summary", "page", "weights"]
    assert found["page"] == str((tmp_path / "page.html").resolve())


def test_errors_name_options_and_not_arguments_of_python(file, tmp_path, capsys):
    assert main(["fit", str(file), "--method", "force"]) == 2
    assert "--method force fits the weights between recorded units: pass --units recorded." in capsys.readouterr().err
    network = save_fitted_network(ms.Model(ms.networks.leaky_rnn(1, 2), 1), tmp_path / "fit.safetensors")
    assert main(["inspect", str(network), "--network", "gru"]) == 2
    assert "omit --network, --nonlinearity and --prefix" in capsys.readouterr().err


def test_a_number_of_folds_below_one_is_refused(file, capsys):
    assert main(["fit", str(file), "--folds", "0"]) == 2
    assert "folds must be a whole number, at least 1" in capsys.readouterr().err


def test_inspect_names_the_commands_for_recordings(file, capsys):
    assert main(["inspect", str(file)]) == 2
    assert "mnemoscope recording, or mnemoscope fit" in capsys.readouterr().err
