"""Environments of neurogym as tasks, in a separate virtual environment, since neurogym pins older packages."""

import json
import os
import subprocess
import sys
import tomllib
from math import log
from pathlib import Path

import pytest

from tests.slow import SLOW

ROOT = Path(__file__).parent.parent.parent
NEUROGYM = "neurogym==2.3.1"


@pytest.fixture(scope="module")
def neurogym_python(tmp_path_factory):
    """Return a Python with neurogym and our dependencies; skip where they cannot be installed."""
    if "MNEMOSCOPE_NEUROGYM_PYTHON" in os.environ:
        return os.environ["MNEMOSCOPE_NEUROGYM_PYTHON"]
    folder = tmp_path_factory.mktemp("neurogym")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    done = subprocess.run([python, "-m", "pip", "install", "--quiet", NEUROGYM, *ours], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"{NEUROGYM} cannot be installed here: {done.stderr.strip().splitlines()[-1]}")
    return python


@SLOW
def test_a_network_trains_on_two_environments_of_neurogym(neurogym_python, tmp_path):
    script = Path(__file__).parent / "neurogym_training.py"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([neurogym_python, script, tmp_path], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert [*found] == ["dots", "match"]
    for name, epochs in (("dots", ["fixation", "stimulus"]), ("match", ["fixation", "sample", "delay", "test"])):
        assert found[name]["loss"] < log(3) / 2  # it begins near log(3), that of three equally likely actions
        assert 0 < found[name]["baseline"] < log(3)
        assert found[name]["epochs"][: len(epochs)] == epochs
        assert "ground_truth" in found[name]["conditions"]
