"""How fast is the Fisher memory of a network, and how does it grow with N?

    make bench
    python benchmarks/fisher.py --keep

Vector networks (500 lags), general matrix networks (50 lags, states of N x N numbers) by both routes, and normal ones;
random matrices of spectral radius 0.95. Beside them the dense solution of the flat system, as one writes it first: the
matrix of the step (`np.kron` for matrix networks), `scipy.linalg.solve_discrete_lyapunov`, a factor by Cholesky,
signals one by one until they vanish. scipy takes its "bilinear" method, its default from 10 units on (Bartels and
Stewart, by Schur forms); its "direct" one solves for n^2 unknowns at once, n being the numbers of a state: terabytes at
N = 32. "numpy, doubled" is a faster variant that takes no structure either: the same sum by doubling, with products of
n x n matrices.

Medians of repeats that take turns, so that all meet the same machine; compare ratios. CPU time is of all threads, two
unless OMP_NUM_THREADS says otherwise, for torch and numpy alike. Peak memory is the resident set of a process that does
nothing else, the libraries included.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
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
from common import command, folder, take_turns, write_json
from mnemoscope.lenses.fisher.routes import Route

THREADS = int(os.environ["OMP_NUM_THREADS"])
RADIUS = 0.95
LAGS = {"vector": 500, "matrix": 50, "normal": 50}
DENSE_UP_TO = {"vector": 1000, "matrix": 32, "normal": 0}
"""N up to which the dense solutions are measured."""
BOTH_ROUTES_UP_TO = 64
"""N up to which the covariance of a matrix network is formed."""
SLOW = 10.0
"""Seconds from which one turn must do."""
COLOURS = {
    "mnemoscope": "#1f6f8b",
    "dense route": "#1f6f8b",
    "matrix-free route": "#c8553d",
    "scipy": "#7a7a7a",
    "numpy, doubled": "#b0a990",
}


@dataclass(frozen=True)
class Measured:
    """One line of the table."""

    kind: str
    size: int
    """N."""
    numbers: int
    """Of a state."""
    who: str
    wall_s: float
    cpu_s: float
    peak_gb: float
    total: float
    """J_tot, which all should agree on."""
    repeats: int
    route: str


Answer = tuple[float, str]
"""The total, and how it was computed."""


def main() -> None:
    """Measure, print, write."""
    options = _options()
    if options.one:
        kind, size, who = options.one
        print(json.dumps(alone(kind, int(size), who)))
        return
    sizes = {"vector": options.sizes, "matrix": options.matrices, "normal": options.normal}
    cases = [(kind, size) for kind in sizes for size in sizes[kind]]
    first = {case: {who: in_a_process(*case, who) for who in contenders(*case)} for case in cases}
    rows = [row for case in cases for row in measured(*case, first[case], options.repeats)]
    results = folder(options.keep)
    write_json(results / "fisher.json", threads=THREADS, rows=[asdict(row) for row in rows])
    (results / "fisher.md").write_text(table(rows, options))
    plot(rows, results / "fisher.png")
    print(f"Written to {results}/fisher.{{json,md,png}}")


def in_a_process(kind: str, size: int, who: str) -> dict[str, Any]:
    """One of them in a process of its own; before anything large is done here: a child inherits its parent's peak."""
    typed = [sys.executable, __file__, "--one", kind, str(size), who]
    return json.loads(subprocess.run(typed, check=True, capture_output=True, text=True).stdout)


def measured(kind: str, size: int, first: dict[str, dict[str, Any]], repeats: int) -> list[Measured]:
    """Everyone at one size, in turns; those that were slow by themselves are not asked again."""
    work = contenders(kind, size)
    quick = {who: one for who, one in work.items() if first[who]["wall_s"] < SLOW}
    wall, cpu = take_turns(quick, repeats, warm_up=1)
    rows = []
    for who, alone in first.items():
        seconds = (wall[who], cpu[who]) if who in quick else (alone["wall_s"], alone["cpu_s"])
        numbers = size if kind == "vector" else size**2
        rows.append(Measured(kind, size, numbers, who, *seconds, alone["peak_gb"], alone["total"],
                             repeats if who in quick else 1, alone["route"]))  # fmt: skip
        print(f"{kind} N {size:5} {who:18} {seconds[0]:9.3f} s {seconds[1]:9.3f} CPU s {alone['peak_gb']:6.2f} GB, "
              f"total {alone['total']:.10g}: {alone['route']}", flush=True)  # fmt: skip
    return rows


def alone(kind: str, size: int, who: str) -> dict[str, Any]:
    """One of them, once, and the most memory this process ever held."""
    work = contenders(kind, size)[who]
    start, start_cpu = time.perf_counter(), time.process_time()
    total, route = work()
    wall, cpu = time.perf_counter() - start, time.process_time() - start_cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # kilobytes on Linux
    return {"wall_s": wall, "cpu_s": cpu, "peak_gb": peak, "total": total, "route": route}


