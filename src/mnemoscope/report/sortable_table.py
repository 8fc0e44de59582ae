"""Tables that a reader sorts by any column and filters by words and groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mnemoscope.report.markup import render_template


@dataclass(frozen=True)
class Column:
    """A column of a table. Those of numbers are sorted from the largest on first."""

    heading: str
    numeric: bool = False
    title: str = ""
    """Explanation that appears under the pointer."""


@dataclass(frozen=True)
class Cell:
    """A cell of a table. All texts are plain and are escaped."""

    text: str
    key: str | float | None = None
    """Key by which the column is sorted; None: the text, or in a column of numbers an unknown one, which comes last."""
    note: str = ""
    """Small text behind the main one."""
    title: str = ""
    """Explanation that appears under the pointer."""
    level: float | None = None
    """Strength of the colour behind the text, from 0 to 1; None: no colour."""
    links: tuple[tuple[str, str], ...] = ()
    """Texts and addresses of links in place of the text; one without an address is plain text."""
    words: bool = False
    """Whether the text may be broken into lines."""


def sortable_table_markup(
    name: str,
    caption: str,
    columns: Sequence[Column],
    rows: Sequence[Sequence[Cell]],
    filters: Sequence[str] = (),
) -> str:
    """Return the markup of a table that can be sorted and filtered.

    Args:
        name: a name that no other element of the page has.
        caption: what the table shows.
        columns: its columns.
        rows: its cells; the first of each row is the row's heading.
        filters: headings of the columns for which the reader can choose one of the values that occur.

    """
    for row in rows:
        if len(row) != len(columns):
            raise ValueError(f"A row has {len(row)} cells, but the table {name!r} has {len(columns)} columns.")
    headings = [column.heading for column in columns]
    choices = []
    for heading in filters:
        place = headings.index(heading)
        choices.append((heading, place, sorted({row[place].text for row in rows})))
    shown = [
        [
            {
                "text": cell.text,
                "key": _key(cell, column.numeric),
                "note": cell.note,
                "title": cell.title,
                "level": cell.level,
                "links": cell.links,
                "words": cell.words,
            }
            for cell, column in zip(row, columns, strict=True)
        ]
        for row in rows
    ]
    return render_template(
        "sortable_table.html", name=name, caption=caption, columns=columns, rows=shown, filters=choices
    )


def _key(cell: Cell, numeric: bool) -> str:
    if cell.key is None:
        return "" if numeric else cell.text
    return f"{cell.key:.10g}" if isinstance(cell.key, float) else str(cell.key)
