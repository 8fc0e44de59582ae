"""Every registered study runs in its smoke preset, resumes, and writes its page."""

import json

import pytest

from mnemoscope import registry
from mnemoscope.studies import Study, run_study


@pytest.mark.parametrize("name", [entry.name for entry in registry.studies])
def test_a_study_is_whole(name):
    study = registry.studies.load(name)
    assert isinstance(study, Study)
    assert study.name == name
    assert {"smoke", "cpu", "paper"} <= set(study.presets)
    assert study.published
    assert all(one.source for one in study.published)
    trials = study.trials(study.presets["paper"].settings, (0, 1))
    assert len({trial.hash for trial in trials}) == len(trials)


@pytest.mark.parametrize("name", [entry.name for entry in registry.studies])
def test_the_smoke_preset_runs_and_resumes(name, tmp_path):
    result = run_study(name, "smoke", root=tmp_path, progress=False)
    assert result.rows
    assert result.reused == 0
    summary = json.loads((result.folder / "summary.json").read_text())
    assert summary["command"] == f"mnemoscope study {name} --preset smoke"
    assert summary["environment"]["torch"]
    assert result.page.read_text().startswith("<!DOCTYPE html>")
    with pytest.raises(FileExistsError, match="--resume"):
        run_study(name, "smoke", root=tmp_path, progress=False)
    again = run_study(name, "smoke", root=tmp_path, resume=True, progress=False)
    assert again.reused == again.trials
    assert again.rows == result.rows


def test_an_interrupted_study_keeps_what_is_finished(tmp_path, monkeypatch):
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


def test_bad_requests_are_refused(tmp_path):
    with pytest.raises(KeyError, match="Did you mean 'flipflop-cube'"):
        run_study("flipflop-cub", "smoke", root=tmp_path)
    with pytest.raises(ValueError, match="presets smoke, cpu, paper"):
        run_study("flipflop-cube", "huge", root=tmp_path)
    with pytest.raises(ValueError, match="no trial"):
        run_study("flipflop-cube", "smoke", (), tmp_path)
