"""Time of the exact lenses on affine layers for long inputs: transitions, and Fisher memory about values.

    python benchmarks/transitions.py --keep

One layer with random weights, 8 heads of 64 keys and 64 values, one sequence of 512 tokens, all 64 Lyapunov exponents.
A measurement is one call on a CPU, in CPU seconds of one thread, after one call with 8 tokens.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

import mnemoscope as ms
from common import command, folder, option_parser, write_json
from mnemoscope.cells.affine import GLA, KDA, RWKV7, DeltaProduct, GatedDeltaNet

FAMILIES: dict[str, Callable[..., Any]] = {
    "gla": GLA,
    "gated-deltanet": GatedDeltaNet,
    "kda": KDA,
    "rwkv7": RWKV7,
    "deltaproduct": DeltaProduct,
}
HEADS, SIZE, FEATURES = 8, 64, 64


@dataclass(frozen=True)
class Measurement:
    """One family."""

    family: str
    structure: str
    tokens: int
    transitions_s: float
    fisher_s: float
    error: float
    """Estimate of the relative error of the Fisher memory due to rounding."""


def main() -> None:
    """Measure, print, write after every family."""
    parser = option_parser(__doc__)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=[*FAMILIES])
    options = parser.parse_args()
    torch.set_num_threads(1)
    results, rows = folder(options.keep), []
    for family in options.families:
        rows.append(measure(family, options.tokens))
        write_json(results / "transitions.json", threads=1, rows=[*map(asdict, rows)])
        (results / "transitions.md").write_text(table(rows))
    print(table(rows))


def measure(family: str, tokens: int) -> Measurement:
    """Time both lenses on one layer."""
    torch.manual_seed(0)
    cell = FAMILIES[family](FEATURES, HEADS * SIZE, heads=HEADS)
    xs = torch.randn(tokens, 1, FEATURES)
    lenses: list[Callable[[Tensor], Any]] = [
        partial(ms.transitions, cell),
        lambda inputs: ms.fisher_memory(cell, along=inputs),
    ]
    seconds, results = [], []
    for lens in lenses:
        lens(xs[:8])
        start = time.process_time()
        results.append(lens(xs))
        seconds.append(time.process_time() - start)
    found, memory = results
    return Measurement(family, found[0].structure, tokens, seconds[0], seconds[1], memory.error)


def table(rows: list[Measurement]) -> str:
    """Return the times in Markdown."""
    lines = [
        f"`{command()}`",
        "",
        "| family | operators | tokens | transitions, CPU s | Fisher memory, CPU s |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.family} | {row.structure} | {row.tokens:,} | {row.transitions_s:.3g} | {row.fisher_s:.3g} |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
