"""Speed and accuracy of the fixed-point search, compared with fixed-point-finder on the same networks and starts.

    make bench                                                      this library alone
    python benchmarks/fixed_points.py --peer ../fixed-point-finder  also the peer, from its checkout

Networks are trained on the 3-bit flip-flop (once; they are kept under runs/bench). A point counts as true if a step of
the network in float64 does not move it: q < 1e-25. Points with q < 1e-12, the default tolerance of the peer, are
counted too. Both wall time and CPU time are given, since idle threads that spin make either one misleading alone.
Tables and the plot go to runs/bench, or with --keep to benchmarks/results.
"""

from __future__ import annotations

import argparse
import copy
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read once, when torch is imported

import numpy as np
import torch
from torch import Tensor, nn

import mnemoscope as ms
from common import command, commit, folder, library_commit, option_parser, write_json
from fixed_point_finder import NAME, SETTINGS, TIGHT, TUNED, WRAPPED, ConcatenatedState, searcher
from mnemoscope.base.version import __version__
from mnemoscope.config import PRESETS
from mnemoscope.lenses import Adaptive, Dynamics
from mnemoscope.training import load_model, train

TRUE, LOOSE = 1e-25, 1e-12
"""Largest q of a true fixed point, and of one at the default tolerance of the peer."""
OURS = "mnemoscope, all starts"
"""Method whose time is the unit of the ratios: the peer has the same starts."""
REPEATS, LONG = 5, 3.0
"""Number of timed calls, and the seconds beyond which a call is not repeated."""
Network = nn.RNN | nn.GRU | nn.LSTM
Result = TypeVar("Result")


@dataclass(frozen=True)
class Measurement:
    """One line of the table."""

    network: str
    size: int
    method: str
    starts: int
    repeats: int = 0
    """Timed calls; the shortest counts."""
    seconds: float | None = None
    cpu_seconds: float | None = None
    points: int = 0
    loose: int = 0
    """Points with q < 1e-12."""
    true: int = 0
    """Points with q < 1e-25."""
    index_sum: int | None = None
    largest_q: float | None = None
    error: str | None = None
    """The exception that ended the search, with its message."""


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
    network: Network, visited: Tensor, cell: str, size: int, options: argparse.Namespace
) -> list[Measurement]:
    """Measure all starts, the adaptive search and the peer on one network, with the same starts."""
    dynamics = Dynamics(network)
    generator = torch.Generator().manual_seed(0)
    starts = visited[torch.randperm(len(visited), generator=generator)[: options.starts]]
    starts = starts + options.noise * torch.randn(starts.shape, generator=generator, dtype=starts.dtype)
    few = visited[torch.randperm(len(visited), generator=generator)[:64]]
    name, rows = f"{cell} {size}", []

    def add(row: Measurement) -> None:
        print(line(row), flush=True)
        rows.append(row)

    add(measure(name, OURS, dynamics, starts))
    add(measure(name, "mnemoscope, adaptive", dynamics, Adaptive(few)))
    if options.peer and size <= options.peer_up_to:
        for method, network_for_peer, given, settings in peer_searches(network, starts):
            search = searcher(options.peer, network_for_peer, network.input_size, given, settings)
            add(measure_peer(name, method, dynamics, search, len(starts)))
    return rows


def measure(network: str, method: str, dynamics: Dynamics, starts: Any) -> Measurement:
    """Time the search of this library."""
    fp, wall, cpu, repeats = best(lambda: ms.find_fixed_points(dynamics, starts), REPEATS)
    return Measurement(
        network=network,
        size=dynamics.size,
        method=method,
        starts=0 if fp.starts is None else len(fp.starts),
        repeats=repeats,
        seconds=wall,
        cpu_seconds=cpu,
        index_sum=fp.index_sum,
        **quality(dynamics, fp.states),
    )


def peer_searches(network: Network, starts: Tensor) -> Iterator[tuple[str, nn.Module, Any, Mapping[str, Any]]]:
    """Yield the method, network, starts and options of each search of the peer, which may change its network."""
    if not isinstance(network, nn.LSTM):
        for method, settings in SETTINGS.items():
            yield method, copy.deepcopy(network), starts.numpy(), settings
        return
    h, c = (part.numpy() for part in starts.chunk(2, dim=1))
    yield f"{NAME}, defaults, starts h", copy.deepcopy(network), h, {}
    yield f"{NAME}, defaults, starts (h, c)", copy.deepcopy(network), (h, c), {}
    wrapped = ConcatenatedState(copy.deepcopy(network))
    yield WRAPPED, wrapped, starts.numpy(), TUNED


