"""Choose among rows of a table: which, in what order, and which columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from operator import eq, ge, gt, le, lt, ne
from typing import Any

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
    """The rows that fulfil every condition, sorted, with some of their columns.

    A condition is a column, one of = != < <= > >=, and a value: `accuracy>0.9`, `cell=gru`, `clip=none`. A row of which
    a value is not known fulfils none but `=none` and `!=`. Sorted, such rows come last.

    >>> rows = [{"cell": "gru", "loss": 0.2}, {"cell": "lstm", "loss": 0.1}, {"cell": "gru", "loss": None}]
    >>> select(rows, ["cell=gru", "loss<0.5"])
    [{'cell': 'gru', 'loss': 0.2}]
    >>> [row["loss"] for row in select(rows, sort="loss")]
    [0.1, 0.2, None]
    >>> select(rows, ["cel=gru"])
    Traceback (most recent call last):
    ValueError: There is no column 'cel'; did you mean 'cell'? There are cell, loss.
    """
    if descending and sort is None:
        raise ValueError("Descending needs a column to sort by (`--sort`).")
    known = list(dict.fromkeys(column for row in rows for column in row))
    if not rows:  # nothing is known of what could be asked for
        return []
    conditions = [_condition(words, known, rows) for words in where]
    chosen = [dict(row) for row in rows if all(holds(row) for holds in conditions)]
    if sort is not None:
        column = _known(sort, known)
        there = [row for row in chosen if row.get(column) is not None]
        there.sort(key=lambda row: _order(row[column]), reverse=descending)
        chosen = there + [row for row in chosen if row.get(column) is None]
    if columns is not None:
        wanted = [_known(column, known) for column in columns]
        chosen = [{column: row.get(column) for column in wanted} for row in chosen]
    return chosen


def differing(rows: Sequence[Mapping[str, Any]], columns: Collection[str]) -> list[str]:
    """Those columns in which the rows differ.

    >>> differing([{"cell": "gru", "seed": 0}, {"cell": "gru", "seed": 1}], ["cell", "seed"])
    ['seed']
    """
    return [column for column in columns if len({repr(row.get(column)) for row in rows}) > 1]


def _condition(
    words: str, known: Sequence[str], rows: Sequence[Mapping[str, Any]]
) -> Callable[[Mapping[str, Any]], bool]:
    parts = re.fullmatch(r"\s*([^<>=!]+?)\s*(<=|>=|!=|==?|<|>)\s*([^<>=!]*?)\s*", words)
    if parts is None:
        raise ValueError(
            f"{words!r} is not a condition: a column, one of = != < <= > >= and a value were expected, such as "
            f"'accuracy>0.9'. Columns are {', '.join(known)}."
        )
    column, sign, value = _known(parts[1], known), parts[2].replace("==", "="), parts[3]
    compare, number = _COMPARISONS[sign], _number(value)
    if sign in ("=", "!="):
        return lambda row: compare(_is(row.get(column), value, number), True)
    if number is None:
        raise ValueError(f"{words!r} compares with {value!r}, but {sign} needs a number.")
    if not any(_is_number(row.get(column)) for row in rows):
        raise ValueError(f"{words!r} needs numbers, but {column} holds none; compare it by = or !=.")
    return lambda row: _is_number(row.get(column)) and compare(row[column], number)


def _is(held: Any, value: str, number: float | None) -> bool:
    if _is_number(held):
        return number is not None and held == number
    if held is None or isinstance(held, bool):
        return str(held).lower() == value.lower()
    return str(held) == value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: str) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None


def _order(value: Any) -> tuple[bool, Any]:
    """Numbers before words."""
    return (False, value) if isinstance(value, int | float) else (True, str(value))


def _known(column: str, known: Sequence[str]) -> str:
    if column not in known:
        near = get_close_matches(column, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise ValueError(f"There is no column {column!r}{hint} There are {', '.join(known)}.")
    return column
