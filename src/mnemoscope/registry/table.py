"""Read registry entries from a table of text, two or three lines each.

An entry begins at the left margin and continues on indented lines. A bar or the end of a line ends a column. The
columns are, in this order:

- name: how the command line, configurations and pages call it;
- summary: one line on what it is;
- source: where it was published, as `citations.Source` prints it, or "mnemoscope";
- target: the `module:attribute` or `module:table[key]` that holds it;
- cites: keys into `references.bib`, separated by spaces;
- tags, separated by commas (optional);
- sections: for a lens, the `module:function` that writes its sections of a network's page (optional).
"""

from __future__ import annotations

import re

from mnemoscope.registry.entry import Entry

_REQUIRED, _ALL = 5, 7
"""Number of columns that every entry has, and number of all columns."""


def read_entries(table: str) -> dict[str, Entry]:
    r"""Return the entries of a table by name.

    >>> entries = read_entries("clock | shows the time\n    Huygens 1673, I | time:time | huygens1673 | brass, old")
    >>> entries["clock"].source, entries["clock"].cites, entries["clock"].tags
    ('Huygens 1673, I', ('huygens1673',), ('brass', 'old'))
    """
    entries: dict[str, Entry] = {}
    for record in re.split(r"\n(?=\S)", table.strip()):
        columns = [column.strip() for column in re.split(r"[|\n]", record)]
        if not _REQUIRED <= len(columns) <= _ALL:
            raise ValueError(
                f"The entry {columns[0]!r} has {len(columns)} columns, but {_REQUIRED} to {_ALL} were expected: name, "
                f"summary, source, target, cites, tags, sections."
            )
        name, summary, source, target, cites, tags, sections = [*columns, "", ""][:_ALL]
        if name in entries:
            raise ValueError(f"The table has two entries named {name!r}.")
        entries[name] = Entry(
            name, summary, source, target, tuple(filter(None, tags.split(", "))), tuple(cites.split()), sections
        )
    return entries
