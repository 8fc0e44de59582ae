"""Sweeps: every run once, the same on any engine and after any kill, and nothing lost by a wrong request."""

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from inspect import unwrap
from itertools import product
from math import log
from pathlib import Path
from statistics import median

import pytest
import torch

from mnemoscope.cli import main
from mnemoscope.config import PRESETS, RunConfig
from mnemoscope.engines import InProcess, Local, Outcome
from mnemoscope.store import read_runs
from mnemoscope.sweeps import Choices, Integers, Sweep, Uniform, parse_distribution, parse_space, read_space, run_sweep
from mnemoscope.sweeps.figure import draw_objective
from mnemoscope.sweeps.results import EndedRun, PointResult
from mnemoscope.training import load_model
from tests.slow import SLOW, representatives

OPTIONS = {"bits": 1, "length": 6, "rate": 0.2}
SIZES = {"steps": 4, "evaluate_every": 2, "batch_size": 4, "hidden_size": 4}
BASE = replace(PRESETS["flipflop"], name="tiny", task_options=OPTIONS, **SIZES)
CLI = ["sweep", "flipflop", "--task-options", "bits", "1", "length", "6", "--steps", "4", "--evaluate-every", "2"]
CLI += ["--batch-size", "4", "--hidden-size", "4", "--engine", "here", "--json"]


@pytest.fixture
def figures():
    """Requested by tests that read the page of a sweep."""


@pytest.fixture(autouse=True)
def _no_other_figures(request):
    if "figures" not in request.fixturenames:
        request.getfixturevalue("undrawn")


def sweep(*words, name="tiny", **more):
    return Sweep(replace(BASE, name=name), parse_space(words), **more)


def values(result):
    """Return the values and the results of all points, in the order in which they were chosen."""
    points = sorted(result.points, key=lambda point: point.number)
    return [(dict(point.values), [(run.seed, run.value) for run in point.runs]) for point in points]


class Counting(InProcess):
    """Counts how often each job runs, and may interrupt the sweep after some."""

    def __init__(self, until=None):
        super().__init__(progress=False)
        self.done, self.until = Counter(), until

    def events(self, jobs):
        for event in super().events(jobs):
            self.done[event.job.folder] += 1
            yield event
            if self.until is not None and self.done.total() >= self.until:
                raise KeyboardInterrupt


@pytest.mark.usefixtures("figures")
def test_a_grid_has_every_combination_once(tmp_path):
    engine = Counting()
    asked = sweep("learning_rate=0.001,0.1", "cell=elman,gru", "task_options.length=5,6", seeds=(0, 3))
    result = run_sweep(asked, tmp_path, progress=False, engine=engine)
    expected = [
        {"learning_rate": rate, "cell": cell, "task_options.length": length}
        for rate, cell, length in product((0.001, 0.1), ("elman", "gru"), (5, 6))
    ]
    assert [point for point, _ in values(result)] == expected
    assert set(engine.done.values()) == {1}
    assert len(engine.done) == result.runs == 16
    runs = {run["folder"]: run for run in read_runs(tmp_path)}
    assert len(runs) == 16
    for point in result.points:
        assert [run.seed for run in point.runs] == [0, 3]
        for run in point.runs:
            stored = runs[(result.folder / run.hash).as_posix()]
            assert {name: stored[name] for name in point.values} == point.values
            assert (stored["seed"], stored["loss"], stored["status"]) == (run.seed, run.value, "finished")
        assert point.value == sum(run.value for run in point.runs) / 2
    assert [point.value for point in result.points] == sorted(point.value for point in result.points)
    _, _, config = load_model(result.folder / result.best.runs[0].hash)
    assert config.hash == result.best.runs[0].hash
    page = result.page.read_text()
    assert f'href="{min(result.best.runs, key=lambda run: run.value).hash}/"' in page
    assert "Best loss" in page


def test_options_of_a_replaced_cell_are_dropped():
    from_elman = Sweep(replace(BASE, cell_options={"nonlinearity": "relu"}), parse_space(["cell=elman,gru"]))
    elman, gru = (from_elman.config(point, 0) for point in from_elman.points())
    assert elman.cell_options == {"nonlinearity": "relu"}
    assert gru.cell_options == {}


