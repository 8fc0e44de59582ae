"""Speed at which reservoirs run and learn, compared with reservoirpy on the same weights.

    pip install reservoirpy
    python benchmarks/reservoirs.py --keep

Measured are one reservoir of 1000 units (spectral radius .9, a tenth of the entries, leak .1) over 30,000 steps;
sixteen sequences through one reservoir, and one sequence through sixteen, which reservoirpy runs in a loop and
mnemoscope in a batch; and a readout of three outputs learned online by recursive least squares at every step. Both
sides have the same weights in float64. Before they are timed, their states and learned readouts are compared. With
`--device cuda` the sixteen of mnemoscope run on the GPU, those of the peer on the CPU.

Times are medians of repeats that take turns, so that all see the same load; compare ratios. There are two threads,
unless OMP_NUM_THREADS is set, for torch and numpy alike.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read once, when torch and numpy are imported
os.environ.setdefault("OMP_NUM_THREADS", "2")

import numpy as np
import scipy.sparse
import torch

import mnemoscope as ms
from common import (
    command,
    device_name,
    folder,
    machine,
    option_parser,
    synchronise,
    take_turns,
    write_json,
)
from mnemoscope.cells import EchoState, Model, Reservoirs
from mnemoscope.training import train_force

THREADS = int(os.environ["OMP_NUM_THREADS"])
UNITS, INPUTS, LEAK, RADIUS = 1000, 3, 0.1, 0.9
COPIES = 16
"""Number of sequences or reservoirs in a batch."""
CHUNK = 1000
"""Steps whose rates are in memory together: 128 MB for all sixteen."""
GOALS = {"one reservoir": 1.5, f"{COPIES} reservoirs": 2.0}
"""Ratios of wall time that we aim at."""
ALPHA = 1.0
"""Regularisation of recursive least squares."""


@dataclass(frozen=True)
class Measurement:
    """One line of the table."""

    work: str
    steps: int
    ours_s: float
    peer_s: float
    ours_cpu_s: float
    peer_cpu_s: float
    difference: float
    """Largest difference between the answers of both."""

    @property
    def ratio(self) -> float:
        """Wall time of the peer over ours."""
        return self.peer_s / self.ours_s


def main() -> None:
    """Compare, measure, print, write."""
    options = _options()
    torch.set_num_threads(THREADS)
    torch.set_grad_enabled(False)
    peer = _peer()
    cells = [_reservoir(seed, options.density) for seed in range(COPIES)]
    inputs = torch.randn(options.steps, 1, INPUTS, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rows = [
        _measure(name, steps, work, options.repeats)
        for name, steps, work in (
            ("one reservoir", options.steps, _one(peer, cells[0], inputs)),
            (
                f"{COPIES} sequences, one reservoir",
                options.steps,
                _sequences(peer, cells[0], options.steps, options.device),
            ),
            (f"{COPIES} reservoirs", options.steps, _batch(peer, cells, inputs, options.device)),
            (
                "recursive least squares, every step",
                options.lesson,
                _lesson(peer, cells[0], inputs[: options.lesson]),
            ),
        )
    ]
    results, name = folder(options.keep), f"reservoirs_{device_name(options.device)}"
    content = [{**asdict(row), "ratio": row.ratio} for row in rows]
    write_json(results / f"{name}.json", threads=THREADS, density=options.density, peer=peer.__version__, rows=content)
    (results / f"{name}.md").write_text(_table(rows, peer.__version__, options))
    print((results / f"{name}.md").read_text())


Work = tuple[dict[str, Callable[[], Any]], float]
"""The same work by ours and by the peer, and the largest difference between their answers."""


def _one(peer: Any, cell: EchoState, inputs: torch.Tensor) -> Work:
    def ours() -> torch.Tensor:
        return ms.scan(cell, inputs)[0]

    def theirs() -> np.ndarray:
        return _node(peer, cell).run(inputs[:, 0].numpy())

    return {"ours": ours, "peer": theirs}, _difference(ours()[:, 0].numpy(), theirs())


def _run_in_chunks(cells: list[EchoState], inputs: torch.Tensor) -> torch.Tensor:
    """Run the reservoirs, and return the rates of the first chunk on the CPU."""
    reservoirs, state, first = Reservoirs(cells), None, None
    for chunk in inputs.split(CHUNK):
        rates, state = reservoirs.run(chunk, state)
        first = rates.cpu() if first is None else first
    assert first is not None
    return first


def _sequences(peer: Any, cell: EchoState, steps: int, device: str) -> Work:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(steps, COPIES, INPUTS, dtype=torch.float64, generator=generator)
    our_cell, our_inputs = deepcopy(cell).to(device), inputs.to(device)

    def ours() -> torch.Tensor:
        return _run_in_chunks([our_cell], our_inputs)

    def theirs() -> None:
        for number in range(COPIES):
            _node(peer, cell).run(inputs[:, number].numpy())

    first = ours()
    chunk = inputs[: len(first)]
    runs = [_node(peer, cell).run(chunk[:, number].numpy()) for number in range(COPIES)]
    differences = [_difference(first[:, 0, number].numpy(), run) for number, run in enumerate(runs)]
    return {"ours": ours, "peer": theirs}, max(differences)


def _batch(peer: Any, cells: list[EchoState], inputs: torch.Tensor, device: str) -> Work:
    our_cells, our_inputs = [deepcopy(cell).to(device) for cell in cells], inputs.to(device)

    def ours() -> torch.Tensor:
        return _run_in_chunks(our_cells, our_inputs)

    def theirs() -> None:
        for cell in cells:
            _node(peer, cell).run(inputs[:, 0].numpy())

    first = ours()
    chunk = inputs[: len(first), 0].numpy()
    differences = [
        _difference(first[:, number, 0].numpy(), _node(peer, cell).run(chunk)) for number, cell in enumerate(cells)
    ]
    return {"ours": ours, "peer": theirs}, max(differences)


def _lesson(peer: Any, cell: EchoState, inputs: torch.Tensor) -> Work:
    targets = torch.tanh(inputs.cumsum(0) / 10)

    def ours() -> np.ndarray:
        model = Model(cell, INPUTS, readout_bias=False).double()
        model.linear_readout.weight.zero_()
        train_force(model, inputs, targets, every=1, alpha=ALPHA)
        return model.linear_readout.weight.mT.numpy()

    def theirs() -> np.ndarray:
        readout = peer.nodes.RLS(alpha=ALPHA, fit_bias=False)
        states = _node(peer, cell).run(inputs[:, 0].numpy())
        readout.partial_fit(states, targets[:, 0].numpy())
        return readout.Wout

    return {"ours": ours, "peer": theirs}, _difference(ours(), theirs())


def _reservoir(seed: int, density: float) -> EchoState:
    torch.manual_seed(seed)
    tau = 1 / LEAK
    cell = EchoState(INPUTS, UNITS, gain=RADIUS, density=density, tau=tau, form="rate", bias_scale=0.5)
    return cell.double()


def _node(peer: Any, cell: EchoState) -> Any:
    """Return the same reservoir as a node of the peer, with a sparse matrix where the peer would use one."""
    W = cell.recurrent.numpy()
    W = scipy.sparse.csr_array(W) if (W != 0).mean() < 0.5 else W
    return peer.nodes.Reservoir(W=W, Win=cell.drive.numpy(), bias=cell.bias.numpy(), lr=cell.leak)


def _measure(name: str, steps: int, work: Work, repeats: int) -> Measurement:
    wait = partial(synchronise, "cuda" if torch.cuda.is_available() else "cpu")
    wall, cpu = take_turns(work[0], repeats, warm_up=1, wait=wait)
    row = Measurement(name, steps, wall["ours"], wall["peer"], cpu["ours"], cpu["peer"], work[1])
    print(
        f"{name}: ours {row.ours_s:.2f} s, reservoirpy {row.peer_s:.2f} s, {row.ratio:.1f}x; "
        f"largest difference {row.difference:.1e}",
        flush=True,
    )
    return row


def _difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    return float(np.abs(ours - theirs).max())


def _table(rows: list[Measurement], version: str, options: argparse.Namespace) -> str:
    head = [
        f"`{command()}`: reservoirs of {UNITS} units, density {options.density:g}, "
        f"compared with reservoirpy {version}, {machine()}, {THREADS} threads, float64.",
        "",
        "| work | steps | mnemoscope | reservoirpy | ratio | goal | CPU ratio | largest difference |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines = [
        f"| {row.work} | {row.steps:,} | {row.ours_s:.2f} s | {row.peer_s:.2f} s | {row.ratio:.2f} | "
        f"{GOALS.get(row.work, '')} | {row.peer_cpu_s / row.ours_cpu_s:.2f} | {row.difference:.1e} |"
        for row in rows
    ]
    return "\n".join([*head, *lines]) + "\n"


def _peer() -> Any:
    try:
        import reservoirpy  # type: ignore
        import reservoirpy.nodes  # type: ignore
    except ImportError:
        sys.exit(
            "This benchmark compares with reservoirpy: pip install reservoirpy, or pass --peer <folder that holds it>."
        )
    return reservoirpy


def _options() -> argparse.Namespace:
    parser = option_parser(__doc__)
    parser.add_argument("--steps", type=int, default=30_000, help="steps of the runs")
    parser.add_argument("--lesson", type=int, default=3_000, help="steps of online learning")
    parser.add_argument("--density", type=float, default=0.1, help="fraction of nonzero entries of W_r")
    parser.add_argument("--repeats", type=int, default=3, help="timed repeats")
    parser.add_argument("--device", default="cpu", help="where mnemoscope runs the batches: cpu or cuda")
    parser.add_argument("--peer", type=Path, help="a folder that holds the package reservoirpy")
    options = parser.parse_args()
    if options.peer:
        sys.path.insert(0, str(options.peer))
    return options


if __name__ == "__main__":
    main()
