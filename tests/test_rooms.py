"""The house: which room may import which, and what an import costs."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import mnemoscope

SOURCE = Path(mnemoscope.__file__).parent
ROOMS = (
    "connectivity",
    "kernels",
    "cells",
    "memory",
    "relational",
    "tasks",
    "training",
    "reinforcement",
    "analysis",
    "report",
    "engines",
    "studies",
    "sweeps",
    "cli",
)
FORBIDDEN = {("analysis", "training"), ("analysis", "tasks"), ("report", "training"), ("tasks", "cells")}
"""What a room may not know although it stands above (design: "knows nothing of")."""
FREE = {"shapes", "splits", "whole", "registry", "config", "options", "citations", "files", "lazy", "palette",
        "processes", "progress", "store"}  # fmt: skip
"""Modules beside the rooms, of one file or a folder, which every room may import and which import no room."""


def imported_rooms(path):
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module] if node.module != "mnemoscope" else [f"mnemoscope.{n.name}" for n in node.names]
            assert node.level == 0, f"{path} uses a relative import"
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "mnemoscope" and len(parts) > 1 and parts[1] != "__version__":
                yield parts[1]


@pytest.mark.parametrize("room", [room for room in ROOMS if (SOURCE / room).is_dir()])
def test_a_room_imports_only_rooms_above_it(room):
    for path in (SOURCE / room).rglob("*.py"):
        for other in imported_rooms(path):
            if other in FREE or other == room:
                continue
            assert other in ROOMS, f"{path} imports the unknown room {other}"
            assert ROOMS.index(other) < ROOMS.index(room), f"{path}: {room} must not import {other}"
            assert (room, other) not in FORBIDDEN, f"{path}: {room} knows nothing of {other}"


def test_every_folder_is_a_known_room():
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders <= {*ROOMS, *FREE}


def test_free_modules_import_no_room():
    for name in FREE:
        files = [*(SOURCE / name).rglob("*.py")] or [SOURCE / f"{name}.py"]
        for path in files:
            assert set(imported_rooms(path)) <= FREE, f"{path} imports a room"


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_import_is_light():
    heavy = {"matplotlib", "plotly", "jinja2", "tyro", "pandas", "sklearn", "optuna", "ray", "torchdiffeq", "gymnasium",
             "minigrid", "tensorboard", "wandb"}  # fmt: skip
    code = "import sys, mnemoscope as ms; ms.find_fixed_points, ms.training, ms.tasks, ms.report; print(*sys.modules)"
    loaded = {name.split(".")[0] for name in run(code).split()}
    assert "torch" in loaded
    assert not loaded & heavy


def test_the_command_line_parses_without_torch():
    loaded = run("import sys, mnemoscope, mnemoscope.cli, mnemoscope.registry, mnemoscope.config; print(*sys.modules)")
    assert "torch" not in loaded.split()


def test_public_names_resolve():
    for name in mnemoscope.__all__:
        assert getattr(mnemoscope, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        mnemoscope.nonsense  # noqa: B018


def test_there_is_an_extra_for_each_kind_of_work():
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert {*extras} == {"cli", "report", "ode", "sweep", "ray", "slurm", "rl", "table", "tensorboard",
                         "wandb", "docs", "dev"}  # fmt: skip
    assert not any(name in " ".join(extras["dev"]) for name in ("optuna", "ray", "wandb"))  # large
    assert {line.partition(">=")[0] for line in project["dependencies"]} == {
        "torch",
        "numpy",
        "scipy",
        "safetensors",
        "tqdm",
    }
