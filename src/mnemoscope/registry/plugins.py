"""What others add: modules that put cells, networks, tasks, lenses and studies of their own into the registries.

A plugin is a module that calls `add` of a registry as it is imported. It is found

- in an installed package, by an entry point of the group "mnemoscope", whose value is the module;
- in `$MNEMOSCOPE_PLUGINS`, a list of modules and `.py` files, joined as in `$PATH`;
- by `mnemoscope --plugin`, or `use_plugin`, which add to that list, so that processes begun from here know it too.

They are imported when a registry is asked for a name that it does not have, or for all it has: whoever uses only what
is built in never waits for them.
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

GROUP = "mnemoscope"
VARIABLE = "MNEMOSCOPE_PLUGINS"
HINT = "If it is a plugin's, install that, or name it by `mnemoscope --plugin`; see docs/extending.md."

_begun: dict[str, None] = {}
"""Plugins that were imported, or are being imported."""


def use_plugin(name: str) -> None:
    """Import a plugin, a module or a `.py` file, here and in the processes that are begun from here."""
    given = str(Path(name).resolve()) if _is_file(name) else name
    _load(given, "was asked for")
    named = named_plugins()
    if given not in named:
        os.environ[VARIABLE] = os.pathsep.join([*named, given])


def load_plugins() -> None:
    """Import the plugins that have not been yet."""
    for module, package in _installed(tuple((folder, _changed(folder)) for folder in sys.path)):
        _load(module, f"is an entry point of {package}")
    for name in named_plugins():
        _load(name, f"is in ${VARIABLE}")


def loaded_plugins() -> list[str]:
    """Those in use: modules, and whole paths of files."""
    return list(_begun)


def named_plugins() -> list[str]:
    """Those that were asked for by name, and that no package brings."""
    return [name for name in os.environ.get(VARIABLE, "").split(os.pathsep) if name]


@lru_cache(maxsize=1)
def _installed(folders: tuple[tuple[str, int], ...]) -> list[tuple[str, str]]:
    """The modules that packages in these folders name, each with its package. To ask all of them takes milliseconds: it
    is done again where a folder has changed.
    """
    points = entry_points(group=GROUP)
    return [(point.value, point.dist.name if point.dist else "a package") for point in points]


def _changed(folder: str) -> int:
    """When a package was last put into a folder or taken out of it."""
    try:
        return Path(folder or ".").stat().st_mtime_ns
    except OSError:
        return 0


def _is_file(name: str) -> bool:
    return name.endswith(".py")


def _load(name: str, why: str) -> None:
    if name in _begun:
        return
    _begun[name] = None  # before it is imported: it may look into a registry meanwhile
    try:
        _import_file(Path(name)) if _is_file(name) else import_module(name)
    except Exception as error:
        del _begun[name]
        raise ImportError(
            f"The plugin {name!r}, which {why}, cannot be loaded: {type(error).__name__}: {error}"
        ) from error


def _import_file(path: Path) -> None:
    """Import a file as a module with its name, which is how an entry names what is in it."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    there = sys.modules.get(path.stem)
    if there is not None:
        if getattr(there, "__file__", None) is None or Path(str(there.__file__)).resolve() != path.resolve():
            raise ImportError(f"there is another module named {path.stem!r}; rename the file")
        return
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path.stem]
        raise
