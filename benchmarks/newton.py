"""Newton's method over a sequence: its speed beside sequential scans, and its iterations across the edge of chaos.

    python benchmarks/newton.py                               small sizes on a CPU
    python benchmarks/newton.py --device cuda --keep          the goals: T = 100,000, B 1, on a GPU
    python benchmarks/newton.py --parts edge --keep           random tanh networks of gain 0.5 to 2, on a CPU
    python benchmarks/newton.py --parts edge --edge-units 32 --seeds 3 --label _small --keep

Speed, float32. "newton" is `scan(..., backend="newton")`. "sequential" is the fastest sequential scan of the same
function: for tanh the fused scan of this library; for the diagonal GRU that of a dense GRU whose matrices are diagonal;
the diagonal LSTM has none. "loop" is the loop of steps, timed on `--loop-steps` of them. Times are medians of repeats
that take turns. The goals on one H200: diagonal GRU 50 times and contracting tanh of 32 units 5 times as fast as
"sequential", forward and backward. "error" is the largest difference of outputs from "loop" in float64, on the first
`--loop-steps` steps.

Edge: tanh networks with Gaussian matrices of variance gain^2 / N and weak random inputs, float64. The lens
`measure_predictability` computes the largest Lyapunov exponent on all inputs, and counts iterations on pieces of 32 to
128 steps; its expectation for all steps is compared with the iterations that Newton's method takes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from math import nan
from pathlib import Path

import torch
from torch import Tensor

import mnemoscope as ms
from common import command, figures, folder, option_parser, synchronise, take_turns, write_json
from mnemoscope.cells import GRU, Cell, DiagonalGRU, DiagonalLSTM, Elman, Newton
from mnemoscope.connectivity import Dense
from mnemoscope.drawing.axes import new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT

INPUTS = 10
"""Input features."""
GAINS = (0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)
"""Spectral radius of the random matrices, about."""
PIECES = (32, 64, 128)
"""Steps on which the lens counts iterations."""
GOALS = {"diagonal gru": 50, "tanh": 5}
"""How many times as fast as the sequential scan Newton's method should be on one H200."""


@dataclass(frozen=True)
class Speed:
    """One line of the table of times."""

    cell: str
    units: int
    batch: int
    steps: int
    method: str
    forward_ms: float
    both_ms: float
    """Milliseconds forward and backward."""
    iterations: int | None
    error: float
    """Largest difference of outputs from the loop in float64."""


@dataclass(frozen=True)
class Edge:
    """One network near the edge of chaos."""

    gain: float
    seed: int
    exponent: float
    error: float
    """Two standard errors of the exponent."""
    expected: tuple[int, int]
    """Least and largest number of iterations that the lens expects."""
    iterations: int
    """Iterations that Newton's method takes."""
    converges: bool | None
    """Expectation of the lens."""


def main() -> None:
    """Measure, print, write."""
    options = _options()
    torch.set_num_threads(options.threads)
    results = folder(options.keep)
    if "speed" in options.parts:
        rows = [row for kind in options.cells for row in measure_speed(kind, options)]
        write_json(results / f"newton_{options.device}.json", speed=[asdict(row) for row in rows])
        (results / f"newton_{options.device}.md").write_text(speed_table(rows, options))
    if "edge" in options.parts:
        networks = [measure_edge(gain, seed, options) for gain in GAINS for seed in range(options.seeds)]
        write_json(results / f"newton_edge{options.label}.json", edge=[asdict(row) for row in networks])
        (results / f"newton_edge{options.label}.md").write_text(edge_table(networks, options))
        if not options.label:
            draw_edge(networks, options.edge_steps, figures(options.keep) / "newton-edge.png")


