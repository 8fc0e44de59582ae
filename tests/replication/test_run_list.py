"""The run list: slices that resume, collecting into the results, and the table of what is left."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from mnemoscope import registry
from mnemoscope.base.reading import read_json
from mnemoscope.cli import main
from mnemoscope.engines import Local, Outcome
from mnemoscope.replication import Preset, run_status
from mnemoscope.replication.collecting import collect_results
from mnemoscope.replication.run_list import read_run_list
from mnemoscope.replication.run_status import find_status, status_table, write_status
from mnemoscope.replication.study import Trial
from mnemoscope.replication.time_slices import unfinished_trials

HERE = Path(__file__).parents[2]
STUDY = registry.studies.load("flipflop-cube")
NETWORKS = {"elman": 12, "gru": 8}
ENTRY = """
[[run]]
study = "flipflop-cube"
preset = "tiny"
trials = [{trials}]
seeds = {seeds}
seconds = 90
why = "the corners of the cube"
"""


def measured(trial, folder, progress):
    return {"loss": 0.1, "accuracy": 0.9, "points": 27, "unstable": {"0": 8}, "index_sum": 1, "seconds": 60.0}


class FakeEngine(Local):
    """Run jobs in this process; `states` has those that are interrupted or fail, by name."""

    def __init__(self, states, *arguments, **options):
        super().__init__(*arguments, **options)
        self.states, self.started = states, []

    def events(self, jobs, seconds):
        for job in jobs:
            if job.least_seconds > seconds:
                continue
            self.started.append(job)
            state = self.states.get(job.name.partition(": ")[2])
            if state is None:
                job.run()
            error = {None: None, "interrupted": "Stopped after step 3.", "failed": "ValueError: no"}[state]
            yield Outcome(job, 1.0, error, "the log", state == "interrupted")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Return a folder with results and a run list of six trials, which take no time."""
    changes = {"steps": 2, "batch_size": 4, "evaluate_every": 1}
    monkeypatch.setattr(STUDY, "presets", {"tiny": Preset("tiny", {"networks": NETWORKS, "changes": changes})})
    monkeypatch.setattr(STUDY, "run", measured)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    first = ENTRY.format(trials='"gru 8"', seeds=[0, 1])
    (tmp_path / "results" / "run_list.toml").write_text(first + ENTRY.format(trials="", seeds=[0, 1, 2]))
    return tmp_path


@pytest.fixture
def engine(monkeypatch):
    """Return the states of the fake engine, by the names of the trials."""
    states = {}
    monkeypatch.setattr("mnemoscope.engines.Local", partial(FakeEngine, states))
    return states


def planned(*studies):
    return read_run_list("results/run_list.toml", studies)


@pytest.mark.usefixtures("place")
def test_a_trial_belongs_to_the_first_entry_that_names_it():
    first, second = planned("flipflop-cube")
    assert [(trial.name, trial.seed) for trial in first.trials] == [("gru 8", 0), ("gru 8", 1)]
    assert [(trial.name, trial.seed) for trial in second.trials] == [*(("elman 12", n) for n in range(3)), ("gru 8", 2)]
    assert (first.seconds, first.why, second.seeds) == (90.0, "the corners of the cube", (0, 1, 2))
    assert (first.out_of_reach, second.out_of_reach) == ("", "")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("flipflop-cube", "flipflop-cub", "entry 1: There is no study named 'flipflop-cub'. Did you mean"),
        ('"tiny"', '"large"', "has the presets tiny, but not 'large'"),
        ("gru 8", "gru", r"has no trial 'gru'. Did you mean 'gru 8'\? Its trials: elman 12; gru 8."),
        ("seconds = 90", "", "seconds is missing"),
        ("seeds =", "seed =", "'seed' is no field of an entry. There are study, preset, trials, seeds"),
        ("[0, 1]", '["a"]', r"seeds\[0\] must be an integer"),
        ("[[run]]", "[[runs]]", r"must consist of tables \[\[run\]\]"),
    ],
)
def test_a_wrong_entry_is_reported(place, old, new, message):
    file = place / "results" / "run_list.toml"
    file.write_text(file.read_text().replace(old, new, 1))
    with pytest.raises(ValueError, match=message):
        planned()


