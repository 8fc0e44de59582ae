"""The example of fixed-point-finder, run from its checkout, and the same search with this library.

    python benchmarks/fixed_point_finder_examples.py --peer ../fixed-point-finder --keep

Its example trains a network of 16 units on the 3-bit flip-flop and searches from 1,024 visited states with noise of
standard deviation 0.5, for up to 10,000 iterations. Its own code trains and searches here, with its own options; only
its plots are left out. This library gets the same network, and then the same starts, or none. It also keeps the fixed
points of three networks for its tests, which are imported and compared with ours.
"""

from __future__ import annotations

import contextlib
import io
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import mnemoscope as ms
from common import command, commit, folder, library_commit, option_parser, write_json

TRUE, LOOSE = 1e-25, 1e-12
"""Largest q of a true fixed point in float64, and of one at the default tolerance of the peer."""
STARTS, NOISE, ITERATIONS = 1024, 0.5, 10_000
"""The options of the example."""


@dataclass(frozen=True)
class Measurement:
    """One line of the table."""

    network: str
    method: str
    seconds: float
    points: int
    true: int
    """Points with q < 1e-25."""
    loose: int
    """Points with q < 1e-12, the default tolerance of the peer."""
    stable: int
    """Stable points among the true ones."""
    index_sum: int | None
    """Sum of the indices of the true points, 1 for a complete set."""


def main() -> None:
    """Train, search, compare, write."""
    parser = option_parser(__doc__)
    parser.add_argument("--peer", type=Path, required=True, help="checkout of fixed-point-finder")
    parser.add_argument("--cells", nargs="+", default=["tanh", "gru"], help="networks of its example")
    options = parser.parse_args()
    torch.set_num_threads(2)
    for part in ("", "examples/torch", "examples/helper"):
        sys.path.insert(0, str(options.peer / part))
    rows = [row for cell in options.cells for row in measure_example(cell)]
    orbits = {cell: stable_orbits(cell) for cell in options.cells}
    kept = [compare_kept(options.peer, size) for size in (2, 3, 4)]
    results = folder(options.keep)
    content = {"peer": commit(options.peer), "rows": [asdict(row) for row in rows], "kept": kept, "orbits": orbits}
    write_json(results / "fixed_point_finder_examples.json", **content)
    page = describe(rows, kept, orbits, commit(options.peer))
    (results / "fixed_point_finder_examples.md").write_text(page)
    print(page)


def measure_example(cell: str) -> list[Measurement]:
    """Train the example with its own code, and search with both libraries."""
    network, visited = train_example(cell)
    dynamics = ms.Dynamics(network)
    from FixedPointFinderTorch import FixedPointFinderTorch  # type: ignore

    with _silent():
        finder = FixedPointFinderTorch(network, max_iters=ITERATIONS, lr_init=1.0, outlier_distance_scale=10.0)
        starts = finder.sample_states(visited, n_inits=STARTS, noise_scale=NOISE)

    def peer() -> Tensor:
        with _silent():
            return torch.from_numpy(finder.find_fixed_points(starts.copy(), np.zeros((1, 3)))[0].xstar).double()

    def same_starts() -> Tensor:
        return ms.find_fixed_points(dynamics, torch.from_numpy(starts)).states

    def own_starts() -> Tensor:
        return ms.find_fixed_points(dynamics).states

    searches = {"fixed-point-finder": peer, "mnemoscope, the same starts": same_starts, "mnemoscope": own_starts}
    return [measure(f"{cell} 16", method, dynamics, search) for method, search in searches.items()]


def stable_orbits(cell: str) -> int:
    """Return the number of stable fixed points and cycles of two steps, where a network may remember."""
    cycles = ms.find_cycles(train_example(cell)[0], periods=[2])
    return cycles.kind.count("stable")


