"""The value path of trained networks against their recurrence, step by step, in float64.

    python benchmarks/influence_exact.py          train and compare, table to runs/bench
    python benchmarks/influence_exact.py --keep   the same, to benchmarks/results

Two blocks of every affine family learn to recall pairs for 300 steps. `ms.influence` writes what a head reads as
y = M v. The error is the largest difference of M v, with what is left of the first state, from the reads of the
recurrence that is run one step at a time, over the largest read; the worst layer counts. Networks that are trained
already, in runs/, are not trained again.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import mnemoscope as ms
from common import command, folder, option_parser, write_json
from mnemoscope.cells import affine_layers
from mnemoscope.cells.affine.layer import AffineLayer
from mnemoscope.cells.affine.parts import read_state, step_state
from mnemoscope.lenses.exact_influence.value_path import value_paths
from mnemoscope.registry import cells
from mnemoscope.training import load_model

WANTED = 1e-10
"""Largest relative error that counts as exact."""
TASK: dict[str, Any] = {"keys": 16, "values": 8, "fewest": 2, "most": 6, "queries": 4, "apart": True}


def main() -> None:
    """Train, compare, and write the table."""
    parser = option_parser(__doc__)
    parser.add_argument("--steps", type=int, default=300, help="training steps")
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = [measured(entry.name, given.steps) for entry in cells if "affine" in entry.tags]
    results = folder(given.keep)
    write_json(results / "influence_exact.json", rows=rows)
    lines = [f"`{command()}`", "", "| family | loss | without memory | error |", "|---|---|---|---|"]
    lines += [f"| {row['family']} | {row['loss']:.3f} | {row['baseline']:.3f} | {row['error']:.1e} |" for row in rows]
    (results / "influence_exact.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    failed = [row["family"] for row in rows if row["error"] > WANTED]
    if failed:
        raise SystemExit(f"The value path is not exact to {WANTED} for {', '.join(failed)}.")


def measured(family: str, steps: int) -> dict[str, Any]:
    """Train two blocks of a family, and compare their reads with M v."""
    config = ms.RunConfig(
        f"exact-{family}",
        "key-value-recall",
        TASK,
        cell="blocks",
        cell_options={"family": family, "depth": 2},
        hidden_size=16,
        steps=steps,
        learning_rate=1e-2,
        threads=1,
    )
    run = ms.train(config, progress=False, resume=True)
    model, task, _ = load_model(run.folder)
    with torch.no_grad():
        layers = affine_layers(model.double(), task.batch(8, seed=1, number=0, split="test").inputs.double())
        errors = [error(layer) for layer in layers]
    return {"family": family, "loss": run.loss, "baseline": run.baseline, "error": max(errors)}


def error(layer: AffineLayer) -> float:
    """Return the largest difference between M v and the reads of the recurrence, over the largest read."""
    reads, paths = stepwise_reads(layer), value_paths(layer)
    return float((paths.reads() - reads).abs().max() / reads.abs().max())


def stepwise_reads(layer: AffineLayer) -> Tensor:
    """Return the reads (batch, heads, time, values), one step at a time, divided by the normaliser if there is one."""
    S, found = layer.start, []
    for step in range(len(layer.parts.queries)):
        parts = layer.at(step)
        S = step_state(parts, S)
        found.append(read_state(parts, S))
    reads = torch.stack(found)
    denominators = layer.core.denominators(reads, layer.scales)
    if denominators is not None:
        reads = reads[..., :-1] / denominators.unsqueeze(-1)
    return (reads if layer.parts.values.is_complex() else reads.real).permute(1, 2, 0, 3)


if __name__ == "__main__":
    main()
