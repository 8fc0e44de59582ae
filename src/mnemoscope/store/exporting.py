"""A table as a file for other programs."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

from mnemoscope.base.files import write_atomically


def write_csv(path: str | Path, rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> Path:
    """Comma-separated values with a line of names; what is not known is empty. `columns` are those of no rows."""
    text = StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]) if rows else list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return _write(path, text.getvalue().encode())


def write_parquet(path: str | Path, rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> Path:
    """Apache Parquet, by pyarrow; a column of several kinds of values becomes one of words. `columns` are those of no
    rows.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError("Parquet needs pyarrow: pip install 'mnemoscope[table]'.") from error
    columns = list(rows[0]) if rows else columns
    table = pyarrow.table({column: _alike([row[column] for row in rows]) for column in columns})
    content = BytesIO()
    parquet.write_table(table, content)
    return _write(path, content.getvalue())


def _alike(values: Sequence[Any]) -> list[Any]:
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) < 2:
        return list(values)
    as_one = float if kinds == {int, float} else str
    return [None if value is None else as_one(value) for value in values]


def _write(path: str | Path, content: bytes) -> Path:
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content)
    return path
