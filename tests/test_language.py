"""The language check of `make lint`: it finds odd phrases in prose, and leaves code alone."""

import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def language(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    monkeypatch.delitem(sys.modules, "language", raising=False)
    import language

    return language


def test_docstrings_comments_and_paragraphs_are_found(language, tmp_path):
    module = tmp_path / "module.py"
    module.write_text('"""A module."""\n\nX = 1\n"""A constant."""\n\n# one comment\n# on two lines\n')
    assert [(each.kind, each.line, each.text) for each in language.passages(module)] == [
        ("docstring", 1, "A module."),
        ("docstring", 4, "A constant."),
        ("comment", 6, "one comment on two lines"),
    ]
    page = tmp_path / "page.md"
    page.write_text("# Title\n\nSome text.\n\n```python\ntold = 1\n```\n")
    assert [each.line for each in language.passages(page)] == [1, 3]
    notebook = tmp_path / "notebook.ipynb"
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "\n", "Some text.\n"]},
        {"cell_type": "code", "source": ["told = 1  # a comment\n"], "outputs": [{"text": ["told"]}]},
    ]
    notebook.write_text(json.dumps({"cells": cells}))
    assert [(each.kind, each.line, each.text) for each in language.passages(notebook)] == [
        ("markdown", 1, "# Title"),
        ("markdown", 1, "Some text.\n"),
        ("comment", 2, "a comment"),
    ]


def test_code_inside_prose_does_not_count(language):
    assert not re.search("told", language.CODE.sub(" ", "The name `told`.\n    >>> told\n"))


def test_the_check_fails_when_there_are_more_hits_than_allowed(language, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(language, "ROOT", tmp_path)
    monkeypatch.setattr(language, "HERE", tmp_path)
    settings = "phrases = ['\\\\btold\\\\b']\nstarts = []\n[allowed]\ndocstring = {}\ncomment = 0\nmarkdown = 0\n"
    (tmp_path / "module.py").write_text('"""It is told."""\n')
    monkeypatch.setattr(sys, "argv", ["language.py", "--check", str(tmp_path / "module.py")])
    for allowed, code in ((1, 0), (0, 1)):
        (tmp_path / "language.toml").write_text(settings.format(allowed).replace("\\\\", "\\"))
        assert language.main() == code
    assert "At most 0 are allowed" in capsys.readouterr().out
