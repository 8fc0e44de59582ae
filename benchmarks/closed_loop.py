"""Repetition loops of character models that read their own text, as limit cycles with their basins.

    python benchmarks/closed_loop.py --network lstm --keep
    python benchmarks/closed_loop.py --network rwkv7 --device cuda --analyse cuda --seeds 1 --patience 4 --keep
    python benchmarks/closed_loop.py --network gated-deltanet --device cuda --analyse cuda --patience 4 --processes 4
    python benchmarks/closed_loop.py --table --keep

A network learns the Penn Treebank by characters (`MNEMOSCOPE_DATA` names the folder with its files). Prompts are pieces
of the test text at equal distances. From each the network writes on by itself: greedily, and with the mean input under
its tempered probabilities fed back. The table has the loops that most prompts reach, with intervals over prompts.
"decay" is the number of characters in which a small perturbation falls to 1/e by the Floquet multipliers, and
"measured" the same from the distances between generated states and the loop. With several `--processes`, the
temperatures of a network are measured side by side. `--table` takes all results of a network; of two with the same seed
and temperature, the one with more characters.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import mnemoscope as ms
from common import folder, option_parser, write_json
from mnemoscope.config import PRESETS, RunConfig
from mnemoscope.tasks import PennTreebank
from mnemoscope.tasks.penn_treebank import VOCABULARY
from mnemoscope.training import load_model

NETWORKS: dict[str, dict[str, Any]] = {
    "lstm": {},
    "gated-deltanet": {"cell": "blocks", "cell_options": {"family": "gated-deltanet", "depth": 2, "heads": 8}},
    "mamba2": {"cell": "blocks", "cell_options": {"family": "mamba2", "depth": 2, "heads": 8, "state_size": 16}},
    "rwkv7": {"cell": "blocks", "cell_options": {"family": "rwkv7", "depth": 2, "heads": 8}},
    "gla": {"cell": "blocks", "cell_options": {"family": "gla", "depth": 2, "heads": 8}},
}
"""Changes of the preset `ptb`, an LSTM of 128 units."""
NAME = "closed-loop-"
"""Beginning of the names of runs."""
PROMPT, PROMPTS = 100, 200
"""Characters of a prompt, and number of prompts."""
STEPS, MAX_PERIOD = 2000, 256
TEMPERATURES = (0.0, 0.1, 0.3, 1.0)
LISTED = 5
"""Loops of each network that are written down."""
SHOWN = 0.05
"""Least share of prompts of a loop in the table."""
SLOPE = (1e-3, 1e-9)
"""Distances between which the slope is measured."""


def config_of(network: str, seed: int, device: str, steps: int) -> RunConfig:
    """Return the configuration of a run."""
    rate = {} if network == "lstm" else {"learning_rate": 3e-3}
    changes = {**NETWORKS[network], **rate, "seed": seed, "device": device, "steps": steps}
    return replace(PRESETS["ptb"], name=f"{NAME}{network}", **changes)


def prompts_of(task: PennTreebank, number: int) -> Tensor:
    """Return token numbers (time, batch): the first characters of equal pieces of the test text."""
    return replace(task, length=PROMPT).batch(number, 0, 0, "test").inputs.argmax(-1)


def measured_rate(loops: ms.Loops, loop: int) -> float | None:
    """Return the median slope of the logarithm of the distance to a loop per step; None if it falls too fast."""
    slopes = []
    for prompt, path in zip(loops.traced.tolist(), loops.distances, strict=True):
        if int(loops.member[prompt]) == loop:
            inside = ((path < SLOPE[0]) & (path > SLOPE[1])).nonzero()[:, 0]
            inside = inside[inside >= int(loops.entered[prompt])]
            if len(inside) > 2 * int(loops.periods[loop]):
                slopes.append(_slope(inside.double(), path[inside].log()))
    return sorted(slopes)[len(slopes) // 2] if slopes else None


def _slope(x: Tensor, y: Tensor) -> float:
    x, y = x - x.mean(), y - y.mean()
    return float((x * y).sum() / x.square().sum())


def row_of(loops: ms.Loops, seconds: float) -> dict[str, Any]:
    """Return what a result says, as numbers and texts."""
    low, high = loops.interval
    listed = range(min(len(loops), LISTED))
    return {
        "temperature": loops.temperature,
        "prompts": loops.prompts,
        "characters": loops.steps,
        "settled": loops.settled,
        "repeating": int(loops.repeating.sum()),
        "loops": len(loops),
        "confirmed": int(loops.confirmed.sum()),
        "size": loops.states.shape[1],
        "seconds": round(seconds, 1),
        "largest_multiplier": float(loops.multipliers[:, 0].abs().max()) if len(loops) else None,
        "listed": [
            {
                "text": loops.texts[loop],
                "period": int(loops.periods[loop]),
                "share": float(loops.shares[loop]),
                "interval": [float(low[loop]), float(high[loop])],
                "entered": loops.entry(loop),
                "multipliers": [float(value) for value in loops.multipliers[loop].abs()],
                "rate": float(loops.rates[loop]),
                "measured": measured_rate(loops, loop),
                "lead": float(loops.leads[loop]),
                "confirmed": bool(loops.confirmed[loop]),
            }
            for loop in listed
        ],
    }


def measure(run: Path, temperature: float, analyse: str, prompts: int, tokens: int, patience: int) -> dict[str, Any]:
    """Return the row of a trained network at one temperature."""
    torch.set_num_threads(1)
    model, task, config = load_model(run)
    assert isinstance(task, PennTreebank)
    before = time.perf_counter()
    loops = ms.find_loops(
        model.to(analyse),
        prompts_of(task, prompts),
        temperature=temperature,
        vocabulary=VOCABULARY,
        steps=tokens,
        max_period=min(MAX_PERIOD, tokens // 4),
        patience=patience,
    )
    row = row_of(loops, time.perf_counter() - before)
    bpc = json.loads((run / "result.json").read_text())["scores"]["bpc"]
    network = config.name.removeprefix(NAME)
    print(f"{network}, seed {config.seed}, {bpc:.3f} bits per character: {loops.summary()}", flush=True)
    return {"network": network, "seed": config.seed, "bpc": bpc, **row}


def measure_all(run: Path, temperatures: list[float], processes: int, *sizes: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of a trained network, as soon as they are known if several processes measure them."""
    if processes == 1:
        for temperature in temperatures:
            yield measure(run, temperature, *sizes)
        return
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        for done in as_completed([pool.submit(measure, run, temperature, *sizes) for temperature in temperatures]):
            yield done.result()


