"""Training: learning, resuming bit for bit, stopping rules, and the files of a run."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from safetensors.torch import save
from torch import nn

from mnemoscope import registry
from mnemoscope.base.files import TEMPORARY_PREFIX, write_atomically
from mnemoscope.base.signals import Terminated
from mnemoscope.base.tensor_files import read_tensors, write_tensors
from mnemoscope.cells import GRU, Cell, Model, scan
from mnemoscope.config.run_config import RunConfig
from mnemoscope.tasks import Adding, Copy, Parity, PennTreebank, SequentialMNIST
from mnemoscope.training import (
    NonFiniteLoss,
    RunFolder,
    build_model,
    build_task,
    evaluate,
    fit_readout,
    load_model,
    train,
)
from mnemoscope.training.bptt import backpropagate
from mnemoscope.training.metrics_file import MetricsFile
from mnemoscope.training.setup import cpu_settings
from tests.slow import SLOW, representatives, slow
from tests.tasks import data_sets

CONFIG = RunConfig(
    "try",
    "flipflop",
    task_options={"bits": 2, "length": 12, "rate": 0.2},
    hidden_size=8,
    learning_rate=0.01,
    schedule="cosine",
    clip=1.0,
    steps=40,
    batch_size=4,
    evaluate_every=6,
    evaluate_batches=2,
    checkpoint_every=10,
)


class Crash(Exception):  # noqa: N818
    """Stands for a power failure: nothing can be saved."""


def stop_at(step: int, error: type[BaseException]):
    def callback(info):
        if info.step == step:
            raise error

    return callback


def run(config: RunConfig, root: Path, **settings):
    return train(config, root, progress=False, **settings)


def artefacts(config: RunConfig, root: Path) -> tuple[bytes, bytes]:
    folder = config.folder(root)
    return (folder / "model.safetensors").read_bytes(), (folder / "metrics.jsonl").read_bytes()


# Resume.

VARIANTS = [
    CONFIG,
    replace(CONFIG, cell="lstm", optimiser="rmsprop", momentum=0.9, truncate=5, schedule="constant"),
    replace(CONFIG, cell="gru", optimiser="adamw", weight_decay=0.1, clip=None),
    replace(
        CONFIG, cell="full-urnn", orthogonal_learning_rate=1e-3, target_loss=1e-9, patience=100, schedule="plateau"
    ),
]


@representatives("KeyboardInterrupt-elman-adam", "KeyboardInterrupt-gru-adamw")
@pytest.mark.parametrize("config", VARIANTS, ids=lambda config: f"{config.cell}-{config.optimiser}")
@pytest.mark.parametrize("error", [KeyboardInterrupt, *slow(Crash)])
def test_an_interrupted_run_ends_with_the_same_bytes(config, error, tmp_path):
    run(config, tmp_path / "straight")
    with pytest.raises(error):
        run(config, tmp_path / "resumed", callbacks=[stop_at(27, error)])
    with pytest.raises(error):  # again, after an evaluation and before the next checkpoint
        run(config, tmp_path / "resumed", resume=True, callbacks=[stop_at(36, error)])
    result = run(config, tmp_path / "resumed", resume=True)
    assert result.steps == 40
    assert artefacts(config, tmp_path / "resumed") == artefacts(config, tmp_path / "straight")


@representatives("11")
@pytest.mark.parametrize("step", [1, 9, 10, 11, 39, 40])
def test_it_does_not_matter_when_a_run_crashes(step, tmp_path):
    run(CONFIG, tmp_path / "straight")
    with pytest.raises(Crash):
        run(CONFIG, tmp_path / "resumed", callbacks=[stop_at(step, Crash)])
    run(CONFIG, tmp_path / "resumed", resume=True)
    assert artefacts(CONFIG, tmp_path / "resumed") == artefacts(CONFIG, tmp_path / "straight")


def test_resuming_with_another_number_of_threads_warns(tmp_path):
    with pytest.raises(Crash):
        run(replace(CONFIG, threads=1), tmp_path, callbacks=[stop_at(27, Crash)])
    with (
        pytest.warns(UserWarning, match="begun with 1 CPU threads and goes on with 2.*--threads 1"),
        pytest.raises(Crash),
    ):
        run(replace(CONFIG, threads=2), tmp_path, resume=True, callbacks=[stop_at(36, Crash)])
    run(replace(CONFIG, threads=1), tmp_path, resume=True)  # the original number: no warning, which would be an error


def test_metrics_after_the_checkpoint_are_removed_on_resume(tmp_path):
    """Evaluated at 24, checkpoint at 20: the line of step 24 must not be there twice."""
    with pytest.raises(Crash):
        run(CONFIG, tmp_path, callbacks=[stop_at(27, Crash)])
    folder = RunFolder(CONFIG.folder(tmp_path))
    assert [line["step"] for line in folder.read_metrics()] == [6, 12, 18, 24]
    run(CONFIG, tmp_path, resume=True)
    assert [line["step"] for line in folder.read_metrics()] == [6, 12, 18, 24, 30, 36, 40]


def test_resuming_after_the_last_step_writes_only_missing_files(tmp_path):
    run(CONFIG, tmp_path)
    folder = RunFolder(CONFIG.folder(tmp_path))
    expected, result = artefacts(CONFIG, tmp_path), folder.read_result()
    (folder.path / "result.json").unlink()
    (folder.path / "model.safetensors").unlink()
    again = run(CONFIG, tmp_path, resume=True, callbacks=[stop_at(40, Crash)])
    assert artefacts(CONFIG, tmp_path) == expected
    assert (again.loss, again.seconds) == (result.loss, result.seconds)


def test_checkpoints_and_callbacks_do_not_change_the_result(tmp_path):
    run(CONFIG, tmp_path)
    often = replace(CONFIG, name="often", checkpoint_every=1, threads=1)
    seen = []
    train(often, tmp_path, progress=True, callbacks=[seen.append])
    assert artefacts(often, tmp_path) == artefacts(CONFIG, tmp_path)
    assert [info.step for info in seen] == [*range(1, 41)]
    assert [info.step for info in seen if info.evaluation] == [6, 12, 18, 24, 30, 36, 40]


def test_the_global_generator_neither_matters_nor_changes(tmp_path):
    torch.manual_seed(1)
    run(CONFIG, tmp_path / "one")
    torch.manual_seed(2)
    before = torch.get_rng_state()
    run(CONFIG, tmp_path / "two")
    assert torch.equal(before, torch.get_rng_state())
    assert artefacts(CONFIG, tmp_path / "one") == artefacts(CONFIG, tmp_path / "two")


@SLOW
def test_runs_in_threads_have_the_weights_of_single_runs(tmp_path, noisy):
    cells = ("elman", "gru", "noisy")
    configs = [replace(CONFIG, cell=cells[seed % 3], seed=seed, steps=2, evaluate_every=2) for seed in range(12)]
    for config in configs:
        run(config, tmp_path / "single")
    before = torch.get_rng_state()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda config: run(config, tmp_path / "threads"), configs))
    assert torch.equal(before, torch.get_rng_state())
    wrong = [c.seed for c in configs if artefacts(c, tmp_path / "single") != artefacts(c, tmp_path / "threads")]
    assert wrong == []


def test_another_seed_gives_other_weights(tmp_path):
    other = replace(CONFIG, seed=1)
    run(CONFIG, tmp_path)
    run(other, tmp_path)
    assert artefacts(CONFIG, tmp_path)[0] != artefacts(other, tmp_path)[0]


def test_a_cell_that_draws_random_numbers_resumes_with_the_same_bytes(tmp_path, noisy):
    config = replace(CONFIG, cell="noisy")
    run(config, tmp_path / "straight")
    with pytest.raises(Crash):
        run(config, tmp_path / "resumed", callbacks=[stop_at(17, Crash)])
    torch.manual_seed(5)
    run(config, tmp_path / "resumed", resume=True)
    assert artefacts(config, tmp_path / "resumed") == artefacts(config, tmp_path / "straight")


class Pair(NamedTuple):
    outer: torch.Tensor
    inner: tuple[torch.Tensor, torch.Tensor]


class Noisy(Cell):
    """A cell with a nested state and noise, as a user might write one."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.input_size, self.size = input_size, hidden_size
        self.mix = nn.Linear(input_size + hidden_size, hidden_size)

    def initial_state(self, batch):
        zero = torch.zeros(batch, self.size)
        return Pair(zero, (zero, zero))

    def forward(self, x, state):
        new = torch.tanh(self.mix(torch.cat([x, state.outer], -1)) + 0.1 * torch.randn(len(x), self.size))
        return Pair(new, (state.outer, state.inner[0]))

    def output(self, state):
        return state.outer + state.inner[1]


