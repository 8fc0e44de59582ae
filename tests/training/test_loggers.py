"""Loggers: TensorBoard and wandb hold each line of metrics.jsonl once, even after a crash."""

import json
import os
import sys
from dataclasses import replace

import pytest

from mnemoscope.cli import main
from mnemoscope.cli.entry_point import _parse
from mnemoscope.config.run_config import RunConfig
from mnemoscope.store import read_runs
from mnemoscope.training import Callback, RunFolder, train
from tests.training.test_training import Crash, stop_at

CONFIG = RunConfig("try", "flipflop", task_options={"bits": 2, "length": 12}, hidden_size=8, batch_size=4, steps=40,
                   evaluate_every=6, evaluate_batches=2, checkpoint_every=10)  # fmt: skip
# TensorBoard is a development dependency; wandb is large and only tested if installed
LOGS = ["tensorboard", "wandb"]
DISTURBED = pytest.mark.filterwarnings("default::DeprecationWarning")  # raised by these packages
STEPS = [6, 12, 18, 24, 30, 36, 40]


def run(config, root, **settings):
    return train(config, root, progress=False, **settings)


def events(folder) -> dict[str, list[tuple[int, float]]]:
    """Return all points in the event files, including those that a reader would hide."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.util.tensor_util import make_ndarray

    points = {}
    for file in sorted((folder / "tensorboard").iterdir()):
        for event in EventFileLoader(str(file)).Load():
            for value in event.summary.value:
                if not value.tag.endswith("text_summary"):
                    points.setdefault(value.tag, []).append((event.step, float(make_ndarray(value.tensor))))
    return points


def records(file):
    """Yield the records of wandb's file: a header of 7 bytes, then pieces of 32 KiB blocks, as in LevelDB's log."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, at, whole = file.read_bytes(), 7, b""
    assert content[:4] == b":W&B"
    while at + 7 <= len(content):
        if (left := 32768 - at % 32768) < 7:
            at += left
            continue
        size, kind = int.from_bytes(content[at + 4 : at + 6], "little"), content[at + 6]
        whole += content[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # a full record, or its last piece
            yield Record.FromString(whole)
            whole = b""


def offline(folder) -> tuple[dict[str, list[tuple[int, float]]], dict]:
    (file,) = (folder / "wandb").glob("offline-run-*/*.wandb")  # a single file, even after a crash
    points, settings = {}, {}
    for record in records(file):
        if record.WhichOneof("record_type") == "run":
            settings |= {item.key: json.loads(item.value_json) for item in record.run.config.update}
        if record.WhichOneof("record_type") == "history":
            items = {item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
            for name, value in items.items():
                if not name.startswith("_"):
                    points.setdefault(name, []).append((items["_step"], value))
    return points, settings


def logged(name, folder):
    pytest.importorskip(name)
    return events(folder) if name == "tensorboard" else offline(folder)[0]


def expected(folder):
    points = {}
    for line in RunFolder(folder).read_metrics():
        for name, value in line.items():
            if name != "step":
                points.setdefault(name, []).append((line["step"], pytest.approx(value, rel=1e-6)))  # float32 there
    return points


@DISTURBED
@pytest.mark.parametrize("name", LOGS)
def test_a_log_holds_each_metric_once_even_after_a_crash(name, tmp_path):
    """Evaluated at 24, checkpoint at 20: step 24 is logged, removed and logged again."""
    pytest.importorskip(name)
    config = replace(CONFIG, log=(name,))
    folder = config.folder(tmp_path)
    with pytest.raises(Crash):
        run(config, tmp_path, callbacks=[stop_at(27, Crash)])
    assert [step for step, _ in logged(name, folder)["loss"]] == STEPS[:4]
    run(config, tmp_path, resume=True)
    points = logged(name, folder)
    assert points == expected(folder)
    assert [step for step, _ in points["loss"]] == STEPS
    if name == "wandb":
        settings = offline(folder)[1]
        assert settings["learning_rate"] == config.learning_rate
        assert settings["task_options"] == config.task_options


@DISTURBED
def test_logging_may_start_on_resume_and_changes_no_result(tmp_path):
    pytest.importorskip("tensorboard")
    run(CONFIG, tmp_path / "plain")
    with pytest.raises(KeyboardInterrupt):
        run(CONFIG, tmp_path / "logged", callbacks=[stop_at(17, KeyboardInterrupt)])
    run(replace(CONFIG, log=("tensorboard",)), tmp_path / "logged", resume=True)
    plain, folder = (CONFIG.folder(tmp_path / name) for name in ("plain", "logged"))
    assert events(folder) == expected(folder)
    for name in ("model.safetensors", "metrics.jsonl"):
        assert (folder / name).read_bytes() == (plain / name).read_bytes()
    run(CONFIG, tmp_path / "logged", overwrite=True)
    assert not (folder / "tensorboard").exists()  # it belonged to the discarded run


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_a_missing_package_is_named_before_work_starts(name, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, name, None)
    config = replace(CONFIG, log=(name,))
    file = tmp_path / "config.toml"
    file.write_text(config.to_toml())
    assert main(["train", str(file), "--root", str(tmp_path / "runs")]) == 2
    assert f"pip install 'mnemoscope[{name}]'" in capsys.readouterr().err
    assert not config.folder(tmp_path / "runs").exists()


def test_a_callback_receives_start_steps_end_and_close(tmp_path):
    class Recorder(Callback):
        def __init__(self):
            self.events = []

        def on_start(self, info):
            self.events.append(("start", [line["step"] for line in info.lines]))

        def on_step(self, info):
            self.events.append(info.step)

        def on_end(self, result):
            self.events.append(("end", result.loss))

        def close(self):
            self.events.append("close")

    first, second = Recorder(), Recorder()
    with pytest.raises(Crash):
        run(CONFIG, tmp_path, callbacks=[first, stop_at(27, Crash)])
    assert first.events == [("start", []), *range(1, 28), "close"]
    result = run(CONFIG, tmp_path, resume=True, callbacks=[second])
    assert second.events == [("start", [6, 12, 18]), *range(21, 41), ("end", result.loss), "close"]


def test_the_command_line_takes_several_logs_in_any_position(tmp_path):
    for words in (["--log", "tensorboard", "wandb", "copy"], ["copy", "--log", "tensorboard", "wandb"]):
        config = _parse(["train", *words, "--seed", "3"]).run_config
        assert (config.task, config.seed, config.log) == ("copy", 3, ("tensorboard", "wandb"))
    assert _parse(["train", "copy"]).run_config.log == ()


def test_logs_are_stored_in_the_file_and_shown_in_the_table(tmp_path):
    config = replace(CONFIG, log=("tensorboard", "wandb"))
    folder = config.folder(tmp_path)
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(config.to_toml())
    assert 'log = ["tensorboard", "wandb"]' in config.to_toml()
    assert RunConfig.from_toml(folder / "config.toml") == config
    assert read_runs(tmp_path)[0]["log"] == "tensorboard wandb"


@pytest.fixture(autouse=True)
def _offline(monkeypatch):
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
