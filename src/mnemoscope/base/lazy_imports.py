"""Imports on first use: lazy package attributes, objects named by text, and optional dependencies.

`import mnemoscope` imports this module, which therefore imports little itself: Ctrl-C at that moment shows a traceback.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as in `typing`, whose import takes 20 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def lazy_attributes(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` (PEP 562) of a package that imports its names on first use.

    The imports under `if TYPE_CHECKING:` are the only list of these names; this function reads it from the source.
    `__all__` is one more attribute, so that `from package import *` works too.
    """
    found: dict[str, str] = {}

    def names() -> dict[str, str]:
        found.update({} if found else _imports_for_type_checkers(file))
        return found

    def get(name: str) -> Any:
        modules = names()
        if name == "__all__":
            return [*modules]
        if name not in modules:
            raise AttributeError(f"{package} has no attribute {name!r}")
        if modules[name] == package:
            return import_module(f"{package}.{name}")
        return getattr(import_module(modules[name]), name)

    return get, lambda: [*names()]


def _imports_for_type_checkers(file: str) -> dict[str, str]:
    """Return the names that a source file imports under `if TYPE_CHECKING:`, each with its module."""
    import ast
    from pathlib import Path

    modules = {}
    for block in ast.parse(Path(file).read_text(encoding="utf-8")).body:
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING":
            for line in block.body:
                if isinstance(line, ast.ImportFrom) and line.module:
                    modules |= {alias.name: line.module for alias in line.names}
    return modules


def load_object(target: str) -> Any:
    """Import and return the object that `module:attribute` or `module:table[key]` names.

    >>> load_object("string:digits"), load_object("html.entities:name2codepoint[lt]")
    ('0123456789', 60)
    """
    module, _, attribute = target.partition(":")
    name, _, key = attribute.removesuffix("]").partition("[")
    value = getattr(import_module(module), name)
    return value[key] if key else value


def import_extra(module: str, extra: str, purpose: str) -> Any:
    """Import and return a module of an optional dependency; raise an ImportError with the command that installs it.

    `extra` is the extra of this package that installs it, and `purpose` is subject and verb of the error message.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise type(error)(f"{purpose} {package}: pip install 'mnemoscope[{extra}]'.") from error


def import_report_extra(module: str) -> Any:
    """Import and return a module of the `report` extra (see `import_extra`)."""
    return import_extra(module, "report", "Figures and pages need")
