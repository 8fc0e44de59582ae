"""Every registered study runs its smoke preset, resumes and writes its page."""

import json
import shutil
from dataclasses import asdict, replace

import pytest
import torch

from mnemoscope import registry
from mnemoscope.base.files import lock_folder
from mnemoscope.config.run_config import RunConfig
from mnemoscope.registry.citations import Source
from mnemoscope.replication import EVERYTHING, Claim, Finished, Preset, Study, Trial, run_study
from mnemoscope.replication.agreement import as_printed, chosen, exactly
from mnemoscope.replication.learning_study import take_trained
from mnemoscope.replication.reduced_study import ReducedStudy
from mnemoscope.replication.verdicts import Obstacle
from mnemoscope.studies.jang.flipflop_cube import STUDY, cube
from mnemoscope.studies.kerg2022 import copy_200
from mnemoscope.studies.kerg2022.gradient_norms import polynomial
from mnemoscope.training.run_folder import RunFolder
from tests.slow import representatives
from tests.tasks import data_sets


@pytest.mark.parametrize("name", [entry.name for entry in registry.studies])
def test_a_study_has_presets_claims_and_distinct_trials(name):
    study = registry.studies.load(name)
    assert isinstance(study, Study)
    assert study.name == name
    largest = "published" if isinstance(study, ReducedStudy) else "paper"
    assert {"smoke", "reduced" if isinstance(study, ReducedStudy) else "cpu", largest} <= set(study.presets)
    assert study.claims
    assert all(claim.source.work for claim in study.claims)
    trials = study.trials(study.presets[largest].settings, (0, 1))
    assert len({trial.hash for trial in trials}) == len(trials)


@representatives(
    "copy-table",
    "transfer-copy",
    "minigrid",
    "ptb-bpc",
    "gradient-norms",
    "learned-schur",
    "ntm-copy",
)
@pytest.mark.parametrize("name", [entry.name for entry in registry.studies])
def test_the_smoke_preset_runs_and_resumes(name, tmp_path, monkeypatch):
    data_sets.use(monkeypatch, tmp_path / "data")
    result = run_study(name, "smoke", root=tmp_path, progress=False)
    assert result.rows
    assert result.reused == 0
    summary = json.loads((result.folder / "summary.json").read_text())
    assert summary["command"] == f"mnemoscope study {name} --preset smoke"
    assert summary["environments"][0]["torch"]
    assert result.page.read_text().startswith("<!DOCTYPE html>")
    with pytest.raises(FileExistsError, match="resume=True"):
        run_study(name, "smoke", root=tmp_path, progress=False)
    monkeypatch.setattr("mnemoscope.replication.page.inline_svg", lambda *_, **__: "")  # the figure is drawn once only
    again = run_study(name, "smoke", root=tmp_path, resume=True, progress=False)
    assert again.reused == again.trials
    assert again.rows == result.rows


