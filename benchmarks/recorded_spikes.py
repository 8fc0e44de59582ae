"""Fixed points of networks fitted to simulated spikes of a known system, over seeds and two designs of an experiment.

    python benchmarks/recorded_spikes.py --keep
    python benchmarks/recorded_spikes.py --keep --sweep     other numbers of trials, rates and ways to fit

The system, its 40 neurons and both experiments are those of docs/gallery/09_recorded_spikes.ipynb: two stable fixed
points and a saddle. In "one place" all trials begin near the saddle, each with one pulse; in "many places" they begin
all over the plane, half of them without a pulse. The seeds are those of the fit: initial weights, held-out trials and
units. The errors are root mean squares over neurons of the rates at the nearest fixed point of the right kind.

The sweep fits a latent network, and one whose units are the recorded ones, to the smoothed rates and to these rates
reduced to three components, for several numbers of trials and firing rates.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import mnemoscope as ms
from common import folder, option_parser, write_json

STEPS, BIN = 60, 0.02
"""Steps of a trial, bins of so many seconds."""
DESIGNS = ("many places", "one place")
POINTS = torch.tensor([[-1.0, 1.0], [1.0, 1.0], [0.0, 0.0]]).double()
KINDS = ("stable", "stable", "saddle")


@dataclass(frozen=True)
class Case:
    """An amount of data, and a way to fit them."""

    units: str = "latent"
    components: int | None = None
    """Principal components to which the smoothed rates are reduced; None for all."""
    trials: int = 120
    rate: float = 1.0
    """Firing rates, relative to those of the notebook: 20 Hz at a softplus of 1."""


SWEEP = (
    Case(),
    Case("recorded"),
    Case("recorded", 3),
    Case(rate=4.0),
    Case("recorded", rate=4.0),
    Case("recorded", 3, rate=4.0),
    Case(trials=480),
    Case("recorded", trials=480),
    Case("recorded", 3, trials=480),
    Case(trials=30),
)


def main() -> None:
    """Fit, search, compare, write."""
    parser = option_parser(__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[*range(8)])
    parser.add_argument("--sweep", action="store_true", help="vary trials, rates and the way to fit")
    parser.add_argument("--processes", type=int, default=1, help="fits at a time")
    parser.add_argument("--measured", type=Path, help="file of rows that were measured before, which are written")
    parser.add_argument("--rows", type=Path, help="file to which finished rows are appended")
    options = parser.parse_args()
    if options.measured is not None:
        rows = [json.loads(line) for line in options.measured.read_text().splitlines()]
    else:
        cases = SWEEP if options.sweep else (Case(),)
        rows = measure_all([(design, seed, case) for seed in options.seeds for case in cases for design in DESIGNS],
                           options.processes, options.rows)  # fmt: skip
    rows.sort(key=lambda row: (DESIGNS[::-1].index(row["design"]), row["seed"]))
    name = "recorded_spikes_sweep.json" if options.sweep else "recorded_spikes.json"
    write_json(folder(options.keep) / name, rows=rows)


def measure_all(jobs: list[tuple[str, int, Case]], processes: int, kept: Path | None) -> list[dict[str, Any]]:
    """Return the rows of all fits, made in several processes; each is printed, and kept in a file, when it is made."""
    rows = []
    with get_context("spawn").Pool(processes) as pool:
        for row in pool.imap_unordered(_measure, jobs):
            print(row, flush=True)
            rows.append(row)
            if kept is not None:
                with kept.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    return rows


def _measure(job: tuple[str, int, Case]) -> dict[str, Any]:
    torch.set_num_threads(1)
    return measure(*job)


def measure(design: str, seed: int, case: Case) -> dict[str, Any]:
    """Return the scores of one fit, and the errors of its fixed points in Hz."""
    recording, _, rates = experiment(design, case.trials, case.rate)
    recording = recording.smoothed(60)
    recording = recording if case.components is None else recording.denoised(case.components)
    size = 8 if case.units == "latent" else 0
    fit = ms.fit_network(
        recording, units=case.units, hidden_size=size, updates=250, forcing=0.1, seed=seed, progress=False
    )
    points = ms.find_fixed_points(fit.model.cell)
    there = fit.model.readout(fit.model.cell.output(points.states.double())).detach() / case.rate
    errors = []
    for true, kind in zip(rates(POINTS), KINDS, strict=True):
        alike = torch.tensor([each == kind for each in points.kind])
        off = (there[alike] - true).square().mean(1).sqrt()
        errors.append(round(float(off.min()), 1) if len(off) else None)
    stable = points.kind.count("stable")
    row: dict[str, Any] = {"design": design, "seed": seed, **asdict(case)}
    row |= {"one_step": round(fit.one_step, 2), "free": round(fit.free, 2)}
    row |= {"stable": stable, "others": len(points) - stable, "errors": errors}
    return row


def experiment(
    design: str, trials: int = 120, factor: float = 1.0
) -> tuple[ms.Recording, Tensor, Callable[[Tensor], Tensor]]:
    """Return spikes as rates, the true paths, and the rates of the neurons as a function of both variables.

    The neurons fire at `factor` times these rates.
    """
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    strength = torch.linspace(-1, 1, trials).double()
    inputs = torch.zeros(STEPS, trials, 1).double()
    if design == "one place":
        inputs[5:15, :, 0] = strength
        state = torch.stack([0.1 * normal(trials), torch.zeros(trials).double()], 1)
    else:
        onset = torch.randint(5, 40, (trials,), generator=generator)
        for trial in range(1, trials, 2):
            inputs[onset[trial] : onset[trial] + 10, trial, 0] = strength[trial]
        a = (torch.rand(trials, generator=generator).double() * 2 - 1) * 1.5
        b = torch.rand(trials, generator=generator).double() * 2 - 0.5
        a = torch.where(torch.rand(trials, generator=generator) < 0.5, 0.1 * a, a)
        state = torch.stack([a, b], 1)
    path = [state]
    for step in range(1, STEPS):
        a, b = path[-1].T
        slope = torch.stack([a - a**3 + 0.8 * inputs[step, :, 0], a**2 - b], 1)
        path.append(path[-1] + 0.1 * slope + 0.02 * normal(trials, 2))
    paths, weights = torch.stack(path), normal(2, 40)

    def rates(states: Tensor) -> Tensor:
        return 20 * torch.nn.functional.softplus(states @ weights + 0.5)  # Hz

    spikes = torch.poisson(factor * rates(paths) * BIN, generator=generator) / BIN
    table = ms.TrialTable.of({"side": (paths[-1, :, 0] > 0).long()}, step=1000 * BIN)
    return ms.Recording(spikes, table, inputs), paths, rates


if __name__ == "__main__":
    main()
