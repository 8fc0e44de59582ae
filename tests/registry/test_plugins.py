"""Plugins add to the registries: from a file, a module, or an installed package."""

import json
import os
import shlex
import subprocess
import sys

import pytest

from mnemoscope import registry
from mnemoscope.cli import main
from mnemoscope.registry import Entry, Registry, plugins
from mnemoscope.training import load_model
from tests.slow import representatives
from tests.store.test_store import make_run

LIGHT = """
from mnemoscope.registry import Entry, cells
cells.add(Entry("{name}", "an Elman cell by another name", "nobody", "mnemoscope.cells:Elman", cites=("elman1990",)))
"""


@pytest.fixture
def python(tmp_path):
    """Return a function that runs Python in a temporary folder and returns status, output and errors."""

    def run(*words, plugins=""):
        paths = os.pathsep.join([str(tmp_path), *(path for path in sys.path if path)])
        env = {**os.environ, "PYTHONPATH": paths, "MNEMOSCOPE_PLUGINS": plugins}
        done = subprocess.run([sys.executable, *words], capture_output=True, text=True, env=env, cwd=tmp_path)
        return done.returncode, done.stdout, done.stderr

    return run


def cells_of(out):
    return [row["name"] for row in json.loads(out)]


def test_the_command_line_loads_a_file_or_a_module(tmp_path, python):
    (tmp_path / "one.py").write_text(LIGHT.format(name="one"))
    (tmp_path / "two.py").write_text(LIGHT.format(name="two"))
    listed = ["list", "cells", "--json"]
    status, out, error = python("-m", "mnemoscope", "--plugin", "one.py", "--plugin=two", *listed)
    assert (status, error) == (0, "")
    assert cells_of(out)[-2:] == ["one", "two"]
    assert cells_of(python("-m", "mnemoscope", *listed, plugins="two")[1])[-1] == "two"
    assert cells_of(python("-m", "mnemoscope", *listed)[1])[-1] == list(registry.cells)[-1].name


def install(folder, name, content):
    (folder / f"{name}.py").write_text(content)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[mnemoscope]\nanything = {name}\n")


def test_a_package_installed_after_the_first_look_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(plugins, "_started", {})
    monkeypatch.syspath_prepend(tmp_path)
    registry.load_plugins()
    assert "meanwhile" not in registry.loaded_plugins()
    install(tmp_path, "meanwhile", "")
    os.utime(tmp_path, (2e9, 2e9))  # two changes may share a time stamp
    registry.load_plugins()
    assert "meanwhile" in registry.loaded_plugins()


def test_an_installed_package_is_loaded_and_its_errors_are_reported(tmp_path, python):
    install(tmp_path, "theirs", LIGHT.format(name="theirs"))
    assert cells_of(python("-m", "mnemoscope", "list", "cells", "--json")[1])[-1] == "theirs"
    (tmp_path / "theirs.py").write_text("import no_such_module")
    status, _, error = python("-m", "mnemoscope", "list", "cells")
    assert status == 2
    assert "The plugin 'theirs', which is an entry point of theirs, cannot be loaded: ModuleNotFoundError" in error
    assert "Traceback" not in error


def test_plugins_are_loaded_only_when_an_unknown_name_is_asked_for(tmp_path, python):
    (tmp_path / "loud.py").write_text("print('loaded')\n" + LIGHT.format(name="loud"))
    code = "from mnemoscope import registry; registry.cells['gru']; 'elman' in registry.cells; print('so far'); {}"
    _, out, _ = python("-c", code.format("registry.cells['loud']"), plugins="loud")
    assert out.splitlines() == ["so far", "loaded"]
    _, out, error = python("-c", code.format("registry.cells['lout']"), plugins="loud")
    assert out.splitlines() == ["so far", "loaded"]
    assert "Did you mean 'loud'?" in error