@pytest.mark.usefixtures("undrawn")
def test_an_interrupted_study_keeps_its_finished_trials(tmp_path, monkeypatch):
    study = registry.studies.load("flipflop-cube")
    calls = []

    def interrupted(trial, folder, progress):
        calls.append(trial.seed)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return {"loss": 1.0, "accuracy": 0.5, "points": 1, "unstable": {"0": 1}, "index_sum": 1}

    monkeypatch.setattr(study, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_study("flipflop-cube", "smoke", (0, 1, 2), tmp_path, progress=False)
    result = run_study("flipflop-cube", "smoke", (0, 1, 2), tmp_path, resume=True, progress=False)
    assert calls == [0, 1, 1, 2]
    assert result.reused == 1


def test_a_network_trained_by_another_study_is_reused(tmp_path, monkeypatch):
    first, second = (registry.studies.load(name) for name in ("ablations", "relational-cognitive"))
    networks = {"corelnet, RMTS, m 95": {"cell": "corelnet", "task": "rmts", "task_options": {"m": 95}}}
    settings = {"networks": networks, "changes": {"steps": 2, "batch_size": 4, "evaluate_every": 1}}
    for study in (first, second):
        monkeypatch.setattr(study, "presets", {"tiny": Preset("tiny", settings)})
    before = run_study("ablations", "tiny", root=tmp_path, progress=False)
    monkeypatch.setattr("mnemoscope.training.loop._train", None)  # would raise
    after = run_study("relational-cognitive", "tiny", root=tmp_path, progress=False)
    trained, reused = (json.loads(next(each.folder.glob("*/trial.json")).read_text()) for each in (before, after))
    came_from = f"ablations/tiny/{first.trials(settings, (0,))[0].hash}"
    assert reused["result"].pop("trained by") == came_from
    assert reused["result"] == trained["result"]
    assert reused["environment"] == trained["environment"]
    (run,) = after.folder.glob("*/relational-cognitive/*")
    assert RunFolder(run).read_config().name == "relational-cognitive"
    shutil.rmtree(before.folder)
    assert RunFolder(run).status == "finished"
    assert take_trained(RunFolder(run).read_config(), tmp_path / "studies/other/tiny/0") == (
        run.parent.parent.relative_to(tmp_path / "studies").as_posix()
    )
    changed = replace(RunFolder(run).read_config(), seed=1)
    assert take_trained(changed, tmp_path / "studies/other/tiny/1") is None


def measured(points, unstable, **more):
    return {"loss": 0.1, "accuracy": 0.9, "points": points, "unstable": unstable, "index_sum": 1, **more}


WHOLE = measured(27, {"0": 8, "1": 12, "2": 6, "3": 1})
PART = measured(11, {"0": 7, "1": 4}, index_sum=3, accuracy=0.7)


def finished(results, **changes):
    trials = STUDY.trials({"networks": {"elman": 12}, "changes": changes}, range(len(results)))
    return [Finished(trial, result) for trial, result in zip(trials, results, strict=True)]


def test_the_verdict_follows_the_range_of_agreement():
    claim = Claim(EVERYTHING, "points", 8, Source("jang", "Fig 6"), chosen(7, 9, "for a test"))
    assert claim.judge([7, 8, 9]).verdict == "matches"
    assert claim.judge([6, 10]).verdict == "differs"
    assert str(claim.judge([6, 9])) == "matches in 1 of 2"
    assert replace(claim, agreement=None).judge([8]).verdict == claim.judge([]).verdict == "not compared"


def test_values_on_the_better_side_of_the_range_are_better():
    error = Claim(EVERYTHING, "error", 8, Source("jang", "Table 1"), chosen(7, 9, "for a test"), better="lower")
    assert (error.judge([6, 5]).verdict, error.judge([10, 11]).verdict) == ("better", "worse")
    assert error.judge([6, 10]).verdict == "differs"  # neither
    assert error.judge([6, 8]).matching == (1, 2)
    score = replace(error, better="higher")
    assert (score.judge([6, 5]).verdict, score.judge([10, 11]).verdict) == ("worse", "better")


def test_a_network_that_diverged_does_not_agree():
    source = Source("jang", "Table 1")
    count = Claim(EVERYTHING, "points", 8, source, exactly(8))
    assert (str(count.judge([8, 8], diverged=1)), count.judge([8], 1).reason) == (
        "matches in 2 of 3",
        "1 of 2 did not stay finite",
    )
    assert count.judge([8, 7], diverged=1).reason == ""  # the network with 7 points has no known cause
    assert count.judge([], diverged=2).verdict == "differs"
    score = Claim(EVERYTHING, "accuracy", 0.96, source, as_printed("0.96"), better="higher")
    assert score.judge([0.959, 0.96, 0.961], diverged=2).matching == (3, 5)
    assert (score.judge([], diverged=1).verdict, score.judge([], diverged=1).reason) == (
        "worse",
        "1 of 1 did not stay finite",
    )
    assert score.judge([1.0, 1.0, 1.0, 1.0], diverged=1).verdict == "differs"  # some are better, one is worse
    assert score.judge([0.9, 0.9, 0.9, 0.9], diverged=1).verdict == "worse"
    row = score.compare("accuracy", [0.96], "0.96", diverged=1)
    assert (row.successes, row.diverged, row.standard_error) == (1, 1, None)


def test_a_row_has_the_reason_why_it_differs_or_is_not_compared():
    claim = Claim(EVERYTHING, "points", 8, Source("jang", "Fig 6"), exactly(8), reason="a misprint")
    assert claim.compare("a: points", [8], "8").judgement.reason == ""
    assert claim.compare("a: points", [9], "9").judgement.reason == "a misprint"
    assert claim.compare("a: points", [], "none").judgement.reason == "nothing was measured"
    assert "states no result" in replace(claim, agreement=None).compare("a: points", [8], "8").judgement.reason
    other = claim.not_compared("a: points", "8", "2 seeds", Obstacle.OTHER_CONDITIONS)
    assert (other.verdict, other.remark, other.judgement.reason) == (
        "not compared",
        "2 seeds; other conditions than published",
        "other conditions than published",
    )
    assert other.claim is claim


def test_the_cube_is_compared_with_the_published_counts():
    rows = STUDY.summarise(finished([WHOLE, PART, WHOLE]))
    assert [(row.quantity, row.published, row.ours, str(row.judgement), row.remark) for row in rows] == [
        ("elman 12: stable fixed points", "8", "8, 7, 8", "matches in 2 of 3", "accuracy 0.9000"),
        ("elman 12: fixed points", "9-26", "27, 11, 27", "matches in 1 of 3", "8 + 12 + 6 + 1 = 27 in 2 of 3 networks"),
        ("elman 12: index sum 1", "not checked", "2 of 3", "not compared", "necessary for a complete set"),
    ]
    assert [row.claim for row in rows] == [*STUDY.claims[:2], None]
    assert [row.judgement.reason for row in rows] == ["", "a cube has 27", ""]


def test_a_cube_with_other_bits_is_counted_but_not_compared():
    square = measured(9, {"0": 4, "1": 4, "2": 1})
    stable, points, _ = STUDY.summarise(finished([square], task_options={"bits": 2}))
    assert (stable.ours, stable.verdict, stable.published) == ("4", "not compared", "for 3 bits only")
    assert points.remark == "4 + 4 + 1 = 9 in 1 of 1 network"
    assert sum(cube(4).values()) == 81


@pytest.mark.parametrize(("changes", "lines"), [({}, [8, 12, 6, 1]), ({"task_options": {"bits": 2}}, [4, 4, 1, 0])])
def test_the_figure_has_a_bar_for_each_count_and_a_line_for_each_expected_count(changes, lines):
    figure = STUDY.figure(finished([WHOLE, PART], **changes))
    (axes,) = figure.axes
    assert [bar.get_height() for bar in axes.patches] == [8, 12, 6, 1, 7, 4, 0, 0]
    assert [line.get_segments()[0][0, 1] for line in axes.collections] == lines
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["elman 12"]


@pytest.mark.usefixtures("undrawn")
def test_the_page_keeps_the_trials_of_all_seeds(tmp_path, monkeypatch):
    monkeypatch.setattr(STUDY, "run", lambda trial, folder, progress: WHOLE)
    run_study("flipflop-cube", "smoke", (0, 2), tmp_path, progress=False)
    result = run_study("flipflop-cube", "smoke", (1,), tmp_path, resume=True, progress=False)
    assert (result.trials, result.reused) == (1, 0)
    assert result.rows[0].ours == "8, 8, 8"
    summary = json.loads((result.folder / "summary.json").read_text())
    assert [each["trial"]["seed"] for each in summary["trials"]] == [0, 1, 2]
    assert summary["command"].endswith("--preset smoke --seeds 0 1 2")
    assert summary["not run"] == []
    page = result.page.read_text()
    assert "<td>8, 8, 8</td>" in page
    assert {str(row.judgement) for row in result.rows} == {"not compared"}  # smoke only shows that the code runs
    assert "<td>matches</td>" not in page


@pytest.mark.usefixtures("undrawn")
def test_the_page_lists_trials_that_were_not_run(tmp_path, monkeypatch):
    monkeypatch.setattr(STUDY, "run", lambda trial, folder, progress: WHOLE)
    folder = run_study("flipflop-cube", "smoke", (0, 1), tmp_path, progress=False).folder
    run = STUDY.trials(STUDY.presets["smoke"].settings, (0, 1))
    more = [replace(trial, name="another") for trial in run]
    monkeypatch.setattr(STUDY, "trials_of", lambda preset, seeds: [*run, *more])
    result = run_study("flipflop-cube", "smoke", (0, 1), tmp_path, finished_only=True, progress=False)
    assert json.loads((folder / "summary.json").read_text())["not run"] == ["another, seed 0", "another, seed 1"]
    assert "Not run: another, seed 0; another, seed 1." in result.page.read_text()


@pytest.mark.usefixtures("undrawn")
@representatives("[]", '{"result": {}}', '{"trial": {"seed": 0}, "result": null}')
@pytest.mark.parametrize(
    "content", ["null", "[]", '{"result": null}', "{}", '{"trial": {"seed": 0}, "result": null}', '{"result": {}}']
)
def test_a_trial_file_without_a_result_is_refused(content, tmp_path, monkeypatch):
    monkeypatch.setattr(STUDY, "run", lambda trial, folder, progress: WHOLE)
    folder = run_study("flipflop-cube", "smoke", root=tmp_path, progress=False).folder
    next(folder.glob("*/trial.json")).write_text(content)
    with pytest.raises(ValueError, match=r"trial\.json does not hold what was expected: .*Remove it"):
        run_study("flipflop-cube", "smoke", root=tmp_path, resume=True, progress=False)


def skip_training(monkeypatch, fails=()):
    """Replace the training of flipflop-cube by a constant result, or by an error for some seeds."""

    def run(trial, folder, progress):
        if trial.seed in fails:
            raise TypeError("bad case")
        return measured(1, {"0": 1})

    monkeypatch.setattr(registry.studies.load("flipflop-cube"), "run", run)


@pytest.mark.usefixtures("undrawn")
def test_a_failing_trial_does_not_stop_the_others(tmp_path, monkeypatch):
    skip_training(monkeypatch, fails=(1,))
    result = run_study("flipflop-cube", "smoke", (0, 1, 2), tmp_path, progress=False)
    (failed,) = result.failed
    assert "seed 1" in failed
    assert "bad case" in failed
    (log,) = result.folder.glob("*/failed.log")
    assert len([*result.folder.glob("*/trial.json")]) == 2
    skip_training(monkeypatch)
    assert run_study("flipflop-cube", "smoke", (0, 1, 2), tmp_path, resume=True, progress=False).failed == []
    assert not log.exists()


def test_concurrent_runs_and_repeated_seeds_are_refused(tmp_path, monkeypatch):
    skip_training(monkeypatch)
    with pytest.raises(ValueError, match="Each seed is run once, but seeds are 1, 1"):
        run_study("flipflop-cube", "smoke", (1, 1), tmp_path, progress=False)
    with (
        lock_folder(tmp_path / "studies/flipflop-cube/smoke", "running"),
        pytest.raises(BlockingIOError, match="a study"),
    ):
        run_study("flipflop-cube", "smoke", (1,), tmp_path, progress=False)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_reported_before_the_first_trial(tmp_path):
    with pytest.raises(ValueError, match=r"needs a GPU.*there are the presets smoke, cpu; --device cpu trains"):
        run_study("denoise", "paper", root=tmp_path, progress=False)


def test_a_preset_of_a_gpu_is_trained_on_a_cpu_if_asked(tmp_path, monkeypatch):
    study = registry.studies.load("copy-200")
    networks = {"exprnn": {"cell": "exprnn", "hidden_size": 4}}
    changes = {"steps": 2, "batch_size": 2, "evaluate_every": 2, "evaluate_batches": 1, "task_options": {"delay": 2}}
    tiny = Preset("tiny", {"networks": networks, "changes": {**changes, "device": "cuda"}})
    monkeypatch.setattr(study, "presets", {"tiny": tiny})
    result = run_study("copy-200", "tiny", root=tmp_path, progress=False, device="cpu")
    assert not result.failed
    (path,) = result.folder.glob("*/trial.json")
    (trial,) = study.trials_of("tiny", (0,))
    assert path.parent.name == trial.hash
    content = json.loads(path.read_text())
    assert (content["trial"]["settings"]["device"], content["environment"]["device"]) == ("cuda", "cpu")
    with pytest.raises(ValueError, match="have no device to choose"):
        run_study("fisher-table", "smoke", root=tmp_path, progress=False, device="cpu")
    with pytest.raises(ValueError, match="device must be cpu or cuda, but is 'tpu'"):
        run_study("copy-200", "tiny", (1,), tmp_path, resume=True, progress=False, device="tpu")


def test_files_of_a_newer_version_are_left_alone(tmp_path, monkeypatch):
    skip_training(monkeypatch)
    result = run_study("flipflop-cube", "smoke", (0,), tmp_path, progress=False)
    (path,) = result.folder.glob("*/trial.json")
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "environment": {**content["environment"], "mnemoscope": "99.0.0"}}))
    (result.folder / "summary.json").write_text("theirs")
    with pytest.raises(ValueError, match="newer than this one"):
        run_study("flipflop-cube", "smoke", (0, 1), tmp_path, resume=True, progress=False)
    assert (result.folder / "summary.json").read_text() == "theirs"