@pytest.fixture
def noisy(monkeypatch):
    entries = {**registry.cells.entries, "noisy": registry.Entry("noisy", "a test", "here", f"{__name__}:Noisy")}
    monkeypatch.setattr(registry.cells, "entries", entries)


# Data sets: a state that is carried, validation, test.

TEXT = replace(CONFIG, task="ptb", task_options={"length": 7}, steps=90, evaluate_batches=None, evaluate_every=15)
"""2,000 symbols in 4 streams: an epoch has 72 batches, so that a run enters a second one."""
DIGITS = replace(CONFIG, task="psmnist", task_options={"group": 56}, learning_rate=0.1, evaluate_batches=None)


@pytest.fixture
def _tiny_data(monkeypatch, tmp_path_factory):
    data_sets.use(monkeypatch, tmp_path_factory.getbasetemp() / "data")


@representatives("Crash-elman", "Crash-digits")
@pytest.mark.usefixtures("_tiny_data", "noisy")
@pytest.mark.parametrize(
    ("config", "settings"),
    [(TEXT, {}), (TEXT, {"cell": "lstm", "embedding": 3, "truncate": 3}), (TEXT, {"cell": "noisy"}), (DIGITS, {})],
    ids=["elman", "lstm", "noisy", "digits"],
)
@pytest.mark.parametrize("error", [Crash, *slow(KeyboardInterrupt)])
def test_an_interrupted_run_on_data_ends_with_the_same_bytes(config, settings, error, tmp_path):
    config = replace(config, **settings)
    straight = run(config, tmp_path / "straight")
    with pytest.raises(error):
        run(config, tmp_path / "resumed", callbacks=[stop_at(27, error)])
    with pytest.raises(error):
        run(config, tmp_path / "resumed", resume=True, callbacks=[stop_at(38, error)])
    resumed = run(config, tmp_path / "resumed", resume=True)
    assert artefacts(config, tmp_path / "resumed") == artefacts(config, tmp_path / "straight")
    assert (resumed.loss, resumed.scores) == (straight.loss, straight.scores)


@representatives("lstm")
@pytest.mark.usefixtures("_tiny_data")
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_the_state_is_carried_until_the_epoch_ends(cell, tmp_path, monkeypatch):
    """Against a slow reference: all the text since the start of the epoch, with constant weights."""
    config = replace(TEXT, cell=cell, learning_rate=1e-30, schedule="constant", evaluate_every=100)
    losses = []
    run(config, tmp_path, callbacks=[lambda info: losses.append(info.loss)])
    task = build_task(config)
    model = build_model(config, task)
    for step in (0, 1, 40, 71, 72, 80):
        begin = step - step % 72
        batches = [task.batch(4, config.seed, number) for number in range(begin, step + 1)]
        with torch.no_grad():
            outputs, _ = model(torch.cat([batch.inputs for batch in batches]))
        expected = task.loss(outputs[-len(batches[-1].inputs) :], batches[-1]).item()
        assert losses[step] == pytest.approx(expected, rel=1e-5)
    with torch.no_grad():
        alone = task.loss(model(batches[-1].inputs)[0], batches[-1]).item()
    assert losses[80] != pytest.approx(alone, rel=1e-5)


@pytest.mark.usefixtures("_tiny_data")
def test_a_carried_state_has_no_gradient():
    task = build_task(TEXT)
    model = build_model(TEXT, task)
    _, state, accuracy = backpropagate(model, task, task.batch(4, 0, 0), None)
    assert accuracy is None
    before = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    assert not state.requires_grad
    backpropagate(model, task, task.batch(4, 0, 1), None, state)
    assert all(not torch.equal(before[name], parameter.grad) for name, parameter in model.named_parameters())


@pytest.mark.parametrize("task", [Copy(2), Parity(longest=6)], ids=["features", "tokens"])
def test_a_network_that_takes_the_batch_first_is_evaluated_alike(task):
    encode = nn.Embedding(task.input_size, 4) if isinstance(task, Parity) else nn.Linear(task.input_size, 4)
    model = Model(nn.GRU(4, 8, batch_first=True), task.output_size, encode)
    batch = task.batch(3, seed=0, number=0)
    tested = evaluate(model, task, [batch])
    assert model.training
    assert all(part.training for part in model.modules())
    outputs = model(batch.inputs.transpose(0, 1))[0].transpose(0, 1)
    assert tested["loss"] == pytest.approx(task.loss(outputs, batch).item(), rel=1e-5)


@pytest.mark.usefixtures("_tiny_data")
def test_a_text_is_evaluated_as_one_sequence():
    task = build_task(TEXT)
    model = build_model(replace(TEXT, cell="gru"), task)
    numbers = range(task.batches(4, "validation"))
    batches = [task.batch(4, 0, number, "validation") for number in numbers]
    tested = evaluate(model, task, batches, (task.continues(4, number, "validation") for number in numbers))
    whole = replace(task, length=74).batch(4, 0, 0, "validation")  # 300 symbols in 4 streams
    assert len(batches[-1].inputs) == 4  # counts less than the others, which have 7 steps
    with torch.no_grad():
        outputs = model(whole.inputs)[0]
    assert tested["loss"] == pytest.approx(task.loss(outputs, whole).item(), rel=1e-5)
    assert tested["accuracy"] == pytest.approx(task.scores(outputs, whole)["accuracy"], rel=1e-5)
    assert evaluate(model, task, batches)["loss"] != pytest.approx(tested["loss"], rel=1e-5)