@pytest.mark.parametrize("first", ["mnemoscope.config.run_config", "mnemoscope.studies"])
def test_a_plugin_may_import_any_module_of_the_library(first, tmp_path, python):
    """The order of imports does not matter."""
    uses = "import mnemoscope.cli, mnemoscope.studies\nfrom mnemoscope.config import PRESETS\n"
    (tmp_path / "large.py").write_text(uses + LIGHT.format(name="large"))
    code = f"import {first}\nfrom mnemoscope import registry\nassert 'large' in registry.cells"
    assert python("-c", code, plugins="large") == (0, "", "")


@representatives("words0-takes a module or a .py file")
@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--plugin"], "takes a module or a .py file"),
        (["--plugin", "nowhere.py", "list"], "there is no file"),
        (["--plugin", "no_such_module", "list"], "No module named 'no_such_module'"),
        (["--plugin", "json.py", "list"], "another module named 'json'"),
        (["--plugin", "taken.py", "list"], "There is already a cell named 'gru', mnemoscope.cells:GRU"),
        (["list", "--plugin", "one.py"], "comes before the command"),
        (["train", "--cell", "mine"], "If a plugin has it, install that plugin"),
    ],
)
def test_a_wrong_plugin_is_refused_with_a_reason(words, why, tmp_path, python):
    (tmp_path / "json.py").write_text("")
    (tmp_path / "taken.py").write_text(LIGHT.format(name="gru"))
    code = "import json, sys; sys.path.pop(0); from mnemoscope.cli import main; sys.exit(main(sys.argv[1:]))"
    status, out, error = python("-I", "-c", f"import sys; sys.path[1:1] = {sys.path!r}; {code}", *words)
    assert status == 2
    assert why in error
    assert "Traceback" not in error
    assert out == ""


def test_adding_an_equal_entry_again_changes_nothing():
    things = Registry("thing")
    entry = Entry("a", "b", "c", "json:loads")
    things.add(entry)
    things.add(entry, Entry("d", "e", "f", "json:dumps"))
    assert [entry.name for entry in things] == ["a", "d"]
    with pytest.raises(ValueError, match="already a thing named 'a', json:loads; json:load needs another name"):
        things.add(Entry("a", "b", "c", "json:load"))


def test_a_former_name_finds_the_entry_of_today():
    entry = Entry("new", "b", "c", "json:loads")
    things = Registry("thing", {"new": entry}, {"old": "new"})
    assert "old" in things
    assert things["old"] is entry
    assert [entry.name for entry in things] == ["new"]


def test_every_former_lens_name_leads_to_a_lens():
    former_names = {"evolution", "fisher-along", "gradients-by-part", "memory-kinds", "memory-load"}
    assert {*registry.lenses.former_names} == former_names
    for former, name in registry.lenses.former_names.items():
        assert registry.lenses[former] is registry.lenses[name]


def test_a_run_names_its_plugins_and_the_command_to_type_but_does_not_import_them(tmp_path, capsys):
    plugin = tmp_path / "my plugin.py"
    plugin.write_text("raise SystemExit('a run must not execute this')")
    folder = make_run(tmp_path / "runs" / "try" / "a", loss=0.5)
    config = (folder / "config.toml").read_text()
    (folder / "config.toml").write_text(config.replace('cell = "gru"', 'cell = "mine"'))
    (folder / "env.json").write_text(json.dumps({"mnemoscope": "0.2.0", "plugins": [str(plugin)]}))
    with pytest.raises(
        ValueError, match=r"'mine', which is no registered cell.* call mnemoscope\.registry\.use_plugin"
    ):
        load_model(folder)
    for words in (["inspect", str(folder)], ["train", str(folder / "config.toml"), "--resume"]):
        assert main(words) == 2
        typed = capsys.readouterr().err.strip().splitlines()[-1]
        assert shlex.split(typed) == ["mnemoscope", "--plugin", str(plugin), *words]
    (folder / "env.json").write_text("{")  # the error about the cell is still the one to show
    with pytest.raises(ValueError, match="'mine', which is no registered cell"):
        load_model(folder)
