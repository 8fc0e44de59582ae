"""The committed predictions of the lengths at which networks fail, and the page that shows them."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_shows_the_table_of_the_benchmark():
    table = (ROOT / "benchmarks/results/state_tracking.md").read_text(encoding="utf-8")
    assert table in (ROOT / "docs/state-tracking.md").read_text(encoding="utf-8")


def test_every_row_of_the_table_counts_its_networks():
    rows = json.loads((ROOT / "benchmarks/results/state_tracking.json").read_text(encoding="utf-8"))["rows"]
    names = [row["recipe"] for row in rows]
    lines = (ROOT / "benchmarks/results/state_tracking.md").read_text(encoding="utf-8").splitlines()[2:]
    counts = {line.split(" | ")[0].strip("| "): int(line.split(" | ")[1]) for line in lines}
    counts.pop("all of these")
    assert counts == {name: names.count(name) for name in counts}