def table(results: Path) -> str:
    """Return the rows of the tables in docs/closed-loop.md from the results of a folder: greedy loops, temperatures."""
    rows: dict[tuple[str, int, float], dict[str, Any]] = {}
    for path in sorted(results.glob("closed_loop_*.json")):
        for row in json.loads(path.read_text())["rows"]:
            key = (row["network"], row["seed"], row["temperature"])
            if key not in rows or row.get("characters", STEPS) > rows[key].get("characters", STEPS):
                rows[key] = row
    loops, settled = [], []
    for network, seed in sorted({key[:2] for key in rows}, key=lambda pair: ([*NETWORKS].index(pair[0]), pair[1])):
        if greedy := rows.get((network, seed, 0.0)):
            shown = [loop for loop in greedy["listed"] if loop["share"] >= SHOWN]
            loops += [_table_row(greedy, loop) for loop in shown] or [_empty_row(greedy)]
        alike = (rows.get((network, seed, temperature)) for temperature in TEMPERATURES)
        cells = (f"{row['settled']:.1%}, {row['loops']}" if row else "not measured" for row in alike)
        settled.append(f"| {network}, seed {seed} | {' | '.join(cells)} |")
    return "\n".join([*loops, "", *settled, ""])


def _table_row(row: dict[str, Any], loop: dict[str, Any]) -> str:
    low, high = loop["interval"]
    middle, first, last = loop["entered"]
    decay, measured = (None if rate is None else -1 / rate for rate in (loop["rate"], loop["measured"]))
    cells = (
        f"{row['network']}, seed {row['seed']} ({row['bpc']:.2f})",
        f"`{loop['text'].replace(chr(10), '⏎')}`",
        str(loop["period"]),
        f"{loop['share']:.1%} ({low:.1%} to {high:.1%})",
        f"{middle:.0f} ({first:.0f} to {last:.0f})",
        f"{decay:.1f}, {'–' if measured is None else f'{measured:.1f}'}",
    )
    return f"| {' | '.join(cells)} |"


def _empty_row(row: dict[str, Any]) -> str:
    share = f"none settled; {row['repeating']} of {row['prompts']} repeat"
    return f"| {row['network']}, seed {row['seed']} ({row['bpc']:.2f}) | – | – | {share} | – | – |"


def main() -> None:
    """Measure the loops of one network, for several seeds."""
    parser = option_parser(__doc__)
    parser.add_argument("--network", choices=NETWORKS, default="lstm")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where to train")
    parser.add_argument("--analyse", choices=("cpu", "cuda"), default="cpu", help="where to generate, in float64")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=PRESETS["ptb"].steps, help="steps of training")
    parser.add_argument("--prompts", type=int, default=PROMPTS)
    parser.add_argument("--tokens", type=int, default=STEPS, help="characters to generate")
    parser.add_argument("--patience", type=int, default=0, help="as in find_loops")
    parser.add_argument("--temperatures", type=float, nargs="+", default=TEMPERATURES)
    parser.add_argument("--processes", type=int, default=1, help="temperatures that are measured at a time")
    parser.add_argument("--suffix", default="", help="end of the name of the file with the results")
    parser.add_argument("--table", action="store_true", help="write the table from results, without measuring")
    options = parser.parse_args()
    if options.table:
        results = folder(options.keep)
        (results / "closed_loop.md").write_text(table(results))
        return
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    sizes = (options.analyse, options.prompts, options.tokens, options.patience)
    for seed in range(options.seeds):
        run = ms.train(config_of(options.network, seed, options.device, options.steps), progress=False)
        for row in measure_all(run.folder, options.temperatures, options.processes, *sizes):
            rows.append(row)
            rows.sort(key=lambda row: (row["seed"], row["temperature"]))
            write_json(folder(options.keep) / f"closed_loop_{options.network}{options.suffix}.json", rows=rows)


if __name__ == "__main__":
    main()
