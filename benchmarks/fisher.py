"""Speed of the Fisher memory of a network, and its growth with N.

    make bench
    python benchmarks/fisher.py --keep

Vector networks (500 lags), general matrix networks (50 lags, states of N x N numbers) by both routes, and normal ones,
with random matrices of spectral radius 0.95. They are compared with the naive dense solution of the flat system: the
matrix of the step (`np.kron` for matrix networks), `scipy.linalg.solve_discrete_lyapunov`, a Cholesky factor, and a
loop over signals until they vanish. scipy uses its "bilinear" method, the default from 10 units on (Bartels and
Stewart, by Schur forms). Its "direct" method solves for n^2 unknowns, with n numbers in a state, and would need
terabytes at N = 32. "numpy, doubled" is a faster variant without structure: the same sum by doubling, with products of
n x n matrices.

Times are medians of repeats that take turns, so that all see the same load; compare ratios. CPU time is that of all
threads: two, unless OMP_NUM_THREADS is set, for torch and numpy alike. Peak memory is the resident set of a process
that does nothing else, libraries included.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read once, when torch and numpy are imported
os.environ.setdefault("OMP_NUM_THREADS", "2")

import numpy as np
import scipy.linalg
import torch

import mnemoscope as ms
from common import command, folder, option_parser, peak_memory, take_turns, write_json
from mnemoscope.lenses.fisher.routes import Route

THREADS = int(os.environ["OMP_NUM_THREADS"])
RADIUS = 0.95
LAGS = {"vector": 500, "matrix": 50, "normal": 50}
DENSE_UP_TO = {"vector": 1000, "matrix": 32, "normal": 0}
"""Largest N for which the dense solutions are measured."""
BOTH_ROUTES_UP_TO = 64
"""Largest N for which the covariance of a matrix network is formed."""
SLOW = 10.0
"""A method that takes this many seconds is measured once."""
COLOURS = {
    "mnemoscope": "#1f6f8b",
    "dense route": "#1f6f8b",
    "matrix-free route": "#c8553d",
    "scipy": "#7a7a7a",
    "numpy, doubled": "#b0a990",
}


@dataclass(frozen=True)
class Measurement:
    """One line of the table."""

    kind: str
    size: int
    """Units, N."""
    numbers: int
    """Numbers in a state."""
    method: str
    wall_s: float
    cpu_s: float
    peak_gb: float
    total: float
    """J_tot, which must agree between methods."""
    repeats: int
    route: str


Answer = tuple[float, str]
"""The total, and the route by which it was computed."""


def main() -> None:
    """Measure, print, write."""
    options = _options()
    if options.one:
        kind, size, method = options.one
        print(json.dumps(measure_once(kind, int(size), method)))
        return
    sizes = {"vector": options.sizes, "matrix": options.matrices, "normal": options.normal}
    cases = [(kind, size) for kind in sizes for size in sizes[kind]]
    first = {case: {method: measure_in_process(*case, method) for method in methods(*case)} for case in cases}
    rows = [row for case in cases for row in measure(*case, first[case], options.repeats)]
    results = folder(options.keep)
    write_json(results / "fisher.json", threads=THREADS, rows=[asdict(row) for row in rows])
    (results / "fisher.md").write_text(table(rows, options))
    plot(rows, results / "fisher.png")
    print(f"Written to {results}/fisher.{{json,md,png}}")


def measure_in_process(kind: str, size: int, method: str) -> dict[str, Any]:
    """Measure one method in a new process, before this one allocates much: a child inherits the peak of its parent."""
    call = [sys.executable, __file__, "--one", kind, str(size), method]
    return json.loads(subprocess.run(call, check=True, capture_output=True, text=True).stdout)


def measure(kind: str, size: int, first: dict[str, dict[str, Any]], repeats: int) -> list[Measurement]:
    """Measure all methods at one size, in turns; a method that was slow the `first` time is not repeated."""
    quick = {method: work for method, work in methods(kind, size).items() if first[method]["wall_s"] < SLOW}
    wall, cpu = take_turns(quick, repeats, warm_up=1)
    rows = []
    for method, single in first.items():
        seconds = (wall[method], cpu[method]) if method in quick else (single["wall_s"], single["cpu_s"])
        row = Measurement(
            kind=kind,
            size=size,
            numbers=size if kind == "vector" else size**2,
            method=method,
            wall_s=seconds[0],
            cpu_s=seconds[1],
            peak_gb=single["peak_gb"],
            total=single["total"],
            repeats=repeats if method in quick else 1,
            route=single["route"],
        )
        rows.append(row)
        print(
            f"{kind} N {size:5} {method:18} {row.wall_s:9.3f} s {row.cpu_s:9.3f} CPU s {row.peak_gb:6.2f} GB, "
            f"total {row.total:.10g}: {row.route}",
            flush=True,
        )
    return rows


def measure_once(kind: str, size: int, method: str) -> dict[str, Any]:
    """Measure one method once, with the peak memory of this process."""
    work = methods(kind, size)[method]
    start, start_cpu = time.perf_counter(), time.process_time()
    total, route = work()
    wall, cpu = time.perf_counter() - start, time.process_time() - start_cpu
    peak = peak_memory("cpu") / 2**30
    return {"wall_s": wall, "cpu_s": cpu, "peak_gb": peak, "total": total, "route": route}


def methods(kind: str, size: int) -> dict[str, Callable[[], Answer]]:
    """Return the methods to measure, by name; the networks are made before the clock starts."""
    lags = LAGS[kind]
    work: dict[str, Callable[[], Answer]]
    if kind == "vector":
        A, w = stable(size, 0), randn(size, seed=2)
        work = {"mnemoscope": lambda: ours(ms.fisher_memory(A, w, lags=lags))}
        flat = (lambda: A.numpy()), w.numpy()
    else:
        make = stable if kind == "matrix" else normal
        system = ms.MatrixSystem(make(size, 0), make(size, 1), randn(size, size, seed=2))
        work = {"mnemoscope": lambda: ours(ms.fisher_memory(system, lags=lags))}
        if kind == "matrix":
            routes = ("dense", "matrix-free") if size <= BOTH_ROUTES_UP_TO else ("matrix-free",)
            work = {f"{route} route": partial(by_route, system, lags, route) for route in routes}
        flat = (lambda: np.kron(system.U.mT.numpy(), system.V.mT.numpy())), system.W.flatten().numpy()
    if size <= DENSE_UP_TO[kind]:
        work["scipy"] = lambda: dense(flat[0](), flat[1], lags, scipy_covariance)
        work["numpy, doubled"] = lambda: dense(flat[0](), flat[1], lags, doubled)
    return work


def ours(memory: ms.FisherMemory) -> Answer:
    """Compute the curve and the total, as a user would."""
    memory.curve.sum()
    return float(memory.total), memory.route


def by_route(system: ms.MatrixSystem, lags: int, route: Route) -> Answer:
    """Compute the memory by one of the two routes."""
    return ours(ms.fisher_memory(system, lags=lags, route=route))


def dense(A: np.ndarray, w: np.ndarray, lags: int, covariance: Callable[[np.ndarray], np.ndarray]) -> Answer:
    """Solve the flat system naively."""
    factor = scipy.linalg.cholesky(covariance(A), lower=True)
    signals = [w]
    while len(signals) < lags or signals[-1] @ signals[-1] > 1e-24 * (w @ w):
        signals.append(A @ signals[-1])
    traces = scipy.linalg.solve_triangular(factor, np.stack(signals, 1), lower=True)
    curve = (traces**2).sum(0)
    return float(curve.sum()), f"{len(A)} x {len(A)} matrices"


def scipy_covariance(A: np.ndarray) -> np.ndarray:
    """Return the covariance by scipy's default method."""
    return scipy.linalg.solve_discrete_lyapunov(A, np.eye(len(A)))


