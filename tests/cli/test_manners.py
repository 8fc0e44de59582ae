"""Manners of the command line: mistakes get a suggestion, tables fit the terminal, and logs stay free of bars."""

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import mnemoscope as ms
from mnemoscope import registry
from mnemoscope.base.suggestions import did_you_mean
from mnemoscope.base.terminal import shows_progress
from mnemoscope.cli import main
from mnemoscope.cli.command_options import option_names
from mnemoscope.cli.commands import Train
from mnemoscope.cli.entry_point import _COMMANDS
from mnemoscope.cli.inspections import Inspect
from mnemoscope.cli.tables import columns_that_fit
from tests.store.test_store import make_run


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trian"], "Did you mean 'train'?"),
        (["train", "flip-flop"], "Did you mean 'flipflop'?"),
        (["list", "lense"], "There is no list 'lense'. Did you mean 'lenses'?"),
        (["train", "binding"], "It is a task: use --task binding."),
        (
            ["train", "flipflop", "--lr", "0.1"],
            "`mnemoscope train` has no option --lr. Did you mean '--learning-rate'?",
        ),
        (["inspect", "x.pt", "--netwrok=gru"], "no option --netwrok. Did you mean '--network'?"),
        (["sweep", "flipflop", "--over", "lr=0.1,0.2"], "Did you mean 'learning_rate'?"),
        (["train", "flipflop", "lr=0.1"], "Settings are options: --learning-rate 0.01."),
        (["sweep", "flipflop", "lr=0.1,0.2"], "Fields that vary follow --over."),
        (["runs", "--sort", "acc"], "Did you mean 'accuracy'?"),
        (
            ["train", "flipflop", "--log", "mlflow"],
            "--log takes loggers, but 'mlflow' is none of them. There are tensorb",
        ),
        (["train", "flipflop", "--log"], "--log takes loggers, but no logger is given."),
        (["train", "flipflop", "--hidden-size"], "--hidden-size needs a value, but the command ends."),
        (["train", "--seed", "--steps", "3", "flipflop"], "--seed needs a value, but --steps follows."),
    ],
)
def test_a_mistake_is_answered_with_its_remedy(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "runs" / "try" / "a", loss=0.5, accuracy=0.9)
    assert main(words) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert message in error


def test_a_suggestion_is_the_same_name_before_an_abbreviation_before_a_similar_one():
    assert did_you_mean("copy_200", ["copy-2000", "copy-200"]) == " Did you mean 'copy-200'?"
    assert did_you_mean("bs", ["bias", "batch_size"]) == " Did you mean 'batch_size'?"
    assert did_you_mean("a", ["accuracy"]) == ""  # a letter could mean anything


@pytest.mark.parametrize("name", _COMMANDS)
def test_every_option_of_a_command_is_known(name, capsys):
    with pytest.raises(SystemExit):
        main([name, "--help"])
    shown = {*re.findall(r"^\W{1,2}(?:-h, )?--([a-z][a-z-]+)", capsys.readouterr().out, re.MULTILINE)}
    names = option_names(_COMMANDS[name])
    assert shown <= names.known
    assert names.single | names.several <= shown


def test_options_are_classified_by_the_number_of_their_values():
    names = option_names(Train)
    assert {"resume", "no-resume", "help"} <= names.switches
    assert {"hidden-size", "target-loss", "device", "root"} <= names.single
    assert {"task-options", "log"} <= names.several
    assert "path" not in option_names(Inspect).known  # it is given by its position
    assert "input" in option_names(Inspect).several  # None or a tuple


@pytest.fixture
def two_runs(tmp_path):
    for name, loss in (("a", 0.5), ("b", 0.25)):
        make_run(tmp_path / "try" / name, loss=loss, accuracy=loss + 0.1)
    return tmp_path


@dataclass
class Terminal:
    """Standard output that claims to be a terminal."""

    stream: object

    def isatty(self):
        return True

    def __getattr__(self, name):
        return getattr(self.stream, name)


def test_columns_in_which_all_runs_agree_are_one_line(two_runs, capsys):
    assert main(["runs", "--root", str(two_runs)]) == 0
    first, header, *rows, last = capsys.readouterr().out.splitlines()
    assert first == "All runs: name try, status finished, steps 40, seconds 3.5."
    assert header.split() == ["loss", "accuracy", "folder"]
    assert len(rows) == 2
    assert last == "2 runs."


def test_a_table_fits_the_terminal_and_names_what_it_omits(two_runs, capsys, monkeypatch):
    folder = len(str(two_runs / "try" / "a"))
    monkeypatch.setenv("COLUMNS", str(folder + 2 + len("loss")))
    monkeypatch.setattr(sys, "stdout", Terminal(sys.stdout))
    assert main(["runs", "--root", str(two_runs)]) == 0
    _, header, *_, note, _ = capsys.readouterr().out.splitlines()
    assert header.split() == ["loss", "folder"]
    assert note == "Too wide for this terminal: accuracy. Choose columns with --columns."
    assert main(["runs", "--root", str(two_runs), "--columns", "status", "accuracy", "loss", "folder"]) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == ["status", "accuracy", "loss", "folder"]


def test_the_columns_that_fit_are_as_wide_as_the_terminal_at_most():
    widths = {"cell": 4, "delay": 18, "loss": 6, "folder": 9}
    for available in range(1, 60):
        shown = columns_that_fit(widths, list(widths), available)
        assert shown == [column for column in widths if column in shown]
        assert "folder" in shown
        total = sum(widths[column] for column in shown) + 2 * (len(shown) - 1)
        assert total <= available or shown == ["folder"]
    assert shown == list(widths)
    widths = {"cell": 4, "delay": 18, "loss": 6, "accuracy": 8, "seconds": 7, "folder": 9}
    assert columns_that_fit(widths, list(widths), 35) == ["cell", "loss", "accuracy", "folder"]


def test_no_bar_is_drawn_unless_on_a_terminal(tmp_path, capsys, monkeypatch):
    words = ["train", "flipflop", "--hidden-size", "4", "--steps", "2", "--evaluate-every", "1", "--batch-size", "2"]
    assert main([*words, "--root", str(tmp_path / "log")]) == 0
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys, "stderr", Terminal(sys.stderr))
    assert shows_progress()
    assert not shows_progress(as_json=True)
    assert main([*words, "--root", str(tmp_path / "terminal")]) == 0
    assert "2/2" in capsys.readouterr().err


def test_the_list_of_lenses_shows_the_functions_of_python(capsys):
    assert main(["list", "lenses", "--json"]) == 0
    names = {row["name"]: row["python"] for row in json.loads(capsys.readouterr().out)}
    assert names["fixed-points"] == "ms.find_fixed_points"
    for entry in registry.lenses:
        assert getattr(ms, names[entry.name].removeprefix("ms.")) is entry.load()
    assert main(["list", "lenses"]) == 0
    assert "ms.find_fixed_points" in capsys.readouterr().out


def test_the_documented_completion_is_a_script_of_the_shell(tmp_path):
    page = (Path(__file__).parent.parent.parent / "docs" / "running.md").read_text()
    assert "mnemoscope --tyro-print-completion bash" in page
    words = [sys.executable, "-m", "mnemoscope", "--tyro-print-completion", "bash"]
    script = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    (tmp_path / "completion").write_text(script)
    subprocess.run(["bash", "-n", tmp_path / "completion"], check=True)
    assert "--learning-rate" in script
