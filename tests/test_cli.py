"""The command line as a user meets it."""

import json
import subprocess
import sys
import time

import pytest
import torch

from mnemoscope.cli import main
from mnemoscope.config import PRESETS

TINY = ["--hidden-size", "8", "--steps", "6", "--evaluate-every", "3", "--threads", "1", "--batch-size", "8"]


def test_help_answers_within_a_second_and_teaches():
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "mnemoscope", "--help"], capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - started
    for word in ("demo", "train", "inspect", "list", "study", "studies"):
        assert word in done.stdout
    imported = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "mnemoscope", "train", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert " torch\n" not in imported.stderr
    assert seconds < 10  # seen: 0.3 s; loose, as the machine may be busy: what matters is that torch is not imported


@pytest.mark.parametrize("command", ["demo", "train", "inspect", "list", "study", "studies"])
def test_every_command_has_help(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert "--json" in text


@pytest.mark.parametrize("what", ["cells", "tasks", "lenses", "studies"])
def test_lists_for_programs(what, capsys):
    assert main(["list", what, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows
    assert all(row["name"] and row["summary"] and row["source"] for row in rows)
    assert main(["list", what]) == 0
    assert rows[0]["name"] in capsys.readouterr().out


def test_studies_for_programs(capsys):
    assert main(["studies", "--json"]) == 0
    assert "flipflop-cube" in [row["name"] for row in json.loads(capsys.readouterr().out)]


def test_train_resume_inspect(tmp_path, capsys):
    root = ["--root", str(tmp_path / "runs")]
    assert main(["train", "flipflop", *TINY, "--task-options", "bits", "2", "length", "12", *root, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["steps"] == 6
    assert main(["train", f"{result['folder']}/config.toml", *root]) == 0  # finished before: looked up
    assert "finished before" in capsys.readouterr().out
    assert main(["inspect", result["folder"], "--json"]) == 0
    looked = json.loads(capsys.readouterr().out)
    assert looked["points"] == len(looked["kinds"])
    assert looked["page"].endswith("page.html")
    assert main(["inspect", result["folder"], "--input", "1", "0"]) == 0
    assert "fixed point" in capsys.readouterr().out


def test_options_of_another_task_replace_the_presets(tmp_path, capsys):
    words = ["train", "--task", "adding", "--task-options", "length", "5", *TINY, "--root", str(tmp_path), "--json"]
    assert "bits" in PRESETS["flipflop"].task_options
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 6


def test_inspect_a_file_of_weights(tmp_path, capsys):
    path = tmp_path / "net.pt"
    torch.save(torch.nn.GRU(2, 6).state_dict(), path)
    assert main(["inspect", str(path), "--network", "gru"]) == 0
    out = capsys.readouterr().out
    assert "The index sum is 1" in out
    assert (tmp_path / "net.html").exists()
    assert main(["inspect", str(path)]) == 2
    assert "--network" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "flipflap"], "neither a preset"),
        (["train", "--task", "flipflap"], "flipflop"),
        (["train", "--steps", "0"], "steps must be at least 1"),
        (["train", "--task-options", "bitz", "3"], "bits"),
        (["inspect", "nowhere"], "no file or folder nowhere"),
        (["study", "nothing"], "There is no study named 'nothing'"),
    ],
)
def test_wrong_requests_end_in_a_sentence(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    try:
        status = main(words)
    except SystemExit as stop:  # tyro's own
        status = stop.code
    captured = capsys.readouterr()
    assert status == 2
    assert message in captured.err + captured.out
    assert "Traceback" not in captured.err


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("mnemoscope 0.")
