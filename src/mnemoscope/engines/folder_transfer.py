"""The folder of a job on its way between machines, as an archive of all files or of those that have changed."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from mnemoscope.base.files import TEMPORARY_PREFIX

LAST = "trial.json"
"""File whose presence marks a folder as complete."""


class FolderChanges:
    """Changes of a folder since they were last packed; at first, since this object was made.

    A job may write in the folder meanwhile. Each file is archived as it was at one moment, the files in the order of
    their names. So the checkpoint of a training comes before its metrics, which then reach at least as far.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._known = folder, _versions(folder)

    def pack(self) -> tuple[bytes, list[str]]:
        """Return an archive of the files that are new or have changed, and the names of those that are gone.

        The archive is empty bytes without such a file.
        """
        before, self._known = self._known, _versions(self._folder)
        changed = {name: version for name, version in self._known.items() if before.get(name) != version}
        return (_archive(self._folder, changed) if changed else b""), sorted(before.keys() - self._known.keys())


def pack_folder(folder: Path) -> bytes:
    """Return all files below a folder as an archive; an absent folder gives an empty archive."""
    return _archive(folder, _versions(folder))


def unpack_folder(content: bytes, folder: Path, removed: Iterable[str] = ()) -> None:
    """Unpack an archive below a folder, which is created if absent, each file atomically, and delete those `removed`.

    Files named `LAST` are moved into place after all others, so that their presence marks a complete folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in removed:
        (folder / name).unlink(missing_ok=True)
    if not content:
        return
    with TemporaryDirectory(prefix=TEMPORARY_PREFIX, dir=folder) as temporary:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
            archive.extractall(temporary, filter="data")
        files = [path.relative_to(temporary) for path in _files(Path(temporary))]
        for path in sorted(files, key=lambda path: path.name == LAST):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            Path(temporary, path).replace(folder / path)


def _archive(folder: Path, versions: Mapping[str, tuple[int, ...]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, (changed, *_) in versions.items():
            try:
                content = (folder / name).read_bytes()  # at once: a file may be replaced between its size and its end
            except FileNotFoundError:
                continue  # deleted since the folder was listed
            header = tarfile.TarInfo(name)
            header.size, header.mtime = len(content), changed / 1e9
            archive.addfile(header, io.BytesIO(content))
    return buffer.getvalue()


def _versions(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return time of change (ns), size and number of each file below a folder, in the order of their names.

    A file that is replaced twice within one tick of the clock may have the same time and size, but another number.
    """
    found = {}
    for path in _files(folder):
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        found[path.relative_to(folder).as_posix()] = (status.st_mtime_ns, status.st_size, status.st_ino)
    return found


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder, without those that are being written."""
    return (path for path in sorted(folder.rglob("*")) if path.is_file() and not _is_temporary(path, folder))


def _is_temporary(path: Path, folder: Path) -> bool:
    return any(part.startswith(TEMPORARY_PREFIX) for part in path.relative_to(folder).parts)
