"""Time and memory until all 27 fixed points of a GRU of 1,024 units are found.

    python benchmarks/fixed_points_scale.py --keep                 on two cores
    python benchmarks/fixed_points_scale.py --device cuda --keep   on a GPU

The GRU is a 3-bit memory that is constructed instead of trained, so that everybody searches the same network. Its
weights are drawn as torch.nn.GRU draws them. A matrix of rank three is added to the weights of the candidate: the units
form three populations, and population k, of n units with random signs s, receives `GAIN / n s s^T`. Without the random
weights, m = tanh(r GAIN m) holds for the activity m of a population, with r = 1/2 the reset gate: three solutions for
each population, 27 for the network. The random weights couple the populations and all units, in all gates, so that no
Jacobian is sparse or of low rank. Inputs push the populations, and the benchmark checks that the network solves the
flip-flop task.

Two searches are measured: the default, which knows the network alone, and one that begins with 64 states that the
network visits at its task. Each runs in a new process. Its first call includes what torch loads and compiles; later
ones are timed, and their median counts. The clock runs from the torch.nn.GRU to the result with its index sum and its
Jacobians. Eigenvalues are computed when they are asked for, and are timed separately (column "kinds"). Memory is
the rise of the peak during the first call: of the resident set on a CPU, of torch's allocations on a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from statistics import median

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read once, when torch is imported

import torch
from torch import Tensor, nn

import mnemoscope as ms
from common import command, device_name, folder, machine, option_parser, peak_memory, synchronise, write_json
from mnemoscope.base.version import __version__
from mnemoscope.lenses import Adaptive, Dynamics
from mnemoscope.tasks import FlipFlop

BITS, GAIN, PUSH, UPDATE = 3, 4.0, 6.0, -2.0
"""Populations, strength of their recurrence, strength of the inputs, and bias of the update gate."""
SEARCHES = ("default", "visited states")
VISITED = 64
"""Number of visited states at which the second search begins."""


@dataclass(frozen=True)
class Measurement:
    """One search."""

    search: str
    size: int
    starts: int
    seconds: float
    """Median of the calls after the first."""
    cpu_seconds: float
    first_call: float
    """Seconds of the first call in its process."""
    kinds_seconds: float
    """Seconds that the stability of all points takes afterwards."""
    peak_mib: float
    """Rise of the peak of the memory."""
    points: int
    index_sum: int
    largest_q: float
    kinds: dict[str, int]
    """Number of points by their unstable directions."""


def main() -> None:
    """Measure, print, write."""
    options = _options()
    torch.set_num_threads(options.threads)
    if options.one:
        print(json.dumps(asdict(measure(options.one, options))))
        return
    rows = [measured_in_process(search, options) for search in SEARCHES]
    path = folder(options.keep) / f"fixed_points_scale_{device_name(options.device)}"
    shared = {"size": options.size, "threads": options.threads, "device": options.device}
    write_json(path.with_suffix(".json"), **shared, rows=[asdict(row) for row in rows])
    path.with_suffix(".md").write_text(page(rows, options))
    print(f"Written to {path}.{{json,md}}")


def measured_in_process(search: str, options: argparse.Namespace) -> Measurement:
    """Measure one search in a new process, whose peak of memory is its own."""
    shared = ["--size", options.size, "--device", options.device, "--threads", options.threads, "--repeats"]
    call = [sys.executable, __file__, "--one", search, *map(str, [*shared, options.repeats])]
    row = Measurement(**json.loads(subprocess.run(call, check=True, stdout=subprocess.PIPE, text=True).stdout))
    print(
        f"{search:15} {row.starts:4} starts {row.seconds:7.3f} s {row.cpu_seconds:7.3f} CPU s, first call "
        f"{row.first_call:.3f} s, {row.peak_mib:.0f} MiB, {row.points} points, index sum {row.index_sum}, "
        f"kinds {row.kinds_seconds:.2f} s {row.kinds}",
        flush=True,
    )
    return row


def measure(search: str, options: argparse.Namespace) -> Measurement:
    """Run a search several times in this process."""
    network, signs = flip_flop_gru(options.size)
    starts = "adaptive" if search == "default" else Adaptive(visited_states(network, signs))
    network = network.to(options.device)
    before = peak_memory(options.device, reset=True)
    fp, first_call, _ = timed_search(network, starts, options.device)
    peak = peak_memory(options.device) - before
    calls = [timed_search(network, starts, options.device)[1:] for _ in range(options.repeats)]
    since = time.perf_counter()
    kinds = Counter(f"{up} unstable" for up in fp.unstable.tolist())
    return Measurement(
        search=search,
        size=options.size,
        starts=0 if fp.starts is None else len(fp.starts),
        seconds=median(wall for wall, _ in calls),
        cpu_seconds=median(cpu for _, cpu in calls),
        first_call=first_call,
        kinds_seconds=time.perf_counter() - since,
        peak_mib=peak / 2**20,
        points=len(fp),
        index_sum=fp.index_sum,
        largest_q=float(fp.q.max()),
        kinds=dict(sorted(kinds.items())),
    )


def timed_search(network: nn.GRU, starts: str | Adaptive, device: str) -> tuple[ms.FixedPoints, float, float]:
    """Return the fixed points, and the wall and CPU seconds of the search."""
    synchronise(device)
    wall, cpu = time.perf_counter(), time.process_time()
    fp = ms.find_fixed_points(Dynamics(network), starts)
    synchronise(device)
    return fp, time.perf_counter() - wall, time.process_time() - cpu


def flip_flop_gru(size: int) -> tuple[nn.GRU, Tensor]:
    """Return the constructed 3-bit memory, which the module explains, and the signs (size, bits) of its populations."""
    generator = torch.Generator().manual_seed(0)
    network = nn.GRU(BITS, size)
    member = torch.eye(BITS)[torch.arange(size) % BITS]  # (size, bits)
    signs = member * (2.0 * torch.randint(0, 2, (size, 1), generator=generator) - 1)
    update, candidate = slice(size, 2 * size), slice(2 * size, None)
    with torch.no_grad():
        weights = dict(network.named_parameters())
        for weight in weights.values():
            weight.copy_((2 * torch.rand(weight.shape, generator=generator) - 1) * size**-0.5)
        weights["weight_hh_l0"][candidate] += GAIN * signs @ (signs / member.sum(0)).mT
        weights["weight_ih_l0"][candidate] += PUSH * signs
        weights["bias_ih_l0"][update] += UPDATE
    return network, signs


def visited_states(network: nn.GRU, signs: Tensor) -> Tensor:
    """Return states of a run on the flip-flop task; raise if a population holds a wrong bit."""
    batch = FlipFlop(BITS, 64).batch(16, 0, 0)
    with torch.no_grad():
        states = network(batch.inputs)[0]  # (time, batch, size)
    wrong = int(((states @ signs).sign() != batch.targets).sum())
    if wrong:
        raise RuntimeError(f"{wrong} of {batch.targets.numel()} bits are wrong in the network of {len(signs)} units.")
    flat = states.flatten(0, 1).double()
    return flat[torch.randperm(len(flat), generator=torch.Generator().manual_seed(0))[:VISITED]]


def page(rows: list[Measurement], options: argparse.Namespace) -> str:
    """Return the results as Markdown: how they were made, and a table."""
    where = torch.cuda.get_device_name() if options.device == "cuda" else f"{options.threads} threads, {machine()}"
    lines = [
        f"# Fixed points of a GRU of {options.size} units",
        "",
        f"`{command()}` on {where}. Mnemoscope {__version__}, torch {torch.__version__}.",
        f"Median of {options.repeats} calls after the first; memory is the rise of the peak.",
        "",
        "| search | starts | seconds | CPU s | first call | MiB | points | index sum | max q | kinds, s |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        lines.append(
            f"| {r.search} | {r.starts} | {r.seconds:.2f} | {r.cpu_seconds:.2f} | {r.first_call:.2f} | "
            f"{r.peak_mib:.0f} | {r.points} | {r.index_sum} | {r.largest_q:.0e} | {r.kinds_seconds:.1f} |"
        )
    return "\n".join(lines) + "\n"


def _options() -> argparse.Namespace:
    parser = option_parser(__doc__)
    parser.add_argument("--size", type=int, default=1024, help="units of the GRU")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3, help="timed calls after the first")
    parser.add_argument("--one", choices=SEARCHES, help="measure one search in this process and print it as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    main()
