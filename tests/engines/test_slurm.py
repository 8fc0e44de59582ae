"""The engine slurm with the commands of Slurm acted by processes of this machine."""

import json
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

from mnemoscope.arena import read_arena, run_arena
from mnemoscope.engines import Job, build_engine, slurm
from tests.engines import fake_slurm
from tests.slow import SLOW

pytestmark = [SLOW, pytest.mark.skipif(find_spec("submitit") is None, reason="needs mnemoscope[slurm]")]
RUN_ON_NODE = """
import json, sys
from mnemoscope.engines.slurm import _run_on_node
print(json.dumps(_run_on_node(sys.argv[1], 1, [])))
"""


@pytest.fixture(autouse=True)
def _jobs_are_found(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)


def test_an_arena_that_is_interrupted_on_slurm_continues_from_its_checkpoints(tmp_path, monkeypatch):
    fake_slurm.install(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    options = {"folder": str(tmp_path / "logs"), "minutes": 5, "poll_every": 0.1}
    arena = read_arena("tiny").part(["gru", "elman"], ["parity"])

    begun = []

    def interrupt(seconds):
        if not begun and (found := list(tmp_path.rglob("checkpoint.safetensors"))):
            begun.extend(found)
            raise KeyboardInterrupt
        time.sleep(seconds)

    with monkeypatch.context() as patch:
        patch.setattr(slurm, "time", SimpleNamespace(sleep=interrupt, perf_counter=time.perf_counter))
        with pytest.raises(KeyboardInterrupt):
            run_arena(arena, tmp_path, engine=build_engine("slurm", options), progress=False)
    states = [state.read_text() for state in (tmp_path / "bin").glob("*.state")]
    assert states == ["CANCELLED", "CANCELLED"], "the engine has waited for the end of the cancelled jobs"
    metrics = begun[0].with_name("metrics.jsonl")
    marked = metrics.read_text().replace('"step": 50,', '"step": 51,')  # a mark that a new start would overwrite
    metrics.write_text(marked)
    before = len(list(tmp_path.rglob("result.json")))

    result = run_arena(arena, tmp_path, engine=build_engine("slurm", options), progress=False)
    assert (before + result.finished, result.failed) == (8, [])
    assert before < 8
    assert metrics.read_text().startswith('{"step": 51,')


def test_a_job_that_ends_without_a_result_is_reported_with_its_state(tmp_path, monkeypatch):
    """The state comes from squeue: sacct answers only on clusters with accounting."""
    fake_slurm.install(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.setattr(slurm, "STATES_EVERY", 0.1)
    monkeypatch.setattr(slurm, "RESULT_SECONDS", 0.2)
    engine = build_engine("slurm", {"folder": str(tmp_path / "logs"), "poll_every": 0.1})
    (outcome,) = engine.events([Job("killed", "engine_jobs:kill_parent", {}, str(tmp_path))])
    assert outcome.error.startswith("Slurm reports FAILED: ")
    assert "Run the same command again" in outcome.error


@pytest.mark.parametrize(
    ("number", "reason"), [(signal.SIGUSR2, "end of the job's time"), (signal.SIGTERM, "cancelled")]
)
def test_slurm_s_signals_let_a_job_write_its_checkpoint(tmp_path, number, reason):
    """Slurm sends them to all processes of a job, whatever their session, and repeats them."""
    job = Job("waits", "engine_jobs:interrupted", {}, str(tmp_path))
    node = subprocess.Popen([sys.executable, "-c", RUN_ON_NODE, job.as_json()], stdout=subprocess.PIPE)
    while not (tmp_path / "waits").exists():
        assert node.poll() is None
        time.sleep(0.01)
    (worker,) = map(int, Path(f"/proc/{node.pid}/task/{node.pid}/children").read_text().split())
    for process in (worker, node.pid, node.pid):
        os.kill(process, number)
    outcome = json.loads(node.communicate()[0])
    assert outcome["interrupted"]
    assert reason in outcome["error"]
    assert (tmp_path / "checkpoint").exists()
