"""Folders as bytes, for machines that do not see each other's files."""

from __future__ import annotations

import io
import shutil
import tarfile
from pathlib import Path
from tempfile import mkdtemp

from mnemoscope.base.files import DEBRIS


def packed(folder: Path) -> bytes:
    """All files below a folder; of one that is not there, none."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.name.startswith(DEBRIS):
                archive.add(path, path.relative_to(folder).as_posix(), recursive=False)
    return buffer.getvalue()


def unpack(content: bytes, folder: Path, last: str) -> None:
    """Put packed files below a folder, each at once and whole, the one with the name `last` after all others: who sees
    it sees the rest.
    """
    folder.mkdir(parents=True, exist_ok=True)
    beside = Path(mkdtemp(prefix=DEBRIS, dir=folder))
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
            archive.extractall(beside, filter="data")
        files = [path.relative_to(beside) for path in sorted(beside.rglob("*")) if path.is_file()]
        for path in sorted(files, key=lambda path: path.name == last):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (beside / path).replace(folder / path)
    finally:
        shutil.rmtree(beside)
