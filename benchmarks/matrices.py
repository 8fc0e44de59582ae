"""Speed of a training step of orthogonal and non-normal networks, and of the matrix exponential inside it.

    make bench
    python benchmarks/matrices.py --released <checkout of nnRNN/nnRNN_release> --keep

A training step is one-hot coding, forward, loss, recall, backward and RMSprop on the copy task (N = 128, batch 10, 220
steps). Measured are the networks of this library, torch.nn.RNN (tanh), nn.GRU and nn.LSTM of the same size, and the
released nnRNN with the loop over symbols of its script (symbols drawn in advance, nothing printed). Its newest version
does not run on current torch: `torch.solve`, which was removed, and the logarithm of P, which it never sets, are
supplied here. Each network is given as a ratio to its peer (`PEERS`).

The exponential of a skew matrix, forward and backward in float32, is compared with torch.matrix_exp: time, and distance
of the result from orthogonal, `|X^T X - I|_F`. The matrix resembles a trained one: Henaff's blocks and small entries
elsewhere.

Times are medians of repeats that take turns, so that all see the same load; compare ratios. CPU time is that of all
threads.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read once, when torch is imported

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from common import command, device_name, folder, machine, option_parser, take_turns, write_json
from mnemoscope import registry
from mnemoscope.cells import Model
from mnemoscope.connectivity import Connectivity, Exponential, skew_exponential
from mnemoscope.connectivity.skew import henaff
from mnemoscope.tasks import Batch, Copy

UNITS, BATCH, INPUTS = 128, 10, 10
GATED = 0.4 if platform.machine() in ("aarch64", "arm64") else 1.0
"""The ratio that GRU and LSTM aim at, on ARM and on other processors."""
PEERS: dict[str, tuple[str, float | None]] = {
    "urnn": ("torch.nn.RNN", 1.3),
    "full-urnn": ("torch.nn.RNN", 1.3),
    "scurnn": ("torch.nn.RNN", 1.3),
    "eurnn": ("torch.nn.RNN", 1.3),
    "goru": ("torch.nn.GRU", 1.5),
    "gru": ("torch.nn.GRU", GATED),
    "lstm": ("torch.nn.LSTM", GATED),
    "nnrnn": ("released nnRNN", 1 / 8),
    **dict.fromkeys(("exprnn", "scornn", "ornn", "svd-rnn", "rnn", "leaky-rnn"), ("torch.nn.RNN", None)),
    "slstm": ("torch.nn.LSTM", None),
}
"""The network that each of ours is compared with, and the largest ratio of CPU times that we aim at, if any."""


def main() -> None:
    """Measure, print, write."""
    options = _options()
    torch.set_num_threads(options.threads)
    steps, exponentials = training_steps(options), [exponential(size, options) for size in options.sizes]
    results, name = folder(options.keep), f"matrices_{device_name('cpu')}"
    ratios = compare(steps)
    write_json(results / f"{name}.json", threads=options.threads, steps=steps, ratios=ratios, exponentials=exponentials)
    (results / f"{name}.md").write_text(table(steps, ratios, exponentials, options))
    print(f"Written to {results}/{name}.{{json,md}}")


def training_steps(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure one training step of each network."""
    torch.manual_seed(0)
    task = Copy(delay=200)
    batch = task.batch(BATCH, seed=0, number=0)
    symbols, targets = batch.inputs.argmax(-1), batch.targets
    work = {name: our_step(name, task, batch, symbols) for name in PEERS}
    work |= {f"torch.nn.{net.__name__}": torch_step(net, symbols, targets) for net in (nn.RNN, nn.GRU, nn.LSTM)}
    if options.released:
        work["released nnRNN"] = released_step(options.released, symbols, targets)
    wall, cpu = take_turns(work, options.repeats)
    rows = [{"method": method, "wall_ms": 1e3 * wall[method], "cpu_ms": 1e3 * cpu[method]} for method in work]
    for row in rows:
        print(f"{row['method']:16} {row['wall_ms']:8.2f} ms {row['cpu_ms']:8.2f} CPU ms", flush=True)
    return rows