def test_an_accuracy_is_maximised_unless_the_direction_is_given(tmp_path):
    asked = sweep("learning_rate=0.001,0.03,0.3", objective="accuracy")
    result = run_sweep(asked, tmp_path, progress=False)
    found = [point.value for point in result.points]
    assert found == sorted(found, reverse=True)
    assert len({*found}) > 1
    worst = replace(asked, direction="minimise")  # a grid does not depend on the direction, which may change
    assert run_sweep(worst, tmp_path, resume=True, progress=False).best.value == found[-1]


def test_random_draws_follow_their_distributions():
    draws = random.Random(0)
    samples = {
        "choices": [Choices(("a", None, 3)).draw(draws) for _ in range(3000)],
        "uniform": [Uniform(-1.0, 3.0).draw(draws) for _ in range(3000)],
        "log": [Uniform(1e-4, 1e-2, log=True).draw(draws) for _ in range(3000)],
        "integers": [Integers(2, 5).draw(draws) for _ in range(3000)],
        "log-integers": [Integers(1, 8, log=True).draw(draws) for _ in range(3000)],
    }
    for name, kinds in (("choices", ("a", None, 3)), ("integers", (2, 3, 4, 5))):
        counts = Counter(samples[name])
        assert set(counts) == {*kinds}
        for count in counts.values():  # five standard deviations of a binomial count
            share = 1 / len(kinds)
            assert abs(count - 3000 * share) < 5 * (3000 * share * (1 - share)) ** 0.5
    assert min(samples["uniform"]) >= -1.0
    assert max(samples["uniform"]) <= 3.0
    assert abs(sum(samples["uniform"]) / 3000 - 1.0) < 5 * (4 / 12**0.5) / 3000**0.5
    logs = [log(value) for value in samples["log"]]
    assert abs(sum(logs) / 3000 - log(1e-3)) < 5 * (log(100) / 12**0.5) / 3000**0.5
    counts = Counter(samples["log-integers"])
    assert set(counts) == set(range(1, 9))
    for value, count in counts.items():
        share = log((value + 0.5) / (value - 0.5)) / log(8.5 / 0.5)
        assert abs(count - 3000 * share) < 5 * (3000 * share * (1 - share)) ** 0.5


def test_a_random_search_depends_on_its_seed_alone_and_may_grow(tmp_path):
    words = ("learning_rate=log:1e-4:1e-1", "hidden_size=integers:2:5")
    first = run_sweep(sweep(*words, method="random", trials=3), tmp_path, progress=False)
    engine = Counting()
    more = run_sweep(sweep(*words, method="random", trials=5), tmp_path, resume=True, progress=False, engine=engine)
    assert values(more)[:3] == values(first)
    assert (more.reused, engine.done.total()) == (3, 2)
    again = run_sweep(sweep(*words, name="again", method="random", trials=5), tmp_path, progress=False)
    assert values(again) == values(more)
    other = sweep(*words, method="random", trials=5, sampling_seed=1)
    assert [dict(point.values) for point in other.points()] != [point for point, _ in values(more)]


def test_a_grid_may_get_more_seeds(tmp_path):
    run_sweep(sweep("hidden_size=3,4"), tmp_path, progress=False)
    engine = Counting()
    more = run_sweep(sweep("hidden_size=3,4", seeds=(0, 1)), tmp_path, resume=True, progress=False, engine=engine)
    assert (more.reused, engine.done.total()) == (2, 2)


@SLOW
def test_two_engines_give_the_same_results(tmp_path):
    here = run_sweep(sweep("learning_rate=0.01"), tmp_path / "here", progress=False)
    there = run_sweep(sweep("learning_rate=0.01"), tmp_path / "there", progress=False, engine=Local(2))
    assert values(here) == values(there)
    assert not there.failed


