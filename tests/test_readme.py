"""The README's own examples, run as they stand."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


def test_the_quickstart_runs(tmp_path, monkeypatch, capsys):
    block = blocks()[0]
    assert len(block.splitlines()) <= 10
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {})
    assert "The index sum is 1" in capsys.readouterr().out
    assert (tmp_path / "fixed_points.png").stat().st_size > 10_000


def test_the_other_examples_run(capsys):
    for block in blocks()[1:]:
        exec(compile(block, "README.md", "exec"), {})
        assert capsys.readouterr().out


def test_every_file_the_readme_links_to_exists():
    links = re.findall(r"\]\((?!http)([^)#]+)\)", README.read_text())
    assert links
    for link in links:
        assert (README.parent / link).exists(), link