def contenders(kind: str, size: int) -> dict[str, Callable[[], Answer]]:
    """Who is measured on what; the networks are made before the clock runs."""
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
    """The curve and the total, as a user would ask for them."""
    memory.curve.sum()
    return float(memory.total), memory.route


def by_route(system: ms.MatrixSystem, lags: int, route: Route) -> Answer:
    """One of the two that can be chosen."""
    return ours(ms.fisher_memory(system, lags=lags, route=route))


def dense(A: np.ndarray, w: np.ndarray, lags: int, covariance: Callable[[np.ndarray], np.ndarray]) -> Answer:
    """The flat system, as one writes it first."""
    factor = scipy.linalg.cholesky(covariance(A), lower=True)
    signals = [w]
    while len(signals) < lags or signals[-1] @ signals[-1] > 1e-24 * (w @ w):
        signals.append(A @ signals[-1])
    traces = scipy.linalg.solve_triangular(factor, np.stack(signals, 1), lower=True)
    curve = (traces**2).sum(0)
    return float(curve.sum()), f"{len(A)} x {len(A)} matrices"


def scipy_covariance(A: np.ndarray) -> np.ndarray:
    """By scipy's own choice of method."""
    return scipy.linalg.solve_discrete_lyapunov(A, np.eye(len(A)))


def doubled(A: np.ndarray) -> np.ndarray:
    """The sum of `A^k A^kT`, twice as many of them at a time."""
    C = np.eye(len(A))
    while True:
        added = A @ C @ A.T
        C = C + added
        if abs(added).max() <= 1e-17 * abs(C).max():
            return C
        A = A @ A


def randn(*shape: int, seed: int) -> torch.Tensor:
    """Standard normal numbers of a seed."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def stable(size: int, seed: int) -> torch.Tensor:
    """A random matrix of the spectral radius."""
    A = randn(size, size, seed=seed)
    return RADIUS * A / torch.linalg.eigvals(A).abs().max()


def normal(size: int, seed: int) -> torch.Tensor:
    """A symmetric one."""
    A = stable(size, seed)
    A = A + A.mT
    return RADIUS * A / torch.linalg.eigvalsh(A).abs().max()


def table(rows: list[Measured], options: argparse.Namespace) -> str:
    """Markdown."""
    lines = [
        "# Fisher memory: time, memory, and growth with N",
        "",
        f"`{command()}`, {THREADS} thread(s), float64, spectral radius {RADIUS} (of U and of V); vector networks "
        f"{LAGS['vector']} lags, matrix networks {LAGS['matrix']}.",
        'scipy is `solve_discrete_lyapunov` of the flat system, method "bilinear" (its default from 10 units on), and '
        "a factor by Cholesky; numpy, doubled, the same sum by doubling flat matrices.",
        "",
        "| network | N | numbers of a state | who | s | CPU s | peak GB | total | times faster than scipy |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    scipy_s = {(row.kind, row.size): row.wall_s for row in rows if row.who == "scipy"}
    for row in rows:
        beside = scipy_s.get((row.kind, row.size))
        faster = "" if beside is None or row.who == "scipy" else f"{beside / row.wall_s:.1f}"
        lines.append(
            f"| {row.kind} | {row.size} | {row.numbers:,} | {row.who} | {row.wall_s:.3f} | {row.cpu_s:.3f} | "
            f"{row.peak_gb:.2f} | {row.total:.8g} | {faster} |"
        )
    lines += [
        "",
        f"Runs of {SLOW:.0f} s and more were taken once, in a process of their own; the others are medians of "
        f"{options.repeats}. The dense solutions are not measured beyond N = {DENSE_UP_TO['matrix']} of a matrix "
        "network: their work grows like N^6.",
    ]
    return "\n".join(lines) + "\n"


def plot(rows: list[Measured], path: Path) -> None:
    """Growth with N."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4), layout="constrained")
    for kind, axes in zip(LAGS, figure.subplots(1, 3), strict=True):
        for who, colour in COLOURS.items():
            points = [(row.size, row.wall_s) for row in rows if (row.kind, row.who) == (kind, who)]
            if points:
                axes.loglog(*zip(*points, strict=True), marker="o", markersize=4, color=colour, label=who)
        sizes = sorted({row.size for row in rows if row.kind == kind})
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.minorticks_off()
        axes.set(title=f"{kind} networks, {LAGS[kind]} lags", xlabel="N", ylabel="seconds")
        axes.spines[["top", "right"]].set_visible(False)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="*", default=[100, 200, 500, 1000], help="N of vector networks")
    parser.add_argument("--matrices", type=int, nargs="*", default=[8, 16, 32, 48, 64, 96], help="N, general ones")
    parser.add_argument("--normal", type=int, nargs="*", default=[32, 64, 128, 225], help="N, normal ones")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--keep", action="store_true", help="write to benchmarks/results instead of runs/bench")
    parser.add_argument("--one", nargs=3, metavar=("KIND", "N", "WHO"), help="measure one, once, and print it as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    main()
