"""Atomic file writes and folder locks. Imports no torch.

A file is written under a temporary name, synchronised and renamed: after a crash it is either complete or absent.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import get_ident
from typing import Any, BinaryIO

try:
    import fcntl
except ImportError:  # Windows has no fcntl: there, nothing keeps two processes from working in one folder
    fcntl = None

TEMPORARY_PREFIX = ".unfinished-"
"""Prefix of a file that is being written. Readers ignore such files, which a crash may leave behind."""


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a crash at any moment leaves either the old file or the new one, complete."""
    temporary = path.with_name(f"{TEMPORARY_PREFIX}{os.getpid()}-{get_ident()}-{path.name}")
    try:
        temporary.unlink(missing_ok=True)  # of a crashed process with the same number
        with open_unlinked(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_output(path: str | Path, content: bytes) -> None:
    """Write a file that the user named, and create its folder.

    A link or a device such as /dev/stdout is written through, as any program does; a file is written atomically.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink() or (path.exists() and not path.is_file()):
        path.write_bytes(content)
    else:
        write_atomically(path, content)


def write_between(path: str | Path, marks: tuple[str, str], text: str) -> None:
    """Write a text between two marks of a file, in place of what is there; raise if the file has no such marks."""
    path = Path(path)
    before, begin, rest = path.read_text(encoding="utf-8").partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not begin or not end:
        raise ValueError(
            f"{path} has no place for the text: it must have the marks {marks[0]} and {marks[1]}, between which it is "
            f"written. Add them, or name another file."
        )
    write_output(path, f"{before}{begin}{text}{end}{after}".encode())


def write_marked(path: str | Path, marks: tuple[str, str], text: str) -> Path:
    """Write a text between two marks into a new file, or between those of an existing one, and return the path.

    An existing file without the marks is refused: somebody may have written it by hand.
    """
    path = Path(path)
    if path.is_file():
        write_between(path, marks, f"\n{text}\n")
    else:
        write_output(path, f"{marks[0]}\n{text}\n{marks[1]}\n".encode())
    return path


def open_unlinked(path: Path, flags: int) -> BinaryIO:
    """Open a file for writing, with the flags of `os.open`; refuse a link, a pipe or a device.

    A link may lead out of the folder of the file. A file with further hard links is replaced by a copy.
    """
    separate(path)
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # Windows has none; a pipe would wait
    try:
        descriptor = os.open(path, flags | getattr(os, "O_CLOEXEC", 0), 0o666)
    except OSError:
        refuse_link(path)
        raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError(f"{path} is a pipe or a device, and not a file. Remove it.")
    except BaseException:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "ab" if flags & os.O_APPEND else "wb")


def separate(path: Path) -> None:
    """Replace a file that has further names (hard links) by a copy, which can be changed without changing those."""
    with suppress(FileNotFoundError):
        status = path.lstat()
        if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
            write_atomically(path, path.read_bytes())


def refuse_link(path: Path) -> None:
    """Raise if the path is a symbolic link, a pipe or a device: a file of a run is never written through one."""
    if path.is_symlink():
        raise ValueError(
            f"{path} is a symbolic link to {path.readlink()}, and files of a run are not written through links. "
            f"Replace the link by the file itself, or remove it."
        )
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise ValueError(f"{path} is a pipe or a device, and not a file. Remove it.")


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a readable JSON file: indented, keys in their given order, a list of numbers on one line."""
    write_atomically(path, (_indented(content) + "\n").encode())


def _indented(content: Any, margin: str = "") -> str:
    inner = margin + "  "
    if isinstance(content, Mapping) and content:
        lines = [f"{inner}{json.dumps(str(name))}: {_indented(value, inner)}" for name, value in content.items()]
        return "{\n" + ",\n".join(lines) + f"\n{margin}}}"
    if isinstance(content, (list, tuple)) and any(isinstance(value, (Mapping, list, tuple)) for value in content):
        return "[\n" + ",\n".join(inner + _indented(value, inner) for value in content) + f"\n{margin}]"
    return json.dumps(content, allow_nan=False)


@contextmanager
def lock_folder(folder: Path, activity: str) -> Generator[None]:
    """Create a folder and hold an exclusive lock on it while the context lasts.

    Args:
        folder: the folder to lock.
        activity: what the lock holder does, such as "training"; a second process raises with this word.

    """
    folder.mkdir(parents=True, exist_ok=True)
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BlockingIOError(f"Another process is {activity} in {folder}. Wait for it, or stop it.") from None
        except OSError:
            pass  # some network file systems have no locks
        yield
    finally:
        os.close(handle)
