"""Files that are either whole or not there: written beside, synchronised, then moved into place. Imports no torch."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import get_ident
from typing import Any

try:
    import fcntl
except ImportError:  # Windows: nothing keeps two processes from working in one folder
    fcntl = None

DEBRIS = ".unfinished-"
"""Prefix of a file that is being written; what is left of it after a crash is ignored."""


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file such that after a crash, at any moment, the old or the new one is there, whole."""
    beside = path.with_name(f"{DEBRIS}{os.getpid()}-{get_ident()}-{path.name}")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """A JSON file for people: indented, in order, a list of numbers on one line."""
    write_atomically(path, (_indented(content) + "\n").encode())


def _indented(content: Any, margin: str = "") -> str:
    inner = margin + "  "
    if isinstance(content, Mapping) and content:
        lines = [f"{inner}{json.dumps(str(name))}: {_indented(value, inner)}" for name, value in content.items()]
        return "{\n" + ",\n".join(lines) + f"\n{margin}}}"
    if isinstance(content, (list, tuple)) and any(isinstance(value, (Mapping, list, tuple)) for value in content):
        return "[\n" + ",\n".join(inner + _indented(value, inner) for value in content) + f"\n{margin}]"
    return json.dumps(content, allow_nan=False)


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a JSON file: {error}. Was it cut short or edited?") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} should hold a JSON object, but holds a {type(content).__name__}.")
    return content


@contextmanager
def claimed(folder: Path, doing: str) -> Iterator[None]:
    """Keep other processes from `doing` the same in this folder for as long as the context lasts."""
    folder.mkdir(parents=True, exist_ok=True)
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BlockingIOError(f"Another process is {doing} in {folder}. Wait for it, or stop it.") from None
        except OSError:
            pass  # some network file systems have no locks
        yield
    finally:
        os.close(handle)