def make_cells(kind: str, units: int) -> tuple[Cell, Cell | None]:
    """Return a cell, and one that computes the same with a fused sequential scan, if there is one."""
    torch.manual_seed(0)
    if kind == "tanh":
        matrix = 0.5 * torch.randn(units, units) / units**0.5
        cell = Elman(INPUTS, units, "tanh", Dense.from_matrix(matrix))
        return cell, cell
    if kind == "diagonal lstm":
        return DiagonalLSTM(INPUTS, units), None
    cell, dense = DiagonalGRU(INPUTS, units), GRU(INPUTS, units)
    with torch.no_grad():
        dense.weight_ih.copy_(cell.weight_ih)
        dense.weight_hh.copy_(torch.cat([torch.diag(a) for a in cell.recurrent]))
        assert cell.bias is not None
        assert dense.bias_ih is not None
        assert dense.bias_hh is not None
        dense.bias_ih.copy_(cell.bias)
        dense.bias_hh.zero_()
    return cell, dense


def measure_speed(kind: str, options: argparse.Namespace) -> list[Speed]:
    """Time all methods on one cell."""
    units = options.units[kind]
    cell, dense = (each and each.to(options.device) for each in make_cells(kind, units))
    assert cell is not None
    xs = torch.randn(options.time, options.batch, INPUTS).to(options.device)
    few = min(options.time, options.loop_steps)
    runs: dict[str, tuple[Callable[[Tensor], Tensor], int]] = {
        "newton": (lambda xs: ms.scan(cell, xs, backend="newton")[0], options.time),
        "loop": (lambda xs: ms.scan(cell, xs, backend="loop")[0], few),
    }
    if dense is not None:
        runs["sequential"] = lambda xs: ms.scan(dense, xs, backend="fused")[0], options.time
    work: dict[tuple[str, bool], Callable[[], None]] = {}
    for method, (run, number) in runs.items():
        for backward in (False, True):
            work[method, backward] = partial(run_once, run, xs[:number], backward)
    wall, _ = take_turns(work, options.repeats, options.warm_up, partial(synchronise, options.device))
    with torch.no_grad():
        exact = ms.scan(cell.frozen(torch.float64), xs[:few].double(), backend="loop")[0]
        errors = {method: float((run(xs[:few]) - exact).abs().max()) for method, (run, _) in runs.items()}
        iterations = ms.scan(cell, xs, backend="newton", explain=True)[2].iterations
    rows = []
    for method, (_, number) in runs.items():
        forward, both = (1e3 * wall[method, backward] * options.time / number for backward in (False, True))
        count = iterations if method == "newton" else None
        rows.append(Speed(kind, units, options.batch, options.time, method, forward, both, count, errors[method]))
        print(rows[-1], flush=True)
    return rows


def run_once(run: Callable[[Tensor], Tensor], xs: Tensor, backward: bool) -> None:
    """Run forward, or forward and backward."""
    with torch.set_grad_enabled(backward):
        outputs = run(xs)
        if backward:
            outputs.sum().backward()


