"""The engine slurm with the commands of Slurm acted by processes of this machine."""

import os
import time
from importlib.util import find_spec
from types import SimpleNamespace

import pytest

from mnemoscope.arena import read_arena, run_arena
from mnemoscope.engines import build_engine, slurm
from tests.engines import fake_slurm
from tests.slow import SLOW

pytestmark = [SLOW, pytest.mark.skipif(find_spec("submitit") is None, reason="needs mnemoscope[slurm]")]


def test_an_arena_that_is_interrupted_on_slurm_continues_from_its_checkpoints(tmp_path, monkeypatch):
    fake_slurm.install(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    options = {"folder": str(tmp_path / "logs"), "minutes": 5, "poll_every": 0.1}
    arena = read_arena("tiny").part(["gru", "elman"], ["parity"])

    def interrupt(seconds):
        if list(tmp_path.rglob("checkpoint.safetensors")):
            raise KeyboardInterrupt
        time.sleep(seconds)

    with monkeypatch.context() as patch:
        patch.setattr(slurm, "time", SimpleNamespace(sleep=interrupt, perf_counter=time.perf_counter))
        with pytest.raises(KeyboardInterrupt):
            run_arena(arena, tmp_path, engine=build_engine("slurm", options), progress=False)
    assert {state.read_text() for state in (tmp_path / "bin").glob("*.state")} == {"CANCELLED"}
    (metrics,) = tmp_path.rglob("metrics.jsonl")
    marked = metrics.read_text().replace('"step": 50,', '"step": 51,')  # a mark that a new start would overwrite
    metrics.write_text(marked)

    result = run_arena(arena, tmp_path, engine=build_engine("slurm", options), progress=False)
    assert (result.finished, result.failed) == (8, [])
    assert metrics.read_text().startswith('{"step": 51,')
