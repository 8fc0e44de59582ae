"""Bias of the measured memory capacity of linear networks, whose capacity is known in closed form.

    python benchmarks/memory_capacity.py --keep

The networks are orthogonal matrices times a radius, driven by one signal. Each is measured with several seeds, which
draw the signals; the table has the mean over the seeds and its standard error, their standard deviation, and the mean
of the standard errors that the lens reports. It takes a minute or two on one core.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import mean, stdev

import numpy as np
import torch

import mnemoscope as ms
from common import folder, option_parser, write_json
from mnemoscope.cells import Elman
from mnemoscope.connectivity import Dense


@dataclass(frozen=True)
class Case:
    """A network and its measurement."""

    size: int
    radius: float
    steps: int
    delays: int
    washout: int
    seeds: int


CASES = (
    Case(150, 0.995, steps=3000, delays=1500, washout=1000, seeds=20),
    Case(150, 0.995, steps=3000, delays=100, washout=1000, seeds=20),
    Case(30, 0.98, steps=800, delays=400, washout=500, seeds=40),
    Case(20, 0.99, steps=300, delays=500, washout=1000, seeds=40),  # too few steps
)


def main() -> None:
    """Measure, print, write."""
    parser = option_parser(__doc__)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for case in CASES:
        rows.append({**asdict(case), **_measured(case)})
        print(rows[-1])
    write_json(folder(options.keep) / "memory_capacity.json", rows=rows)


def _measured(case: Case) -> dict[str, float]:
    """Return the exact capacity over these delays, and the measured ones over the seeds."""
    generator = np.random.default_rng(0)
    matrix = torch.from_numpy(case.radius * np.linalg.qr(generator.standard_normal((case.size, case.size)))[0])
    network = Elman(1, case.size, "linear", Dense.from_matrix(matrix), bias=False).double()
    with torch.no_grad():
        next(network.drive.parameters()).copy_(torch.from_numpy(generator.standard_normal((case.size, 1))))
    exact = float(ms.memory_capacity(network, lags=case.delays).curve.sum())
    found = [
        ms.measure_memory_capacity(network, steps=case.steps, delays=case.delays, washout=case.washout, seed=seed)
        for seed in range(case.seeds)
    ]
    totals = [float(each.total) for each in found]
    numbers = {
        "exact": exact,
        "mean": mean(totals),
        "error of the mean": stdev(totals) / case.seeds**0.5,
        "deviation": stdev(totals),
        "reported error": mean(float(each.total_error) for each in found),
    }
    return {name: round(value, 3) for name, value in numbers.items()}


if __name__ == "__main__":
    main()
