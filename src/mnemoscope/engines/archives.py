"""Folders as compressed archives in memory, for machines without a shared file system."""

from __future__ import annotations

import io
import shutil
import tarfile
from pathlib import Path
from tempfile import mkdtemp

from mnemoscope.base.files import TEMPORARY_PREFIX


def pack_folder(folder: Path) -> bytes:
    """Return all files below a folder as an archive; an absent folder gives an empty archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.name.startswith(TEMPORARY_PREFIX):
                archive.add(path, path.relative_to(folder).as_posix(), recursive=False)
    return buffer.getvalue()


def unpack_folder(content: bytes, folder: Path, last: str) -> None:
    """Unpack an archive below a folder, each file atomically.

    Args:
        content: the archive from `pack_folder`.
        folder: the folder, created if absent.
        last: name of the file that is moved into place after all others, so that its presence marks a complete folder.

    """
    folder.mkdir(parents=True, exist_ok=True)
    temporary = Path(mkdtemp(prefix=TEMPORARY_PREFIX, dir=folder))
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
            archive.extractall(temporary, filter="data")
        files = [path.relative_to(temporary) for path in sorted(temporary.rglob("*")) if path.is_file()]
        for path in sorted(files, key=lambda path: path.name == last):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (temporary / path).replace(folder / path)
    finally:
        shutil.rmtree(temporary)
