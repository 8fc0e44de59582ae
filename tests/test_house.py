"""The house: which room may import which, no import cycles, and what an import costs."""

import ast
import subprocess
import sys
import tomllib
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import mnemoscope

SOURCE = Path(mnemoscope.__file__).parent
ROOMS = (
    "base",
    "registry",
    "config",
    "store",
    "engines",
    "connectivity",
    "kernels",
    "cells",
    "memory",
    "relational",
    "networks",
    "tasks",
    "drawing",
    "lenses",
    "training",
    "report",
    "inspection",
    "replication",
    "studies",
    "sweeps",
    "arena",
    "cli",
)
"""A room imports only from rooms before it (docs/house.md has the same table)."""
FORBIDDEN = {("lenses", "tasks"), ("lenses", "networks"), ("report", "training"), ("tasks", "cells")}
"""Pairs (room, other) where the room must not import the other one although it comes before."""
FILES = {
    ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in SOURCE.rglob("*.py")
}
"""Every module of the package, by its dotted name."""


pytestmark = pytest.mark.xdist_group("house")  # one process reads the modules


@cache
def contents(name):
    """The modules of this package that a module imports, wherever it does, and the names that it defines."""
    found, tree = set(), ast.parse(FILES[name].read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{name} uses a relative import"
            names = [f"{node.module}.{each.name}" for each in node.names]
            found |= {each if each in FILES else node.module for each in names}
        elif isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        defined |= {target.id for target in targets if isinstance(target, ast.Name)}
    return frozenset(each for each in found if each in FILES and each != name), defined


def imports(name):
    return contents(name)[0]


def room_of(name):
    return name.partition(".")[2].partition(".")[0]


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_rooms_before_it(room):
    for name in FILES:
        if room_of(name) != room:
            continue
        for other in map(room_of, imports(name)):
            assert other in ROOMS, f"{name} imports {other or 'the top of the package'}"
            assert ROOMS.index(other) <= ROOMS.index(room), f"{name}: {room} must not import {other}"
            assert (room, other) not in FORBIDDEN, f"{name}: {room} must not know of {other}"


def test_every_folder_is_a_known_room():
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == set(ROOMS)


def test_only_the_way_in_lies_beside_the_rooms():
    assert {path.name for path in SOURCE.iterdir() if path.is_file()} == {"__init__.py", "__main__.py", "py.typed"}


def test_no_import_cycle_is_left():
    """Imports for type checking and inside functions count too."""
    try:
        TopologicalSorter({name: imports(name) for name in FILES}).prepare()
    except CycleError as error:
        pytest.fail("Import cycle: " + " -> ".join(error.args[1]))


def test_no_module_has_the_name_of_something_it_defines():
    """`import mnemoscope.x.recall` would yield a function where the package exports `measure_recall`."""
    for name in FILES:
        assert name.rpartition(".")[2] not in contents(name)[1], f"{name} defines something of its own name"


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_import_is_light():
    heavy = {"matplotlib", "plotly", "jinja2", "tyro", "pandas", "sklearn", "optuna", "ray", "torchdiffeq", "gymnasium",
             "minigrid", "tensorboard", "transformers", "wandb"}  # fmt: skip
    code = "import sys, mnemoscope as ms; ms.find_fixed_points, ms.training, ms.tasks, ms.report; print(*sys.modules)"
    loaded = {name.split(".")[0] for name in run(code).split()}
    assert "torch" in loaded
    assert not loaded & heavy


def test_first_fixed_points_wait_for_neither_scipy_nor_the_compiler_of_torch():
    """Both take as long to import as the rest of the library."""
    found = "import sys, torch, mnemoscope as ms; print(len(ms.find_fixed_points(torch.nn.GRU(3, 16))), *sys.modules)"
    number, *loaded = run(found).split()
    assert int(number) > 0
    assert not {"scipy", "sympy", "torch._dynamo"} & {*loaded}


def test_the_command_line_parses_without_torch():
    loaded = run(
        "import sys, mnemoscope, mnemoscope.cli, mnemoscope.registry, mnemoscope.config.run_config; print(*sys.modules)"
    )
    assert "torch" not in loaded.split()


def test_public_names_resolve():
    assert {"find_fixed_points", "networks", "__version__"} <= {*dir(mnemoscope)} == {*mnemoscope.__all__}
    for name in dir(mnemoscope):
        assert getattr(mnemoscope, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        mnemoscope.nonsense  # noqa: B018


def test_there_is_an_extra_for_each_kind_of_work():
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert {*extras} == {"cli", "report", "hf", "ode", "sweep", "ray", "slurm", "rl", "table", "tensorboard",
                         "wandb", "nwb", "docs", "dev"}  # fmt: skip
    assert not any(name in " ".join(extras["dev"]) for name in ("optuna", "ray", "wandb"))  # large
    assert {line.partition(">=")[0] for line in project["dependencies"]} == {
        "torch",
        "numpy",
        "scipy",
        "safetensors",
        "tqdm",
    }
