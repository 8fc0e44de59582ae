"""Repetition loops of character models that read their own text, as limit cycles with their basins.

    python benchmarks/closed_loop.py --network lstm --keep
    python benchmarks/closed_loop.py --network gated-deltanet --device cuda --keep

A network learns the Penn Treebank by characters (`MNEMOSCOPE_DATA` names the folder with its files). Prompts are pieces
of the test text at equal distances. From each the network writes on by itself: greedily, and with the mean input under
its tempered probabilities fed back. The table has the loops that most prompts reach, with intervals over prompts.
"rate" is the growth of a perturbation per character by the Floquet multipliers, and "measured" the slope of the
distance between a generated state and the loop, over the prompts whose distances are kept.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

import mnemoscope as ms
from common import folder, option_parser, write_json
from mnemoscope.config import PRESETS, RunConfig
from mnemoscope.lenses.closed_loop.feedback import read_prompts
from mnemoscope.tasks import PennTreebank
from mnemoscope.tasks.penn_treebank import VOCABULARY
from mnemoscope.training import load_model

NETWORKS: dict[str, dict[str, Any]] = {
    "lstm": {},
    "gated-deltanet": {"cell": "blocks", "cell_options": {"family": "gated-deltanet", "depth": 2, "heads": 8}},
    "mamba2": {"cell": "blocks", "cell_options": {"family": "mamba2", "depth": 2, "heads": 8, "state_size": 16}},
}
"""Changes of the preset `ptb`, an LSTM of 128 units."""
PROMPT, PROMPTS = 100, 200
"""Characters of a prompt, and number of prompts."""
STEPS, MAX_PERIOD = 2000, 256
TEMPERATURES = (0.1, 0.3, 1.0)
LISTED = 5
"""Loops of each network that are written down."""
SLOPE = (1e-3, 1e-9)
"""Distances between which the slope is measured."""


def config_of(network: str, seed: int, device: str, steps: int) -> RunConfig:
    """Return the configuration of a run."""
    rate = {} if network == "lstm" else {"learning_rate": 3e-3}
    changes = {**NETWORKS[network], **rate, "seed": seed, "device": device, "steps": steps}
    return replace(PRESETS["ptb"], name=f"closed-loop-{network}", **changes)


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
        "settled": loops.settled,
        "tokens": loops.steps,
        "repeating": int(loops.repeating.sum()),
        "repeated": [*zip(loops.repeated[:LISTED], loops.repeated_counts.tolist(), strict=False)],
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


def leading_exponent(model: ms.Model, given: Tensor, temperature: float) -> dict[str, float]:
    """Return the leading Lyapunov exponent of the closed loop per character, and its error; from four prompts."""
    dynamics = ms.close_loop(model, temperature=temperature)
    with torch.no_grad():
        starts = read_prompts(dynamics, given[:, :4], None)[0]
    found = ms.lyapunov_spectrum(dynamics, 1, 1000, 1000, starts, progress=False)
    return {"exponent": float(found.exponents[0]), "exponent_error": float(found.errors[0])}


def measure(network: str, seed: int, device: str, steps: int, prompts: int, tokens: int) -> list[dict[str, Any]]:
    """Train one network, and return its rows."""
    run = ms.train(config_of(network, seed, device, steps), progress=False)
    model, task, _ = load_model(run.folder)
    model = model.to("cpu" if network == "lstm" else device)  # the state of a block is large
    assert isinstance(task, PennTreebank)
    given, rows, longest = prompts_of(task, prompts), [], min(MAX_PERIOD, tokens // 4)
    for temperature in (0.0, *(TEMPERATURES if network == "lstm" else ())):
        before = time.perf_counter()
        loops = ms.find_loops(
            model, given, temperature=temperature, labels=VOCABULARY, steps=tokens, max_period=longest
        )
        row = row_of(loops, time.perf_counter() - before)
        if temperature:
            row |= leading_exponent(model, given, temperature)
        rows.append({"network": network, "seed": seed, "bpc": run.scores["bpc"], **row})
        print(f"{network}, seed {seed}, {run.scores['bpc']:.3f} bits per character: {loops.summary()}", flush=True)
    return rows


def main() -> None:
    """Measure the loops of one network, for several seeds."""
    parser = option_parser(__doc__)
    parser.add_argument("--network", choices=NETWORKS, default="lstm")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where to train")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=PRESETS["ptb"].steps, help="steps of training")
    parser.add_argument("--prompts", type=int, default=PROMPTS)
    parser.add_argument("--tokens", type=int, default=STEPS, help="characters to generate")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    for seed in range(options.seeds):
        rows += measure(options.network, seed, options.device, options.steps, options.prompts, options.tokens)
        write_json(folder(options.keep) / f"closed_loop_{options.network}.json", rows=rows)


if __name__ == "__main__":
    main()