def speed_table(rows: list[Speed], options: argparse.Namespace) -> str:
    """Return the times as a Markdown table."""
    lines = [
        f"# Newton's method over a sequence, {options.device}",
        "",
        f"`{command()}`, {options.threads} threads, float32, medians of {options.repeats}.",
        "Milliseconds for all steps. The column x newton is forward and backward as a multiple of the time of newton:",
        "above 1, newton is faster. The goals are those on one H200 with 100,000 steps.",
        "",
        "| cell | N | batch | T | method | forward | forward + backward | x newton | goal | iterations | error |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    newton = {row.cell: row.both_ms for row in rows if row.method == "newton"}
    for row in rows:
        goal = GOALS.get(row.cell, nan) if row.method == "sequential" else nan
        lines.append(
            f"| {row.cell} | {row.units} | {row.batch} | {row.steps} | {row.method} | {row.forward_ms:.2f} | "
            f"{row.both_ms:.2f} | {row.both_ms / newton[row.cell]:.3g} | {'' if goal != goal else goal} | "
            f"{row.iterations or ''} | {row.error:.1e} |"
        )
    return "\n".join(lines) + "\n"


def measure_edge(gain: float, seed: int, options: argparse.Namespace) -> Edge:
    """Compare the expectation of the lens with the iterations of one random network."""
    units, generator = options.edge_units, torch.Generator().manual_seed(seed)
    matrix = gain * torch.randn(units, units, generator=generator, dtype=torch.float64) / units**0.5
    torch.manual_seed(seed)
    cell = Elman(3, units, "tanh", Dense.from_matrix(matrix), bias=False).double()
    xs = 0.1 * torch.randn(options.edge_steps, 1, 3, generator=generator, dtype=torch.float64)
    newton = Newton(iterations=options.edge_steps)
    found = ms.measure_predictability(cell, xs, newton=newton, lengths=PIECES, steps=options.edge_steps)
    iterations = ms.scan(cell, xs, backend=newton, explain=True)[2].iterations
    assert iterations is not None
    error = 2 * float(found.errors[0])
    row = Edge(gain, seed, found.exponent, error, found.predicted, iterations, found.converges)
    print(row, flush=True)
    return row


def edge_table(rows: list[Edge], options: argparse.Namespace) -> str:
    """Return the networks as a Markdown table."""
    words = {True: "converges", False: "does not", None: "undecided"}
    lines = [
        "# Iterations of Newton's method across the edge of chaos",
        "",
        f"`{command()}`: tanh networks of {options.edge_units} units, {options.edge_steps} steps, weak random inputs,",
        "float64, full Jacobians, no damping. The lens has counted iterations on pieces of 32, 64 and 128 steps.",
        "",
        "| gain | seed | largest exponent | lens | iterations expected | iterations taken |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        low, high = row.expected
        expected = str(high) if low == high else f"{low} to {high}"
        lines.append(
            f"| {row.gain:g} | {row.seed} | {row.exponent:.4f} +- {row.error:.4f} | {words[row.converges]} | "
            f"{expected} | {row.iterations} |"
        )
    return "\n".join(lines) + "\n"


def draw_edge(rows: list[Edge], steps: int, path: Path) -> None:
    """Draw taken and expected iterations against the exponent."""
    figure = new_figure(6.4, 3.8)
    axes = figure.add_subplot()
    exponents = [row.exponent for row in rows]
    axes.axvline(0, color=LIGHT["line"], linewidth=1)
    axes.axhline(steps, color=LIGHT["muted"], linewidth=1, linestyle=":")
    axes.annotate(f"{steps} steps", (min(exponents), steps), va="bottom", color=LIGHT["muted"])
    low, high = ([row.expected[end] for row in rows] for end in (0, 1))
    axes.vlines(exponents, low, high, color=LIGHT["unstable"], linewidth=1)
    axes.scatter(exponents, high, s=34, facecolors="none", edgecolors=LIGHT["unstable"], label="expected by the lens")
    axes.scatter(exponents, [row.iterations for row in rows], s=12, color=LIGHT["stable"], label="taken")
    axes.set_yscale("log")
    axes.set_yticks([3, 10, 30, 100, 300, 1000], ["3", "10", "30", "100", "300", "1,000"])
    axes.set_yticks([], minor=True)
    axes.set(xlabel="largest Lyapunov exponent, per step", ylabel="iterations", ylim=(2, 1.6 * steps))
    axes.legend(frameon=False, loc="center left", labelcolor=LIGHT["ink"])
    style_axes(axes, LIGHT, 9)
    figure.savefig(path, dpi=130)


def _options() -> argparse.Namespace:
    parser = option_parser(__doc__)
    parser.add_argument("--parts", nargs="+", choices=["speed", "edge"], default=["speed"])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--cells", nargs="+", default=["diagonal gru", "tanh", "diagonal lstm"])
    parser.add_argument("--time", type=int, help="steps; 100,000 on a GPU, 2,000 on a CPU")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--diagonal-units", type=int, default=64)
    parser.add_argument("--dense-units", type=int, default=32)
    parser.add_argument("--loop-steps", type=int, default=1000, help="steps of the loop that are measured")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--warm-up", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=2, help="networks of each gain")
    parser.add_argument(
        "--label", default="", help="added to the names of the files of the edge, which has no figure then"
    )
    parser.add_argument("--edge-units", type=int, default=64)
    parser.add_argument("--edge-steps", type=int, default=400)
    options = parser.parse_args()
    options.time = options.time or (100_000 if options.device == "cuda" else 2_000)
    diagonal = options.diagonal_units
    options.units = {"diagonal gru": diagonal, "diagonal lstm": diagonal, "tanh": options.dense_units}
    return options


if __name__ == "__main__":
    main()