def measure_peer(
    network: str, method: str, dynamics: Dynamics, search: Callable[[], Tensor], starts: int
) -> Measurement:
    """Time a search of the peer; a search that fails is a row with its exception."""
    row = Measurement(network, dynamics.size, method, starts)
    try:
        states, wall, cpu, repeats = best(search, REPEATS)
    except Exception as error:  # the peer may raise anything, and the table reports it
        return replace(row, error=f"{type(error).__name__}: {error}")
    return replace(row, repeats=repeats, seconds=wall, cpu_seconds=cpu, **quality(dynamics, states))


def quality(dynamics: Dynamics, states: Tensor) -> dict[str, Any]:
    """Count the reported points by their q in float64."""
    q = 0.5 * dynamics.residual(states).square().sum(1)
    return {
        "points": len(q),
        "loose": int((q < LOOSE).sum()),
        "true": int((q < TRUE).sum()),
        "largest_q": float(q.max()) if len(q) else None,
    }


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
            rows.append(measure(f"{cell} 64", "growth with starts", dynamics, picked))
            print(line(rows[-1]), flush=True)
    return rows


def trained(cell: str, size: int) -> tuple[Network, Tensor]:
    """Return a torch.nn network trained on the 3-bit flip-flop, and the states that it visits (float64)."""
    base = PRESETS["flipflop"]
    large = {"steps": 300, "learning_rate": 5e-4, "batch_size": 32} if size >= 1000 else {}
    config = replace(base, name="bench", cell=cell, hidden_size=size, threads=1 if size <= 64 else 2, **large)
    model, task, _ = load_model(train(config, resume=True, progress=False).folder)
    network = {"elman": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}[cell](3, size)
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
    states, visited = None, []
    with torch.no_grad():
        for x in task.batch(64, 1, 0, "test").inputs:
            _, states = network(x.unsqueeze(0), states)
            visited.append(torch.cat(states if isinstance(states, tuple) else (states,), dim=-1)[0])  # (batch, size)
    return network, torch.cat(visited).double()


def best(work: Callable[[], Result], repeats: int) -> tuple[Result, float, float, int]:
    """Return the result, the shortest wall time, its CPU time and the number of timed calls.

    One call comes first as warm-up; if it takes more than `LONG` seconds, it is the only one, and counts.
    """

    def timed() -> tuple[Result, float, float]:
        wall, cpu = time.perf_counter(), time.process_time()
        result = work()
        return result, time.perf_counter() - wall, time.process_time() - cpu

    first = timed()
    if first[1] > LONG:
        return *first, 1
    return *min((timed() for _ in range(repeats)), key=lambda call: call[1]), repeats


def line(row: Measurement) -> str:
    """Return a row for the terminal."""
    start = f"{row.network:11} {row.method:42} {row.starts:5} starts"
    if row.error is not None:
        return f"{start}  {row.error}"
    return (
        f"{start} {row.seconds:9.3f} s {row.cpu_seconds:9.3f} CPU s {row.points:5} points {row.true:3} true  "
        f"index sum {row.index_sum}  largest q {row.largest_q}"
    )


def write(rows: list[Measurement], options: argparse.Namespace) -> None:
    """Write JSON, a Markdown table with ratios, and the plot."""
    results = folder(options.keep)
    content = {"threads": options.threads, "noise": options.noise}
    if options.peer:
        content["peer"] = {"name": NAME, "commit": commit(options.peer), "settings": {**SETTINGS, WRAPPED: TUNED}}
    write_json(results / "fixed_points.json", **content, rows=[asdict(row) for row in rows])
    (results / "fixed_points.md").write_text(page(rows, options))
    plot(rows, results / "fixed_points.png")
    print(f"Written to {results}/fixed_points.{{json,md,png}}")


