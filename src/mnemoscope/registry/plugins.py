"""Plugins: modules of others that add cells, networks, tasks, lenses and studies to the registries.

A plugin is a module that calls `add` of a registry when it is imported. There are three ways to find one:

- an installed package names the module in an entry point of the group "mnemoscope";
- `$MNEMOSCOPE_PLUGINS` lists modules and `.py` files, separated as in `$PATH`;
- `mnemoscope --plugin` and `use_plugin` add to that list, so that child processes know the plugin too.

Plugins are imported when a registry is asked for an unknown name or for all of its entries. Code that uses only
built-in names never waits for them.
"""

from __future__ import annotations

import os
import shlex
import sys
from functools import lru_cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

GROUP = "mnemoscope"
"""Group of the entry points that name plugins."""
VARIABLE = "MNEMOSCOPE_PLUGINS"
"""Environment variable that lists plugins."""
HINT = "If a plugin has it, install that plugin, or name it with `mnemoscope --plugin`; see docs/extending.md."
"""Advice for errors about unknown names."""
WITHOUT_PLUGINS = "This run was made with a plugin. To import its code, if you trust it"
"""Beginning of the advice about a run whose plugins are not imported."""


class MissingPluginError(ValueError):
    """A run needs plugins that are not imported; a folder of someone else must not execute code.

    The message names the remedy in Python; the command line prints the command to type instead.
    """

    def __init__(self, reason: str, plugins: list[str]) -> None:
        self.reason, self.plugins = reason, plugins
        calls = ", ".join(f"mnemoscope.registry.use_plugin({name!r})" for name in plugins)
        super().__init__(f"{reason} {WITHOUT_PLUGINS}, call {calls} first.")

    def command(self, words: list[str]) -> str:
        """Return the command that imports the plugins and then does what the words request."""
        return shlex.join(["mnemoscope", *(word for name in self.plugins for word in ("--plugin", name)), *words])


_started: dict[str, None] = {}
"""Plugins that were imported, or are being imported."""


def use_plugin(name: str) -> None:
    """Import a plugin, a module or a `.py` file, in this process and in its child processes."""
    plugin = str(Path(name).resolve()) if name.endswith(".py") else name
    _load(plugin, "was requested")
    named = named_plugins()
    if plugin not in named:
        os.environ[VARIABLE] = os.pathsep.join([*named, plugin])


def load_plugins() -> None:
    """Import all plugins that are not imported yet."""
    for module, package in _installed(tuple((folder, _modified(folder)) for folder in sys.path)):
        _load(module, f"is an entry point of {package}")
    for name in named_plugins():
        _load(name, f"is in ${VARIABLE}")


def loaded_plugins() -> list[str]:
    """Return the plugins in use: names of modules, and absolute paths of files."""
    return list(_started)


def named_plugins() -> list[str]:
    """Return the plugins listed in the environment variable, without those of installed packages."""
    return [name for name in os.environ.get(VARIABLE, "").split(os.pathsep) if name]


@lru_cache(maxsize=1)
def _installed(folders: tuple[tuple[str, int], ...]) -> list[tuple[str, str]]:
    """Return the modules that installed packages name, each with its package.

    The search takes milliseconds, so it is repeated only when a folder of `sys.path` has changed.
    """
    points = entry_points(group=GROUP)
    return [(point.value, point.dist.name if point.dist else "a package") for point in points]


def _modified(folder: str) -> int:
    """Return when a package was last installed into a folder or removed from it, in nanoseconds."""
    try:
        return Path(folder or ".").stat().st_mtime_ns
    except OSError:
        return 0


def _load(name: str, why: str) -> None:
    if name in _started:
        return
    _started[name] = None  # before the import, which may itself ask a registry for a name
    try:
        _import_file(Path(name)) if name.endswith(".py") else import_module(name)
    except Exception as error:
        del _started[name]
        raise ImportError(
            f"The plugin {name!r}, which {why}, cannot be loaded: {type(error).__name__}: {error}"
        ) from error


def _import_file(path: Path) -> None:
    """Import a file as a module of the same name, by which entries refer to it."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    loaded = sys.modules.get(path.stem)
    if loaded is not None:
        if getattr(loaded, "__file__", None) is None or Path(str(loaded.__file__)).resolve() != path.resolve():
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
