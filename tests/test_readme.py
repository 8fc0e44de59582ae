"""The examples of the README and of the documentation run unchanged, and the pages agree with the code."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.slow import SLOW
from tests.test_house import ROOMS

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
VARIABLES = ROOT / "docs" / "variables.md"
ELSEWHERE = ("variables.md", "extending.md", "adapters.md", "transitions.md")
"""Pages that other tests run: the first one below, then test_extending.py, cells/test_pretrained.py and
lenses/test_transitions.py."""


def blocks(page: Path = README) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


PAGES = [page for page in sorted((ROOT / "docs").glob("*.md")) if page.name not in ELSEWHERE and blocks(page)]
LONG = (
    "arena", "closed-loop", "compare", "conditions", "house", "influence", "interventions", "low-rank", "populations",
    "quickstart", "recall", "relations", "reservoirs", "running", "slow-manifolds", "state-tracking",
)  # fmt: skip
"""Pages whose examples train for seconds, and whose code other tests run too."""
CONTINUED = ("conditions", "from-fixed-point-finder")
"""Pages whose examples continue each other, and may print nothing."""
COMPARED = {
    "closed-loop": 0.01,
    "conditions": 0.02,
    "interventions": 10,
    "recall": 0.06,
    "state-tracking": 2,
    "token-tasks": 0,
    "verdicts": 0,
}
"""Pages whose examples print what they show, and the largest difference of a number: networks are trained alike on all
machines, but for rounding."""
NUMBER = r"\d+(?:\.\d+)?"


def test_the_example_of_the_readme_prints_what_it_shows(capsys):
    (block,) = blocks()
    assert sum(bool(line.strip()) for line in block.splitlines()) <= 6
    exec(compile(block, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert printed.startswith("27 fixed points: 8 stable, 12 saddles with 1 unstable direction, 6 saddles with 2")
    shown = re.search(r"```\n(27 fixed points.*?)```", README.read_text(), re.DOTALL)[1]
    assert _without_digits(shown) == _without_digits(printed)


def test_the_readme_compares_with_the_peer_as_measured():
    text = README.read_text().partition("<!-- peer -->")[2].partition("<!-- end of peer -->")[0]
    text = " ".join(text.split())
    measured = json.loads((ROOT / "benchmarks" / "results" / "fixed_points.json").read_text())
    assert f"commit {measured['peer']['commit']};" in text
    rows = {(row["network"], row["method"].removeprefix("fixed-point-finder, ")): row for row in measured["rows"]}

    def seconds(network, method, points, true, digits):
        row = rows[network, method]
        assert (row["points"], row["true"]) == (points, true)
        return f"{row['seconds']:.{digits}f} s"

    best, ours = "tight, lr_init=0.1", "mnemoscope, adaptive"
    assert (
        f"report no point after {seconds('gru 64', 'defaults', 0, 0, 0)}, in float64 1,024 points after "
        f"{seconds('gru 64', 'float64', 1024, 0, 0)}, none of them true (q < 1e-25), and with the best settings that "
        f"we found all 27 after {seconds('gru 64', best, 27, 27, 0)}; the adaptive search of Mnemoscope finds the 27 "
        f"in {seconds('gru 64', ours, 27, 27, 2)}."
    ) in text
    assert {rows["lstm 16", f"defaults, starts {given}"]["error"][:14] for given in ("h", "(h, c)")} == {
        "IndexError: in", "AttributeError"}  # fmt: skip
    assert f"in {seconds('lstm 16', best + ', our wrapper', 27, 27, 1)} with a wrapper of ours" in text
    assert f"finds them in {seconds('lstm 16', ours, 27, 27, 2)}." in text
    defaults, found = rows["elman 64", "defaults"], rows["elman 64", ours]
    assert f"in {seconds('elman 64', 'defaults', 27, 0, 1)} with q up to {defaults['largest_q']:.0e}" in text
    assert f"in {seconds('elman 64', ours, 27, 27, 2)} with q below 1e-29" in text
    assert found["largest_q"] < 1e-29
    given = rows["elman 64", "mnemoscope, all starts"]
    assert (given["points"], given["index_sum"]) == (25, 1)
    assert "finds 25 of these points, and their sum is 1 too" in text


def test_the_page_on_the_house_lists_the_rooms_in_import_order():
    page = (ROOT / "docs" / "house.md").read_text()
    assert tuple(re.findall(r"^\| `(\w+)/` \|", page, re.MULTILINE)) == ROOMS


@pytest.mark.parametrize(
    "page", [pytest.param(page, id=page.stem, marks=[SLOW] * (page.stem in LONG)) for page in PAGES]
)
def test_the_other_examples_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shown = dict(re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))
    assert shown or page.stem not in COMPARED
    namespace: dict[str, Any] = {}
    for block in blocks(page):
        namespace = namespace if page.stem in CONTINUED else {}
        exec(compile(block, page.name, "exec"), namespace)
        printed = capsys.readouterr().out
        assert printed or page.stem in CONTINUED
        if page.stem in COMPARED and block in shown:
            assert _without_digits(printed) == _without_digits(shown[block])
            numbers = [[float(number) for number in re.findall(NUMBER, text)] for text in (printed, shown[block])]
            assert numbers[0] == pytest.approx(numbers[1], rel=0, abs=COMPARED[page.stem])


def test_the_readme_is_short():
    assert len(README.read_text().splitlines()) < 120
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
