"""Imports on first use: lazy package attributes and optional dependencies."""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def lazy_attributes(package: str, file: str) -> Callable[[str], Any]:
    """Return a `__getattr__` (PEP 562) that imports the names listed under `if TYPE_CHECKING:` on first use.

    The imports in that block are the only list of the package's names; this function reads it from the source.

    Args:
        package: the package's `__name__`.
        file: the package's `__file__`.

    """
    modules = {}
    for block in ast.parse(Path(file).read_text(encoding="utf-8")).body:
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING":
            for line in block.body:
                if isinstance(line, ast.ImportFrom) and line.module:
                    modules |= {alias.name: line.module for alias in line.names}

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"{package} has no attribute {name!r}")
        if modules[name] == package:
            return import_module(f"{package}.{name}")
        return getattr(import_module(modules[name]), name)

    return get


def import_extra(module: str, extra: str, purpose: str) -> Any:
    """Import and return a module of an optional dependency; raise an ImportError with the command that installs it.

    Args:
        module: the module's dotted name.
        extra: the extra of this package that installs it.
        purpose: subject and verb of the error message, such as "Figures and pages need".

    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f"{purpose} {package}: pip install 'mnemoscope[{extra}]'.") from error


def import_report_extra(module: str) -> Any:
    """Import and return a module of the `report` extra (see `import_extra`)."""
    return import_extra(module, "report", "Figures and pages need")