@pytest.mark.usefixtures("_tiny_data")
@pytest.mark.parametrize("config", [TEXT, DIGITS], ids=lambda config: config.task)
def test_the_result_is_the_test_of_the_best_validation_weights(config, tmp_path):
    """After step 12 the readout is spoiled, so that the last weights are not the best; after 22 the run crashes."""
    config = replace(config, learning_rate=1e-3, schedule="constant", evaluate_every=5, steps=30)
    weights = {}

    def keep(info):
        if info.step == 12:
            nn.init.normal_(info.model.readout.weight, std=50)
        if info.evaluation:
            weights[info.step] = {name: value.clone() for name, value in info.model.state_dict().items()}

    with pytest.raises(Crash):
        run(config, tmp_path, callbacks=[keep, stop_at(22, Crash)])
    result = run(config, tmp_path, resume=True, callbacks=[keep])
    model, task, _ = load_model(result.folder)
    lines = RunFolder(result.folder).read_metrics()
    best = min(lines, key=lambda line: line["loss"])
    assert best["step"] <= 10
    assert all(torch.equal(value, weights[best["step"]][name]) for name, value in model.state_dict().items())

    def tested(split):
        numbers = range(task.batches(4, split))
        batches = [task.batch(4, config.seed, number, split) for number in numbers]
        return evaluate(model, task, batches, [task.continues(4, number, split) for number in numbers])

    assert tested("validation")["loss"] == best["loss"]
    assert tested("test") == {"loss": result.loss, **result.scores}


@pytest.mark.usefixtures("_tiny_data")
def test_an_evaluation_takes_the_requested_number_of_batches(tmp_path, monkeypatch):
    asked = []
    batch = SequentialMNIST.batch
    monkeypatch.setattr(SequentialMNIST, "batch", lambda self, *a: asked.append(a) or batch(self, *a))

    def validated(number: int | None) -> list[int]:
        asked.clear()
        config = replace(DIGITS, task="smnist", steps=1, evaluate_batches=number)
        run(config, tmp_path)
        assert [each[2] for each in asked if "test" in each] == [0, 1, 2]  # always the whole split of ten images
        return [each[2] for each in asked if "validation" in each][:-1]  # the last one belongs to the checkpoint

    assert validated(2) == [0, 1]
    assert validated(None) == validated(5) == [0, 1, 2]  # ten images have no more batches


@pytest.mark.usefixtures("_tiny_data")
@pytest.mark.parametrize("config", [replace(DIGITS, batch_size=51), replace(TEXT, batch_size=240)])
def test_a_batch_larger_than_the_data_is_refused_before_work_starts(config, tmp_path):
    with pytest.raises(ValueError, match=r"a batch of 51 was asked for|cannot be cut into 240 streams"):
        run(config, tmp_path)
    assert not [*tmp_path.iterdir()]


@SLOW
@pytest.mark.usefixtures("_tiny_data")
def test_the_data_folder_does_not_change_the_run(tmp_path, monkeypatch):
    here = replace(TEXT, task_options={"length": 7, "data": os.environ["MNEMOSCOPE_DATA"]})
    assert here.hash == TEXT.hash
    result = run(here, tmp_path)
    monkeypatch.setenv("MNEMOSCOPE_DATA", "nowhere")
    assert run(TEXT, tmp_path) == replace(result, cached=True)  # a finished run needs no data
    run(replace(here, evaluate_batches=1), tmp_path)
    with pytest.raises(FileNotFoundError, match="MNEMOSCOPE_DATA says"):
        run(replace(TEXT, seed=1), tmp_path)
    assert isinstance(load_model(result.folder)[1], PennTreebank)


def test_transfer_is_evaluated_at_the_other_delay(tmp_path):
    options = {"delay": 2, "test_delay": 6, "symbols": 1, "alphabet": 2}
    config = replace(CONFIG, task="transfer-copy", task_options=options)
    result = run(config, tmp_path)
    model, task, _ = load_model(result.folder)
    tests = [task.batch(4, config.seed, number, "test") for number in range(2)]
    assert len(tests[0].inputs) == 8
    assert evaluate(model, task, tests) == {"loss": result.loss, **result.scores}


def test_an_embedding_is_trained_and_loaded(tmp_path):
    config = replace(CONFIG, embedding=5)
    start = build_model(config, build_task(config))
    assert start.cell.input_size == 5
    assert start.encode.weight.shape == (5, 2)
    assert start.encode.bias is None
    end = load_model(run(config, tmp_path).folder)[0]
    assert not torch.equal(start.encode.weight, end.encode.weight)


# Interruption.


@pytest.fixture
def _interruptible():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background may ignore it
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
def test_ctrl_c_saves_and_explains_how_to_continue(tmp_path):
    with pytest.raises(KeyboardInterrupt, match=r"after step 17 of 40; the checkpoint is in .*resume=True"):
        run(CONFIG, tmp_path, callbacks=[lambda info: info.step == 17 and os.kill(os.getpid(), signal.SIGINT)])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    steps = []
    run(CONFIG, tmp_path, resume=True, callbacks=[lambda info: steps.append(info.step)])
    assert steps[0] == 18


@pytest.fixture
def _terminable():
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("_terminable")
def test_sigterm_saves_and_explains_how_to_continue(tmp_path):
    def preempted(info):
        if info.step == 17:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)  # schedulers repeat it

    words = r"Stopped by SIGTERM after step 17 of 40; the checkpoint is in .*resume=True"
    with pytest.raises(Terminated, match=words):
        run(CONFIG, tmp_path, callbacks=[preempted])
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    run(CONFIG, tmp_path, resume=True)
    run(CONFIG, tmp_path / "straight")
    assert artefacts(CONFIG, tmp_path) == artefacts(CONFIG, tmp_path / "straight")


@pytest.mark.usefixtures("_terminable")
def test_a_sigterm_handler_of_the_caller_is_kept(tmp_path):
    seen = []
    signal.signal(signal.SIGTERM, lambda *_: seen.append("caller"))
    result = run(CONFIG, tmp_path, callbacks=[lambda i: i.step == 17 and os.kill(os.getpid(), signal.SIGTERM)])
    assert (result.steps, seen) == (40, ["caller"])


@pytest.mark.usefixtures("_interruptible")
def test_a_second_ctrl_c_stops_immediately_and_keeps_the_checkpoint(tmp_path):
    def twice(info):
        if info.step == 17:
            os.kill(os.getpid(), signal.SIGINT)
        if info.step == 17:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(CONFIG, tmp_path, callbacks=[twice])
    assert run(CONFIG, tmp_path, resume=True).steps == 40


def test_training_works_in_a_thread(tmp_path):
    thread = threading.Thread(target=run, args=(replace(CONFIG, steps=3), tmp_path))
    thread.start()
    thread.join()
    assert RunFolder(replace(CONFIG, steps=3).folder(tmp_path)).read_result().steps == 3


@SLOW
def test_a_killed_process_can_be_resumed(tmp_path):
    code = """
import os, signal, sys
from pathlib import Path
from mnemoscope.config.run_config import RunConfig
from mnemoscope.training import train
config = RunConfig.from_toml(Path(sys.argv[1]) / "asked.toml")
train(config, sys.argv[1], progress=False, callbacks=[lambda i: i.step == 27 and os.kill(os.getpid(), signal.SIGKILL)])
"""
    config = replace(CONFIG, threads=1)
    (tmp_path / "asked.toml").write_text(config.to_toml())
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    run(config, tmp_path, resume=True)
    run(config, tmp_path / "straight")
    assert artefacts(config, tmp_path) == artefacts(config, tmp_path / "straight")


# Folders with earlier content.


def test_a_finished_run_is_not_repeated_without_overwrite(tmp_path):
    first = run(CONFIG, tmp_path)
    second = run(CONFIG, tmp_path, callbacks=[stop_at(1, Crash)])
    assert second == replace(first, cached=True)
    assert run(CONFIG, tmp_path, resume=True).cached
    assert not run(CONFIG, tmp_path, overwrite=True).cached


