"""Write the tables of docs/relations.md from the committed results: `python -m tools.relation_tables`.

A cell is the mean accuracy in percent, its standard deviation over the seeds, and in parentheses how many of the seeds
reach 98%: "96.4 ± 4.7 (2 of 5)".
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from mnemoscope.replication.means import ENOUGH
from mnemoscope.studies.kerg2022 import relational_games

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "relations.md"
SOLVED = 0.98
"""Accuracy from which a seed counts as solved."""
BASIC = {
    "same/different": "same/diff, m 98",
    "RMTS": "RMTS, m 95",
    "distribution of three": "dist3, m 95",
    "identity rules": "identity rules, m 95",
}
NETWORKS = {
    "CoRelNet": "corelnet",
    "CoRelNet-T": "corelnet-t",
    "ESBN": "esbn",
    "Transformer": "transformer",
    "LSTM": "lstm",
    "PrediNet": "predinet",
    "Relation Network": "relation-network",
    "NTM": "ntm",
    "MNM": "mnm",
}


@dataclass(frozen=True)
class Table:
    """Accuracies of networks (rows, by their label) on tasks (columns, by their label)."""

    results: str
    """Study and preset."""
    columns: Mapping[str, str]
    rows: Mapping[str, str]
    test: str = "test"
    corner: str = "network"

    def lines(self) -> list[str]:
        """Return the lines of the table."""
        head, tasks = [self.corner, *self.columns], self.columns.values()
        body = [
            [label, *(cell(accuracies(self.results, f"{network}, {task}", self.test)) for task in tasks)]
            for label, network in self.rows.items()
        ]
        return ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *body)]


def _m(m: int) -> dict[str, str]:
    return {label: re.sub(r"m \d+", f"m {m}", task) for label, task in BASIC.items()}


VARIANTS = {
    label + suffix: network + kind
    for label, network in (("CoRelNet", "corelnet"), ("CoRelNet-T", "corelnet-t"), ("ESBN", "esbn"))
    for suffix, kind in (
        ("", ""),
        (", the decoder also sees the objects", "-sensory"),
        (", two learned maps compare them", "-asymmetric"),
        (", random encoder", "-random"),
    )
}
COLOURED = {label: task.replace(",", " colour,") for label, task in BASIC.items()}
SPARSE = {
    label + suffix: network + kind
    for label, network in (("CoRelNet", "corelnet"), ("ESBN", "esbn"))
    for suffix, kind in (("", ""), (", random encoder", "-random"), (", L1 penalty", "-l1"))
}
UNSEEN = {
    "RMTS3": "RMTS3, m 94",
    "identity rules 4": "identity rules 4, m 94",
    "same/different 6": "same/diff 6, m 98",
    "rules missing": "identity rules 4 missing, m 94",
}
RANDOM = {"CoRelNet, random encoder": "corelnet-random"}
DIRECTED = {
    "CoRelNet, symmetric similarity": "corelnet",
    "CoRelNet, differences": "corelnet-diff",
    "CoRelNet, asymmetric similarity": "corelnet-asymmetric",
    "CoRelNet, a mixture of differences and similarity": "corelnet-mix",
    "ESBN": "esbn",
    "ESBN, asymmetric similarity": "esbn-asymmetric",
    "Transformer, which sees the objects": "transformer",
}
TEN = {
    "all orders": "dist10, m 89",
    "orders as in the thesis": "dist10 restricted (thesis), m 89",
    "as in the code": "dist10 restricted (code), m 89",
}


def _first(*labels: str) -> dict[str, str]:
    return {label: NETWORKS[label] for label in labels}


TABLES = {
    "cognitive": Table(
        "relational-cognitive.paper", BASIC, {**NETWORKS, "ESBN, pairs normalised apart": "esbn-segmented"}
    ),
    "fifteen shapes": Table("relational-cognitive.published", _m(85), dict(list(NETWORKS.items())[:7])),
    "drift": Table(
        "relational-cognitive.paper",
        {"accuracy on identity rules": "identity rules, m 95"},
        {
            "none": "corelnet",
            "an encoder with fixed random weights (`corelnet-random`)": "corelnet-random",
            "each row of a problem normalised separately (`--cell-options segmented true`)": "corelnet-segmented",
            "a learning rate that falls to 0": "corelnet-cosine",
        },
        corner="remedy",
    ),
    "wide decoder": Table(
        "parameter-match.paper",
        {"accuracy on identity rules": "identity rules, m 95"},
        {
            "a decoder so wide that the network has as many parameters as ESBN": "corelnet-nhid",
            "an L1 penalty": "corelnet-l1",
        },
        corner="remedy in `parameter-match`",
    ),
    "colour and shape": Table(
        "relational-games.paper",
        {"colour and shape, hexominoes": "colour/shape"},
        {
            "`corelnet-multi`, 5,000 batches of 128, `--schedule cosine`": "corelnet-multi",
            "CoRelNet, one relation, the same": "corelnet-longer",
            "`corelnet-multi`, published recipe, 2,500 batches of 32": "corelnet-multi-brief",
            "Abstractor, published recipe": "abstractor",
        },
        "hexominoes",
    ),
    "ablations": Table("ablations.paper", BASIC, VARIANTS),
    "colours": Table("spurious.paper", COLOURED, SPARSE),
    "separated": Table(
        "spurious.paper",
        {f"{m} of 100 held out": f"same/diff separated, m {m}" for m in (0, 50, 98)},
        _first("CoRelNet", "ESBN", "Transformer"),
    ),
    "unseen relations": Table(
        "unseen-relations.paper",
        UNSEEN,
        {**_first("CoRelNet"), **RANDOM, **_first("CoRelNet-T", "ESBN", "Transformer", "PrediNet")},
    ),
    "missing rules": Table(
        "unseen-relations.paper",
        {
            "ABAA and ABAB missing": "identity rules 4 missing, m 94",
            "ABAA": "identity rules 4 without abaa, m 94",
            "ABAB": "identity rules 4 without abab, m 94",
        },
        {**_first("CoRelNet"), **RANDOM},
    ),
    "sizes": Table(
        "comparison.paper",
        {"comparison": "comparison, m 95", "transitive comparison": "transitive comparison, m 95"},
        DIRECTED,
    ),
    "differences": Table(
        "comparison.paper", BASIC, {"differences": "corelnet-diff", "a mixture of both": "corelnet-mix"}, corner="rule"
    ),
    "distribution of ten": Table(
        "distribution-of-n.paper",
        TEN,
        {
            **_first("CoRelNet"),
            **RANDOM,
            **_first("CoRelNet-T", "ESBN", "Transformer", "PrediNet"),
            "Abstractor": "abstractor",
        },
    ),
}


@cache
def _read(results: str) -> Mapping[str, Any]:
    return json.loads((ROOT / "results" / f"{results}.json").read_text(encoding="utf-8"))


def accuracies(results: str, name: str, test: str = "test") -> list[float]:
    """Return the accuracies of the finite trials with this name, one per seed."""
    found = [each for each in _read(results)["trials"] if each["trial"]["name"] == name]
    return [each["result"][test] for each in found if test in each["result"]]


def cell(values: Sequence[float]) -> str:
    """Return the text of a cell; empty without a seed."""
    if not values:
        return ""
    deviation = f" ± {100 * stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * mean(values):.1f}{deviation} ({sum(value >= SOLVED for value in values)} of {len(values)})"


def games() -> list[str]:
    """Return the table of verdicts on the published numbers of the games."""
    rows = [row for row in _read("relational-games.paper")["rows"] if row["published"] and " ± " in row["published"]]
    networks = dict.fromkeys(row["about"]["network"] for row in rows)
    seeds = Counter(each["trial"]["name"] for each in _read("relational-games.paper")["trials"])
    lines = ["| network | seeds | match | compatible | better | worse | undecided by the seeds, or at a guess |"]
    lines.append("|---|---|---|---|---|---|---|")
    for network in networks:
        verdicts = Counter(row["verdict"] for row in rows if row["about"]["network"] == network)
        numbers = [number for name, number in seeds.items() if name.split(", ")[0] == network]
        span = f"{min(numbers)}" if min(numbers) == max(numbers) else f"{min(numbers)} to {max(numbers)}"
        counts = [str(verdicts[each]) for each in ("matches", "compatible", "better", "worse", "not compared")]
        lines.append("| " + " | ".join([f"`{network}`", span, *counts]) + " |")
    return lines


EVALUATIONS: dict[str, Callable[[Mapping[str, Any]], float]] = {
    "the final network, on hexominoes": lambda result: result["hexominoes"],
    "the best of the 25 evaluations on hexominoes": lambda result: max(result["curve"]["accuracy"]),
    "the final network, on training objects": lambda result: result["validation"],
}
"""Accuracies that a table may show."""


def evaluations() -> list[str]:
    """Return the table of verdicts on the games with hexominoes, by the accuracy that is compared."""
    runs: dict[str, list[Mapping[str, Any]]] = {}
    for each in _read("relational-games.paper")["trials"]:
        runs.setdefault(each["trial"]["name"], []).append(each["result"])
    lines = ["| accuracy that is compared | match | compatible | better | worse |", "|---|---|---|---|---|"]
    for name, accuracy in EVALUATIONS.items():
        verdicts = Counter(
            claim.judge([accuracy(run) for run in runs[claim.subject.name]]).verdict.value
            for claim in relational_games.STUDY.claims
            if claim.subject.network in relational_games.TABLE
            and claim.quantity == "hexominoes"
            and len(runs.get(claim.subject.name, ())) >= ENOUGH
        )
        counts = [str(verdicts[each]) for each in ("matches", "compatible", "better", "worse")]
        lines.append("| " + " | ".join([name, *counts]) + " |")
    return lines


def rewritten(page: str) -> str:
    """Return the page with its tables from the results."""
    tables = {name: table.lines() for name, table in TABLES.items()}
    for name, lines in {**tables, "games": games(), "evaluations": evaluations()}.items():
        begin, end = f"<!-- table: {name} -->", "<!-- end -->"
        before, found, rest = page.partition(begin)
        assert found, f"{PAGE.name} has no table {name!r}"
        page = before + begin + "\n" + "\n".join(lines) + "\n" + end + rest.partition(end)[2]
    return page


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
