"""The Ray engine on a cluster of two local nodes, each started by `ray start`."""

import os
import secrets
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from mnemoscope.engines import Local
from mnemoscope.replication import run_study
from tests.slow import SLOW

pytestmark = [SLOW, pytest.mark.skipif(find_spec("ray") is None, reason="needs mnemoscope[ray]")]
TESTS = Path(__file__).parent


def start(environment, *arguments):
    """Start a node with one core, in a separate session."""
    ray = str(Path(sys.executable).parent / "ray")
    command = [ray, "start", *arguments, "--node-ip-address=127.0.0.1", "--num-cpus=1", "--block"]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, env=environment, start_new_session=True, stdout=quiet, stderr=quiet)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_two_nodes_give_the_same_rows_resume_an_arena_and_survive_the_loss_of_one(tmp_path):
    here = run_study("fisher-delay-line", "smoke", root=tmp_path / "here", progress=False, engine=Local(2))
    port = free_port()
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "PYTHONPATH": path}
    nodes = [start(environment, "--head", f"--port={port}", "--include-dashboard=false")]
    try:
        nodes.append(start(environment, f"--address=127.0.0.1:{port}"))
        driver = [sys.executable, str(TESTS / "ray_driver.py"), f"127.0.0.1:{port}", str(tmp_path), str(nodes[1].pid)]
        subprocess.run(driver, env=environment, check=True, timeout=300)
    finally:
        from tests.engines.ray_driver import kill

        for node in nodes:
            kill(node.pid)
            node.wait()
    there = run_study("fisher-delay-line", "smoke", root=tmp_path / "there", finished_only=True, progress=False)
    assert there.rows == here.rows
    assert {path.parent.name for path in (tmp_path / "lost").glob("*/[0-9]")} == {str(n) for n in range(6)}
