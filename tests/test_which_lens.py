"""The page "Which lens answers my question?" has every lens, with calls and answers that exist."""

import re
from pathlib import Path
from typing import get_type_hints

import pytest

import mnemoscope as ms
from mnemoscope import lenses, registry

PAGE = (Path(__file__).parent.parent / "docs" / "which-lens.md").read_text(encoding="utf-8")
ROWS = [re.split(r" \| ", line.strip("| ")) for line in PAGE.splitlines() if line.startswith("| ")]
ROWS = [row for row in ROWS if row[0] != "question"]


def answer_of(row):
    """Return the class of the result that a row promises."""
    return getattr(lenses, re.match(r"`(\w+)`:", row[2])[1])


def test_the_page_answers_with_the_result_of_every_registered_lens():
    targets = [entry.load() for entry in registry.lenses]
    results = [target if isinstance(target, type) else get_type_hints(target)["return"] for target in targets]
    assert sorted(answer_of(row).__name__ for row in ROWS) == sorted(result.__name__ for result in results)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: answer_of(row).__name__)
def test_a_row_has_a_question_and_the_calls_that_answer_it(row):
    question, calls, answer, limits = row
    assert question.endswith("?")
    assert limits
    names = [name for name in re.findall(r"`ms\.(\w+)\(", calls) if not name.startswith("interpolate_")]
    for name in names:
        assert get_type_hints(getattr(ms, name))["return"] is answer_of(row)
    assert names or answer_of(row) is lenses.Generalisation
    fields = re.findall(r"`\.(\w+)", answer)
    assert fields
    for field in fields:
        assert hasattr(answer_of(row), field) or field in answer_of(row).__annotations__
