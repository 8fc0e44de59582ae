"""metrics.jsonl: one JSON object per evaluation."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from mnemoscope.base.files import open_unlinked
from mnemoscope.base.reading import checked_json, read_text
from mnemoscope.store.schemas import METRICS_LIMIT, MetricsLine


class MetricsFile:
    """metrics.jsonl, open for appending lines; the path is None in a process that writes nothing.

    `size` is the number of bytes at the checkpoint from which the run continues; later lines are removed.
    """

    def __init__(self, path: Path | None, size: int) -> None:
        self._file = None
        if path is None:
            return
        self._file = open_unlinked(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        present = self._file.tell()
        if present < size:
            self._file.close()
            raise ValueError(
                f"{path} has {present} bytes, but {size} when the checkpoint was made: it was cut short since. Start "
                f"the run again with overwrite=True."
            )
        self._file.truncate(size)
        self._file.seek(size)

    def __enter__(self) -> MetricsFile:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def write(self, line: dict[str, Any]) -> None:
        """Append a line and flush it."""
        if self._file is not None:
            self._file.write((json.dumps(line) + "\n").encode())
            self._file.flush()

    def synchronise(self) -> int:
        """Force the lines onto the disk, and return the size of the file in bytes."""
        assert self._file is not None  # only the process that writes the file makes checkpoints
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._file.tell()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a metrics.jsonl, in order; none if there is no such file."""
    if not path.exists():
        return []
    lines = enumerate(read_text(path, METRICS_LIMIT).splitlines(), start=1)
    return [checked_json(line, f"Line {number} of {path}", MetricsLine) for number, line in lines]