def test_a_diverged_run_counts_as_ended_and_comes_last(tmp_path):
    asked = sweep("learning_rate=1e30,0.01", "cell_options.nonlinearity=relu")
    result = run_sweep(asked, tmp_path, progress=False)
    good, bad = result.points
    assert (good.values["learning_rate"], bad.values["learning_rate"]) == (0.01, 1e30)
    assert (bad.value, bad.diverged) == (None, 1)
    engine = Counting()
    again = run_sweep(asked, tmp_path, resume=True, progress=False, engine=engine)
    assert not engine.done
    assert values(again) == values(result)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a run on a GPU must fail")
def test_a_failed_run_is_reported_and_tried_again(tmp_path, capsys):
    words = [*CLI, "--over", "device=cpu,cuda", "--root", str(tmp_path)]
    assert main(words) == 1
    captured = capsys.readouterr()
    assert "torch sees no GPU" in captured.err
    result = json.loads(captured.out)
    assert [point["values"]["device"] for point in result["points"]] == ["cpu"]
    (log,) = tmp_path.glob("sweeps/flipflop/*.failed.log")
    assert "Traceback" in log.read_text()
    assert main([*words, "--resume"]) == 1
    assert json.loads(capsys.readouterr().out)["reused"] == 1


class Failing(Counting):
    """Fails to run some jobs, as if their processes were killed."""

    def __init__(self, fails):
        super().__init__()
        self.fails = fails

    def events(self, jobs):
        for job in jobs:
            if self.fails(job):
                self.done[job.folder] += 1
                yield Outcome(job, 0.0, "was killed")
            else:
                yield from super().events([job])


@SLOW
def test_a_point_with_a_failed_seed_has_no_value(tmp_path):
    asked = sweep("learning_rate=0.001,0.1", seeds=(0, 1))
    complete = run_sweep(asked, tmp_path / "complete", progress=False)
    best = complete.best.values
    failing = {"learning_rate": best["learning_rate"], "seed": 1}
    engine = Failing(lambda job: failing.items() <= job.arguments["settings"].items())
    part = run_sweep(asked, tmp_path / "part", progress=False, engine=engine)
    assert part.best.values != best
    assert (part.points[-1].values, part.points[-1].value, len(part.points[-1].runs)) == (best, None, 1)


@representatives("1")
@pytest.mark.parametrize("at_a_time", [1, 4])
def test_a_failed_run_does_not_end_a_search(at_a_time, tmp_path):
    pytest.importorskip("optuna")
    asked = sweep("learning_rate=log:1e-4:1e-1", method="tpe", trials=6, at_a_time=at_a_time)
    seen = []

    def fails(job):
        seen.append(job.folder)
        return len(seen) in (2, 3)

    first = run_sweep(asked, tmp_path, progress=False, engine=Failing(fails))
    assert (len(first.failed), first.runs, len(first.points)) == (2, 6, 4)
    again = Failing(lambda job: False)
    second = run_sweep(replace(asked, trials=8), tmp_path, progress=False, engine=again, resume=True)
    assert [*again.done][:2] == seen[1:3]  # these are tried again
    assert (len(second.failed), second.runs, len(second.points), len(again.done)) == (0, 8, 8, 4)
    everything = Failing(lambda job: True)
    with pytest.raises(RuntimeError, match="No run was finished"):
        run_sweep(
            replace(asked, base=replace(BASE, name="none"), trials=50), tmp_path, progress=False, engine=everything
        )
    assert len(everything.done) <= 4


def test_a_line_joins_numbers_but_not_names():
    asked = Sweep(BASE, parse_space(["cell=elman,gru,lstm", "hidden_size=3,4,5"]))
    points = [
        PointResult(number, {"cell": cell, "hidden_size": size}, [EndedRun(0, "hash", 0.1 * number + 0.1, {})], 1)
        for number, (cell, size) in enumerate(product(("elman", "gru", "lstm"), (3, 4, 5)))
    ]
    names, numbers = draw_objective(asked, points).axes
    assert [label.get_text() for label in names.get_xticklabels()] == ["elman", "gru", "lstm"]
    assert all(line.get_linestyle() == "None" for line in names.lines)
    assert any(line.get_linestyle() == "-" for line in numbers.lines)


