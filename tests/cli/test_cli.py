"""The command line: help, lists, training, inspection, and errors."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

from mnemoscope import registry
from mnemoscope.cells.network_files import load_inputs
from mnemoscope.cli import main
from mnemoscope.cli.entry_point import _COMMANDS, _parse
from mnemoscope.cli.help_text import SUMMARIES, program_help
from mnemoscope.config import PRESETS
from mnemoscope.lenses import FixedPoints
from mnemoscope.training import task_named
from tests.slow import SLOW, representatives, slow

TINY = ["--hidden-size", "8", "--steps", "6", "--evaluate-every", "3", "--threads", "1", "--batch-size", "8"]


def test_help_names_every_command_and_does_not_import_torch():
    command = [sys.executable, "-X", "importtime", "-m", "mnemoscope"]
    done = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True)
    for word in ("demo", "train", "inspect", "list", "study", "studies", "scoreboard", "runs", "sweep"):
        assert word in done.stdout
    asked = subprocess.run([*command, "train", "--help"], capture_output=True, text=True, check=True)
    for imported in (done.stderr, asked.stderr):
        assert " mnemoscope.cli\n" in imported
        assert not re.search(r" (torch|numpy|scipy|matplotlib)\n", imported)  # they take most of a second


def test_the_help_of_the_program_imports_no_command_and_shows_the_first_line_of_each(capsys):
    command = [sys.executable, "-X", "importtime", "-m", "mnemoscope", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not re.search(r" (mnemoscope\.cli\.entry_point|mnemoscope\.registry|tyro)\n", done.stderr)
    assert {name: (kind.__doc__ or "").partition("\n")[0] for name, kind in _COMMANDS.items()} == SUMMARIES
    assert list(SUMMARIES) == list(_COMMANDS)
    for words in ([], ["-h"], ["--help"]):
        assert main(words) == 0
        assert capsys.readouterr().out == program_help() + "\n"


@pytest.mark.parametrize("ranks", [{}, {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}])
def test_only_the_first_process_prints_the_help_of_the_program(ranks, capsys, monkeypatch):
    for name, value in ({"MASTER_ADDR": "localhost", "MASTER_PORT": "1"} | ranks).items():
        monkeypatch.setenv(name, value)
    assert main(["--help"]) == 0
    assert capsys.readouterr().out == program_help() + "\n"
    if ranks:
        monkeypatch.setenv("RANK", "1")
        monkeypatch.setenv("LOCAL_RANK", "1")
        assert main(["--help"]) == 0
        assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "command", ["demo", "train", "inspect", "list", "study", "studies", "scoreboard", "runs", "sweep"]
)
def test_every_command_has_help(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert "--json" in text


@pytest.mark.parametrize("what", ["cells", "networks", "tasks", "lenses", "studies"])
def test_a_list_has_name_summary_and_source(what, capsys):
    assert main(["list", what, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows
    assert all(row["name"] and row["summary"] and row["source"] for row in rows)
    assert main(["list", what]) == 0
    assert rows[0]["name"] in capsys.readouterr().out


def test_tasks_are_listed_with_their_baselines(capsys):
    assert main(["list", "tasks", "--json"]) == 0
    losses = {row["name"]: row["baseline"] for row in json.loads(capsys.readouterr().out)}
    assert losses.pop("environment") is None  # depends on the environment
    assert losses == {name: task_named(name).baseline() for name in registry.tasks.entries if name != "environment"}
    assert main(["list", "tasks"]) == 0
    options = "bits 3, length 64, rate 0.1, width 1, apart 0, settle 0"
    shown = capsys.readouterr().out
    assert f"{options}: loss without memory {losses['flipflop']:.3g}" in shown
    assert "the loss depends on environment, which must be given" in shown


NOTHING = "knowing nothing: all zeros 10, all ones 15"
"""Wrong bits of constant answers, for 5x5 matrices with four random rows (errata 6)."""


@SLOW
@pytest.mark.usefixtures("undrawn")
def test_wrong_bits_are_compared_with_constant_answers(tmp_path, capsys):
    words = ["train", "--task", "matrix-copy", "--cell", "lstm", *TINY, "--root", str(tmp_path)]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "wrong bits " in out
    assert f"; accuracy without memory 0.6000; {NOTHING}." in out
    assert main([*words, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["trivial"] == {"all zeros": 10.0, "all ones": 15.0}
    assert result["chance"] == 0.6
    assert main(["inspect", result["folder"]]) == 0
    assert NOTHING in (Path(result["folder"]) / "page.html").read_text()


@SLOW
def test_bit_tasks_are_listed_with_constant_answers(capsys):
    assert main(["list", "tasks", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    rows, chances = ({row["name"]: row[key] for row in listed} for key in ("trivial", "chance"))
    assert (chances["copy"], chances["matrix-copy"], chances["adding"]) == (0.125, 0.6, None)
    assert rows["matrix-copy"] == {"all zeros": 10.0, "all ones": 15.0}
    assert rows["flipflop"] == {}
    assert main(["list", "tasks"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.endswith(": loss without memory 0.0945, accuracy 0.125") for line in lines)
    assert sum(line.endswith(f"wrong bits {NOTHING}") for line in lines) == 2  # matrix-copy and matrix-recall
    assert sum("knowing nothing" in line for line in lines) == sum(bool(trivial) for trivial in rows.values())


@representatives("what4")
@pytest.mark.parametrize("what", [[], ["cells"], ["networks"], ["lenses"], ["studies"], ["presets"]])
def test_other_lists_do_not_import_torch(what):
    code = f"import sys; from mnemoscope.cli import main; main(['list', *{what}]); sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_studies_are_listed_as_json(capsys):
    assert main(["studies", "--json"]) == 0
    assert "flipflop-cube" in [row["name"] for row in json.loads(capsys.readouterr().out)]


def train_tiny(preset, root, capsys, *options):
    """Return the folder of a run of few steps."""
    assert main(["train", preset, *TINY, *options, "--root", str(root), "--json"]) == 0
    return json.loads(capsys.readouterr().out)["folder"]


def test_trained_runs_are_compared(tmp_path, capsys):
    short = ["--task-options", "bits", "1", "length", "12", "--seed"]
    folders = [train_tiny("flipflop", tmp_path, capsys, *short, seed) for seed in ("0", "1")]
    small = ["--trials", "4", "--draws", "0"]
    assert main(["compare", *folders, *small, "--method", "cka", "--figure", str(tmp_path / "figure.png")]) == 0
    assert f"{Path(folders[0]).name}   {Path(folders[1]).name}" in capsys.readouterr().out
    assert (tmp_path / "figure.png").exists()
    page = tmp_path / "page.html"
    assert main(["compare", *folders, *small, "--method", "topology", "--json", "--out", str(page)]) == 0
    assert "All pairs" in page.read_text()
    assert "Fixed points at each input" in page.read_text()
    assert len(json.loads(capsys.readouterr().out)["signatures"]) == 2
    driven = [*small, "--method", "input-dsa", "--delays", "2", "--rank", "2", "--score", "euclidean"]
    assert main(["compare", *folders, *driven, "--inputs", "own", "--json"]) == 0
    own = json.loads(capsys.readouterr().out)["distances"]
    assert main(["compare", *folders, *driven, "--json"]) == 0
    assert own == json.loads(capsys.readouterr().out)["distances"]  # the same task and seed


@SLOW
def test_runs_of_a_task_with_contexts_are_compared_at_the_inputs_of_its_conditions(tmp_path, capsys):
    # Two copies of one run, under other paths: the names of their folders are equal.
    first = train_tiny("context-decision", tmp_path, capsys)
    other = tmp_path / "copy" / Path(first).name
    shutil.copytree(first, other)
    topology = ["compare", first, str(other), "--draws", "0", "--method", "topology"]
    assert main(topology) == 0
    out = capsys.readouterr().out
    assert "Fixed points at the mean input of: context motion, context colour." in out
    assert str(other) in out
    assert main([*topology, "--epoch", "fixation", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["distances"] == [[0.0, 0.0], [0.0, 0.0]]
    dynamics = ["compare", first, str(other), "--draws", "0", "--delays", "2", "--rank", "2"]
    assert main([*dynamics, "--inputs", "grid", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["distances"][0][1] == pytest.approx(0, abs=1e-6)
    flipflop = train_tiny("flipflop", tmp_path, capsys, "--task-options", "bits", "1", "length", "12")
    for options, message in [
        ([], "so that no trials suit both"),
        (["--method", "topology"], "so that no trials suit both"),
        (["--method", "cka", "--inputs", "own"], "suits dsa and input-dsa only"),
        (["--epoch", "delay"], "belong to --method topology"),
    ]:
        assert main(["compare", first, flipflop, "--draws", "0", *options]) == 2
        assert message in capsys.readouterr().err
    for options, message in [(["--inputs", "grid"], "no grid"), (["--method", "topology", "--epoch", "delay"], "omit")]:
        assert main(["compare", flipflop, flipflop, "--draws", "0", *options]) == 2
        assert message in capsys.readouterr().err
    assert main(["compare", flipflop]) == 2
    assert "two runs or more" in capsys.readouterr().err


@pytest.mark.usefixtures("undrawn")
def test_a_trained_run_is_reused_and_inspected(tmp_path, monkeypatch, capsys):
    root = ["--root", str(tmp_path / "runs")]
    assert main(["train", "flipflop", *TINY, "--task-options", "bits", "2", "length", "12", *root, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["steps"] == 6
    with monkeypatch.context() as patch:
        patch.setattr("mnemoscope.registry.named_plugins", lambda: ["mine.py"])
        assert main(["train", f"{result['folder']}/config.toml", *root]) == 0  # finished before: not repeated
    out = capsys.readouterr().out
    assert "finished before" in out
    assert f"Inspect it: mnemoscope --plugin mine.py inspect {result['folder']}\n" in out
    assert main(["inspect", result["folder"], "--json"]) == 0
    inspection = json.loads(capsys.readouterr().out)
    assert inspection["points"] == len(inspection["kinds"])
    assert inspection["page"].endswith("page.html")
    assert result["loss"] > result["baseline"]  # after 6 steps
    sentence = f"Its loss of {result['loss']:.3g} is not below the {result['baseline']:.3g} reached without memory."
    assert sentence in Path(inspection["page"]).read_text()
    assert main(["inspect", result["folder"], "--input", "1", "0"]) == 0
    assert "fixed point" in capsys.readouterr().out


@pytest.mark.usefixtures("undrawn")
def test_a_result_brings_no_escape_sequences_and_a_pipe_does_not_block(tmp_path, capsys):
    words = ["train", "flipflop", "--hidden-size", "2", "--steps", "1", "--batch-size", "2", "--root", str(tmp_path)]
    assert main(words) == 0
    (path,) = tmp_path.rglob("result.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"scores": {"\x1b]0;title\x07accuracy": 0.5}}))
    capsys.readouterr()
    assert main(words) == 0
    captured = capsys.readouterr()
    assert "accuracy 0.5" in captured.out
    assert "\x1b" not in captured.out + captured.err
    os.mkfifo(path.with_name("page.html"))  # writing would wait for a reader
    assert main(["inspect", str(path.parent)]) == 2
    assert "page.html is a pipe or a device" in capsys.readouterr().err


def test_options_of_the_preset_are_dropped_for_another_task(tmp_path, capsys):
    words = ["train", "--task", "adding", "--task-options", "length", "5", *TINY, "--root", str(tmp_path), "--json"]
    assert "bits" in PRESETS["flipflop"].task_options
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 6


@representatives("words5", "words6")
@pytest.mark.parametrize(
    "words",
    [
        ["adding", "--steps", "6"],
        ["--steps", "6", "adding"],
        ["--steps=6", "adding", "--json"],
        ["--resume", "adding", "--task-options", "length", "7"],
        ["--task-options", "length", "7", "adding", "--steps", "6"],
        ["--name", "copy", "--cell-options", "bias", "False", "adding"],
        ["adding", "--no-readout-bias", "--steps", "6"],
    ],
)
def test_the_preset_may_be_anywhere_among_the_options(words):
    assert _parse(["train", *words]).run_config.task == "adding"
    assert _parse(["train", *(word for word in words if word != "adding")]).run_config.task == "flipflop"


def test_a_run_without_a_preset_is_named_after_its_task():
    names = {
        ("--task", "adding"): "adding",
        ("--task=rmts3", "--steps", "2"): "rmts3",
        ("--task", "adding", "--name", "mine"): "mine",
        ("copy", "--task", "adding"): "copy",
        (): "flipflop",
    }
    for words, name in names.items():
        assert _parse(["train", *words]).run_config.name == name


def test_a_closed_pipe_is_no_error():
    for words in (["list", "--json"], ["train", "--help"]):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([sys.executable, "-m", "mnemoscope", *words], stdout=writer, stderr=subprocess.PIPE)
        os.close(writer)
        assert done.returncode == 141
        assert done.stderr == b""


@pytest.mark.usefixtures("undrawn")
def test_inspect_runs_a_network_on_given_trials(tmp_path, capsys):
    path, trials = tmp_path / "net.pt", tmp_path / "trials.npy"
    torch.save(torch.nn.GRU(2, 3).state_dict(), path)
    np.save(trials, np.random.default_rng(0).normal(size=(5, 4, 2)))
    words = ["inspect", str(path), "--network", "gru", "--trials"]
    assert main([*words, str(trials)]) == 0
    page = (tmp_path / "net.html").read_text()
    assert "start at random states" not in page
    assert "How long it remembers" in page
    torch.save(torch.randn(5, 4, 2), tmp_path / "trials.pt")
    assert torch.equal(load_inputs(tmp_path / "trials.pt"), torch.load(tmp_path / "trials.pt"))
    capsys.readouterr()
    for content, message in ((torch.randn(5, 4, 2).cfloat(), "complex numbers"), ({"x": 1}, "a dict")):
        torch.save(content, tmp_path / "trials.pt")
        assert main([*words, str(tmp_path / "trials.pt")]) == 2
        assert f"holds {message}, not a tensor of inputs (time, trials, features)" in capsys.readouterr().err
    trials.write_bytes(b"nonsense")
    assert main([*words, str(trials)]) == 2
    assert "is no .npy file of numbers" in capsys.readouterr().err
    assert main([*words, str(tmp_path / "nothing.npy")]) == 2
    assert "There is no file" in capsys.readouterr().err


@pytest.mark.usefixtures("undrawn")
def test_inspect_reads_a_file_of_weights(tmp_path, capsys):
    path = tmp_path / "net.pt"
    torch.save(torch.nn.GRU(2, 6).state_dict(), path)
    assert main(["inspect", str(path), "--network", "gru"]) == 0
    out = capsys.readouterr().out
    assert "The index sum is 1" in out
    text = (tmp_path / "net.html").read_text()
    assert "Growth near the fixed points" in text
    assert "Recurrent matrix" not in text  # a GRU has several
    assert "henrici1962" in text
    assert main(["inspect", str(path)]) == 2
    assert "--network" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "flipflap"], "neither a preset"),
        (["train", "flipflop", "--steps", "3", "copy"], "one preset or .toml file, but got 'flipflop' and 'copy'"),
        (["train", "--task-options", "bits"], "come in pairs of name and value"),
        (["train", "--task", "flipflap"], "flipflop"),
        (["train", "--steps", "0"], "mnemoscope: steps must be at least 1"),
        (["train", "--cell", "nope"], "mnemoscope: cell is 'nope', which is no registered cell."),
        (["sweep", "--over", "seed=1,2", "--name", "../x"], "mnemoscope: name is the name of a folder"),
        (["train", "--task-options", "bitz", "3"], "bits"),
        (["inspect", "nowhere"], "no file or folder nowhere"),
        (["trian", "--help"], "There is no command 'trian'. Did you mean 'train'?"),
        (["study", "nothing"], "There is no study named 'nothing'"),
    ],
)
def test_a_wrong_request_is_refused_with_a_message(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    try:
        status = main(words)
    except SystemExit as stop:  # raised by tyro
        status = stop.code
    captured = capsys.readouterr()
    assert status == 2
    assert message in captured.err + captured.out
    assert "Traceback" not in captured.err


def test_without_arguments_it_prints_the_help(capsys):
    assert main([]) == 0
    assert "mnemoscope train flipflop" in capsys.readouterr().out


def test_a_page_with_former_lens_names_can_be_cited(tmp_path, capsys):
    assert main(["train", "flipflop", *TINY, "--root", str(tmp_path), "--json"]) == 0
    folder = json.loads(capsys.readouterr().out)["folder"]
    lenses = '<meta name="mnemoscope:lenses" content="evolution memory-kinds memory-load">'
    Path(folder, "page.html").write_text(f"<html>{lenses}</html>")
    assert main(["cite", folder, "--keys"]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert "lens evolution" in lines["jang"]
    assert "lens memory-kinds" in lines["karuvally2023"]
    assert "lens memory-load" in lines["hopfield1982"]


def test_the_version_is_printed(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("mnemoscope 0.")


@pytest.mark.usefixtures("undrawn")
def test_inspect_uses_the_given_input_and_shows_it(tmp_path, capsys):
    network = torch.nn.RNN(2, 3)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
        network.weight_ih_l0.fill_(1.0)  # h' = tanh(x1 + x2): the fixed point is the input
    path = tmp_path / "net.pt"
    torch.save(network.state_dict(), path)
    words = ["inspect", str(path), "--network", "rnn", "--input", "0.5", "0.25", "--output", str(tmp_path / "p.html")]
    assert main([*words, "--json"]) == 0
    inspection = json.loads(capsys.readouterr().out)
    saved = FixedPoints.load(inspection["fixed_points"])
    torch.testing.assert_close(saved.states, torch.tanh(torch.full((1, 3), 0.75).double()), rtol=0, atol=1e-12)
    text = (tmp_path / "p.html").read_text()
    assert "0.5, 0.25" in text
    assert "A 3 x 3 matrix: |λ| at most 0, singular values up to 0." in text
    assert f"--network rnn --input 0.5 0.25 --output {tmp_path / 'p.html'}" in text


@SLOW
@pytest.mark.usefixtures("undrawn")
def test_inspect_certifies_small_networks_and_refuses_larger_ones(tmp_path, capsys):
    small, large = tmp_path / "small.pt", tmp_path / "large.pt"
    network = torch.nn.RNN(1, 2, bias=False)
    network.weight_hh_l0.data = torch.tensor([[6.398, -5.53], [4.828, 5.116]])
    torch.save(network.state_dict(), small)
    torch.save(torch.nn.GRU(2, 6).state_dict(), large)
    assert main(["inspect", str(small), "--network", "rnn", "--certify", "--json"]) == 0
    inspection = json.loads(capsys.readouterr().out)
    assert inspection["certified"] is True
    assert "Certified complete" in inspection["summary"]
    assert FixedPoints.load(inspection["fixed_points"]).certificate is not None
    text = small.with_suffix(".html").read_text()
    assert "--network rnn --certify" in text
    assert "--certify True" not in text
    assert "Certified complete" in text
    assert main(["inspect", str(large), "--network", "gru", "--certify"]) == 2
    assert "above 3 numbers, but this state has 6. Omit certify" in capsys.readouterr().err
    assert not large.with_suffix(".html").exists()


def test_a_run_resumes_in_its_own_folder(tmp_path, monkeypatch, capsys):
    elsewhere = tmp_path / "elsewhere"
    assert main(["train", "flipflop", *TINY, "--root", str(elsewhere), "--json"]) == 0
    folder = json.loads(capsys.readouterr().out)["folder"]
    monkeypatch.chdir(tmp_path)
    assert main(["train", f"{folder}/config.toml", "--resume", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["folder"] == folder
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("reason", ["Continue with --resume.", ""])
@pytest.mark.parametrize(
    ("words", "function", "default"),
    [
        (["train", "flipflop"], "mnemoscope.training.train", "Stopped."),
        (["study", "flipflop-cube"], "mnemoscope.replication.run_study", "--resume runs the rest"),
    ],
)
def test_an_interruption_ends_with_status_130(words, function, default, reason, monkeypatch, capsys):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt(reason) if reason else KeyboardInterrupt

    import_module("mnemoscope.replication")  # before the patch, which it would import otherwise
    monkeypatch.setattr(function, interrupted)
    assert main(words) == 130
    assert (reason or default) in capsys.readouterr().err


@pytest.mark.parametrize("words", [["train", "flipflop"], ["study", "flipflop-cube"]])
def test_sigterm_ends_with_status_143(words, monkeypatch, capsys):
    def terminated(*arguments, **options):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)

    import_module("mnemoscope.replication")
    monkeypatch.setattr("mnemoscope.training.train", terminated)
    monkeypatch.setattr("mnemoscope.replication.run_study", terminated)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert main(words) == 143
    assert "Stopped." in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@SLOW
def test_ctrl_c_during_the_imports_shows_no_traceback():
    code = """
