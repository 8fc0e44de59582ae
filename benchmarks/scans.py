"""Speed of a recurrent scan, compared with an eager loop, torch.compile, torch.nn and the hardware limit.

    make bench                                              a small grid on the CPU
    python benchmarks/scans.py --device cuda --compile --keep

Elman networks with tanh and modReLU, GRU and LSTM, float32. "eager loop" is the loop of this library: the input
projection is computed for all steps together, then `unbind` over time and `phi(h @ V_T + u)`. "plain loop" is a naive
Python loop, `phi(V(h) + U(xs[t]))` with two nn.Linear. "torch.compile" is the eager loop over a compiled step.
"torch.nn" is nn.RNN (always with tanh), nn.GRU or nn.LSTM, which on a GPU is cuDNN. Times are medians of repeats that
take turns, so that all see the same load. Compare ratios, not microseconds of different runs: those of a loop on a GPU
depend on the host. CPU time is that of all threads.

On a GPU all methods run at the accuracy of float32, and some again in tf32, which cuDNN uses by default: compare
"mnemoscope" with "torch.nn", and "mnemoscope, tf32" with "torch.nn, tf32".

The floor is the largest of three hardware limits: arithmetic (3 products of 2 N^2 batch FLOPs at the rate of a large
float32 product, forward and backward; kernels that split numbers for the faster matrix units can go below it), bytes
(states, drive and gradients once each, at the rate of a large copy), and latency from one step to the next (two
dependent calls on the CPU; 0.3 microseconds on a GPU, about 500 cycles for a barrier, a trip through shared memory and
a chain of products on one multiprocessor).
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from math import isnan, nan
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read once, when torch is imported

import torch
from torch import Tensor, nn

import mnemoscope as ms
from common import (
    command,
    device_name,
    folder,
    machine as processor,
    option_parser,
    synchronise,
    take_turns,
    write_json,
)
from mnemoscope.cells import GRU, LSTM, Cell, Elman

INPUTS = 10
"""Input features."""


@dataclass(frozen=True)
class Measurement:
    """One line of the table."""

    cell: str
    method: str
    units: int
    batch: int
    steps: int
    forward_us: float
    """Microseconds per step, without gradients."""
    both_us: float
    """Microseconds per step, forward and backward."""
    cpu_us: float
    """Microseconds of CPU per step, forward and backward, all threads."""
    memory_mb: float
    """Memory in megabytes, as in `memory`."""
    floor_us: float
    """Hardware limit in microseconds per step, forward and backward."""
    bound: str
    """The limit that determines the floor."""
    route: str
    """The kernel that `scan` chose."""


def main() -> None:
    """Measure, print, write."""
    options = _options()
    torch.set_num_threads(options.threads)
    machine = Machine.measure(options.device)
    print(machine)
    rows = []
    cases = [tuple(case) for case in options.cases] or list(product(options.sizes, options.batches, options.times))
    for kind, (units, batch, steps) in product(options.cells, cases):
        if kind in ("gru", "lstm") and 4 * units * batch * steps >= 2**31:
            print(f"{kind:8} N {units:5} batch {batch:5} T {steps:5} skipped: cuDNN counts gates in 32 bits")
            continue
        rows += one_case(kind, units, batch, steps, machine, options)
    results = folder(options.keep)
    name = f"scans_{device_name(options.device)}{options.label and '_'}{options.label}"
    write_json(
        results / f"{name}.json",
        threads=options.threads,
        machine=asdict(machine),
        rows=[asdict(row) for row in rows],
    )
    (results / f"{name}.md").write_text(table(rows, machine, options))
    print(f"Written to {results}/{name}.{{json,md}}")


def one_case(
    kind: str, units: int, batch: int, steps: int, machine: Machine, options: argparse.Namespace
) -> list[Measurement]:
    """Measure all methods at one size; repeats take turns."""
    torch.manual_seed(0)
    gated = {"gru": (GRU, nn.GRU, 3), "lstm": (LSTM, nn.LSTM, 4)}
    ours, theirs, gates = gated.get(kind, (partial(Elman, nonlinearity=kind), nn.RNN, 1))
    cell = ours(INPUTS, units).to(options.device)
    xs, g = torch.randn(steps, batch, INPUTS), torch.randn(steps, batch, units)
    xs, g = xs.to(options.device), g.to(options.device)
    network = theirs(INPUTS, units).to(options.device)
    runs: dict[str, tuple[Callable[[Tensor], Tensor], int]] = {
        "mnemoscope": (lambda xs: ms.scan(cell, xs)[0], steps),
        "torch.nn": (lambda xs: network(xs)[0], steps),
    }
    if options.device == "cuda":
        runs |= {f"{method}, tf32": run for method, run in runs.items()}
    few = min(steps, options.loop_steps)  # the time per step of a loop does not depend on their number
    runs["eager loop"] = lambda xs: ms.scan(cell, xs, backend="loop")[0], few
    if isinstance(cell, Elman):
        runs["plain loop"] = plain_loop(cell.phi, units, options.device), few
    if options.compile:
        runs["torch.compile"] = compiled(cell), few
    work, lengths = {}, {}
    for method, (run, number) in runs.items():
        call = partial(run_once, run, xs[:number], g[:number], method.endswith("tf32"))
        work[method, False], work[method, True] = partial(call, backward=False), partial(call, backward=True)
        lengths[method] = number
    seconds = take_turns(work, options.repeats, options.warm_up, partial(synchronise, options.device))
    wall, cpu = ({key: 1e6 * value for key, value in times.items()} for times in seconds)
    floor, bound = machine.floor(units, batch, gates)
    route = str(ms.scan(cell, xs[:1], explain=True)[2])
    rows = [
        Measurement(
            cell=kind,
            method=method,
            units=units,
            batch=batch,
            steps=steps,
            forward_us=wall[method, False] / lengths[method],
            both_us=wall[method, True] / lengths[method],
            cpu_us=cpu[method, True] / lengths[method],
            memory_mb=memory(work[method, True], options.device) * steps / lengths[method],
            floor_us=floor,
            bound=bound,
            route=route if method == "mnemoscope" else "",
        )
        for method in runs
    ]
    for row in rows:
        print(line(row, rows), flush=True)
    return rows


def run_once(run: Callable[[Tensor], Tensor], xs: Tensor, g: Tensor, tf32: bool, backward: bool) -> None:
    """Run forward, or forward and backward, at the accuracy of float32 or in tf32."""
    torch.backends.cudnn.allow_tf32 = tf32
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    try:
        with torch.set_grad_enabled(backward):
            outputs = run(xs)
            if backward:
                outputs.backward(g)
    finally:
        torch.set_float32_matmul_precision("highest")


def plain_loop(phi: nn.Module, units: int, device: str) -> Callable[[Tensor], Tensor]:
    """Return a naive Python loop."""
    U, V = nn.Linear(INPUTS, units, device=device), nn.Linear(units, units, bias=False, device=device)

    def run(xs: Tensor) -> Tensor:
        h, outputs = xs.new_zeros(xs.shape[1], units), []
        for t in range(xs.shape[0]):
            h = phi(U(xs[t]) + V(h))
            outputs.append(h)
        return torch.stack(outputs)

    return run


def compiled(cell: Cell) -> Callable[[Tensor], Tensor]:
    """Return the eager loop over a compiled step."""
    step = torch.compile(lambda u, state: cell.prepare(u)[1](cell.prepare(u)[0], state))

    def run(xs: Tensor) -> Tensor:
        state, outputs = cell.initial_state(xs.shape[1]), []
        for x in xs.unbind():
            state = step(x, state)
            outputs.append(cell.output(state))
        return torch.stack(outputs)

    return run


def memory(work: Callable[[], Any], device: str) -> float:
    """Return megabytes: the rise of the peak on a GPU, the tensors saved for the backward pass on the CPU."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        return (torch.cuda.max_memory_allocated() - before) / 1e6
    saved = {}

    def record(tensor: Tensor) -> Tensor:
        saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(record, lambda tensor: tensor):
        work()
    return sum(saved.values()) / 1e6