def test_an_unfinished_run_needs_resume_or_overwrite(tmp_path):
    with pytest.raises(Crash):
        run(CONFIG, tmp_path, callbacks=[stop_at(15, Crash)])
    with pytest.raises(FileExistsError, match=r"unfinished run in .*resume=True, .*overwrite=True"):
        run(CONFIG, tmp_path)
    assert run(CONFIG, tmp_path, overwrite=True).steps == 40


def test_overwrite_starts_anew(tmp_path):
    run(CONFIG, tmp_path)
    expected = artefacts(CONFIG, tmp_path)
    with pytest.raises(Crash):
        run(CONFIG, tmp_path, overwrite=True, callbacks=[stop_at(3, Crash)])
    assert RunFolder(CONFIG.folder(tmp_path)).status == "unfinished"
    run(CONFIG, tmp_path, resume=True)
    assert artefacts(CONFIG, tmp_path) == expected


def test_resume_and_overwrite_exclude_each_other(tmp_path):
    with pytest.raises(ValueError, match="choose one"):
        run(CONFIG, tmp_path, resume=True, overwrite=True)


def test_a_folder_without_a_run_is_not_touched(tmp_path):
    folder = CONFIG.folder(tmp_path)
    folder.mkdir(parents=True)
    (folder / "thesis.tex").write_text("precious")
    with pytest.raises(FileExistsError, match=r"is not the folder of a run: it holds thesis\.tex"):
        run(CONFIG, tmp_path)
    with pytest.raises(FileExistsError, match="is not the folder of a run"):
        load_model(folder)


def test_a_file_in_the_way_is_named(tmp_path):
    CONFIG.folder(tmp_path).parent.mkdir()
    CONFIG.folder(tmp_path).write_text("")
    with pytest.raises(NotADirectoryError, match="is a file"):
        run(CONFIG, tmp_path)


def test_an_edited_configuration_is_detected(tmp_path):
    run(CONFIG, tmp_path)
    path = CONFIG.folder(tmp_path) / "config.toml"
    path.write_text(path.read_text().replace("hidden_size = 8", "hidden_size = 9"))
    with pytest.raises(ValueError, match=r"its config\.toml was edited"):
        run(CONFIG, tmp_path)
    with pytest.raises(ValueError, match=r"other settings than its config\.toml"):
        load_model(path.parent)


def test_temporary_files_of_a_crash_are_ignored_and_removed(tmp_path):
    folder = CONFIG.folder(tmp_path)
    folder.mkdir(parents=True)
    debris = folder / ".unfinished-1-checkpoint.safetensors"
    debris.write_bytes(b"half")
    assert RunFolder(folder).status == "new"
    run(CONFIG, tmp_path)
    assert not debris.exists()


@representatives("checkpoint.safetensors")
@pytest.mark.parametrize("name", ["metrics.jsonl", "checkpoint.safetensors", "model.safetensors", "tensorboard"])
def test_a_resumed_run_is_not_written_through_a_link(name, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(CONFIG, tmp_path, callbacks=[stop_at(17, KeyboardInterrupt)])
    link, outside = CONFIG.folder(tmp_path) / name, tmp_path / "outside"
    outside.write_bytes(link.read_bytes() + b"more" if link.exists() else b"")
    before = outside.read_bytes()
    link.unlink(missing_ok=True)
    link.symlink_to(outside)
    with pytest.raises(ValueError, match=rf"{name} is a symbolic link to .*outside.* Replace the link"):
        run(CONFIG, tmp_path, resume=True)
    assert outside.read_bytes() == before
    assert link.is_symlink()


def test_metrics_and_temporary_files_are_not_opened_through_links(tmp_path):
    outside, link = tmp_path / "outside", tmp_path / "metrics.jsonl"
    outside.write_text("kept")
    link.symlink_to(outside)
    with pytest.raises(ValueError, match="symbolic link"):
        MetricsFile(link, 0)
    temporary = tmp_path / f"{TEMPORARY_PREFIX}{os.getpid()}-{threading.get_ident()}-env.json"
    temporary.symlink_to(outside)
    write_atomically(tmp_path / "env.json", b"new")
    assert outside.read_text() == "kept"
    assert (tmp_path / "env.json").read_text() == "new"


@SLOW
def test_a_resumed_run_leaves_files_with_hard_links_unchanged(tmp_path):
    """A backup made by `cp -l` consists of such files."""
    with pytest.raises(Crash):
        run(CONFIG, tmp_path / "linked", callbacks=[stop_at(27, Crash)])
    folder, backup = CONFIG.folder(tmp_path / "linked"), tmp_path / "backup"
    shutil.copytree(folder, backup, copy_function=os.link)
    before = {path.name: path.read_bytes() for path in backup.iterdir()}
    assert (backup / "metrics.jsonl").stat().st_nlink == 2
    run(CONFIG, tmp_path / "linked", resume=True)
    assert {path.name: path.read_bytes() for path in backup.iterdir()} == before
    run(CONFIG, tmp_path / "alone")
    assert artefacts(CONFIG, tmp_path / "linked") == artefacts(CONFIG, tmp_path / "alone")


def test_metrics_are_not_written_to_a_pipe_or_a_device(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="is a pipe or a device"):
        MetricsFile(tmp_path / "pipe", 0)
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)  # with one, opening succeeds
    with pytest.raises(ValueError, match="is a pipe or a device"):
        MetricsFile(tmp_path / "pipe", 0)
    os.close(reader)


def test_two_processes_cannot_train_in_one_folder(tmp_path):
    pytest.importorskip("fcntl")

    def intrude(info):
        if info.step == 2:
            with pytest.raises(BlockingIOError, match="Another process is training in"):
                run(CONFIG, tmp_path, resume=True)

    assert run(CONFIG, tmp_path, callbacks=[intrude]).steps == 40


@representatives('{"result": null}')
@pytest.mark.parametrize("content", ['{"result": null}', "{}", '{"steps": null}'])
def test_an_invalid_result_file_is_refused(content, tmp_path):
    folder = run(CONFIG, tmp_path).folder
    (folder / "result.json").write_text(content)
    with pytest.raises(ValueError, match=r"result\.json should hold baseline, loss.*but holds .*overwrite=True"):
        run(CONFIG, tmp_path)


@representatives("0-model.safetensors", "5-checkpoint.safetensors")
@pytest.mark.parametrize("name", ["checkpoint.safetensors", "model.safetensors", "result.json"])
@pytest.mark.parametrize("keep", [0, 5, 100])
def test_truncated_files_are_reported(name, keep, tmp_path):
    run(CONFIG, tmp_path)
    path = CONFIG.folder(tmp_path) / name
    path.write_bytes(path.read_bytes()[:keep])
    if name == "checkpoint.safetensors":
        (path.parent / "result.json").unlink()
    with pytest.raises(ValueError, match=rf"{name} is (truncated|not a JSON file.*cut short)"):
        load_model(path.parent) if name == "model.safetensors" else run(CONFIG, tmp_path, resume=True)


