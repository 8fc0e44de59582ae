"""Files that are either whole or not there: written beside, synchronised, then moved into place. Imports no torch."""

from __future__ import annotations

import os
from pathlib import Path
from threading import get_ident

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