def compare(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the CPU time of each network as a ratio to that of its peer, where the peer was measured."""
    cpu = {row["method"]: row["cpu_ms"] for row in steps}
    return [
        {"network": network, "peer": peer, "ratio": cpu[network] / cpu[peer], "goal": goal}
        for network, (peer, goal) in PEERS.items()
        if peer in cpu
    ]


def our_step(name: str, task: Copy, batch: Batch, symbols: Tensor) -> Callable[[], None]:
    """Return a training step of a network of this library, as in `train`."""
    model = Model(registry.cells.load(name)(task.input_size, UNITS), task.output_size)
    matrices = [module for module in model.modules() if isinstance(module, Connectivity)]
    optimiser = torch.optim.RMSprop(model.parameters(), lr=1e-5)

    def step() -> None:
        optimiser.zero_grad()
        outputs, _ = model(one_hot(symbols, INPUTS).float())
        loss = task.loss(outputs, batch)
        recall(outputs, batch.targets)
        penalties = [penalty for matrix in matrices if (penalty := matrix.penalty()) is not None]
        sum(penalties, loss).backward()
        optimiser.step()
        for matrix in matrices:
            matrix.after_step()

    return step


def torch_step(
    kind: type[nn.RNN] | type[nn.GRU] | type[nn.LSTM], symbols: Tensor, targets: Tensor
) -> Callable[[], None]:
    """Return a training step of a torch.nn network of the same size."""
    network, readout = kind(INPUTS, UNITS), nn.Linear(UNITS, 9)
    optimiser = torch.optim.RMSprop([*network.parameters(), *readout.parameters()], lr=1e-5)

    def step() -> None:
        optimiser.zero_grad()
        outputs = readout(network(one_hot(symbols, INPUTS).float())[0])
        recall(outputs, targets)
        cross_entropy(outputs.flatten(0, 1), targets.flatten()).backward()
        optimiser.step()

    return step


def released_step(checkout: Path, symbols: Tensor, targets: Tensor) -> Callable[[], None]:
    """Return a training step of the released nnRNN, as in copytask.py."""
    sys.path.insert(0, str(checkout))
    from RNN_Cell import OrthoRNNCell  # type: ignore

    torch.solve = lambda right, left: (torch.linalg.solve(left, right),)  # type: ignore
    cell = OrthoRNNCell(INPUTS, UNITS, "modrelu", r_initializer=nn.init.eye_)
    readout = nn.Linear(UNITS, 9)
    cell.log_P.data = henaff(UNITS, complex=False)
    cell.P.data = cell._B(False)
    others = [parameter for name, parameter in cell.named_parameters() if name not in ("log_P", "P")]
    optimiser = torch.optim.RMSprop([*others, *readout.parameters()], lr=1e-5)
    orthogonal = torch.optim.RMSprop([cell.log_P], lr=1e-6)

    def step() -> None:
        optimiser.zero_grad()
        orthogonal.zero_grad()
        hidden, loss = None, torch.zeros(())
        for t in range(len(symbols)):
            hidden = cell(one_hot(symbols[t], INPUTS).float(), hidden)
            outputs = readout(hidden)
            loss = loss + cross_entropy(outputs, targets[t])
            if t >= len(symbols) - 10:
                recall(outputs[None], targets[None, t])
        (loss / len(symbols) + cell.alpha_loss(1e-4)).backward()
        cell.orthogonal_step(orthogonal)
        optimiser.step()

    return step


def recall(outputs: Tensor, targets: Tensor) -> float:
    """Return the fraction of the last ten symbols that are right."""
    return (outputs[-10:].argmax(-1) == targets[-10:]).float().mean().item()


def exponential(size: int, options: argparse.Namespace) -> dict[str, Any]:
    """Measure time and accuracy of both exponentials at one size."""
    torch.manual_seed(0)
    extra = 0.02 * torch.randn(size, size).triu(1) * (128 / size) ** 0.5
    start = (henaff(size, complex=False) + extra - extra.mT).requires_grad_()
    g, errors, work = torch.randn(size, size), {}, {}
    for method, function in (("mnemoscope", skew_exponential), ("torch.matrix_exp", torch.matrix_exp)):
        X = function(start).detach().double()
        errors[method] = (X.mT @ X - torch.eye(size)).norm().item()
        work[method] = lambda function=function: torch.autograd.grad(function(start), start, g)
    matrix = Exponential(size)
    work["with its parameters"] = lambda: torch.autograd.grad(matrix(), list(matrix.parameters()), g)
    seconds, _ = take_turns(work, max(3, options.repeats * 128 // size))
    wall = {method: 1e3 * value for method, value in seconds.items()}
    ratio = wall["torch.matrix_exp"] / wall["mnemoscope"]
    times = ", ".join(f"{method} {ms:.2f} ms" for method, ms in wall.items())
    distances = ", ".join(f"{error:.1e}" for error in errors.values())
    print(f"exponential N {size:5}: {times}; {ratio:.1f}x; off by {distances}", flush=True)
    return {"size": size, "wall_ms": wall, "ratio": ratio, "off_orthogonal": errors}


def table(
    steps: list[dict[str, Any]],
    ratios: list[dict[str, Any]],
    exponentials: list[dict[str, Any]],
    options: argparse.Namespace,
) -> str:
    """Return the measurements as Markdown tables."""
    lines = [
        "# Training steps of recurrent networks",
        "",
        f"`{command()}`, {machine()}, {options.threads} thread(s), float32, copy task: {UNITS} units, batch {BATCH}, "
        "220 steps.",
        "",
        "| network | wall ms | CPU ms |",
        "|---|---|---|",
        *(f"| {row['method']} | {row['wall_ms']:.2f} | {row['cpu_ms']:.2f} |" for row in steps),
        "",
        "Ratios of CPU times of the same run; below 1 is faster than the peer.",
        "",
        "| network | peer | ratio | goal | met |",
        "|---|---|---|---|---|",
    ]
    for row in ratios:
        goal = " | " if row["goal"] is None else f"{row['goal']:.3g} | {'yes' if row['ratio'] <= row['goal'] else 'no'}"
        lines.append(f"| {row['network']} | {row['peer']} | {row['ratio']:.2f} | {goal} |")
    lines += [
        "",
        "The exponential of a skew matrix, forward and backward, and the distance of the result from orthogonal.",
        "",
        "| N | mnemoscope ms | torch.matrix_exp ms | times faster | mnemoscope off | torch off |",
        "|---|---|---|---|---|---|",
    ]
    for row in exponentials:
        ms, off = row["wall_ms"], row["off_orthogonal"]
        lines.append(
            f"| {row['size']} | {ms['mnemoscope']:.2f} | {ms['torch.matrix_exp']:.2f} | {row['ratio']:.1f} | "
            f"{off['mnemoscope']:.1e} | {off['torch.matrix_exp']:.1e} |"
        )
    return "\n".join(lines) + "\n"


def _options() -> argparse.Namespace:
    parser = option_parser(__doc__)
    parser.add_argument("--released", type=Path, help="checkout of the released nnRNN to compare with")
    parser.add_argument("--sizes", type=int, nargs="+", default=[128, 512, 1024], help="sizes of the exponential")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=21)
    return parser.parse_args()


if __name__ == "__main__":
    main()