def test_truncated_metrics_are_reported(tmp_path):
    with pytest.raises(Crash):
        run(CONFIG, tmp_path, callbacks=[stop_at(27, Crash)])
    path = CONFIG.folder(tmp_path) / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(ValueError, match=r"Line 1 of .*metrics\.jsonl is not a JSON file.*cut short"):
        RunFolder(path.parent).read_metrics()
    with pytest.raises(ValueError, match=r"metrics\.jsonl has 50 bytes, but \d+ when the checkpoint was made"):
        run(CONFIG, tmp_path, resume=True)


def damaged_checkpoint(root, damage):
    """Interrupt a run, and let `damage` change the tensors and the header of its checkpoint; the checksum is right."""
    with pytest.raises(Crash):
        run(CONFIG, root, callbacks=[stop_at(27, Crash)])
    path = CONFIG.folder(root) / "checkpoint.safetensors"
    tensors, header = read_tensors(path)
    damage(tensors, header)
    write_tensors(path, tensors, header)
    return path


DAMAGE = {
    "step must be 0 or more, but is -1": lambda tensors, header: header["counters"].update(step=-1),
    "step must be an integer, but is '7'": lambda tensors, header: header["counters"].update(step="7"),
    "stale must be an integer, but is None": lambda tensors, header: header["counters"].update(stale=None),
    "loss_sum must be finite": lambda tensors, header: header["counters"].update(loss_sum=float("inf")),
    "laps is no counter": lambda tensors, header: header["counters"].update(laps=1),
    "it has 41 steps of 40": lambda tensors, header: header["counters"].update(step=41),
    "counters must be an object": lambda tensors, header: header.update(counters=[]),
    "config is missing": lambda tensors, header: header.pop("config"),
    "the state of the optimiser is missing": lambda tensors, header: [
        tensors.pop(name) for name in list(tensors) if name.startswith("optimiser.")
    ],
    "exp_avg is missing in the state of the optimiser for": lambda tensors, header: tensors.pop(
        next(name for name in tensors if name.startswith("optimiser.exp_avg."))
    ),
    "exp_avg of .* in the optimiser is torch.float64": lambda tensors, header: tensors.update(
        {name: tensor.double() for name, tensor in tensors.items() if name.startswith("optimiser.exp_avg.")}
    ),
    "The weights in .* is torch.float64": lambda tensors, header: tensors.update(
        {name: tensor.double() for name, tensor in tensors.items() if name.startswith("model.")}
    ),
}


@representatives(
    "The weights in .* is torch.float64",
    "config is missing",
    "counters must be an object",
    "exp_avg is missing in the state of the optimiser for",
    "exp_avg of .* in the optimiser is torch.float64",
    "it has 41 steps of 40",
    "laps is no counter",
    "loss_sum must be finite",
    "stale must be an integer, but is None",
    "step must be 0 or more, but is -1",
    "the state of the optimiser is missing",
)
@pytest.mark.parametrize("message", DAMAGE)
def test_a_damaged_checkpoint_is_refused(message, tmp_path):
    path = damaged_checkpoint(tmp_path, DAMAGE[message])
    with pytest.raises(ValueError, match=message) as error:
        run(CONFIG, tmp_path, resume=True)
    assert str(path) in str(error.value)


def test_a_flipped_bit_of_a_checkpoint_or_a_model_is_found(tmp_path):
    run(CONFIG, tmp_path)
    folder = CONFIG.folder(tmp_path)
    (folder / "result.json").rename(folder / "kept")
    for name, read in (("model", load_model), ("checkpoint", lambda _: run(CONFIG, tmp_path, resume=True))):
        path = folder / f"{name}.safetensors"
        content = bytearray(path.read_bytes())
        content[-100] ^= 1
        path.write_bytes(content)
        if name == "model":
            (folder / "kept").rename(folder / "result.json")
        else:
            (folder / "result.json").unlink()
        with pytest.raises(ValueError, match=rf"{name}.safetensors is damaged: its checksum.*--overwrite"):
            read(folder)


@SLOW
def test_a_checkpoint_without_a_checksum_is_still_read(tmp_path):
    """As earlier versions wrote it; the run ends with the same bytes."""
    run(CONFIG, tmp_path / "straight")
    path = damaged_checkpoint(tmp_path / "resumed", lambda tensors, header: None)
    tensors, header = read_tensors(path)
    path.write_bytes(save(tensors, {"mnemoscope": json.dumps(header, sort_keys=True)}))
    run(CONFIG, tmp_path / "resumed", resume=True)
    assert artefacts(CONFIG, tmp_path / "resumed") == artefacts(CONFIG, tmp_path / "straight")


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    other = replace(CONFIG, seed=1)
    for config in (CONFIG, other):
        with pytest.raises(Crash):
            run(config, tmp_path, callbacks=[stop_at(27, Crash)])
    name = "checkpoint.safetensors"
    (CONFIG.folder(tmp_path) / name).write_bytes((other.folder(tmp_path) / name).read_bytes())
    with pytest.raises(ValueError, match=rf"belongs to a run with hash {other.hash}, but this one has {CONFIG.hash}"):
        run(CONFIG, tmp_path, resume=True)


def test_the_folder_holds_the_documented_files_and_no_pickle(tmp_path):
    result = run(CONFIG, tmp_path)
    files = {"checkpoint.safetensors", "config.toml", "env.json", "metrics.jsonl", "model.safetensors", "result.json"}
    assert {path.name for path in result.folder.iterdir()} == files
    assert RunConfig.from_toml(result.folder / "config.toml") == CONFIG
    env = json.loads((result.folder / "env.json").read_text())
    assert {"python", "torch", "numpy", "platform", "cpu", "threads", "mnemoscope"} <= {*env}
    assert "seconds" not in (result.folder / "metrics.jsonl").read_text()
    assert json.loads((result.folder / "result.json").read_text())["seconds"] > 0


def test_load_model_returns_the_trained_weights(tmp_path):
    models = []
    result = run(CONFIG, tmp_path, callbacks=[lambda info: models.append(info.model)])
    model, task, config = load_model(str(result.folder))
    assert config == CONFIG
    assert not model.training
    for name, value in models[-1].state_dict().items():
        assert torch.equal(model.state_dict()[name], value)
    tests = [task.batch(config.batch_size, config.seed, number, "test") for number in range(config.evaluate_batches)]
    assert evaluate(model, task, tests) == {"loss": result.loss, **result.scores}


def test_loading_a_missing_run_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        load_model(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="is empty"):
        load_model(tmp_path)
    with pytest.raises(Crash):
        run(CONFIG, tmp_path, callbacks=[stop_at(15, Crash)])
    with pytest.raises(FileNotFoundError, match=r"is not finished: .*resume=True"):
        load_model(CONFIG.folder(tmp_path))
    (CONFIG.folder(tmp_path) / "result.json").write_text("{}")
    with pytest.raises(FileNotFoundError, match=r"has ended, but its model\.safetensors is not there"):
        load_model(CONFIG.folder(tmp_path))


# The curriculum.

STAGES = replace(
    CONFIG,
    task="repeat-copy",
    task_options={"variables": 3, "size": 2, "horizon": 8, "test_horizon": 12, "curriculum": "1 2 4"},
    cell_options={"bias": False},
    readout_bias=False,
    hidden_size=16,
    learning_rate=0.02,
    steps=60,
    batch_size=16,
    curriculum_score=0.9,
)


def stages_of(config: RunConfig, root: Path) -> list[int]:
    return [line["stage"] for line in RunFolder(config.folder(root)).read_metrics()]


