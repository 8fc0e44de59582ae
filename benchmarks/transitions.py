"""Time of the exact lenses on affine layers for long inputs: transitions, and Fisher memory about values.

    python benchmarks/transitions.py --keep

One layer with random weights, 8 heads of 64 keys and 64 values, one sequence of 2,048 tokens, all 64 Lyapunov
exponents; `mamba` has a head with 16 keys, and `rg-lru` one with one key, for each of 512 channels. A measurement is
one call on a CPU, in CPU seconds of one thread, after one call with 8 tokens. "By the factor" is the Fisher memory of
operators that amplify noise, which advances the factor of the covariance in O(d^3) per token; the difference is the
largest one of two memory curves, relative to the largest number in them.
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
from mnemoscope.cells import AffineLayer, affine_layers
from mnemoscope.cells.affine import (
    GLA,
    KDA,
    MLSTM,
    RGLRU,
    RWKV7,
    DeltaNet,
    DeltaProduct,
    GatedDeltaNet,
    Mamba,
    Mamba2,
    RetNet,
)
from mnemoscope.lenses.fisher.written_signals import signals_by_covariance, signals_by_factor

FAMILIES: dict[str, Callable[..., Any]] = {
    "mamba2": partial(Mamba2, state_size=64),
    "gla": GLA,
    "deltanet": DeltaNet,
    "gated-deltanet": partial(GatedDeltaNet, key_size=64),
    "kda": KDA,
    "rwkv7": RWKV7,
    "deltaproduct": DeltaProduct,
    "mlstm": MLSTM,
    "retnet": RetNet,
    "mamba": Mamba,
    "rg-lru": RGLRU,
}
CHANNELS = ("mamba", "rg-lru")
"""Families with a head for each channel."""
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
    factor_s: float | None
    difference: float | None


def main() -> None:
    """Measure, print, write after every family."""
    parser = option_parser(__doc__)
    parser.add_argument("--tokens", type=int, default=2048)
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
    """Time both lenses on one layer, and where operators are not diagonal both ways to the Fisher memory."""
    torch.manual_seed(0)
    cell = FAMILIES[family](FEATURES, HEADS * SIZE, **({} if family in CHANNELS else {"heads": HEADS}))
    xs = torch.randn(tokens, 1, FEATURES)
    transitions_s, found = timed(lambda inputs: ms.transitions(cell, inputs), xs)
    fisher_s, memory = timed(lambda inputs: ms.fisher_memory(cell, along=inputs), xs)
    both = None, None
    if found[0].structure != "diagonal":
        both = by_the_factor(affine_layers(cell, xs)[0].memory().precise())
    return Measurement(family, found[0].structure, tokens, transitions_s, fisher_s, memory.error, *both)


def timed(lens: Callable[[Tensor], Any], xs: Tensor) -> tuple[float, Any]:
    """Return the CPU seconds of a lens, and its result."""
    lens(xs[:8])
    start = time.process_time()
    result = lens(xs)
    return time.process_time() - start, result


@torch.no_grad()
def by_the_factor(layer: AffineLayer) -> tuple[float, float]:
    """Return the CPU seconds of the route in O(d^3) per token, and how far the curves of both routes are apart."""
    fast = signals_by_covariance(layer)
    assert fast is not None
    start = time.process_time()
    slow = signals_by_factor(layer)
    seconds = time.process_time() - start
    curves = [signals.traces.square().sum(-1) for signals in (fast, slow)]
    return seconds, float((curves[0] - curves[1]).abs().max() / curves[1].max())


def table(rows: list[Measurement]) -> str:
    """Return the times in Markdown."""
    lines = [
        f"`{command()}`",
        "",
        "| family | operators | tokens | transitions, CPU s | Fisher, CPU s | by the factor, CPU s | difference |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.family} | {row.structure} | {row.tokens:,} | {row.transitions_s:.3g} | {row.fisher_s:.3g} |"
        + (" | |" if row.factor_s is None else f" {row.factor_s:.3g} | {row.difference:.0e} |")
        for row in rows
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
