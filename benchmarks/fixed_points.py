"""Speed of the fixed-point search, compared with fixed-point-finder on the same networks and starts.

    make bench                                                      this library alone
    python benchmarks/fixed_points.py --peer ../fixed-point-finder  also the peer, from its checkout

Networks are trained on the 3-bit flip-flop (once; they are kept under runs/bench). A point counts as true if a step of
the network in float64 does not move it: q < 1e-25. Both wall time and CPU time are given, since idle threads that spin
make either one misleading alone. Tables and the plot go to runs/bench, or with --keep to benchmarks/results.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read once, when torch is imported

import torch
from torch import Tensor, nn

import mnemoscope as ms
from common import command, folder, option_parser, write_json
from mnemoscope.config import PRESETS
from mnemoscope.lenses import Adaptive, Dynamics
from mnemoscope.training import load_model, train

TRUE = 1e-25
"""Largest q of a true fixed point."""


@dataclass(frozen=True)
class Measurement:
    """One line of the table."""

    network: str
    size: int
    method: str
    starts: int
    seconds: float
    cpu_seconds: float
    points: int
    true: int
    """Points with q < 1e-25."""
    index_sum: int | None
    largest_q: float
    repeats: int


def main() -> None:
    """Measure, print, write."""
    options = _options()
    torch.set_num_threads(options.threads)
    rows: list[Measurement] = []
    for cell, size in options.networks:
        network, visited = trained(cell, size)
        rows += one_network(network, visited, cell, size, options)
    if options.starts_growth:
        rows += growth_with_starts(options)
    write(rows, options)


def one_network(
    network: nn.RNN | nn.GRU, visited: Tensor, cell: str, size: int, options: argparse.Namespace
) -> list[Measurement]:
    """Measure all starts, the adaptive search and the peer on one network, with the same starts."""
    dynamics = Dynamics(network)
    generator = torch.Generator().manual_seed(0)
    starts = visited[torch.randperm(len(visited), generator=generator)[: options.starts]]
    starts = dynamics.clamp(starts + options.noise * torch.randn(starts.shape, generator=generator, dtype=starts.dtype))
    few = visited[torch.randperm(len(visited), generator=generator)[:64]]
    name = f"{cell} {size}"

    def ours(method: str, given: Any) -> Measurement:
        return measure(name, method, dynamics, given, 5 if size <= 64 else 1)

    rows = [
        ours("mnemoscope, all starts", starts),
        ours("mnemoscope, adaptive", Adaptive(few)),
    ]
    if options.peer and size <= options.peer_up_to:
        rows.append(peer(options.peer, network, starts, name, size))
    for row in rows:
        print(line(row), flush=True)
    return rows


def measure(network: str, method: str, dynamics: Dynamics, starts: Any, repeats: int) -> Measurement:
    """Time the search of this library."""
    fp, wall, cpu = best(lambda: ms.find_fixed_points(dynamics, starts), repeats)
    return Measurement(
        network=network,
        size=dynamics.size,
        method=method,
        starts=0 if fp.starts is None else len(fp.starts),
        seconds=wall,
        cpu_seconds=cpu,
        points=len(fp),
        true=int((fp.q < TRUE).sum()),
        index_sum=fp.index_sum,
        largest_q=float(fp.q.max()),
        repeats=repeats,
    )


def peer(checkout: Path, network: nn.RNN | nn.GRU, starts: Tensor, name: str, size: int) -> Measurement:
    """Time fixed-point-finder with its defaults, except for float64 (float32 cannot reach small q) and no output."""
    sys.path.insert(0, str(checkout))
    finder_type = importlib.import_module("FixedPointFinderTorch").FixedPointFinderTorch
    double = type(network)(network.input_size, network.hidden_size).double()
    double.load_state_dict(network.state_dict())

    def find() -> Any:
        finder = finder_type(double, dtype="float64", verbose=False)
        with contextlib.redirect_stdout(io.StringIO()):
            return finder.find_fixed_points(starts.numpy().copy(), torch.zeros(1, network.input_size).double().numpy())

    repeats = 5 if isinstance(network, nn.RNN) else 1  # it takes minutes on a GRU
    (unique, _), wall, cpu = best(find, repeats)
    states = torch.from_numpy(unique.xstar)
    dynamics = Dynamics(network)
    q = 0.5 * dynamics.residual(states).square().sum(1)
    true = int(((q < TRUE) & dynamics.inside(states)).sum())
    return Measurement(
        network=name,
        size=size,
        method="fixed-point-finder",
        starts=len(starts),
        seconds=wall,
        cpu_seconds=cpu,
        points=len(states),
        true=true,
        index_sum=None,
        largest_q=float(q.max()) if len(q) else float("nan"),
        repeats=repeats,
    )


def growth_with_starts(options: argparse.Namespace) -> list[Measurement]:
    """Measure the time against the number of starts, N = 64."""
    rows = []
    for cell in ("elman", "gru"):
        network, visited = trained(cell, 64)
        dynamics = Dynamics(network)
        for number in (64, 256, 1024, 4096):
            generator = torch.Generator().manual_seed(0)
            picked = visited[torch.randint(len(visited), (number,), generator=generator)]
            picked = picked + options.noise * torch.randn(picked.shape, generator=generator, dtype=picked.dtype)
            rows.append(measure(f"{cell} 64", "growth with starts", dynamics, picked, 3))
            print(line(rows[-1]), flush=True)
    return rows


def trained(cell: str, size: int) -> tuple[nn.RNN | nn.GRU, Tensor]:
    """Return a torch.nn network trained on the 3-bit flip-flop, and the states that it visits (float64)."""
    base = PRESETS["flipflop"]
    large = {"steps": 300, "learning_rate": 5e-4, "batch_size": 32} if size >= 1000 else {}
    config = replace(base, name="bench", cell=cell, hidden_size=size, threads=1 if size <= 64 else 2, **large)
    model, task, _ = load_model(train(config, resume=True, progress=False).folder)
    network = {"elman": nn.RNN, "gru": nn.GRU}[cell](3, size)
    weights = model.cell.state_dict()
    if cell == "elman":
        weights = {
            "weight_ih_l0": weights["drive.weight"],
            "weight_hh_l0": weights["connectivity.matrix"],
            "bias_ih_l0": weights["drive.bias"],
            "bias_hh_l0": torch.zeros(size),
        }
    else:
        weights = {f"{name}_l0": value for name, value in weights.items()}
    network.load_state_dict(weights)
    with torch.no_grad():
        visited = network(task.batch(64, 1, 0, "test").inputs)[0]
    return network, visited.flatten(0, 1).double()


def best(work: Callable[[], Any], repeats: int) -> tuple[Any, float, float]:
    """Return the result, the shortest wall time and its CPU time; with repeats, one call comes first as warm-up."""
    times, result = [], work() if repeats > 1 else None
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        result = work()
        times.append((time.perf_counter() - wall, time.process_time() - cpu))
    return result, *min(times)


def line(row: Measurement) -> str:
    """Return a row for the terminal."""
    return (
        f"{row.network:11} {row.method:24} {row.starts:5} starts {row.seconds:9.3f} s {row.cpu_seconds:9.3f} CPU s "
        f"{row.points:5} points {row.true:3} true  index sum {row.index_sum}  q <= {row.largest_q:.0e}"
    )


def write(rows: list[Measurement], options: argparse.Namespace) -> None:
    """Write JSON, a Markdown table with ratios, and the plot."""
    results = folder(options.keep)
    write_json(results / "fixed_points.json", threads=options.threads, rows=[asdict(row) for row in rows])
    (results / "fixed_points.md").write_text(table(rows, options.threads))
    plot(rows, results / "fixed_points.png")
    print(f"Written to {results}/fixed_points.{{json,md,png}}")


def table(rows: list[Measurement], threads: int) -> str:
    """Return a Markdown table with the time of the peer as a multiple of ours."""
    peer_seconds = {row.network: row.seconds for row in rows if row.method == "fixed-point-finder"}
    lines = [
        "# Fixed points of trained 3-bit flip-flops",
        "",
        f"`{command()}`, {threads} threads. True: q < {TRUE:g} in float64, inside the invariant set. The ratio",
        "is the wall time of the peer over this one, with the same network and starts in the same run.",
        "",
        "| network | method | starts | wall s | CPU s | points | true | index sum | largest q | ratio |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        ratio = (
            f"{peer_seconds[r.network] / r.seconds:.0f}x"
            if r.network in peer_seconds and r.method.startswith("mnemoscope")
            else ""
        )
        sum_ = "" if r.index_sum is None else str(r.index_sum)
        lines.append(
            f"| {r.network} | {r.method} | {r.starts} | {r.seconds:.3f} | {r.cpu_seconds:.3f} | {r.points} | "
            f"{r.true} | {sum_} | {r.largest_q:.0e} | {ratio} |"
        )
    return "\n".join(lines) + "\n"


def plot(rows: list[Measurement], path: Path) -> None:
    """Plot the growth with the size of the network and with the number of starts."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    by_size, by_starts = figure.subplots(1, 2)
    for cell, dash in (("elman", "-"), ("gru", "--")):
        for method in ("mnemoscope, all starts", "mnemoscope, adaptive", "fixed-point-finder"):
            line_rows = [r for r in rows if r.method == method and r.network.startswith(cell)]
            if line_rows:
                seconds = [r.seconds for r in line_rows]
                by_size.loglog([r.size for r in line_rows], seconds, f"o{dash}", label=f"{cell}: {method}")
        line_rows = [r for r in rows if r.method == "growth with starts" and r.network.startswith(cell)]
        if line_rows:
            seconds = [r.seconds for r in line_rows]
            by_starts.loglog([r.starts for r in line_rows], seconds, f"o{dash}", label=f"{cell} 64")
    by_size.set(xlabel="units N", ylabel="wall seconds", title="growth with the network")
    by_starts.set(xlabel="starts", ylabel="wall seconds", title="growth with the starts, N = 64")
    for axes in (by_size, by_starts):
        axes.grid(alpha=0.3)
        if axes.lines:
            axes.legend(fontsize="xx-small")
    figure.savefig(path, dpi=150)


def _options() -> argparse.Namespace:
    parser = option_parser(__doc__)
    parser.add_argument("--peer", type=Path, help="checkout of fixed-point-finder to compare with")
    parser.add_argument(
        "--peer-up-to", type=int, default=64, help="largest network for the peer (it takes minutes above)"
    )
    parser.add_argument("--starts", type=int, default=1024)
    parser.add_argument("--noise", type=float, default=1.0, help="standard deviation added to the visited states")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sizes", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--large", action="store_true", help="also a tanh network of 1000 units (trains for minutes)")
    parser.add_argument("--no-starts-growth", dest="starts_growth", action="store_false")
    options = parser.parse_args()
    options.networks = [(cell, size) for size in options.sizes for cell in ("elman", "gru")]
    options.networks += [("elman", 1000)] if options.large else []
    return options


if __name__ == "__main__":
    main()