def lengths_seen(monkeypatch) -> list[int]:
    """The length of the sequences of every training step."""
    lengths = []

    def watched(model, task, batch, *rest, **options):
        lengths.append(len(batch.inputs))
        return backpropagate(model, task, batch, *rest, **options)

    monkeypatch.setattr("mnemoscope.training.backward_pass.backpropagate", watched)
    return lengths


def test_stages_advance_with_the_accuracy(tmp_path, monkeypatch):
    lengths = lengths_seen(monkeypatch)
    result = run(STAGES, tmp_path)
    seen = stages_of(STAGES, tmp_path)
    assert seen[0] < 3 == seen[-1]
    assert seen == sorted(seen)
    assert "stage" not in result.scores
    assert sorted({*lengths}) == [4, 5, 7, 11]
    assert lengths == sorted(lengths)
    # evaluated on the task itself, whatever the stage
    _, task, _ = load_model(result.folder)
    assert len(task.batch(2, 0, 0, "test").inputs) == 15


def test_the_stage_advances_right_after_the_batch_that_earned_it(tmp_path, monkeypatch):
    """Against a slow loop: the accuracy of every training batch, before its step."""
    lengths = lengths_seen(monkeypatch)
    models = [build_model(STAGES, build_task(STAGES))]
    run(STAGES, tmp_path, callbacks=[lambda info: models.append(deepcopy(info.model))])
    stages, stage = build_task(STAGES).stages(), 0
    for step, model in enumerate(models[:-1]):
        batch = stages[stage].batch(16, STAGES.seed, step)
        assert lengths[step] == len(batch.inputs)
        if stage < 3:
            stage += evaluate(model, stages[stage], [batch])["accuracy"] >= 0.9
    assert stage == 3


@pytest.mark.parametrize(("score", "expected"), [(0.0, [3]), (1.0, [0])])
def test_the_curriculum_score_sets_the_threshold(score, expected, tmp_path):
    config = replace(STAGES, curriculum_score=score, steps=12, evaluate_every=4)
    run(config, tmp_path)
    assert sorted({*stages_of(config, tmp_path)}) == expected


def test_accuracy_in_windows_equals_that_of_the_whole_sequence():
    task = build_task(STAGES)
    batch = task.batch(16, 0, 0)
    whole, cut = (
        backpropagate(build_model(STAGES, task), task, batch, truncate, scored=True)[2] for truncate in (None, 3)
    )
    assert whole == pytest.approx(cut, rel=1e-6)
    assert whole == pytest.approx(evaluate(build_model(STAGES, task), task, [batch])["accuracy"], rel=1e-6)


@representatives("60")
@pytest.mark.parametrize("step", [5, 10, 13, 19, 27, 60])
def test_an_interrupted_curriculum_ends_with_the_same_bytes(step, tmp_path):
    run(STAGES, tmp_path / "straight")
    assert len({*stages_of(STAGES, tmp_path / "straight")}) > 2  # the interruptions fall into several stages
    with pytest.raises(Crash):
        run(STAGES, tmp_path / "resumed", callbacks=[stop_at(step, Crash)])
    run(STAGES, tmp_path / "resumed", resume=True)
    assert artefacts(STAGES, tmp_path / "resumed") == artefacts(STAGES, tmp_path / "straight")


def test_metrics_without_a_curriculum_have_no_stage(tmp_path):
    run(CONFIG, tmp_path)
    assert all("stage" not in line for line in RunFolder(CONFIG.folder(tmp_path)).read_metrics())


def test_a_fixed_readout_has_the_given_scale_and_stays_constant(tmp_path):
    config = replace(CONFIG, steps=2, fixed_readout=4.0)
    before = build_model(config, build_task(config))
    after, _, _ = load_model(run(config, tmp_path).folder)
    assert torch.equal(after.readout.weight, before.readout.weight)
    assert before.readout.in_features * before.readout.weight.std().item() == pytest.approx(4, rel=0.25)
    assert not torch.equal(after.readout.bias, before.readout.bias)


def test_the_readout_bias_can_be_omitted(tmp_path):
    result = run(replace(STAGES, steps=2), tmp_path)
    model, _, _ = load_model(result.folder)
    assert model.readout.bias is None
    assert build_model(replace(STAGES, readout_bias=True), build_task(STAGES)).readout.bias is not None
    silent, _ = model(torch.zeros(3, 1, 2))
    assert not silent.any()


# The loop itself.


@SLOW
def test_it_learns_to_hold_a_bit(tmp_path):
    config = replace(CONFIG, task_options={"bits": 1, "length": 12, "rate": 0.2}, steps=300, batch_size=32)
    result = run(config, tmp_path)
    assert result.stopped == "steps"
    assert result.scores["accuracy"] == 1.0
    assert result.loss < 0.02 < result.baseline


def test_it_stops_at_its_target(tmp_path):
    result = run(replace(CONFIG, steps=500, target_loss=0.5, schedule="constant"), tmp_path)
    assert result.stopped == "target"
    assert result.loss <= 0.5
    assert result.steps < 500
    both = run(replace(CONFIG, steps=500, target_loss=0.5, target_score=0.99, schedule="constant"), tmp_path)
    assert both.steps > result.steps
    assert both.scores["accuracy"] >= 0.99


def test_it_stops_when_patience_is_exhausted(tmp_path):
    config = replace(CONFIG, learning_rate=1e-30, schedule="constant", patience=3)
    result = run(config, tmp_path)
    assert result.stopped == "patience"
    assert result.steps == 6 * 4  # the first evaluation is the best; three more do not improve on it


def test_the_learning_rate_follows_its_schedule(tmp_path):
    run(replace(CONFIG, evaluate_every=10), tmp_path)
    lines = RunFolder(replace(CONFIG, evaluate_every=10).folder(tmp_path)).read_metrics()
    expected = [0.01 * (1 + torch.tensor(torch.pi * step / 40).cos().item()) / 2 for step in (9, 19, 29, 39)]
    assert [line["learning_rate"] for line in lines] == pytest.approx(expected, rel=1e-5)


def test_on_a_plateau_the_learning_rate_is_halved(tmp_path):
    config = replace(CONFIG, schedule="plateau", evaluate_every=5, learning_rate=0.5)
    run(config, tmp_path)
    lines = RunFolder(config.folder(tmp_path)).read_metrics()
    rate, lowest, halved = 0.5, float("inf"), 0
    for line in lines:
        assert line["learning_rate"] == rate
        if line["loss"] >= lowest:
            rate, halved = rate / 2, halved + 1
        lowest = min(lowest, line["loss"])
    assert 0 < halved < len(lines)


def test_an_orthogonal_matrix_can_have_another_learning_rate(tmp_path):
    config = replace(CONFIG, cell="nnrnn", orthogonal_learning_rate=1e-30, schedule="constant")
    start = build_model(config, build_task(config)).state_dict()
    end = load_model(run(config, tmp_path).folder)[0].state_dict()
    at_rest = {name for name in start if torch.allclose(start[name], end[name], rtol=0, atol=1e-20)}
    assert at_rest == {"cell.connectivity.basis.skew.above"}
    with pytest.raises(ValueError, match="of which 'gru' has none"):
        run(replace(config, cell="gru"), tmp_path)
    assert not replace(config, cell="gru").folder(tmp_path).exists()