@cache
def train_example(cell: str) -> tuple[nn.Module, np.ndarray]:
    """Return the network of the example, trained by its code, and the states that it visits."""
    import matplotlib as mpl

    mpl.use("Agg")
    from FlipFlop import FlipFlop  # type: ignore
    from FlipFlopData import FlipFlopData  # type: ignore

    torch.manual_seed(0)
    FlipFlopData.plot_trials = classmethod(lambda *_, **__: None)
    data = FlipFlopData()
    train, valid = data.generate_data(n_trials=512), data.generate_data(n_trials=128)
    model = FlipFlop(n_inputs=3, n_hidden=16, n_outputs=3, rnn_type=cell)
    with _silent():
        model.train(train, valid, learning_rate=1 / np.sqrt(128), batch_size=128)
    return model.rnn, model.predict(valid)["hidden"]


def measure(network: str, method: str, dynamics: ms.Dynamics, search: Callable[[], Tensor]) -> Measurement:
    """Time a search, the second of two calls, and count its points."""
    search()
    begin = time.perf_counter()
    states = search()
    seconds = time.perf_counter() - begin
    q = 0.5 * dynamics.residual(states).square().sum(1)
    true = ms.FixedPoints(
        states[q < TRUE],
        q[q < TRUE],
        dynamics.jacobian(states[q < TRUE]),
        torch.ones(int((q < TRUE).sum()), dtype=torch.int64),
        continuous=False,
        bounded=True,
    )
    row = Measurement(
        network, method, seconds, len(q), len(true), int((q < LOOSE).sum()), true.kind.count("stable"), true.index_sum
    )
    print(row, flush=True)
    return row


def compare_kept(checkout: Path, size: int) -> dict[str, Any]:
    """Import the points that its tests keep, and compare them with those that this library finds.

    Its `test_utils.py` describes the network: no input, no bias, and row i of the recurrent weights, which multiply
    the state from the right, is the rolled negative of evenly spaced numbers from -1 to 1.
    """
    network = nn.RNN(1, size)
    spaced = np.linspace(-1, 1, size)
    with torch.no_grad():
        for weights in network.parameters():
            weights.zero_()
        network.get_parameter("weight_hh_l0").copy_(
            torch.tensor(np.stack([-np.roll(spaced, -row) for row in range(size)]).T)
        )
    kept = ms.import_fixed_points(checkout / f"test/ground-truth/n_hidden={size:02d}.fps", network)
    ours = ms.find_fixed_points(network)
    apart = float(torch.cdist(kept.states, ours.states).amin(1).max())
    return {"units": size, "kept": len(kept), "ours": len(ours), "largest distance": apart}


def describe(rows: list[Measurement], kept: list[dict[str, Any]], orbits: dict[str, int], peer: str) -> str:
    """Return the results as Markdown."""
    lines = [
        "# The example of fixed-point-finder",
        "",
        f"Made by `{command()}`, on 2 threads, with fixed-point-finder, commit {peer}, and src/ of commit",
        f"{library_commit()}. True: q < {TRUE:g} in float64. The index sum of a complete set is 1.",
        "",
        "| network | method | seconds | points | q < 1e-12 | true | stable | index sum |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.network} | {row.method} | {row.seconds:.2f} | {row.points} | {row.loose} | {row.true} "
        f"| {row.stable} | {row.index_sum} |"
        for row in rows
    ]
    found = ", ".join(f"{number} ({cell})" for cell, number in orbits.items())
    lines += [
        "",
        f"Stable fixed points and cycles of two steps that `ms.find_cycles` finds in the same networks: {found}.",
    ]
    lines += ["", "Fixed points that its tests keep, imported and searched again:", ""]
    lines += ["| units | kept | found here | largest distance |", "|---|---|---|---|"]
    lines += [
        f"| {each['units']} | {each['kept']} | {each['ours']} | {each['largest distance']:.1g} |" for each in kept
    ]
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def _silent() -> Any:
    """Context in which the peer prints nothing and warns of nothing."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


if __name__ == "__main__":
    main()