def test_bad_requests_are_refused(tmp_path):
    with pytest.raises(KeyError, match="Did you mean 'flipflop-cube'"):
        run_study("flipflop-cub", "smoke", root=tmp_path)
    with pytest.raises(ValueError, match="presets smoke, cpu, paper"):
        run_study("flipflop-cube", "huge", root=tmp_path)
    with pytest.raises(ValueError, match="no trial"):
        run_study("flipflop-cube", "smoke", (), tmp_path)


@pytest.mark.usefixtures("undrawn")
def test_finished_only_summarises_without_running(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="no finished trial"):
        run_study("copy-200", "smoke", root=tmp_path, finished_only=True, progress=False)
    complete = run_study("copy-200", "smoke", root=tmp_path, progress=False)
    monkeypatch.setattr(copy_200.STUDY, "run", lambda *_: pytest.fail("a trial was run"))
    trial = next(path.parent for path in complete.folder.glob("*/trial.json"))
    shutil.rmtree(trial)
    partial = run_study("copy-200", "smoke", root=tmp_path, finished_only=True, progress=False)
    assert (partial.trials, complete.trials) == (1, 2)
    assert set(partial.rows) < set(complete.rows)
    left = next(iter(complete.folder.glob("*/trial.json")))
    content = json.loads(left.read_text())
    left.write_text(json.dumps({**content, "result": {**content["result"], "curve": "none", "accuracy": "high"}}))
    with pytest.raises(ValueError, match=r"cannot be summarised .* Remove its folder and continue with --resume"):
        run_study("copy-200", "smoke", root=tmp_path, finished_only=True, progress=False)