def test_gradients_are_clipped(tmp_path):
    norms = []

    def measure(info):
        norms.append(sum(p.grad.square().sum() for p in info.model.parameters()).sqrt().item())

    run(replace(CONFIG, clip=1e-3), tmp_path, callbacks=[measure])
    assert max(norms) <= 1e-3 * (1 + 1e-5)


def gradients(config: RunConfig, batch, truncate: int | None) -> tuple[float, dict[str, torch.Tensor]]:
    task = build_task(config)
    model = build_model(config, task).double().eval()  # h-detach draws random numbers in training mode
    loss, _, _ = backpropagate(model, task, batch, truncate)
    loss = loss.item()
    return loss, {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@representatives("elman", "gated-deltanet")
@pytest.mark.parametrize("cell", [entry.name for entry in registry.cells])
def test_truncation_changes_only_the_gradient(cell):
    """Against a slow reference: each window's loss, with the state before it a constant."""
    config = replace(CONFIG, cell=cell)
    task = build_task(config)
    batch = task.batch(4, 0, 0)
    batch = batch._replace(inputs=batch.inputs.double(), targets=batch.targets.double())
    whole, full = gradients(config, batch, None)
    assert gradients(config, batch, 12)[0] == whole
    loss, cut = gradients(config, batch, 5)
    assert loss == pytest.approx(whole, rel=1e-12)

    model = build_model(config, task).double().eval()
    total = torch.zeros((), dtype=torch.float64)
    for start, end in ((0, 5), (5, 10), (10, 12)):
        state = None
        if start:
            with torch.no_grad():
                _, state = model(batch.inputs[:start])
        outputs, _ = model(batch.inputs[start:end], state)
        total = total + task.errors(outputs, type(batch)(*(part[start:end] for part in batch))).sum() / (12 * 4)
    total.backward()
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            torch.testing.assert_close(cut[name], parameter.grad, rtol=1e-10, atol=1e-14)
    if cell == "echo-state":
        return  # its recurrent weights are fixed, so there is no gradient to cut
    parts = ("connectivity", "weight_hh", "recurrent")  # in an attentive cell, these belong to the inner cell
    recurrent = [name for name in full if {*name.split(".")} & {*parts}]
    recurrent = recurrent or [name for name in full if "project" in name.split(".")]  # no gate sees the state
    assert any(not torch.allclose(cut[name], full[name]) for name in recurrent)


def test_windows_without_a_counted_step_add_no_gradient():
    """In the adding problem only the last step counts."""
    config = replace(CONFIG, task="adding", task_options={"length": 12})
    batch = Adding(12).batch(4, 0, 0)
    batch = batch._replace(inputs=batch.inputs.double(), targets=batch.targets.double())
    whole, _ = gradients(config, batch, None)
    loss, cut = gradients(config, batch, 5)
    assert loss == pytest.approx(whole, rel=1e-12)
    assert all(torch.isfinite(gradient).all() for gradient in cut.values())


@representatives("5")
@pytest.mark.parametrize("truncate", [None, 5])
def test_adding_trains_truncated_or_not(truncate, tmp_path):
    config = replace(CONFIG, task="adding", task_options={"length": 12}, truncate=truncate)
    assert run(config, tmp_path).loss < 0.5


def test_a_non_finite_loss_stops_the_run_and_keeps_the_checkpoint(tmp_path):
    def spoil(info):
        if info.step == 27:
            with torch.no_grad():
                info.model.readout.bias.fill_(torch.inf)

    with pytest.raises(
        NonFiniteLoss, match=r"loss is (inf|nan).* after 27 optimiser steps; the last good checkpoint is"
    ):
        run(CONFIG, tmp_path, callbacks=[spoil])
    run(CONFIG, tmp_path, resume=True)
    run(CONFIG, tmp_path / "straight")
    assert artefacts(CONFIG, tmp_path) == artefacts(CONFIG, tmp_path / "straight")


def test_a_non_finite_gradient_stops_the_run_before_the_step(tmp_path, monkeypatch):
    step = iter(range(1000))
    clip = nn.utils.clip_grad_norm_
    monkeypatch.setattr(nn.utils, "clip_grad_norm_", lambda *a: clip(*a) if next(step) < 3 else torch.tensor(torch.nan))
    with pytest.raises(NonFiniteLoss, match=r"its gradient's norm nan after 3 optimiser steps; no checkpoint had been"):
        run(CONFIG, tmp_path)


def _overflows(monkeypatch, *at):
    """The gradient is not finite at these steps."""
    steps, clip = iter(range(1000)), nn.utils.clip_grad_norm_
    lengths = (torch.tensor(torch.inf) if step in at else None for step in steps)
    monkeypatch.setattr(nn.utils, "clip_grad_norm_", lambda *a: clip(*a) if (n := next(lengths)) is None else n)


def test_leave_out_skips_batches_without_a_finite_gradient(tmp_path, monkeypatch):
    config = replace(CONFIG, leave_out=2, evaluate_every=1, steps=8)
    weights = []
    _overflows(monkeypatch, 2, 3, 6)
    run(config, tmp_path, callbacks=[lambda info: weights.append(info.model.readout.weight.detach().clone())])
    assert [bool((before == after).all()) for before, after in pairwise(weights)] == [
        s in (2, 3, 6) for s in range(1, 8)
    ]
    lines = RunFolder(config.folder(tmp_path)).read_metrics()
    assert [line["left_out"] for line in lines] == [0, 0, 1, 2, 2, 2, 3, 3]
    assert [line["train_loss"] is None for line in lines] == [step in (2, 3, 6) for step in range(8)]
    assert "left_out" not in RunFolder(config.folder(tmp_path)).read_result().scores


def test_one_batch_more_than_leave_out_stops_the_run(tmp_path, monkeypatch):
    _overflows(monkeypatch, 1, 3, 4, 5)
    with pytest.raises(NonFiniteLoss, match="norm inf after 5 optimiser steps"):
        run(replace(CONFIG, leave_out=2), tmp_path)


def test_a_non_finite_evaluation_stops_the_run(tmp_path):
    """The learning rate is so large that the first step leaves the range of float32."""
    config = replace(CONFIG, cell_options={"nonlinearity": "linear"}, learning_rate=1e30, evaluate_every=1, clip=None)
    with pytest.raises(NonFiniteLoss, match=r"The evaluation loss is (inf|nan) after 1 optimiser steps"):
        run(config, tmp_path)
    assert RunFolder(config.folder(tmp_path)).read_metrics() == []


def test_missing_cuda_is_refused(tmp_path):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    with pytest.raises(ValueError, match="torch sees no GPU"):
        run(replace(CONFIG, device="cuda"), tmp_path)


def test_threads_are_set_and_restored(tmp_path):
    before, seen = torch.get_num_threads(), []
    run(replace(CONFIG, threads=2, steps=1), tmp_path, callbacks=[lambda info: seen.append(torch.get_num_threads())])
    assert seen == [2]
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("flush", [False, True])
def test_the_treatment_of_denormals_is_restored(flush, tmp_path):
    seen = []
    denormal = torch.tensor([1e-39])
    try:
        if not torch.set_flush_denormal(flush):
            pytest.skip("this CPU cannot flush denormals")
        config = replace(CONFIG, steps=1, threads=1)
        run(config, tmp_path, callbacks=[lambda info: seen.append((denormal * 1).item())])
        assert seen == [0.0]
        assert ((denormal * 1).item() == 0.0) == flush
    finally:
        torch.set_flush_denormal(False)


def test_threads_that_a_training_starts_do_not_flush_denormal_numbers():
    """Seven threads: more than any other test has started in this process."""
    before, denormals = torch.get_num_threads(), torch.full((7 * 40_000,), 1e-30)
    try:
        with cpu_settings(7):
            denormals + 1  # an operation that all threads share
        torch.set_num_threads(7)
        assert bool((denormals * 1e-10 != 0).all())
    finally:
        torch.set_num_threads(before)


def test_the_bar_shows_loss_and_baseline(tmp_path, capsys):
    train(replace(CONFIG, steps=6), tmp_path)
    assert "baseline 7.33e-01" in capsys.readouterr().err


# Building.


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"task_options": {"bit": 3}},
            r"task 'flipflop' has no option 'bit'\. Did you mean 'bits'\? "
            r"Its options: bits = 3, length = 64, rate = 0\.1, width = 1, apart = 0, settle = 0\.",
        ),
        (
            {"task_options": {"bits": "three"}},
            "Option 'bits' of the task 'flipflop' must be an integer, but is 'three'",
        ),
        ({"task_options": {"bits": 0}}, "at least one bit"),
        ({"cell_options": {"connectivity": "dense"}}, "no option 'connectivity'.*nonlinearity = 'tanh', bias = True"),
        ({"cell_options": {"hidden_size": 5}}, "no option 'hidden_size'"),
        ({"cell_options": {"bias": 1}}, "'bias' of the cell 'elman' must be true or false, but is 1"),
        ({"cell": "lstm", "cell_options": {"projection": 1}}, "Did you mean 'projection_size'"),
        ({"cell_options": {"nonlinearity": "sinus"}}, "Unknown nonlinearity 'sinus'"),
    ],
)
def test_bad_options_are_refused_before_work_starts(settings, words, tmp_path):
    config = replace(CONFIG, **settings)
    with pytest.raises(ValueError, match=words):
        run(config, tmp_path)
    assert not [*tmp_path.iterdir()]


