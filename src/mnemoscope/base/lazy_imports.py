"""Packages whose names are imported when they are first used."""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def on_first_use(package: str, file: str) -> Callable[[str], Any]:
    """The `__getattr__` of a package (PEP 562) whose names stand once, in the imports under its `if TYPE_CHECKING:`.

    Args:
        package: its `__name__`.
        file: its `__file__`.

    """
    found = {}
    for block in ast.parse(Path(file).read_text(encoding="utf-8")).body:
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING":
            for line in block.body:
                if isinstance(line, ast.ImportFrom) and line.module:
                    found |= {each.name: line.module for each in line.names}

    def get(name: str) -> Any:
        if name not in found:
            raise AttributeError(f"{package} has no attribute {name!r}")
        if found[name] == package:
            return import_module(f"{package}.{name}")
        return getattr(import_module(found[name]), name)

    return get


def import_report_extra(module: str) -> Any:
    """Import and return a module of the `report` extra; raise an ImportError with the command that installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f"Figures and pages need {package}: pip install 'mnemoscope[report]'.") from error