def learned(study, network, preset, seed=0, **result):
    trial = next(trial for trial in study.trials(study.presets[preset].settings, (seed,)) if trial.name == network)
    curve = {"step": [25.0, 50.0, 75.0], "accuracy": [0.2, 0.99, 0.995], "loss": [1.0, 0.1, 0.01]}
    return Finished(trial, {"parameters": 7, "curve": curve, "baseline": 0.5, **result})


def test_networks_are_compared_under_the_published_conditions_only():
    for preset, verdict in (("cpu", "matches"), ("smoke", "not compared")):
        found = {"accuracy": 0.995, "loss": 0.01}
        rows = copy_200.STUDY.summarise([learned(copy_200.STUDY, "nnrnn", preset, seed, **found) for seed in (0, 1)])
        assert [row.verdict for row in rows[:2]] == [verdict, "not compared"]
        assert rows[-1].verdict == ("differs" if preset == "cpu" else "not compared")  # a baseline of 0.5
        assert rows[0].published == "solves it"
        assert ("other conditions" in rows[0].remark) == (preset == "smoke")
        assert rows[1].ours == "50, 50"
    both = [learned(copy_200.STUDY, "rnn", "cpu", seed, accuracy=0.9, loss=0.01) for seed in (0, 1)]
    assert copy_200.STUDY.summarise(both)[0].verdict == "better"
    alone = copy_200.STUDY.summarise(both[:1])[0].judgement
    assert (alone.obstacle, alone.reason) == (Obstacle.TOO_FEW, "one network, outside of the range")


def test_a_network_that_diverges_is_counted_and_drawn(tmp_path, monkeypatch):
    study = copy_200.STUDY
    trial = study.trials(study.presets["smoke"].settings, (0,))[0]
    config = RunConfig(**{**trial.settings, "learning_rate": 1e30, "evaluate_every": 1})
    result = study.run(Trial(trial.name, asdict(config), 0), tmp_path, progress=False)
    assert "training loss" in result["failed"] or "evaluation loss" in result["failed"]
    finished = [Finished(trial, result), learned(study, "nnrnn", "smoke", accuracy=0.5, loss=0.3)]
    rows = study.summarise(finished)
    assert rows[0].ours == "0.5"
    assert "1 did not stay finite" in rows[0].remark
    assert rows[1].ours == "never, 50"
    assert study.figure(finished).axes


@pytest.mark.parametrize("power", [0.5, 1.5, -2.0])
def test_powers_are_distinguished_from_exponentials(power):
    exponent, better = polynomial([k**power for k in range(1, 150)])
    assert exponent == pytest.approx(power, abs=1e-9)
    assert 0 < better <= 1
    for rate in (0.9, 1.02, 1.05):
        assert polynomial([rate**k for k in range(1, 150)])[1] < 0