def test_missing_required_options_are_named(monkeypatch):
    def factory(input_size: int, hidden_size: int, depth: int, rate: float | None = None) -> Cell:
        return GRU(input_size, hidden_size)

    monkeypatch.setattr(registry.cells, "load", lambda name: factory)
    task = build_task(CONFIG)
    with pytest.raises(ValueError, match=r"needs the option 'depth'\. Its options: depth, rate = None\."):
        build_model(CONFIG, task)
    assert build_model(replace(CONFIG, cell_options={"depth": 1, "rate": 1}), task).cell.hidden_size == 8


def test_integers_are_accepted_for_floats():
    assert build_task(replace(CONFIG, task_options={"rate": 1})).rate == 1.0


def test_initial_weights_depend_on_the_seed():
    task = build_task(CONFIG)
    first, again, other = (build_model(replace(CONFIG, seed=seed), task).readout.weight for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


# Options of one optimiser, and cells with a built-in readout.


def test_rmsprop_uses_the_configured_momentum_and_smoothing(tmp_path):
    config = replace(CONFIG, optimiser="rmsprop", smoothing=0.8, momentum=0.9, learning_rate=1e-2, steps=3,
                     schedule="constant", clip=None, weight_decay=0.0)  # fmt: skip
    task, model = build_task(config), build_model(config, build_task(config))
    squares, velocities = ({name: torch.zeros_like(each) for name, each in model.named_parameters()} for _ in range(2))
    for number in range(config.steps):
        batch = task.batch(config.batch_size, config.seed, number)
        model.zero_grad()
        task.loss(model(batch.inputs)[0], batch).backward()
        with torch.no_grad():
            for name, each in model.named_parameters():
                squares[name] = 0.8 * squares[name] + 0.2 * each.grad**2
                velocities[name] = 0.9 * velocities[name] + each.grad / (squares[name].sqrt() + 1e-8)
                each -= 1e-2 * velocities[name]
    trained, _, _ = load_model(run(config, tmp_path).folder)
    for name, each in trained.named_parameters():
        torch.testing.assert_close(each, model.get_parameter(name), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("options", [{"smoothing": 0.9}, {"smoothing": 0.0}, {"momentum": 0.9}])
def test_options_of_rmsprop_are_refused_for_other_optimisers(options, tmp_path):
    with pytest.raises(ValueError, match=f"{next(iter(options))} is for the optimiser rmsprop, but"):
        run(replace(CONFIG, **options), tmp_path)


@representatives("matntm-15-options0-4121", "matrix-stack-225-options2-2175", "matrix-stack-400-options3-5675")
@pytest.mark.parametrize(
    ("cell", "hidden_size", "options", "parameters"),
    [
        ("matntm", 15, {"layers": 3}, 4121),
        ("matntm", 20, {"layers": 4}, 7946),
        ("matrix-stack", 225, {"layers": 2}, 2175),
        ("matrix-stack", 400, {"layers": 3}, 5675),
    ],
)
def test_published_matrix_networks_have_no_second_readout(cell, hidden_size, options, parameters, tmp_path):
    """Renanse et al. 2021, Table 1: without a readout after their built-in one."""
    config = RunConfig("try", "matrix-copy", cell=cell, hidden_size=hidden_size, cell_options=options, steps=2,
                       batch_size=2, evaluate_every=2, evaluate_batches=1, task_options={"longest": 2})  # fmt: skip
    model = build_model(config, build_task(config))
    assert sum(each.numel() for each in model.parameters()) == parameters
    assert model.cell.has_readout
    xs = torch.rand(3, 2, 25)
    torch.testing.assert_close(model(xs)[0], scan(model.cell, xs)[0])
    again, _, _ = load_model(run(config, tmp_path).folder)
    assert again(xs)[0].shape == (3, 2, 25)
    assert again.cell.frozen().has_readout
    with pytest.raises(ValueError, match="has no option 'output_size'"):
        build_model(replace(config, cell_options={"output_size": 25}), build_task(config))
    with pytest.raises(ValueError, match="readout_bias is for the linear readout"):
        build_model(replace(config, readout_bias=False), build_task(config))
    with pytest.raises(ValueError, match="fixed_readout is for the linear readout"):
        build_model(replace(config, fixed_readout=4.0), build_task(config))


def test_a_cell_with_a_readout_of_another_size_is_refused():
    stack = registry.cells.load("matrix-stack")(25, 9, output_size=4)
    with pytest.raises(ValueError, match="This Stack has a built-in readout with 4 outputs, but 25 are needed"):
        Model(stack, 25)
    with pytest.raises(TypeError, match="A linear readout is needed, but this Stack has a built-in readout"):
        fit_readout(Model(stack, 4), torch.zeros(5, 1, 25), torch.zeros(5, 1, 4))


def test_a_run_of_a_newer_version_is_not_resumed(tmp_path):
    config = CONFIG
    with pytest.raises(KeyboardInterrupt):
        run(config, tmp_path, callbacks=[stop_at(2, KeyboardInterrupt)])
    folder = config.folder(tmp_path)
    env = json.loads((folder / "env.json").read_text())
    (folder / "env.json").write_text(json.dumps({**env, "mnemoscope": "99.0.0"}))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ValueError, match=r"newer than this one.*by that version"):
        run(config, tmp_path, resume=True)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