import sys
class CtrlC:
    def find_spec(name, *_):
        if name == "mnemoscope.cli.entry_point":
            raise KeyboardInterrupt
sys.meta_path.insert(0, CtrlC)
from mnemoscope.cells.network_files import load_inputs
from mnemoscope.cli import main
sys.exit(main(["list"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "\nStopped.\n")


def test_the_first_imports_of_the_command_are_few():
    code = "import sys; import mnemoscope.cli; print({'typing', 'ast', 'pathlib', 'numpy'} & {*sys.modules})"
    sources = {**os.environ, "PYTHONPATH": str(Path(registry.__file__).parents[2])}
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=False, env=sources)
    assert done.stdout == "set()\n", done.stderr


def test_ctrl_c_inside_an_import_ends_the_command_even_if_a_library_catches_it(tmp_path):
    (tmp_path / "library.py").write_text("""
import os, signal
try:
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000): pass
except KeyboardInterrupt:
    pass
""")
    done = subprocess.run(
        [sys.executable, "-m", "mnemoscope", "--plugin", str(tmp_path / "library.py"), "list", "presets"],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "\nStopped.\n")


@pytest.mark.usefixtures("undrawn")
def test_study_uses_its_arguments_and_resumes(tmp_path, capsys):
    words = ["study", "learned-schur", "--preset", "smoke", "--seeds", "3", "4", "--root", str(tmp_path), "--json"]
    words += ["--engine", "here"]
    assert main(words) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["trials"] == 2
    assert main(words) == 2  # needs --resume
    capsys.readouterr()
    assert main([*words, "--resume"]) == 0
    assert json.loads(capsys.readouterr().out)["reused"] == 2


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(("bits", "length", "steps"), [(1, 20, 300), *slow((3, 64, 1000))])
def test_the_demo_trains_and_finds_fixed_points(bits, length, steps, tmp_path, monkeypatch, capsys):
    preset = PRESETS["flipflop"]
    options = {**preset.task_options, "bits": bits, "length": length}
    monkeypatch.setitem(PRESETS, "flipflop", replace(preset, task_options=options, steps=steps))
    assert main(["demo", "--hidden-size", "10", "--root", str(tmp_path), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["accuracy"] > 0.99
    assert result["points"] >= 3 * bits
    assert "Drag to rotate" in Path(result["page"]).read_text()


def test_the_demo_needs_its_extras_before_it_trains(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main(["demo", "--root", str(tmp_path)]) == 2
    assert "pip install 'mnemoscope[report]'" in capsys.readouterr().err
    assert not any(tmp_path.iterdir())
    assert [*tmp_path.iterdir()] == []
