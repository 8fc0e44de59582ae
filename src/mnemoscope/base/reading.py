"""Read files that may be damaged, or made to do harm. Imports no torch.

Only regular files are opened, and only up to a size: a pipe would block, and a device has no end. What is not plain
data of bounded depth and size is refused. An error is a ValueError that names the file and the reason, or an OSError.
"""

from __future__ import annotations

import json
import os
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from mnemoscope.base.schema import checked

TEXT_LIMIT = 1 << 26
"""Largest JSON or TOML file that is read, in bytes. The largest result of a study has about 1 MB."""
DEEPEST = 50
"""Largest depth of lists and objects inside each other."""
LARGEST = 10**100
"""Integers of this absolute value and more are refused; every smaller one can be a float."""
_PLAIN = {dict, list, str, int, float, bool, type(None)}
_TOO_DEEP = "its lists or objects are too deeply nested"


def open_regular(path: str | Path) -> BinaryIO:
    """Open a regular file to read bytes; a folder, a pipe or a device is refused without waiting for it."""
    _check_regular(path, Path(path).stat().st_mode)  # a device may react to being opened
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        _check_regular(path, os.fstat(handle).st_mode)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def _check_regular(path: str | Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe, a socket or a device"
        raise ValueError(f"{path} is {kind}; a file was expected.")


def read_bytes(path: str | Path, limit: int = TEXT_LIMIT) -> bytes:
    """Return the content of a regular file of at most `limit` bytes."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size <= limit:
            content = file.read(limit + 1)  # the file may grow, and those of /proc have size 0
            size = len(content)
            if size <= limit:
                return content
    raise ValueError(f"{path} is too large: it has more than {limit:,} bytes.")


def read_end(path: str | Path, limit: int) -> bytes:
    """Return the last `limit` bytes of a regular file, or all if it has fewer."""
    with open_regular(path) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - limit))
        return file.read(limit)


def read_text(path: str | Path, limit: int = TEXT_LIMIT) -> str:
    """Return the text of a regular file of at most `limit` bytes."""
    content = read_bytes(path, limit)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a text file: {error}. Was it cut short or edited?") from error


def read_json(path: str | Path, schema: Any = dict[str, Any]) -> Any:
    """Return the content of a JSON file, which has the types of a schema; by default it is any JSON object."""
    return checked_json(read_bytes(path), path, schema)


def checked_json(text: str | bytes, where: str | Path, schema: Any = dict[str, Any]) -> Any:
    """Return the content of a JSON text, which has the types of a schema; `where` names the text in errors."""
    content = _parsed(json.loads, text, where, "JSON")
    try:
        return checked(content, schema)
    except ValueError as error:
        raise ValueError(
            f"{where} does not hold what was expected: {error}. It was edited, or written by another version of "
            f"mnemoscope."
        ) from error


def read_toml(path: str | Path) -> dict[str, Any]:
    """Return the content of a TOML file; raises ValueError if it is not one."""
    return _parsed(tomllib.loads, read_bytes(path), path, "TOML")


def _parsed(parse: Callable[[str], Any], text: str | bytes, where: str | Path, form: str) -> Any:
    try:
        content = parse(text if isinstance(text, str) else text.decode("utf-8"))
    except RecursionError:
        raise ValueError(f"{where} is not a {form} file of mnemoscope: {_TOO_DEEP}.") from None
    except ValueError as error:
        raise ValueError(f"{where} is not a {form} file: {error}. Was it cut short or edited?") from error
    if reason := _not_plain(content):
        raise ValueError(f"{where} is not a {form} file of mnemoscope: {reason}.")
    return content


def _not_plain(content: Any) -> str:
    """Return why the content is not plain data that every reader can use; "" if it is."""
    level = [content]
    for _ in range(DEEPEST + 1):  # one depth after the other, since a step for each value would take seconds
        kinds = {*map(type, level)}
        if others := kinds - _PLAIN:
            return f"it holds a {others.pop().__name__}"
        if int in kinds and any(type(value) is int and abs(value) >= LARGEST for value in level):
            return "it holds an integer of more than 100 digits"
        if str in kinds and not _encodes("".join(value for value in level if type(value) is str)):
            return "it holds text that is not Unicode"
        inner: list[Any] = []
        for value in level if kinds & {list, dict} else []:
            if type(value) is list:
                inner += value
            elif type(value) is dict:
                inner += value
                inner += value.values()
        if not inner:
            return ""
        level = inner
    return _TOO_DEEP


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True
