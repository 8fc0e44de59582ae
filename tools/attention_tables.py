"""Write the tables of docs/attention.md on recall and memory from the committed results.

    python -m tools.attention_tables

A network succeeds if it recalls 99% of the symbols.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "attention.md"
NAMES = {
    "relrnn": "RelRNN",
    "rellstm": "RelLSTM",
    "sab": "SAB",
    "memrnn": "MemRNN",
    "lstm": "LSTM",
    "exprnn": "expRNN",
    "rnn-orth": "RNN-orth",
    "rnn": "RNN",
}
FEWEST_SEEDS = 5
"""A network with fewer seeds is left out of the table."""
SOLVED = 0.99


def divergence() -> list[str]:
    """Return the table of RelRNNs with an unconstrained and with an orthogonal matrix."""
    rows = json.loads((ROOT / "benchmarks" / "results" / "screened_divergence.json").read_text())["rows"]
    lines = [
        "| recurrent matrix | succeed at all delays | diverge | iterations of the successful | norm of the matrix |"
    ]
    lines.append("|---|---|---|---|---|")
    for variant, name in (("dense", "unconstrained"), ("orthogonal", "orthogonal")):
        chosen = [row for row in rows if row["variant"] == variant]
        solved = [row for row in chosen if "tested" in row and all(score >= SOLVED for _, score in row["tested"])]
        diverged = sum("diverged" in row for row in chosen)
        steps = [row["steps"] for row in solved]
        norms = [max(norm for _, norm, _ in row["step, norm, spectral radius"]) for row in chosen]
        of, ranges = len(chosen), (f"{min(steps):,} to {max(steps):,}", _range(norms))
        lines.append(f"| {name} | {len(solved)} of {of} | {diverged} of {of} | {ranges[0]} | {ranges[1]} |")
    return lines


def transfer() -> list[str]:
    """Return the table of networks that were trained at a delay of 100 and tested at longer ones."""
    trials = _read("transfer-copy.paper")["trials"]
    lines = [
        "| network | succeed at a delay of 100 | at 5,000 too | median recall at 200 | at 400 | at 2,000 | at 5,000 |"
    ]
    lines.append("|---|---|---|---|---|---|---|")
    for network, name in NAMES.items():
        results = [each["result"] for each in trials if each["trial"]["name"] == network]
        tested = [dict(result["tested"]) if "tested" in result else {} for result in results]
        if len(tested) < FEWEST_SEEDS:
            continue
        learned = [scores for scores in tested if scores.get(100, 0.0) >= SOLVED]
        kept = sum(scores[5000] >= SOLVED for scores in learned)
        medians = [_percent(median(scores.get(delay, 0.0) for scores in tested)) for delay in (200, 400, 2000, 5000)]
        lines.append(f"| {name} | {len(learned)} of {len(tested)} | {kept} | {' | '.join(medians)} |")
    return lines


def memory() -> list[str]:
    """Return the table of the memory of training."""
    results = {each["trial"]["name"]: each["result"] for each in _read("attention-memory.paper")["trials"]}
    lines = ["| network | MB of 1,000 steps, step by step | of 2,000 | MB of 1,000 steps in this library | of 2,000 |"]
    lines.append("|---|---|---|---|---|")
    for network in ("rnn", "lstm", "relrnn", "rellstm", "sab", "memrnn"):
        used = {backend: dict(results[network][backend]) for backend in ("loop", "fused")}
        cells = [f"{used[backend][length] / 1e6:,.1f}" for backend in used for length in (1000, 2000)]
        lines.append(f"| {NAMES[network]} | {' | '.join(cells)} |")
    return lines


TABLES: Mapping[str, Callable[[], list[str]]] = {"divergence": divergence, "transfer": transfer, "memory": memory}


def rewritten(page: str) -> str:
    """Return the page with the present tables."""
    for name, table in TABLES.items():
        begin, end = f"<!-- table: {name} -->", "<!-- end -->"
        before, _, after = page.partition(begin)
        page = "\n".join([f"{before}{begin}", *table(), end]) + after.partition(end)[2]
    return page


def _read(name: str) -> Mapping[str, Any]:
    return json.loads((ROOT / "results" / f"{name}.json").read_text())


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def _range(values: Sequence[float]) -> str:
    low, high = f"{min(values):.1f}", f"{max(values):.1f}"
    return low if low == high else f"{low} to {high}"


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text()))
