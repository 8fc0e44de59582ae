"""Registry tables: every entry is complete, and its target can be loaded."""

import pytest

from mnemoscope import registry
from mnemoscope.registry.table import read_entries

ENTRIES = [(kind, entry) for kind, entries in registry.REGISTRIES.items() for entry in entries.entries.values()]


@pytest.mark.parametrize(("kind", "entry"), ENTRIES, ids=lambda value: getattr(value, "name", value))
def test_an_entry_is_complete_and_loads(kind, entry):
    assert entry.name
    assert entry.summary
    assert not entry.summary.endswith(".")
    assert entry.source
    assert entry.cites
    assert entry.load() is not None
    if entry.sections:
        assert callable(entry.load_sections())


@pytest.mark.parametrize("kind", registry.REGISTRIES)
def test_no_two_entries_have_the_same_summary_and_target(kind):
    entries = registry.REGISTRIES[kind].entries.values()
    assert len({(entry.summary, entry.target) for entry in entries}) == len(entries)


def test_a_table_keeps_the_order_and_all_columns():
    entries = read_entries("""
one | first
    A 2000, Fig 1 | json:loads | a2000 b2001 | big, round | json:dumps
two | second | B 2001
    json:dumps | b2001
""")
    assert list(entries) == ["one", "two"]
    one, two = entries.values()
    assert (one.summary, one.source, one.target) == ("first", "A 2000, Fig 1", "json:loads")
    assert (one.cites, one.tags, one.sections) == (("a2000", "b2001"), ("big", "round"), "json:dumps")
    assert (two.source, two.cites, two.tags, two.sections) == ("B 2001", ("b2001",), (), "")


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ("one | first | source", "'one' has 3 columns"),
        ("one | first | source | json:loads | a | tag | json:loads | more", "'one' has 8 columns"),
        ("one | a | b | c:d | e\none | a | b | c:d | e", "two entries named 'one'"),
    ],
)
def test_a_damaged_table_is_refused(table, reason):
    with pytest.raises(ValueError, match=reason):
        read_entries(table)
