"""The examples of the README and of the documentation run unchanged, and the pages agree with the code."""

import re
from pathlib import Path

import pytest

from tests.slow import SLOW
from tests.test_house import ROOMS

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
VARIABLES = ROOT / "docs" / "variables.md"
ELSEWHERE = ("variables.md", "extending.md")
"""Pages whose examples depend on each other: the first has a test below, the second has test_extending.py."""


def blocks(page: Path = README) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


PAGES = [page for page in sorted((ROOT / "docs").glob("*.md")) if page.name not in ELSEWHERE and blocks(page)]
LONG = ("house", "relations", "reservoirs", "running", "slow-manifolds")
"""Pages whose examples train for seconds, and whose code other tests run too."""


def test_the_quickstart_runs(tmp_path, monkeypatch, capsys):
    block = blocks()[0]
    assert len(block.splitlines()) <= 10
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {})
    assert "The index sum is 1" in capsys.readouterr().out
    assert (tmp_path / "fixed_points.png").stat().st_size > 10_000


def test_the_page_on_the_house_lists_the_rooms_in_import_order():
    page = (ROOT / "docs" / "house.md").read_text()
    assert tuple(re.findall(r"^\| `(\w+)/` \|", page, re.MULTILINE)) == ROOMS


@pytest.mark.parametrize(
    "page", [pytest.param(page, id=page.stem, marks=[SLOW] * (page.stem in LONG)) for page in PAGES]
)
def test_the_other_examples_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for block in blocks(page):
        exec(compile(block, page.name, "exec"), {})
        assert capsys.readouterr().out


def test_the_readme_is_short_and_has_one_example():
    assert len(README.read_text().splitlines()) < 170
    assert len(blocks()) == 1
    assert len(PAGES) >= 6


@SLOW
def test_the_tutorial_on_variables_runs_and_shows_what_it_prints(tmp_path, monkeypatch, capsys):
    parts = blocks(VARIABLES)
    assert sum(bool(line.strip()) for part in parts[:2] for line in part.splitlines()) == 15
    monkeypatch.chdir(tmp_path)
    namespace: dict = {}
    printed = []
    for part in parts:
        exec(compile(part, "docs/variables.md", "exec"), namespace)
        printed.append(capsys.readouterr().out)
    assert (tmp_path / "variables.png").stat().st_size > 50_000
    memories, published = namespace["memories"], namespace["published"]
    assert (memories.status, memories.variables, memories.size) == ("explained", 4, 3)
    assert (namespace["untrained"].status, published.status) == ("none", "refuted")
    assert published.trials.sign_accuracy == 1
    assert [test.name for test in published.tests if not test.passed][-1] == "remove the memory space"
    assert bool((namespace["held"].sign() == namespace["shown"][:, 0]).all())
    assert namespace["repeated"][0].tolist() == namespace["repeated"][4].tolist() == [1.0, 1.0, 1.0]
    # the page shows the printed lines; digits may differ between machines
    shown = re.findall(r"```\n(Elman.*?|none.*?)```", VARIABLES.read_text(), re.DOTALL)
    for text, output in zip(shown, printed[1:4], strict=True):
        lines = [_without_digits(line) for line in output.splitlines()]
        for line in text.splitlines():
            assert line.strip() == "..." or _without_digits(line) in lines, line


def _without_digits(line: str) -> str:
    return re.sub(r"[-+.e\d]+", "0", line)
