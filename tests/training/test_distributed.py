"""Distributed training: several processes train the same model as one process on the same batches."""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from mnemoscope.base.distributed import OtherRankError, ProcessRank, process_rank
from mnemoscope.cells import GRU, Model
from mnemoscope.cli import main
from mnemoscope.config.run_config import RunConfig
from mnemoscope.relational import Scenes
from mnemoscope.tasks import Batch
from mnemoscope.training import RunFolder, build_model, build_task, train
from mnemoscope.training.bptt import HasPenalty, backpropagate
from mnemoscope.training.process_group import ProcessGroup, check_divisible, join_process_group
from tests.slow import SLOW

HERE = Path(__file__).parent


def environment() -> dict[str, str]:
    """Return environment variables with which the driver can import the tests."""
    path = os.pathsep.join([str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path}


SHORT = {"steps": 12, "evaluate_every": 4, "evaluate_batches": 2, "checkpoint_every": 5, "clip": 1.0,
         "learning_rate": 0.01, "hidden_size": 8}  # fmt: skip
RELATIONAL = {"steps": 3, "evaluate_every": 3, "evaluate_batches": 1, "learning_rate": 1e-3, "task": "same-different"}
COPY = {"task": "copy", "task_options": {"delay": 3, "symbols": 2, "alphabet": 3}}

# except for the first, batches that two processes cannot share equally
CASES = [
    {"name": "vanilla", "task": "flipflop", "task_options": {"bits": 2, "length": 12}, "batch_size": 6, **SHORT},
    # lengths differ: shards have unequal numbers of counted steps, and none in some windows
    {"name": "masked", "task": "bit-copy", "task_options": {"longest": 4, "mixed": True}, "cell": "lstm",
     "batch_size": 5, "truncate": 4, **SHORT},
    # see `with_an_idle_part`: with weight decay, a gradient of 0 in place of none would show
    {"name": "idle", "task": "adding", "task_options": {"length": 6}, "batch_size": 3, "optimiser": "adamw",
     "weight_decay": 0.1, **SHORT},
    {"name": "relational", "cell": "corelnet", "cell_options": {"l1": 1.0}, "batch_size": 7, **RELATIONAL},
]  # fmt: skip
MORE = [
    {**SHORT, **COPY, "name": "schur", "cell": "nnrnn", "batch_size": 5},
    {**SHORT, **COPY, "name": "exponential", "cell": "exprnn", "batch_size": 5, "orthogonal_learning_rate": 1e-3},
    {**SHORT, **COPY, "name": "curriculum", "batch_size": 5, "curriculum_score": 0.3,
     "task_options": {**COPY["task_options"], "curriculum": "1 2"}},
    {**SHORT, **COPY, "name": "surprise", "cell": "relrnn", "cell_options": {"score": "surprise"}, "batch_size": 5,
     "truncate": 4},
    # one step: through two objects that are nearly alike, context normalisation amplifies rounding errors by 1e4
    {**RELATIONAL, "name": "mnm", "cell": "mnm", "batch_size": 5, "steps": 1, "evaluate_every": 1,
     "learning_rate": 1e-4},
]  # fmt: skip


def torchrun(*words, number=2):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(number), *words]
    return subprocess.Popen(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment() | {"OMP_NUM_THREADS": "1"},
    )


def wait_for(process, seconds=3600):
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.terminate()
        raise
    return process.returncode, out, err


def trained_alone_and_by_two(cases, root, *words):
    (root / "cases.json").write_text(json.dumps(cases))
    given = [HERE / "ddp_driver.py", root / "cases.json"]
    with ThreadPoolExecutor(1) as pool:
        command = [sys.executable, *given, root / "alone"]
        alone = pool.submit(subprocess.run, command, capture_output=True, text=True, timeout=3600, env=environment())
        code, _, err = wait_for(torchrun(*given, root / "two", *words))
    assert alone.result().returncode == 0, alone.result().stderr
    return code, err


