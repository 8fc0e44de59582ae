"""Fixed points of networks fitted to simulated spikes of a known system, over seeds and two designs of an experiment.

    python benchmarks/recorded_spikes.py --keep

The system, its 40 neurons and both experiments are those of docs/gallery/09_recorded_spikes.ipynb: two stable fixed
points and a saddle. In "one place" all trials begin near the saddle, each with one pulse; in "many places" they begin
all over the plane, half of them without a pulse. The seeds are those of the fit: initial weights, held-out trials and
units. The errors are root mean squares over neurons of the rates at the nearest fixed point of the right kind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import mnemoscope as ms
from common import folder, option_parser, write_json

TRIALS, STEPS, BIN = 120, 60, 0.02
"""Trials, and their steps, bins of so many seconds."""
POINTS = torch.tensor([[-1.0, 1.0], [1.0, 1.0], [0.0, 0.0]]).double()
KINDS = ("stable", "stable", "saddle")


def main() -> None:
    """Fit, search, compare, write."""
    parser = option_parser(__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[*range(8)])
    options = parser.parse_args()
    rows = [measure(design, seed) for design in ("one place", "many places") for seed in options.seeds]
    write_json(folder(options.keep) / "recorded_spikes.json", rows=rows)


def measure(design: str, seed: int) -> dict[str, Any]:
    """Return the scores of one fit, and the errors of its fixed points in Hz."""
    recording, _, rates = experiment(design)
    fit = ms.fit_network(recording.smoothed(60), hidden_size=8, updates=250, forcing=0.1, seed=seed, progress=False)
    points = ms.find_fixed_points(fit.model.cell)
    there = fit.model.readout(points.states.double()).detach()
    errors = []
    for true, kind in zip(rates(POINTS), KINDS, strict=True):
        alike = torch.tensor([each == kind for each in points.kind])
        off = (there[alike] - true).square().mean(1).sqrt()
        errors.append(round(float(off.min()), 1) if len(off) else None)
    stable = points.kind.count("stable")
    row: dict[str, Any] = {"design": design, "seed": seed}
    row |= {"one_step": round(fit.one_step, 2), "free": round(fit.free, 2)}
    row |= {"stable": stable, "others": len(points) - stable, "errors": errors}
    print(row, flush=True)
    return row


def experiment(design: str) -> tuple[ms.Recording, Tensor, Callable[[Tensor], Tensor]]:
    """Return spikes as rates, the true paths, and the rates of the neurons as a function of both variables."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    strength = torch.linspace(-1, 1, TRIALS).double()
    inputs = torch.zeros(STEPS, TRIALS, 1).double()
    if design == "one place":
        inputs[5:15, :, 0] = strength
        state = torch.stack([0.1 * normal(TRIALS), torch.zeros(TRIALS).double()], 1)
    else:
        onset = torch.randint(5, 40, (TRIALS,), generator=generator)
        for trial in range(1, TRIALS, 2):
            inputs[onset[trial] : onset[trial] + 10, trial, 0] = strength[trial]
        a = (torch.rand(TRIALS, generator=generator).double() * 2 - 1) * 1.5
        b = torch.rand(TRIALS, generator=generator).double() * 2 - 0.5
        a = torch.where(torch.rand(TRIALS, generator=generator) < 0.5, 0.1 * a, a)
        state = torch.stack([a, b], 1)
    path = [state]
    for step in range(1, STEPS):
        a, b = path[-1].T
        slope = torch.stack([a - a**3 + 0.8 * inputs[step, :, 0], a**2 - b], 1)
        path.append(path[-1] + 0.1 * slope + 0.02 * normal(TRIALS, 2))
    paths, weights = torch.stack(path), normal(2, 40)

    def rates(states: Tensor) -> Tensor:
        return 20 * torch.nn.functional.softplus(states @ weights + 0.5)  # Hz

    spikes = torch.poisson(rates(paths) * BIN, generator=generator) / BIN
    table = ms.TrialTable.of({"side": (paths[-1, :, 0] > 0).long()}, step=1000 * BIN)
    return ms.Recording(spikes, table, inputs), paths, rates


if __name__ == "__main__":
    main()
