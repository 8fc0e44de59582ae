"""Tables that can be sorted and filtered."""

import re

import pytest

from mnemoscope.report.sortable_table import Cell, Column, sortable_table_markup

COLUMNS = [Column("network"), Column("accuracy", numeric=True)]


def test_numbers_are_sorted_by_their_keys_and_unknown_ones_have_none():
    rows = [[Cell("gru"), Cell("0.90", 0.9012)], [Cell("lstm"), Cell("–")]]
    html = sortable_table_markup("t", "Accuracy", COLUMNS, rows)
    assert re.findall(r'data-key="([^"]*)"', html) == ["gru", "0.9012", "lstm", ""]


def test_texts_are_escaped_and_links_are_only_made_of_addresses():
    linked = Cell("", links=(("first", "runs/1/"), ("second", "")))
    html = sortable_table_markup("t", "Runs", COLUMNS, [[Cell("<b>"), Cell("1", 1)], [linked, Cell("2", 2)]])
    assert "&lt;b&gt;" in html
    assert html.count("<a href=") == 1
    assert '<a href="runs/1/">first</a> second' in html


def test_a_filter_offers_the_values_that_occur():
    rows = [[Cell(name), Cell("1", 1)] for name in ("gru", "elman", "gru")]
    html = sortable_table_markup("t", "Accuracy", COLUMNS, rows, filters=["network"])
    assert re.findall(r"<option>(\w+)</option>", html) == ["elman", "gru"]


def test_a_row_needs_a_cell_for_each_column():
    with pytest.raises(ValueError, match="A row has 1 cells, but the table 't' has 2 columns"):
        sortable_table_markup("t", "Accuracy", COLUMNS, [[Cell("gru")]])