def test_a_slice_runs_what_is_missing_in_the_order_of_the_list(place, engine, capsys):
    engine |= {"elman 12, seed 1": "interrupted", "elman 12, seed 2": "failed"}
    assert main(["replicate", "--minutes", "2", "--processes", "3"]) == 1
    out, error = capsys.readouterr()
    table = [line.split() for line in out.splitlines()[-4:]]
    assert table[0] == ["study", "preset", "done", "before", "finished", "interrupted", "failed", "left"]
    assert table[1:] == [
        ["flipflop-cube", "tiny", "0", "2", "0", "0", "0"],
        ["flipflop-cube", "tiny", "0", "2", "1", "1", "0"],
        ["all", "0", "4", "1", "1", "0"],
    ]
    assert out.splitlines()[0] == "finished after 1 s: flipflop-cube tiny: gru 8, seed 0"
    assert "Failed: flipflop-cube tiny: elman 12, seed 2: ValueError: no (see runs" in error
    (log,) = place.glob("runs/studies/flipflop-cube/tiny/*/failed.log")
    assert log.read_text() == "the log"
    engine.clear()
    assert main(["replicate", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["runs"][-1]["done before"] == 4
    assert content["runs"][-1]["finished"] == 2
    assert main(["replicate"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["all", "6", "0", "0", "0", "0"]


def test_a_trial_that_would_make_no_progress_is_not_started(place, engine, monkeypatch, capsys):
    monkeypatch.setattr(STUDY, "resumes", False)
    assert main(["replicate", "--minutes", "1"]) == 0  # 90 seconds are expected
    out = capsys.readouterr().out
    assert "gru 8, seed 0 makes no progress in less than about 90 s: give more --minutes." in out
    assert out.splitlines()[-7].split() == ["all", "0", "0", "0", "0", "6"]
    monkeypatch.setattr(STUDY, "resumes", True)
    assert main(["replicate", "--minutes", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["all", "0", "6", "0", "0", "0"]


def test_a_missing_gpu_is_reported_before_anything_runs(place, engine, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    other = registry.studies.load("copy-200")
    settings = {"networks": {"lstm": {"cell": "lstm"}}, "changes": {"device": "cuda"}}
    monkeypatch.setattr(other, "presets", {"tiny": Preset("tiny", settings)})
    file = place / "results" / "run_list.toml"
    file.write_text(file.read_text() + ENTRY.format(trials="", seeds=[0]).replace("flipflop-cube", "copy-200"))
    assert main(["replicate"]) == 2
    expected = "Trials of copy-200 need a GPU, and torch finds none here. Without one, run the others: --studies flip"
    assert expected in capsys.readouterr().err
    assert main(["replicate", "--studies", "copy-200"]) == 2
    assert "Run the list on a machine with one." in capsys.readouterr().err
    assert main(["replicate", "--studies", "flipflop-cube"]) == 0


def test_trials_of_a_gpu_run_on_a_cpu_if_asked(place, engine, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    settings = {"networks": NETWORKS, "changes": {"steps": 2, "device": "cuda"}}
    monkeypatch.setattr(STUDY, "presets", {"tiny": Preset("tiny", settings)})
    devices = []

    def run(trial, folder, progress):
        devices.append(trial.settings["device"])
        return measured(trial, folder, progress)

    monkeypatch.setattr(STUDY, "run", run)
    assert main(["replicate"]) == 2
    assert "--device cpu" in capsys.readouterr().err
    assert main(["replicate", "--device", "cpu"]) == 0
    assert devices == ["cpu"] * 6
    assert main(["replicate", "--collect"]) == 0
    content = read_json(place / "results" / "flipflop-cube.tiny.json")
    assert {each["trial"]["settings"]["device"] for each in content["trials"]} == {"cuda"}
    assert [each["device"] for each in content["environments"]] == ["cpu"]
    assert content["of the preset"]["finished"] == 2  # the preset has seed 0 alone; its trials are the same ones
    status = find_status(read_run_list("results/run_list.toml"), "results")
    assert [(each.left, each.measured, each.unrecorded) for each in status] == [(0, 0.0, 2), (0, 0.0, 4)]  # of a GPU
    capsys.readouterr()
    assert main(["replicate"]) == 0  # nothing is left, so that no GPU is needed
    assert capsys.readouterr().out.splitlines()[-1].split() == ["all", "6", "0", "0", "0", "0"]


def test_finished_trials_are_merged_into_the_results(place, engine, monkeypatch, capsys):
    old, new = {"torch": "1"}, {"torch": "2"}
    monkeypatch.setattr(STUDY, "environment", lambda *_: old)
    engine["elman 12, seed 2"] = "failed"
    assert main(["replicate"]) == 1
    assert main(["replicate", "--collect", "--root", "nowhere"]) == 0
    assert "nowhere has no finished trial" in capsys.readouterr().err
    assert main(["replicate", "--collect"]) == 0
    file = place / "results" / "flipflop-cube.tiny.json"
    assert f"{Path('results', file.name)}: 5 added, 0 replaced, 0 not taken." in capsys.readouterr().out
    content = read_json(file)
    assert content["environments"] == [old]
    assert "environment" not in content["trials"][0]
    assert content["not run"] == ["elman 12, seed 2"]
    assert len(unfinished_trials(planned()[1], place / "results", place / "nowhere")) == 1
    engine.clear()
    monkeypatch.setattr(STUDY, "environment", lambda *_: new)
    monkeypatch.setattr(STUDY, "run", lambda *_, progress: {**measured(*_, progress), "accuracy": 0.8})
    assert main(["replicate", "--root", "other"]) == 0  # runs only the missing one
    assert [each.added for each in collect_results("other", "results")] == [1]
    content = read_json(file)
    assert [each["environment"] for each in content["trials"]] == [0, 0, 1, 0, 0, 0]
    assert content["environments"] == [old, new]
    assert content["rows"]
    file.write_text(json.dumps({**content, "trials": content["trials"][3:]}))
    assert main(["replicate", "--root", "third"]) == 0
    (before,) = collect_results("runs", "results")
    assert (before.added, before.kept, before.differing, before.outdated) == (2, 3, 0, 0)
    (after,) = collect_results("third", "results", ["flipflop-cube"], replace=True)
    assert (after.added, after.replaced) == (1, 2)
    assert [each["result"]["accuracy"] for each in read_json(file)["trials"]] == [0.8, 0.8, 0.8, 0.9, 0.9, 0.9]


def test_trials_with_other_settings_are_taken_only_on_request(place, engine, monkeypatch):
    assert main(["replicate"]) == 0
    collect_results("runs", "results")
    changes = {"steps": 3, "batch_size": 4, "evaluate_every": 1}
    monkeypatch.setattr(STUDY, "presets", {"tiny": Preset("tiny", {"networks": NETWORKS, "changes": changes})})
    assert main(["replicate", "--root", "other"]) == 0
    (kept,) = collect_results("other", "results")
    assert "6 not taken (6 have other settings than the older ones: --replace takes them), 6 have" in str(kept)
    (taken,) = collect_results("other", "results", replace=True)
    assert (taken.replaced, taken.outdated) == (6, 0)


def test_damaged_and_newer_trials_are_not_collected(place, engine, monkeypatch, capsys):
    monkeypatch.setattr(STUDY, "environment", lambda *_: {"mnemoscope": "99.0.0"})
    assert main(["replicate"]) == 0
    with pytest.raises(ValueError, match="newer than this one"):
        collect_results("runs", "results")
    next(place.glob("runs/studies/*/*/*/trial.json")).write_text("{")
    assert main(["replicate", "--collect"]) == 2
    assert "cannot be read" in capsys.readouterr().err
    with pytest.raises(LookupError, match="no study named 'cube'"):
        collect_results("runs", "results", ["cube"])
    with pytest.raises(FileNotFoundError, match="--results"):
        collect_results("runs", "nowhere")


def test_many_names_of_trials_are_cut(place, monkeypatch):
    monkeypatch.setattr(run_status, "SHOWN", 2)
    trials = tuple(Trial(name, {}, 0) for name in "abcd")
    for number, shown in ((4, "a; b; and 2 others"), (3, "a; b; c"), (2, "a; b")):
        one = replace(planned()[0], trials=trials[:number])
        assert status_table([run_status.RunStatus(one, [])])[0]["trials"] == shown


def test_the_status_has_the_time_of_what_is_left(place, engine, monkeypatch, capsys):
    assert status_table(find_status(planned(), "results"))[-1]["device hours left"] == "0.15"
    engine["gru 8, seed 2"] = "failed"
    seconds = {0: 60.0, 1: 120.0, 2: 180.0}
    monkeypatch.setattr(
        STUDY, "run", lambda trial, *_, progress: {**measured(trial, *_, progress), "seconds": seconds[trial.seed]}
    )
    assert main(["replicate"]) == 1
    capsys.readouterr()
    assert main(["replicate", "--status"]) == 0
    assert "5 more have finished in runs; `mnemoscope replicate --collect`" in capsys.readouterr().err
    (place / "results" / run_status.FILE).write_text("old".join(run_status.MARKS) + "\n")
    assert main(["replicate", "--collect"]) == 0
    first, second, total = status_table(find_status(planned(), "results"))
    assert first["trials"] == "gru 8"
    assert (first["done"], first["left"], first["estimated"], first["measured"]) == ("2", "0", "3 min", "3 min")
    assert (second["seeds"], second["device hours left"]) == (
        "0 to 2",
        "0.033",
    )  # two minutes, as the others on average
    assert (total["done"], total["left"], total["decides"]) == ("5", "1", "")
    text = (place / "results" / run_status.FILE).read_text()
    assert "Of 6 planned trials, 5 are done. The other 1 would take about 0 device hours." in text
    capsys.readouterr()
    assert main(["replicate", "--status", "--markdown", "runs.md"]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[-1].split()[:3] == ["all", "5", "1"]
    assert "more have finished" not in printed.err
    assert (place / "runs.md").read_text() == text
    (place / "notes.md").write_text("by hand")
    assert main(["replicate", "--markdown", "notes.md"]) == 2
    assert "notes.md has no place for the text" in capsys.readouterr().err
    assert main(["replicate", "--status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["decides"] == "the corners of the cube"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--list", "none.toml"], "There is no run list none.toml. Name one with --list."),
        (["--results", "none"], "There is no folder none."),
        (["--replace"], "--replace belongs to --collect."),
        (["--minutes", "0"], "minutes must be above 0, but is 0."),
        (["--processes", "0"], "processes must be a whole number, at least 1"),
        (["--studies", "flipflop"], "has no entry of the study 'flipflop'. Did you mean 'flipflop-cube'?"),
    ],
)
@pytest.mark.usefixtures("place", "engine")
def test_wrong_requests_are_reported(words, message, capsys):
    assert main(["replicate", *words]) == 2
    assert message in capsys.readouterr().err


def test_the_table_of_runs_is_up_to_date_with_the_list_and_the_results(tmp_path):
    status = find_status(read_run_list(HERE / "results" / "run_list.toml"), HERE / "results")
    made = write_status(tmp_path / "RUNS.md", status).read_text()
    assert made == (HERE / "results" / "RUNS.md").read_text(), f"Run `{run_status.COMMAND}`."
