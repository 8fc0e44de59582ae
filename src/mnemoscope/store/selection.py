"""Select rows and columns of a table, and sort it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from mnemoscope.base.suggestions import did_you_mean

Table = list[dict[str, Any]]

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {"<=": le, ">=": ge, "!=": ne, "=": eq, "<": lt, ">": gt}


def select(
    rows: Sequence[Mapping[str, Any]],
    where: Sequence[str] = (),
    sort: str | None = None,
    *,
    descending: bool = False,
    columns: Sequence[str] | None = None,
) -> Table:
    """Return the rows that meet every condition, sorted, with some of their columns.

    A condition is a column, one of = != < <= > >=, and a value: `accuracy>0.9`, `cell=gru`, `clip=none`. A row without
    a value meets only `=none` and `!=`, and comes last when the rows are sorted.

    >>> rows = [{"cell": "gru", "loss": 0.2}, {"cell": "lstm", "loss": 0.1}, {"cell": "gru", "loss": None}]
    >>> select(rows, ["cell=gru", "loss<0.5"])
    [{'cell': 'gru', 'loss': 0.2}]
    >>> [row["loss"] for row in select(rows, sort="loss")]
    [0.1, 0.2, None]
    >>> select(rows, ["cel=gru"])
    Traceback (most recent call last):
    ValueError: There is no column 'cel'. Did you mean 'cell'? There are cell, loss.
    """
    if descending and sort is None:
        raise ValueError("A descending order needs a column to sort by (`--sort`).")
    known = list(dict.fromkeys(column for row in rows for column in row))
    if not rows:  # the names of the columns are unknown, so they cannot be checked
        return []
    conditions = [_condition(text, known, rows) for text in where]
    chosen = [dict(row) for row in rows if all(condition(row) for condition in conditions)]
    if sort is not None:
        column = _known(sort, known)
        with_value = [row for row in chosen if row.get(column) is not None]
        with_value.sort(key=lambda row: _order(row[column]), reverse=descending)
        chosen = with_value + [row for row in chosen if row.get(column) is None]
    if columns is not None:
        wanted = [_known(column, known) for column in columns]
        chosen = [{column: row.get(column) for column in wanted} for row in chosen]
    return chosen


def differing_columns(rows: Sequence[Mapping[str, Any]], columns: Collection[str]) -> list[str]:
    """Return the columns in which the rows differ.

    >>> differing_columns([{"cell": "gru", "seed": 0}, {"cell": "gru", "seed": 1}], ["cell", "seed"])
    ['seed']
    """
    return [column for column in columns if len({repr(row.get(column)) for row in rows}) > 1]


def _condition(
    text: str, known: Sequence[str], rows: Sequence[Mapping[str, Any]]
) -> Callable[[Mapping[str, Any]], bool]:
    """Return the function that checks a condition, given as text, on a row."""
    parts = re.fullmatch(r"\s*([^<>=!]+?)\s*(<=|>=|!=|==?|<|>)\s*([^<>=!]*?)\s*", text)
    if parts is None:
        raise ValueError(
            f"{text!r} is not a condition: a column, one of = != < <= > >= and a value were expected, such as "
            f"'accuracy>0.9'. Columns are {', '.join(known)}."
        )
    column, sign, value = _known(parts[1], known), parts[2].replace("==", "="), parts[3]
    compare, number = _COMPARISONS[sign], _number(value)
    if sign in ("=", "!="):
        return lambda row: compare(_equals(row.get(column), value, number), True)
    if number is None:
        raise ValueError(f"{text!r} compares with {value!r}, but {sign} needs a number.")
    if not any(_is_number(row.get(column)) for row in rows):
        raise ValueError(f"{text!r} needs numbers, but {column} holds none; use = or !=.")
    return lambda row: _is_number(row.get(column)) and compare(row[column], number)


def _equals(cell: Any, text: str, number: float | None) -> bool:
    """Whether a cell of the table equals the value of a condition, given as text and, if it is one, as a number."""
    if _is_number(cell):
        return number is not None and cell == number
    if cell is None or isinstance(cell, bool):
        return str(cell).lower() == text.lower()
    return str(cell) == text


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: str) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None


def _order(value: Any) -> tuple[bool, Any]:
    """Sort key that puts numbers before text."""
    return (False, value) if isinstance(value, int | float) else (True, str(value))


def _known(column: str, known: Sequence[str]) -> str:
    """Return the column if it exists; raise otherwise."""
    if column not in known:
        raise ValueError(f"There is no column {column!r}.{did_you_mean(column, known)} There are {', '.join(known)}.")
    return column