def weights_and_metrics(config: RunConfig, root: Path):
    folder = RunFolder(config.folder(root))
    return load_file(folder.path / "model.safetensors"), folder.read_metrics()


def check_equal(config: RunConfig, first: Path, second: Path, tolerance: float):
    (weights, lines), (others, other_lines) = (weights_and_metrics(config, root) for root in (first, second))
    for name, value in weights.items():
        torch.testing.assert_close(
            others[name], value, atol=tolerance, rtol=tolerance, msg=lambda m, n=name: f"{n}: {m}"
        )
    assert len(lines) == len(other_lines)
    for line, other_line in zip(lines, other_lines, strict=True):
        assert other_line == pytest.approx(line, rel=tolerance, abs=tolerance)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Train the cases in float64 by one process and by two; launched once, as launching takes longest."""
    root = tmp_path_factory.mktemp("two")
    code, err = trained_alone_and_by_two(CASES, root, "fail")
    return root, code, err


@SLOW
@pytest.mark.xdist_group("torchrun")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_two_processes_train_the_same_model_as_one(case, two):
    """In float64 to 1e-10: Adam divides gradients that are 0 but for rounding, 1e-17, by 1e-8."""
    check_equal(RunConfig(**case), two[0] / "alone", two[0] / "two", 1e-10)


@SLOW
@pytest.mark.xdist_group("torchrun")
def test_unused_parameters_stay_unchanged(two):
    weights, _ = weights_and_metrics(RunConfig(**CASES[2]), two[0] / "two")
    assert weights["idle"].tolist() == [1, 1, 1]  # no weight decay either
    assert weights["seldom"] != 1


@SLOW
@pytest.mark.xdist_group("torchrun")
def test_only_one_process_writes(two):
    folder = RunConfig(**CASES[0]).folder(two[0] / "two")
    assert json.loads((folder / "env.json").read_text())["processes"] == 2
    assert [line["step"] for line in RunFolder(folder).read_metrics()] == [4, 8, 12]


@SLOW
@pytest.mark.xdist_group("torchrun")
def test_a_failing_process_ends_all_and_reports_the_reason(two):
    root, code, err = two
    assert code != 0
    assert "there is no room for this batch" in err
    assert RunFolder(next((root / "two" / "failing").iterdir())).status == "unfinished"


@SLOW
@pytest.mark.xdist_group("torchrun")
def test_two_processes_train_the_same_model_as_one_for_other_cells(tmp_path):
    code, err = trained_alone_and_by_two(MORE, tmp_path)
    assert code == 0, err
    for case in MORE:
        check_equal(RunConfig(**case), tmp_path / "alone", tmp_path / "two", 1e-10)


CONFIG = RunConfig("try", "flipflop", task_options={"bits": 2, "length": 12}, batch_size=5, threads=1,
                   **{**SHORT, "steps": 40, "checkpoint_every": 10})  # fmt: skip


def stop_at(step: int, error: type[BaseException]):
    def callback(info):
        if info.step == step:
            raise error

    return callback


@SLOW
@pytest.mark.xdist_group("torchrun")
def test_a_run_resumes_with_another_number_of_processes(tmp_path):
    """In float32, 40 steps at a rate of 0.01 leave the weights within 1e-5 of those of one process."""
    train(CONFIG, tmp_path / "straight", progress=False)
    with pytest.raises(KeyboardInterrupt):
        train(CONFIG, tmp_path / "resumed", progress=False, callbacks=[stop_at(17, KeyboardInterrupt)])
    file = CONFIG.folder(tmp_path / "resumed") / "config.toml"
    code, out, err = wait_for(torchrun("-m", "mnemoscope", "train", file, "--resume", "--json"))
    assert code == 0, err
    assert json.loads(out)["steps"] == 40  # printed once
    assert "begun by 1 process and goes on with 2 processes" in err
    check_equal(CONFIG, tmp_path / "straight", tmp_path / "resumed", 1e-5)


@SLOW
@pytest.mark.xdist_group("torchrun")
def test_one_process_resumes_a_run_of_two(tmp_path):
    """With a state that is carried from batch to batch, so that the checkpoint needs the parts of both."""
    text = {**SHORT, "name": "text", "task": "ptb", "task_options": {"length": 7}, "cell": "lstm", "batch_size": 3}
    given = [HERE / "ddp_driver.py", tmp_path / "cases.json"]
    code, err = trained_alone_and_by_two([text], tmp_path, "stop")
    assert code == 0, err
    folder = RunFolder(RunConfig(**text).folder(tmp_path / "two"))
    assert folder.status == "unfinished"
    assert load_file(folder.path / "checkpoint.safetensors")["state.h"].shape == (3, 8)
    subprocess.run([sys.executable, *given, tmp_path / "two"], check=True, timeout=3600, env=environment())
    check_equal(RunConfig(**text), tmp_path / "alone", tmp_path / "two", 1e-10)


WAIT = """
import signal
from pathlib import Path
from mnemoscope.base.distributed import process_rank
from mnemoscope.tasks import FlipFlop

