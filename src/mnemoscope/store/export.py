"""Write a table to a file for other programs."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

from mnemoscope.base.files import write_atomically
from mnemoscope.base.lazy_imports import import_extra


def write_csv(path: str | Path, rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> Path:
    """Write comma-separated values with a header line; an unknown value is an empty cell.

    `columns` names the columns of a table without rows.
    """
    text = StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]) if rows else list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return _write(path, text.getvalue().encode())


def write_parquet(path: str | Path, rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> Path:
    """Write Apache Parquet with pyarrow; a column with values of several types becomes a column of strings.

    `columns` names the columns of a table without rows.
    """
    pyarrow, parquet = (import_extra(name, "table", "Parquet needs") for name in ("pyarrow", "pyarrow.parquet"))
    columns = list(rows[0]) if rows else columns
    table = pyarrow.table({column: _same_type([row[column] for row in rows]) for column in columns})
    content = BytesIO()
    parquet.write_table(table, content)
    return _write(path, content.getvalue())


def _same_type(values: Sequence[Any]) -> list[Any]:
    types = {type(value) for value in values if value is not None}
    if len(types) < 2:
        return list(values)
    convert = float if types == {int, float} else str
    return [None if value is None else convert(value) for value in values]


def _write(path: str | Path, content: bytes) -> Path:
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content)
    return path
