"""Time of one start of the fixed-point search in a trained reservoir of 1000 units.

    python benchmarks/reservoirs_fixed_points.py                 320 starts, one thread
    python benchmarks/reservoirs_fixed_points.py --device cuda   all starts of a kind together
    python benchmarks/reservoirs_fixed_points.py --device cuda --size 4096 --no-stability --keep

An echo state network learns the 3-bit flip-flop by FORCE. Its fixed points are then searched from four kinds of starts,
equally many of each: states of a run, the same with noise, random outputs fed back, and mid-points between the points
found. For each kind, CPU and wall seconds and the points found are given. Memory is the rise of the peak from before
the first start to the result with its Jacobians: of torch's allocations on a GPU, of the resident set on a CPU. The
stability of the points is timed separately: eigenvalues are computed on the CPU, which takes minutes for thousands of
units. The result goes to runs/bench, or with --keep to benchmarks/results; the name of the file contains the number
of units, unless it is 1000.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read once, when torch is imported

import torch
from torch import Tensor

import mnemoscope as ms
from common import folder, option_parser, peak_memory, synchronise, write_json
from mnemoscope.cells import EchoState
from mnemoscope.lenses import Adaptive, Dynamics, FixedPoints, FromOutputs, FromTrajectories, Tolerances
from mnemoscope.lenses.fixed_points.catalogue import Catalogue
from mnemoscope.lenses.fixed_points.descent import Descent, Outcome
from mnemoscope.lenses.fixed_points.lens import collect_result, default_solver
from mnemoscope.lenses.fixed_points.outcomes import Status
from mnemoscope.tasks import FlipFlop

REST = 25
"""Steps of the network before a start is passed to the solver."""


@dataclass(frozen=True)
class Measurement:
    """The search from one kind of starts."""

    starts: str
    number: int
    cpu_seconds: float
    wall_seconds: float
    reached: int
    """Starts that ended at a fixed point."""
    new: int
    """Fixed points that were not known before."""
    index_sum: int
    """Index sum of all points found up to here."""


class Search:
    """One catalogue, filled by several kinds of starts in turn."""

    def __init__(self, dynamics: Dynamics) -> None:
        self.dynamics, self.catalogue = dynamics, Catalogue(dynamics)
        self.rows: list[Measurement] = []
        self.outcomes: list[Outcome] = []

    def run(self, kind: str, starts: Tensor, since: tuple[float, float]) -> None:
        """Search from `starts`; the time counts from `since` (CPU, wall), so it includes drawing them."""
        known = len(self.catalogue)
        solver = default_solver(self.dynamics.size)
        with torch.no_grad():
            outcome = Descent(solver, self.catalogue, Tolerances()).run(starts)
        cpu, wall = (now - then for now, then in zip(clock(self.dynamics), since, strict=True))
        self.outcomes.append(outcome)
        reached = int((outcome.status == Status.FIXED).sum())
        row = Measurement(kind, len(starts), cpu, wall, reached, len(self.catalogue) - known, self.catalogue.index_sum)
        self.rows.append(row)
        print(
            f"{kind:16} {row.number:4} starts {cpu:8.2f} CPU s {wall:8.2f} s, {cpu / row.number:.3f} CPU s each, "
            f"{reached} reached a point, {row.new} new, index sum {row.index_sum}",
            flush=True,
        )

    def points(self) -> FixedPoints:
        """Return all points found."""
        return collect_result(self.catalogue, Outcome.concatenate(self.outcomes), "")


def main() -> None:
    """Train, search, print, write."""
    options = _options()
    torch.set_num_threads(options.threads)
    cell, error = trained(options.size, options.seed, options.device)
    dynamics = Dynamics(cell)
    before = peak_memory(options.device, reset=True)
    run = FlipFlop(3, 5000, 0.03, 11, 16, 15).batch(1, options.seed, 0, "test").inputs
    search, generator, number = Search(dynamics), torch.Generator().manual_seed(options.seed), options.starts // 4
    kinds = {
        "trajectories": FromTrajectories(run, number, rest=REST),
        "noisy": FromTrajectories(run, number, noise=options.noise, rest=REST),
        "random outputs": FromOutputs(number),
    }
    for kind, strategy in kinds.items():
        since = clock(dynamics)
        search.run(kind, strategy.draw(dynamics, generator), since)
    since = clock(dynamics)
    found = search.catalogue
    middle = Adaptive(number=number).combine(found.states, found.index.tolist(), set(), generator, nearest=True)
    search.run("mid-points", middle, since)
    since = clock(dynamics)
    fp = search.points()
    peak = (peak_memory(options.device) - before) / 2**20
    result_seconds = clock(dynamics)[1] - since[1]
    print(f"{'result':16} {len(fp):4} points {result_seconds:8.2f} s, {peak:.0f} MiB in all\n{fp.completeness}")
    stability = measure_stability(fp, dynamics) if options.stability else {}
    total = sum(row.cpu_seconds for row in search.rows), sum(row.wall_seconds for row in search.rows)
    starts = sum(row.number for row in search.rows)
    print(f"{total[0] / starts:.3f} CPU s and {total[1] / starts:.3f} s per start, {total[1]:.1f} s in total")
    size = "" if options.size == 1000 else f"_{options.size}"
    path = folder(options.keep) / f"reservoirs_fixed_points{size}_{dynamics.device.type}.json"
    write_json(
        path,
        units=options.size,
        threads=options.threads,
        device=dynamics.device.type,
        training_error=error,
        rows=[asdict(row) for row in search.rows],
        wall_seconds=total[1] + result_seconds,
        peak_mib=peak,
        cpu_seconds_per_start=total[0] / starts,
        wall_seconds_per_start=total[1] / starts,
        number_of_points=len(fp),
        index_sum=fp.index_sum,
        largest_q=float(fp.q.max()),
        completeness=fp.completeness,
        **stability,
    )
    print(f"Written to {path}")


def measure_stability(fp: FixedPoints, dynamics: Dynamics) -> dict[str, Any]:
    """Return the kinds of the points and the summary, with the time that they take."""
    since = clock(dynamics)
    kinds = Counter(f"{kind}, {up} unstable" for kind, up in zip(fp.kind, fp.unstable.tolist(), strict=True))
    summary = fp.summary()
    cpu, wall = (now - then for now, then in zip(clock(dynamics), since, strict=True))
    print(f"{'stability':16} {len(fp):4} points {cpu:8.2f} CPU s {wall:8.2f} s\n{summary}")
    return {
        "stability": {"cpu_seconds": cpu, "wall_seconds": wall},
        "points": dict(sorted(kinds.items())),
        "summary": summary,
    }


def trained(size: int, seed: int, device: str) -> tuple[EchoState, float]:
    """Return a reservoir that learned the 3-bit flip-flop, and its mean error at the end of training."""
    torch.manual_seed(seed)
    cell = EchoState(3, size, output_size=3, input_scale=4.0).to(device)
    batch = FlipFlop(3, 30000, 0.03, 11, 16, 0).batch(1, seed, 0)
    run = ms.train_force(cell, batch.inputs.to(device), batch.targets.to(device), mask=batch.mask.to(device))
    print(run.summary(), flush=True)
    return cell, float(run.errors[-len(run.errors) // 10 :].mean())


def clock(dynamics: Dynamics) -> tuple[float, float]:
    """Return CPU and wall seconds after the device has finished its work."""
    synchronise(dynamics.device.type)
    return time.process_time(), time.perf_counter()


def _options() -> argparse.Namespace:
    parser = option_parser(__doc__)
    parser.add_argument("--size", type=int, default=1000, help="units of the reservoir")
    parser.add_argument("--starts", type=int, default=320, help="total number of starts, a quarter of each kind")
    parser.add_argument("--noise", type=float, default=0.5, help="standard deviation of the noisy starts")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--no-stability", dest="stability", action="store_false", help="leave out the eigenvalues")
    return parser.parse_args()


if __name__ == "__main__":
    main()