batch, waits = FlipFlop.batch, Path(__file__).with_suffix(f".{process_rank().rank}")

def wait_for_ctrl_c(self, size, seed, number, *split):
    if number == 250 and not waits.exists():
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        waits.touch()
        signal.sigwait({signal.SIGINT})
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        signal.raise_signal(signal.SIGINT)
    return batch(self, size, seed, number, *split)

FlipFlop.batch = wait_for_ctrl_c
"""


@SLOW
@pytest.mark.xdist_group("torchrun")
def test_ctrl_c_stops_all_and_two_processes_resume_bit_for_bit(tmp_path):
    long = replace(CONFIG, steps=400, evaluate_every=200, checkpoint_every=300)
    file = tmp_path / "long.toml"
    file.write_text(long.to_toml())
    words = ["-m", "mnemoscope", "train", file, "--root"]
    folder = long.folder(tmp_path / "stopped")
    (tmp_path / "wait.py").write_text(WAIT)
    process = torchrun("-m", "mnemoscope", "--plugin", tmp_path / "wait.py", *words[2:], tmp_path / "stopped")
    while not all((tmp_path / f"wait.{rank}").exists() for rank in range(2)) and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    code, _, err = wait_for(process)
    assert code != 0
    assert err.count("Stopped after step") == 1
    assert RunFolder(folder).status == "unfinished"
    assert (folder / "checkpoint.safetensors").exists()
    code, _, err = wait_for(torchrun(*words, tmp_path / "stopped", "--resume"))
    assert code == 0, err
    code, _, err = wait_for(torchrun(*words, tmp_path / "straight"))
    assert code == 0, err
    for name in ("model.safetensors", "metrics.jsonl"):
        assert (folder / name).read_bytes() == (long.folder(tmp_path / "straight") / name).read_bytes(), name


@SLOW
@pytest.mark.xdist_group("torchrun")
def test_a_non_finite_loss_is_reported_once(tmp_path):
    words = ["-m", "mnemoscope", "train", "flipflop", "--learning-rate", "1e30", "--cell-options", "nonlinearity",
             "linear", "--root", tmp_path]  # fmt: skip
    code, _, err = wait_for(torchrun(*words))
    assert code != 0
    assert err.count("Resuming would meet it again") == 1


# Tests that launch no process.


def shards_of(sequences: int, processes: int) -> list[slice]:
    return [ProcessGroup(rank, processes).shard(sequences) for rank in range(processes)]


@pytest.mark.parametrize(("sequences", "processes"), [(6, 2), (7, 3), (5, 4), (3, 3)])
def test_shards_are_disjoint_complete_and_nearly_equal(sequences, processes):
    shards = shards_of(sequences, processes)
    assert [index for shard in shards for index in range(sequences)[shard]] == [*range(sequences)]
    assert {shard.stop - shard.start for shard in shards} <= {sequences // processes, sequences // processes + 1}


@pytest.mark.parametrize(
    "settings",
    [CASES[0], CASES[1], CASES[3], *MORE],
    ids=lambda settings: settings["name"],
)
def test_gradients_of_shards_sum_to_that_of_the_batch(settings):
    config = replace(RunConfig(**settings), batch_size=7)
    task = build_task(config)
    model = build_model(config, task).double()
    batch = Batch(*map(doubled, task.batch(7, seed=0, number=0)))
    penalised = [part for part in model.modules() if isinstance(part, HasPenalty)]

    def gradients(*parts):
        model.zero_grad()
        torch.manual_seed(0)
        losses = [
            backpropagate(model, task, batch, config.truncate, penalised=penalised, shard=part)[0] for part in parts
        ]
        return sum(losses), [None if each.grad is None else each.grad.clone() for each in model.parameters()]

    expected, those = gradients(None)
    loss, these = gradients(*shards_of(7, 3))
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=0.0)
    for this, that in zip(these, those, strict=True):
        torch.testing.assert_close(this, that, rtol=1e-9, atol=1e-12) if that is not None else None
        assert (this is None) == (that is None)


def doubled(part):
    if isinstance(part, Scenes):
        return part._replace(images=part.images.double())
    return part.double() if part.is_floating_point() else part


def test_a_part_of_the_scenes_keeps_only_its_images():
    scenes = build_task(RunConfig("try", "rmts", {"m": 50}, "corelnet")).relational.batch(9, seed=0, number=0)
    some = scenes.part(slice(2, 4))
    assert len(some.images) == len(scenes.objects[2:4].unique()) < len(scenes.images) == len(scenes.objects.unique())
    assert torch.equal(some.images[some.objects], scenes.images[scenes.objects[2:4]])
    assert torch.equal(some.labels, scenes.labels[2:4])


def test_a_process_without_a_launcher_is_a_group_of_one():
    assert process_rank() == ProcessRank()
    with join_process_group("cpu") as group:
        assert (group.rank, group.world_size) == (0, 1)
        assert group.on_main(lambda: {"a": 1}) == {"a": 1}


def started_as(monkeypatch, rank: int, size: int = 2):
    variables = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "MASTER_ADDR": "localhost", "MASTER_PORT": 1}
    for name, value in variables.items():
        monkeypatch.setenv(name, str(value))


def test_ranks_that_are_not_numbers_are_refused(monkeypatch):
    started_as(monkeypatch, rank=0)
    assert process_rank() == ProcessRank(0, 2, 0)
    monkeypatch.setenv("RANK", "first")
    with pytest.raises(ValueError, match=r"RANK='first'.*should be whole numbers"):
        process_rank()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there are GPUs")
def test_each_process_needs_a_separate_gpu(monkeypatch):
    started_as(monkeypatch, rank=1)
    with pytest.raises(ValueError, match="GPU of its own, but there are 0"), join_process_group("cuda"):
        pass


def test_only_train_accepts_several_processes(monkeypatch, capsys):
    started_as(monkeypatch, rank=0)
    assert main(["study", "fisher-table"]) == 2
    assert "mnemoscope (rank 0 of 2 processes): torchrun is for" in capsys.readouterr().err
    started_as(monkeypatch, rank=1)
    assert main(["study", "fisher-table"]) == 0  # rank 0 reports the error and fails
    assert capsys.readouterr() == ("", "")


def test_batches_that_cannot_be_divided_are_refused():
    model = Model(GRU(3, 4), output_size=2, encode=nn.BatchNorm1d(3))
    with pytest.raises(ValueError, match="batch_size is 2 and there are 3 processes"):
        check_divisible(ProcessGroup(0, 3), 2, model)
    with pytest.raises(ValueError, match="encode is a BatchNorm1d, which normalises over all of a batch"):
        check_divisible(ProcessGroup(0, 3), 3, model)


def test_rank_0_reports_an_error_that_all_ranks_meet():
    error = ValueError("both have met it")
    assert ProcessGroup(0, 2).shared_error(error) is error
    other = ProcessGroup(1, 2).shared_error(error)
    assert isinstance(other, OtherRankError)
    assert "both have met it" in str(other)
