"""Write a table to a file for other programs."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

from mnemoscope.base.files import write_output
from mnemoscope.base.lazy_imports import import_extra
from mnemoscope.base.terminal import printable

_FORMULA = {*"=+-@\t\r\n＝＋－＠"}
"""Characters with which a formula of a spreadsheet begins."""
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?")


def write_csv(path: str | Path, rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> Path:
    """Write comma-separated values with a header line; an unknown value is an empty cell.

    A text that a spreadsheet would take for a formula gets an apostrophe in front. `columns` names
    the columns of a table without rows.
    """
    text = StringIO(newline="")
    columns = list(rows[0]) if rows else list(columns)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_cell, columns))
    writer.writerows([_cell(row[column]) for column in columns] for row in rows)
    return _write(path, text.getvalue().encode(errors="replace"))


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


def _cell(value: Any) -> Any:
    r"""Return the value of a cell, which never begins a formula and contains no escape sequence.

    >>> _cell("=1+1"), _cell("-1.5e-3"), _cell(-1), _cell("\x1b[31m=1+1")
    ("'=1+1", '-1.5e-3', -1, "'=1+1")
    """
    if not isinstance(value, str):
        return value
    begins_formula = value[:1] in _FORMULA and not _NUMBER.fullmatch(value)  # also a carriage return, removed below
    value = printable(value)
    begins_formula |= value[:1] in _FORMULA and not _NUMBER.fullmatch(value)
    return f"'{value}" if begins_formula else value


def _same_type(values: Sequence[Any]) -> list[Any]:
    """Return values of one type that Parquet has; an integer of more than 64 bits becomes a float."""
    types = {
        float if isinstance(value, int) and not -(2**63) <= value < 2**63 else type(value)
        for value in values
        if value is not None
    }
    if types == {str}:
        return [None if value is None else value.encode(errors="replace").decode() for value in values]
    if len(types) < 2 and types != {float}:
        return list(values)
    convert = float if types <= {int, float} else str
    return [None if value is None else convert(value) for value in values]


def _write(path: str | Path, content: bytes) -> Path:
    write_output(path, content)
    return Path(path)