@dataclass(frozen=True)
class Machine:
    """Measured rates of the hardware."""

    flops: float
    """Operations per second of a large float32 product."""
    bytes: float
    """Bytes per second of a large copy, read and written."""
    step: float
    """Seconds from one step to the next."""

    @classmethod
    def measure(cls, device: str) -> Machine:
        """Measure this machine."""
        n = 8192 if device == "cuda" else 1024
        A, B = torch.randn(n, n, device=device), torch.empty(n, n, device=device)
        flops = 2 * n**3 / _fastest(lambda: torch.mm(A, A, out=B), device)
        large = torch.empty(2**28 if device == "cuda" else 2**25, device=device)
        rate = large.nbytes / _fastest(lambda: large[: len(large) // 2].copy_(large[len(large) // 2 :]), device)
        if device == "cuda":
            return cls(flops, rate, 0.3e-6)
        small, calls = torch.zeros(1), 2000

        def twice() -> None:
            for _ in range(calls):
                small.add_(small)
                small.add_(small)

        return cls(flops, rate, _fastest(twice, device) / calls)

    def floor(self, units: int, batch: int, gates: int) -> tuple[float, str]:
        """Return the least microseconds per step, forward and backward, and the limit that determines them."""
        parts = {
            "arithmetic": 3 * 2 * gates * units**2 * batch / self.flops,
            "bytes": 4 * units * batch * (5 * gates) / self.bytes,
            "latency": 2 * self.step,
        }
        bound = max(parts, key=lambda part: parts[part])
        return 1e6 * parts[bound], bound

    def __str__(self) -> str:
        return (
            f"{self.flops / 1e9:,.0f} GFLOP/s in float32 products, {self.bytes / 1e9:,.0f} GB/s in copies, "
            f"{self.step * 1e6:.1f} microseconds per step at least"
        )


def _fastest(work: Callable[[], Any], device: str, repeats: int = 5) -> float:
    times = []
    for _ in range(repeats):
        synchronise(device)
        start = time.perf_counter()
        work()
        synchronise(device)
        times.append(time.perf_counter() - start)
    return min(times)


def ratios(row: Measurement, rows: list[Measurement]) -> dict[str, float]:
    """Return its time as a multiple of the time of other methods on the same case; below 1 is faster."""
    same = {
        r.method: r for r in rows if (r.cell, r.units, r.batch, r.steps) == (row.cell, row.units, row.batch, row.steps)
    }
    reference = same["torch.nn, tf32" if row.method.endswith("tf32") else "torch.nn"]
    return {
        "x torch.nn": row.both_us / reference.both_us,
        "x eager loop": row.both_us / same["eager loop"].both_us,
        "x plain loop": row.both_us / same["plain loop"].both_us if "plain loop" in same else nan,
        "x eager CPU": row.cpu_us / same["eager loop"].cpu_us,
        "x floor": row.both_us / row.floor_us,
    }


def line(row: Measurement, rows: list[Measurement]) -> str:
    """Return a row for the terminal."""
    shown = "  ".join(f"{value:.2f}{name}" for name, value in ratios(row, rows).items() if not isnan(value))
    return (
        f"{row.cell:8} N {row.units:5} batch {row.batch:5} T {row.steps:5} {row.method:26} "
        f"{row.forward_us:9.2f} {row.both_us:9.2f} us {row.cpu_us:9.2f} CPU us  {shown}"
    )


def table(rows: list[Measurement], machine: Machine, options: argparse.Namespace) -> str:
    """Return the measurements as a Markdown table."""
    lines = [
        f"# Recurrent scans, {options.device}",
        "",
        f"`{command()}`, {processor()}, {options.threads} threads, float32; {machine}.",
        "Median microseconds per step. Ratios compare forward + backward (or its CPU time) with other methods on the",
        "same case in the same run, tf32 with tf32; below 1 is faster. Memory: the peak on a GPU; on the CPU the",
        "tensors saved for the backward pass.",
        "",
        "| cell | N | batch | T | method | forward | forward + backward | CPU | memory MB | x torch.nn | "
        "x eager loop | x plain loop | x eager CPU | floor | x floor |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        shown = {name: "" if isnan(value) else f"{value:.3f}" for name, value in ratios(r, rows).items()}
        lines.append(
            f"| {r.cell} | {r.units} | {r.batch} | {r.steps} | {r.method} | {r.forward_us:.2f} | {r.both_us:.2f} | "
            f"{r.cpu_us:.2f} | {r.memory_mb:.1f} | {shown['x torch.nn']} | {shown['x eager loop']} | "
            f"{shown['x plain loop']} | {shown['x eager CPU']} | {r.floor_us:.2f} ({r.bound}) | {shown['x floor']} |"
        )
    return "\n".join(lines) + "\n"


def _options() -> argparse.Namespace:
    parser = option_parser(__doc__)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--cells", nargs="+", default=["tanh", "modrelu", "lstm"])
    parser.add_argument("--sizes", type=int, nargs="+", help="units N")
    parser.add_argument("--batches", type=int, nargs="+")
    parser.add_argument("--times", type=int, nargs="+")
    parser.add_argument(
        "--label", default="", help="added to the names of the files, to keep the results of another run"
    )
    parser.add_argument("--loop-steps", type=int, default=220, help="steps of the loops that are measured")
    parser.add_argument("--compile", action="store_true", help="also measure a loop over a compiled step")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--warm-up", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=21)
    options = parser.parse_args()
    gpu = options.device == "cuda"
    default = not (options.sizes or options.batches or options.times)
    options.cases = []
    if default:
        options.cases = [(128, 10, 220), (64, 10, 220), (128, 100, 100), (256, 32, 100)]
    if default and gpu:
        options.cases = [
            *product([64, 128, 256, 512, 1024], [16, 128, 1024], [1000]),
            *product([128], [10, 1024], [100, 5000]),
        ]
    options.sizes, options.batches, options.times = (
        options.sizes or [128],
        options.batches or [10],
        options.times or [220],
    )
    return options


if __name__ == "__main__":
    main()