@pytest.mark.usefixtures("figures")
def test_the_command_line_runs_resumes_and_reports(tmp_path, capsys):
    words = [*CLI[:-1], "--over", "hidden_size=3,4", "learning_rate=0.01", "--seeds", "0", "1", "--root", str(tmp_path)]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "4 of 4 runs." in out
    assert out.split()[:3] == ["hidden_size", "learning_rate", "loss"]
    assert main(words) == 2
    assert "--resume" in capsys.readouterr().err
    assert main([*words, "--resume", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["reused"] == 4
    assert (Path(result["best"]["folder"]) / "model.safetensors").exists()
    assert "mnemoscope sweep flipflop" in Path(result["page"]).read_text()
    assert main(["runs", "--root", str(tmp_path / "sweeps"), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 4


def test_a_search_space_in_a_file_equals_that_on_the_command_line(tmp_path):
    path = tmp_path / "space.toml"
    path.write_text(
        'learning_rate = "log:1e-4:1e-2"\nclip = [0.5, 1]\n[cell_options]\nnonlinearity = ["tanh", "relu"]\n'
    )
    words = ["learning_rate=log:1e-4:1e-2", "clip=0.5,1", "cell_options.nonlinearity=tanh,relu"]
    assert read_space(path) == parse_space(words)
    path.write_text("clip = 1")
    with pytest.raises(ValueError, match="for one value, a list"):
        read_space(path)
    path.write_text("clip = ")
    with pytest.raises(ValueError, match="not a TOML file"):
        read_space(path)


@pytest.mark.parametrize("text", ["a,b", "none,true,0.5,16", '"16",x', "uniform:0.0:1.0", "log-integers:1:8"])
def test_the_text_of_a_distribution_parses_to_the_same(text):
    assert parse_distribution(text).text == text
    assert parse_distribution(parse_distribution(text).text) == parse_distribution(text)


WRONG = [
    (["learning_rat=0.1"], "A run has no field 'learning_rat'. Did you mean 'learning_rate'?"),
    (["bits=1,2"], "Did you mean 'task_options.bits'?"),
    (["cell_options.nonlinearty=tanh"], "has no option 'nonlinearty'. Did you mean 'nonlinearity'?"),
    (["task_options.bits=0"], "bits"),
    (["hidden_size=4,many"], "hidden_size must be an integer, but is 'many'"),
    (["hidden_size="], "a list of values is empty"),
    (["hidden_size=4,4"], "the value 4 is there twice"),
    (["hidden_size"], "'hidden_size' is not FIELD=VALUES"),
    (["hidden_size=4", "hidden_size=5"], "hidden_size is given twice"),
    (["seed=0,1"], "seed cannot be swept"),
    (["learning_rate=log:0:1"], "must be above 0"),
    (["learning_rate=log:2:1"], "must be below"),
    (["learning_rate=log:1e-3"], "is not log:LOW:HIGH with two numbers"),
    (["hidden_size=integers:1.5:3"], "two whole numbers"),
    (["learning_rate=uniform:0.1:1"], "A grid needs lists of values"),
    (["hidden_size=uniform:2:5", "--method", "random", "--trials", "2"], "hidden_size must be an integer"),
    (["hidden_size=2,3", "--method", "random"], "--trials"),
    (["hidden_size=2,3", "--trials", "2"], "every combination once"),
    (["hidden_size=2,3", "--objective", "los"], "The runs report no 'los'. Did you mean 'loss'?"),
    (["hidden_size=2,3", "--storage", "sqlite://"], "A storage is for the methods of Optuna"),
    (["hidden_size=2,3", "--seeds", "1", "1"], "each once"),
]


@pytest.mark.parametrize(
    ("words", "message"), WRONG, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_a_wrong_request_is_refused_and_nothing_is_written(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(RunConfig, "__init__", unwrap(RunConfig.__init__))  # its own errors, not those of beartype
    assert main([*CLI, "--root", str(tmp_path), "--over", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
    assert not list(tmp_path.iterdir())


def test_a_sweep_needs_a_field_that_varies(tmp_path, capsys):
    assert main([*CLI, "--root", str(tmp_path)]) == 2
    assert "at least one field that varies" in capsys.readouterr().err


@pytest.mark.parametrize(("method", "module"), [("tpe", "optuna"), ("cma-es", "cmaes")])
def test_a_missing_package_is_named_with_its_extra(method, module, tmp_path, monkeypatch, capsys):
    if module == "cmaes":
        pytest.importorskip("optuna")
    monkeypatch.setitem(sys.modules, module, None)
    words = ["hidden_size=integers:2:3", "--method", method, "--trials", "2"]
    assert main([*CLI, "--root", str(tmp_path), "--over", *words]) == 2
    assert "pip install 'mnemoscope[sweep]'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_folder_of_another_sweep_is_refused_and_left_unchanged(tmp_path):
    result = run_sweep(sweep("hidden_size=3,4"), tmp_path, progress=False)
    before = contents(tmp_path)
    others = [sweep("hidden_size=3,5"), sweep("clip=1,2"), sweep("hidden_size=3,4", method="random", trials=2)]
    for other in (*others, Sweep(replace(BASE, steps=5), parse_space(["hidden_size=3,4"]))):
        with pytest.raises(ValueError, match=r"holds another sweep: .* there, and .* here"):
            run_sweep(other, tmp_path, resume=True, progress=False)
    with pytest.raises(FileExistsError, match="resume=True"):
        run_sweep(sweep("hidden_size=3,4"), tmp_path, progress=False)
    assert contents(tmp_path) == before
    written = result.folder / "sweep.json"
    written.write_text(json.dumps({**json.loads(written.read_text()), "mnemoscope": "99.0"}))
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=r"written by mnemoscope 99\.0, which is newer"):
        run_sweep(sweep("hidden_size=3,4"), tmp_path, resume=True, progress=False)
    written.unlink()
    with pytest.raises(FileExistsError, match="not the folder of a sweep"):
        run_sweep(sweep("hidden_size=3,4"), tmp_path, resume=True, progress=False)
    assert {path: content for path, content in before.items() if path != written} == contents(tmp_path)


def test_truncated_files_are_reported(tmp_path):
    asked = sweep("hidden_size=3,4")
    result = run_sweep(asked, tmp_path, progress=False)
    one, other = (result.folder / point.runs[0].hash for point in result.points)
    content = (one / "trial.json").read_bytes()
    (one / "trial.json").write_bytes(content[:20])
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=r"trial\.json is not a JSON file.*cut short"):
        run_sweep(asked, tmp_path, resume=True, progress=False)
    assert contents(tmp_path) == before
    (one / "trial.json").unlink()  # the run's other files are enough
    (other / "model.safetensors").write_bytes((other / "model.safetensors").read_bytes()[:50])
    again = run_sweep(asked, tmp_path, resume=True, progress=False)
    assert values(again) == values(result)
    assert again.problems == [f"{other}: model.safetensors is truncated, or not a safetensors file."]
    (one / "trial.json").unlink()
    (one / "config.toml").write_text("name = ")  # now its settings are unknown
    result = run_sweep(asked, tmp_path, resume=True, progress=False)
    assert len(result.points) == 1
    assert "config.toml is not a TOML file" in result.failed[0]


def test_two_processes_cannot_run_the_same_sweep(tmp_path):
    class Second(InProcess):
        def events(self, jobs):
            with pytest.raises(BlockingIOError, match="Another process is running a sweep"):
                run_sweep(sweep("hidden_size=3"), tmp_path, resume=True, progress=False)
            yield from super().events(jobs)

    assert len(run_sweep(sweep("hidden_size=3"), tmp_path, progress=False, engine=Second(False)).points) == 1


SUPERVISOR = """
import sys
from dataclasses import replace
from mnemoscope.engines import build_engine
from mnemoscope.sweeps import Sweep, run_sweep
from tests.sweeps.test_sweeps import sweep
method, root, where = sys.argv[1:]
asked = sweep(*WORDS, method=method, trials=None if method == "grid" else 6, at_a_time=2)
run_sweep(asked, root, resume=True, progress=False, engine=None if where == "here" else build_engine(where))
"""
GRID = ("hidden_size=2,3,4", "clip=0.5,1")
RANGES = ("hidden_size=integers:2:9", "clip=uniform:0.5:2")


def killed_and_resumed(method, where, chance, root):
    """Kill a sweep with SIGKILL at a random moment after its first run has ended, then run the rest here.

    Whether a run or none is going on then depends on the machine; the sweep must resume from both.
    """
    words = GRID if method == "grid" else RANGES
    asked = sweep(*words, method=method, trials=None if method == "grid" else 6, at_a_time=2)
    code = SUPERVISOR.replace("WORDS", repr(words))
    paths = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", code, method, str(root), where]
    supervisor = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths, "SWEEP": str(root)})
    while not list(root.glob("sweeps/*/*/trial.json")) and supervisor.poll() is None:
        time.sleep(0.005)
    time.sleep(random.Random(chance).uniform(0, 0.2 if where == "here" else 2))
    supervisor.kill()
    supervisor.wait()
    while any(f"SWEEP={root}" in _environment(process) for process in Path("/proc").glob("[0-9]*")):
        time.sleep(0.01)  # until its workers have ended
    before = {path: path.stat().st_mtime_ns for path in root.glob("sweeps/*/*/trial.json")}
    engine = Counting()
    result = run_sweep(asked, root, resume=True, progress=False, engine=engine)
    assert before
    assert before.items() <= {path: path.stat().st_mtime_ns for path in root.glob("sweeps/*/*/trial.json")}.items()
    assert not {path.parent.name for path in before} & {Path(own).name for own in engine.done}
    assert set(engine.done.values()) <= {1}
    uninterrupted = run_sweep(asked, root / "uninterrupted", progress=False)
    assert values(result) == values(uninterrupted)
    return result


def _environment(process):
    """Return the variables with which a process was started; none for one that has ended."""
    try:
        return (process / "environ").read_text(errors="replace").split("\0")
    except OSError:
        return []


@SLOW
@pytest.mark.parametrize("chance", [0])
def test_a_killed_sweep_resumes_without_repetition_or_loss(tmp_path, chance):
    assert len(killed_and_resumed("grid", "here", chance, tmp_path).points) == 6


@SLOW
@pytest.mark.parametrize("chance", range(1, 6))
@pytest.mark.parametrize(("method", "where"), [("grid", "here"), ("grid", "local"), ("tpe", "here"), ("tpe", "local")])
def test_a_killed_sweep_resumes_with_other_engines_and_methods(tmp_path, method, where, chance):
    if method == "tpe":
        pytest.importorskip("optuna")
    assert len(killed_and_resumed(method, where, chance, tmp_path).points) == 6


# ---- Optuna


class Simulated:
    """An engine without training: the loss of a run is the distance of its learning rate from 0.01."""

    def events(self, jobs):
        for job in jobs:
            folder = Path(job.root, job.folder)
            folder.mkdir(parents=True)
            loss = distance(job.arguments["settings"]["learning_rate"])
            (folder / "trial.json").write_text(json.dumps({"result": {"loss": loss}}))
            yield Outcome(job, 0.0)


def distance(rate):
    return (log(rate) - log(0.01)) ** 2


@representatives("cma-es")
@pytest.mark.parametrize("method", ["tpe", "gp", "qmc", "cma-es"])
def test_optuna_depends_on_its_seed_alone(method, tmp_path):
    pytest.importorskip("optuna")
    if method == "cma-es":
        pytest.importorskip("cmaes")
    words = ["learning_rate=log:1e-4:1e-1", "clip=uniform:0.5:2", *(["cell=elman,gru"] if method == "tpe" else [])]
    sweeps = [
        sweep(*words, name=name, method=method, trials=6, at_a_time=3, sampling_seed=seed)
        for name, seed in (("first", 7), ("again", 7), ("other", 8))
    ]
    first, again, other = (run_sweep(each, tmp_path, progress=False, engine=Simulated()) for each in sweeps)
    assert values(first) == values(again)
    assert values(first) != values(other)
    assert len(first.points) == 6
    for point in first.points:
        assert 1e-4 <= point.values["learning_rate"] <= 1e-1
        assert 0.5 <= point.values["clip"] <= 2


def test_optuna_uses_the_results(tmp_path):
    """After ten random points, Optuna proposes rates nearer to 0.01 if that is best than if it is worst."""
    pytest.importorskip("optuna")
    found = {}
    for direction in ("minimise", "maximise"):
        asked = sweep("learning_rate=log:1e-6:1", name=direction, method="tpe", trials=24, direction=direction)
        result = run_sweep(asked, tmp_path, progress=False, engine=Simulated())
        found[direction] = [runs[0][1] for _, runs in values(result)]
    assert found["minimise"][:8] == found["maximise"][:8]
    assert median(found["minimise"][12:]) < 0.2 * median(found["maximise"][12:])


def test_a_sweep_asks_optuna_as_a_plain_loop_does(tmp_path):
    """The reference has no storage, jobs or folders."""
    optuna = pytest.importorskip("optuna")
    asked = sweep("learning_rate=log:1e-6:1", method="tpe", trials=15, at_a_time=3, sampling_seed=5)
    result = run_sweep(asked, tmp_path, progress=False, engine=Simulated())
    study, rates = optuna.create_study(direction="minimize"), []
    for number in range(0, 15, 3):
        trials = []
        for index in range(number, number + 3):
            study.sampler = optuna.samplers.TPESampler(
                seed=random.Random(f"5 {index}").getrandbits(31), constant_liar=True
            )
            trials.append(study.ask())
            rates.append(trials[-1].suggest_float("learning_rate", 1e-6, 1, log=True))
        for trial in trials:
            study.tell(trial, distance(trial.params["learning_rate"]))
    assert [point["learning_rate"] for point, _ in values(result)] == rates


def six_points(name="tiny"):
    return sweep("learning_rate=log:1e-4:1e-1", "cell=elman,gru", name=name, method="tpe", trials=6, at_a_time=2)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    pytest.importorskip("optuna")
    return values(run_sweep(six_points("whole"), tmp_path_factory.mktemp("whole"), progress=False))


@representatives("3")
@pytest.mark.xdist_group("six points")  # one process, so that the fixture runs once
@pytest.mark.parametrize("until", [1, 2, 3, 5])
def test_optuna_resumes_where_it_was_interrupted(until, tmp_path, uninterrupted):
    optuna = pytest.importorskip("optuna")
    asked = six_points()
    with pytest.raises(KeyboardInterrupt):
        run_sweep(asked, tmp_path, progress=False, engine=Counting(until))
    storage = optuna.storages.JournalStorage(
        optuna.storages.journal.JournalFileBackend(str(tmp_path / "sweeps/tiny/optuna.journal"))
    )
    study = optuna.load_study(study_name="tiny", storage=storage)
    finished = {trial.number: trial.datetime_complete for trial in study.trials if trial.state.is_finished()}
    journal = tmp_path / "sweeps/tiny/optuna.journal"
    (tmp_path / "sweeps/tiny/optuna.journal.lock").symlink_to(journal)  # a kill may leave a lock
    with journal.open("ab") as file:
        file.write(b'{"op_code": 5, "wor')  # and a truncated line
    engine = Counting()
    result = run_sweep(asked, tmp_path, resume=True, progress=False, engine=engine)
    assert engine.done.total() == 6 - until
    assert values(result) == uninterrupted
    study = optuna.load_study(study_name="tiny", storage=storage)
    assert [trial.state.name for trial in study.trials] == ["COMPLETE"] * 6
    assert finished.items() <= {trial.number: trial.datetime_complete for trial in study.trials}.items()
    more = run_sweep(replace(asked, trials=7), tmp_path, resume=True, progress=False)
    assert values(more)[:6] == values(result)
    assert more.reused == 6


def test_a_point_with_missing_values_is_completed(tmp_path):
    """A kill may come between two fields of one point."""
    optuna = pytest.importorskip("optuna")
    asked = sweep("learning_rate=log:1e-4:1e-1", "hidden_size=integers:2:5", method="tpe", trials=4, at_a_time=2)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(asked, tmp_path, progress=False, engine=Counting(2))
    storage = optuna.storages.JournalStorage(
        optuna.storages.journal.JournalFileBackend(str(tmp_path / "sweeps/tiny/optuna.journal"))
    )
    study = optuna.load_study(study_name="tiny", storage=storage)
    for trial in study.trials:
        study.tell(trial.number, 1.0, skip_if_finished=True)
    rate = study.ask().suggest_float("learning_rate", 1e-4, 1e-1, log=True)
    result = run_sweep(asked, tmp_path, resume=True, progress=False)
    assert values(result)[2][0]["learning_rate"] == rate
    assert len(result.points) == 4


@SLOW
def test_optuna_keeps_its_state_in_a_database(tmp_path, capsys):
    pytest.importorskip("optuna")
    url = f"sqlite:///{tmp_path}/sweeps.db"
    words = [*CLI, "--over", "learning_rate=log:1e-4:1e-1", "--method", "tpe", "--trials", "2"]
    assert main([*words, "--storage", url, "--root", str(tmp_path / "a")]) == 0
    first = json.loads(capsys.readouterr().out)
    assert not list(tmp_path.rglob("optuna.journal"))
    assert main([*words, "--root", str(tmp_path / "a"), "--resume"]) == 2  # a new journal would start the search again
    assert "storage is sqlite" in capsys.readouterr().err
    assert main([*words, "--storage", url, "--root", str(tmp_path / "a"), "--resume"]) == 0
    assert json.loads(capsys.readouterr().out)["points"] == first["points"]
    other = [*CLI, "--over", "clip=uniform:0.5:1", "--method", "tpe", "--trials", "2", "--storage", url]
    assert main([*other, "--root", str(tmp_path / "b")]) == 2
    assert "does not belong to this sweep" in capsys.readouterr().err
    assert main([*words, "--name", "none", "--storage", "nothing", "--root", str(tmp_path / "c")]) == 2
    assert "The storage cannot be opened" in capsys.readouterr().err


def test_a_diverged_point_is_pruned_in_optuna(tmp_path):
    optuna = pytest.importorskip("optuna")
    asked = sweep("learning_rate=1e30,0.01", "cell_options.nonlinearity=relu", method="tpe", trials=4)
    result = run_sweep(asked, tmp_path, progress=False)
    storage = optuna.storages.JournalStorage(
        optuna.storages.journal.JournalFileBackend(str(tmp_path / "sweeps/tiny/optuna.journal"))
    )
    trials = optuna.load_study(study_name="tiny", storage=storage).trials
    states = {trial.params["learning_rate"]: trial.state.name for trial in trials}
    assert states == {0.01: "COMPLETE", 1e30: "PRUNED"}
    assert [point.values["learning_rate"] for point in result.points] == [0.01, 1e30]  # each once


def test_a_damaged_journal_is_refused(tmp_path):
    pytest.importorskip("optuna")
    asked = sweep("learning_rate=log:1e-4:1e-1", method="tpe", trials=2)
    run_sweep(asked, tmp_path, progress=False)
    journal, outside = tmp_path / "sweeps/tiny/optuna.journal", tmp_path / "outside"
    content = journal.read_bytes()
    for line, reason in (
        (b"{", "damaged in line 1"),
        (b"null", "damaged in line 1"),
        (b"[" * 100_000, "damaged in line 1.*too deeply nested"),
        (b'{"op_code": "x"}', "optuna.journal does not hold what Optuna writes"),
        (b'{"op_code": 4, "worker_id": "x"}', "optuna.journal does not hold what Optuna writes"),
    ):
        journal.write_bytes(line + b"\n" + content)
        before = contents(tmp_path)
        with pytest.raises(ValueError, match=reason):
            run_sweep(asked, tmp_path, resume=True, progress=False)
        assert contents(tmp_path) == before
    outside.write_bytes(content)
    journal.unlink()
    journal.symlink_to(outside)
    with pytest.raises(ValueError, match="symbolic link"):
        run_sweep(asked, tmp_path, resume=True, progress=False)
    journal.unlink()
    journal.hardlink_to(outside)
    more = sweep("learning_rate=log:1e-4:1e-1", method="tpe", trials=3)
    assert len(run_sweep(more, tmp_path, resume=True, progress=False).points) == 3
    assert outside.read_bytes() == content