def doubled(A: np.ndarray) -> np.ndarray:
    """Return the sum of `A^k A^kT`, with twice as many terms in each iteration."""
    C = np.eye(len(A))
    while True:
        added = A @ C @ A.T
        C = C + added
        if abs(added).max() <= 1e-17 * abs(C).max():
            return C
        A = A @ A


def randn(*shape: int, seed: int) -> torch.Tensor:
    """Return standard normal numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def stable(size: int, seed: int) -> torch.Tensor:
    """Return a random matrix of spectral radius `RADIUS`."""
    A = randn(size, size, seed=seed)
    return RADIUS * A / torch.linalg.eigvals(A).abs().max()


def normal(size: int, seed: int) -> torch.Tensor:
    """Return a symmetric random matrix of spectral radius `RADIUS`."""
    A = stable(size, seed)
    A = A + A.mT
    return RADIUS * A / torch.linalg.eigvalsh(A).abs().max()


def table(rows: list[Measurement], options: argparse.Namespace) -> str:
    """Return the measurements as a Markdown table."""
    lines = [
        "# Fisher memory: time, memory, and growth with N",
        "",
        f"`{command()}`, {THREADS} thread(s), float64, spectral radius {RADIUS} (of U and of V); vector networks "
        f"{LAGS['vector']} lags, matrix networks {LAGS['matrix']}.",
        'scipy is `solve_discrete_lyapunov` of the flat system, method "bilinear" (its default from 10 units on), and '
        "a Cholesky factor; numpy, doubled, is the same sum by doubling flat matrices.",
        "",
        "| network | N | numbers in a state | method | s | CPU s | peak GB | total | times faster than scipy |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    scipy_s = {(row.kind, row.size): row.wall_s for row in rows if row.method == "scipy"}
    for row in rows:
        reference = scipy_s.get((row.kind, row.size))
        faster = "" if reference is None or row.method == "scipy" else f"{reference / row.wall_s:.1f}"
        lines.append(
            f"| {row.kind} | {row.size} | {row.numbers:,} | {row.method} | {row.wall_s:.3f} | {row.cpu_s:.3f} | "
            f"{row.peak_gb:.2f} | {row.total:.8g} | {faster} |"
        )
    lines += [
        "",
        f"Methods that take {SLOW:.0f} s or more are measured once, in a new process; other times are medians of "
        f"{options.repeats}. The dense solutions are not measured beyond N = {DENSE_UP_TO['matrix']} of a matrix "
        "network: their work grows like N^6.",
    ]
    return "\n".join(lines) + "\n"


def plot(rows: list[Measurement], path: Path) -> None:
    """Plot the growth with N."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4), layout="constrained")
    for kind, axes in zip(LAGS, figure.subplots(1, 3), strict=True):
        for method, colour in COLOURS.items():
            points = [(row.size, row.wall_s) for row in rows if (row.kind, row.method) == (kind, method)]
            if points:
                axes.loglog(*zip(*points, strict=True), marker="o", markersize=4, color=colour, label=method)
        sizes = sorted({row.size for row in rows if row.kind == kind})
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.minorticks_off()
        axes.set(title=f"{kind} networks, {LAGS[kind]} lags", xlabel="N", ylabel="seconds")
        axes.spines[["top", "right"]].set_visible(False)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


def _options() -> argparse.Namespace:
    parser = option_parser(__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=[100, 200, 500, 1000], help="N of vector networks")
    parser.add_argument("--matrices", type=int, nargs="*", default=[8, 16, 32, 48, 64, 96], help="N, general matrices")
    parser.add_argument("--normal", type=int, nargs="*", default=[32, 64, 128, 225], help="N, normal matrices")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--one", nargs=3, metavar=("KIND", "N", "METHOD"), help="measure once, print JSON")
    return parser.parse_args()


if __name__ == "__main__":
    main()