def page(rows: list[Measurement], options: argparse.Namespace) -> str:
    """Return the results as Markdown: how they were made, and a table."""
    versions = f"torch {torch.__version__}, numpy {np.__version__}"
    lines = [
        "# Fixed points of trained 3-bit flip-flops",
        "",
        f"Made by `{command()}` on {options.threads} threads.",
        f"Mnemoscope {__version__} (src/ of commit {library_commit()}), {versions}.",
        "",
        f"True: q < {TRUE:g} in float64, where q = |F(h) - h|^2 / 2; the count q < {LOOSE:g} includes these.",
        f"A start is a state that the network visits, with noise of standard deviation {options.noise:g}; the adaptive",
        "search begins with 64 visited states and chooses more itself.",
    ]
    if options.peer:
        lines += ["", *peer_description(options.peer)]
    return "\n".join([*lines, "", *table(rows)]) + "\n"


def peer_description(checkout: Path) -> list[str]:
    """Return the lines that name the peer and its settings."""
    tight = ", ".join(f"`{name}={value!r}`" for name, value in TIGHT.items())
    return [
        f"The peer is [{NAME}](https://github.com/mattgolub/fixed-point-finder), commit {commit(checkout)}. It has the",
        "same network and the same starts in the same run, and its ratio is its CPU time over that of Mnemoscope from",
        f"these starts. Defaults: float32, `tol_q=1e-12`, `lr_init=1.0`, `max_iters=5000`. Tight: {tight}.",
        "The settings with `lr_init=0.1` are the best that we found for it on gated networks. Its documentation names",
        "`torch.nn.RNN`, `torch.nn.GRU` and wrappers of the same signature, not `torch.nn.LSTM`; a comment in its",
        "example says that its search does not work as expected on a GRU in PyTorch. Our wrapper passes h and c of an",
        "LSTM as one state.",
        "It discards points that end far from all starts, and reports none where these are all.",
    ]


def table(rows: list[Measurement]) -> list[str]:
    """Return the lines of the table; the ratio is the CPU time of the peer, on which other processes weigh less."""
    unit = {row.network: row.cpu_seconds for row in rows if row.method == OURS}
    lines = [
        f"| network | method | starts | wall s | CPU s | ratio | points | q < {LOOSE:g} | true | index sum | max q |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        start = f"| {r.network} | {r.method} | {r.starts} |"
        if r.error is not None:
            lines.append(f"{start} `{r.error}` | | | | | | | |")
            continue
        ours = unit.get(r.network)
        ratio = f"{r.cpu_seconds / ours:.0f}x" if ours and r.cpu_seconds and r.method.startswith(NAME) else ""
        largest = "" if r.largest_q is None else f"{r.largest_q:.0e}"
        sum_ = "" if r.index_sum is None else str(r.index_sum)
        lines.append(
            f"{start} {r.seconds:.3f} | {r.cpu_seconds:.3f} | {ratio} | {r.points} | {r.loose} | {r.true} | {sum_} | "
            f"{largest} |"
        )
    return lines


def plot(rows: list[Measurement], path: Path) -> None:
    """Plot the growth with the size of the network and with the number of starts."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 3.6), layout="constrained")
    by_size, by_starts = figure.subplots(1, 2)
    for cell, dash in (("elman", "-"), ("gru", "--")):
        for method in (OURS, "mnemoscope, adaptive", f"{NAME}, defaults", f"{NAME}, tight, lr_init=0.1"):
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
            axes.legend(fontsize="xx-small", loc="upper left", bbox_to_anchor=(1, 1))
    figure.savefig(path, dpi=150)


def _options() -> argparse.Namespace:
    parser = option_parser(__doc__)
    parser.add_argument("--peer", type=Path, help="checkout of fixed-point-finder to compare with")
    parser.add_argument(
        "--peer-up-to", type=int, default=64, help="largest network for the peer (it takes minutes above)"
    )
    parser.add_argument("--starts", type=int, default=1024)
    parser.add_argument("--noise", type=float, default=0.5, help="standard deviation added to the visited states")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sizes", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--large", action="store_true", help="also a tanh network of 1000 units (trains for minutes)")
    parser.add_argument("--no-starts-growth", dest="starts_growth", action="store_false")
    options = parser.parse_args()
    options.networks = [(cell, size) for size in options.sizes for cell in ("elman", "gru")]
    options.networks += [("lstm", min(options.sizes))]
    options.networks += [("elman", 1000)] if options.large else []
    return options


if __name__ == "__main__":
    main()
