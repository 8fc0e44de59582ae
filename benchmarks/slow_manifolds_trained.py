"""Slow manifolds of trained networks: GRU, LSTM and tanh networks that hold an angle or integrate pulses.

    python benchmarks/slow_manifolds_trained.py           analyse the networks in tests/lenses/trained
    python benchmarks/slow_manifolds_trained.py --train   train them first, some minutes on one core

The networks are plain torch modules with a linear readout. An angle is shown for 3 steps as cosine and sine, and the
readout must keep it for up to 120 steps. An integrator sums pulses whose running sum stays between -1 and 1. Neither
task prescribes a way to hold the value.

The table compares the error that the drift predicts with the error of the network on its slow manifold, and with the
error of its readout, in degrees or in percent of the range.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import cos, pi
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Generator, Tensor, nn

import mnemoscope as ms

FOLDER = Path(__file__).parent.parent / "tests" / "lenses" / "trained"
UNITS, STEPS, BATCH, LONGEST, RATE = 24, 2500, 64, 110, 3e-3
"""Size of a network, training steps, sequences in a batch, longest delay, and first learning rate."""
CELLS = {"gru": nn.GRU, "lstm": nn.LSTM, "tanh": nn.RNN}
DELAYS = (100, 300)


def angle_batch(generator: Generator, number: int, delay: int) -> tuple[Tensor, Tensor]:
    """Return inputs and targets (time, number, 2): an angle is shown for three steps, and is to be kept."""
    angle = 2 * pi * torch.rand(number, generator=generator)
    vector = torch.stack([angle.cos(), angle.sin()], 1)
    inputs = torch.zeros(delay + 3, number, 2)
    inputs[:3] = vector
    return inputs, vector.expand_as(inputs)


def pulse_batch(generator: Generator, number: int, length: int) -> tuple[Tensor, Tensor]:
    """Return inputs and targets (time, number, 1): pulses in 8% of the steps, and their sum between -1 and 1."""
    values = 2 * torch.rand(length, number, 1, generator=generator) - 1
    pulse = torch.rand(length, number, 1, generator=generator) < 0.08
    pulse[0] = True
    last = torch.where(pulse, torch.arange(length)[:, None, None], 0).cummax(0).values
    targets = values.gather(0, last)
    return targets.diff(dim=0, prepend=torch.zeros(1, number, 1)), targets


@dataclass(frozen=True)
class Task:
    """A task and its measure of error."""

    batch: Callable[[Generator, int, int], tuple[Tensor, Tensor]]
    features: int
    graded_from: int
    """First step whose output counts in the loss."""
    error: Callable[[Tensor, Tensor], Tensor]
    """Share of the range by which outputs differ from targets."""


def _turned(outputs: Tensor, targets: Tensor) -> Tensor:
    angles = [torch.atan2(vectors[..., 1], vectors[..., 0]) for vectors in (outputs, targets)]
    return ((angles[0] - angles[1] + pi) % (2 * pi) - pi).abs() / (2 * pi)


TASKS = {
    "angle": Task(angle_batch, 2, 3, _turned),
    "integration": Task(pulse_batch, 1, 0, lambda outputs, targets: (outputs - targets).abs()[..., 0] / 2),
}


class Network(nn.Module):
    """A recurrent network of torch and a linear readout."""

    def __init__(self, cell: str, task: str) -> None:
        super().__init__()
        features = TASKS[task].features
        self.task = TASKS[task]
        self.recurrent = CELLS[cell](features, UNITS)
        self.readout = nn.Linear(UNITS, features)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.readout(self.recurrent(inputs)[0])


def networks() -> Iterator[tuple[str, str]]:
    """Return the pairs of cell and task."""
    return ((cell, task) for task in TASKS for cell in CELLS)


def load_network(cell: str, task: str, folder: Path = FOLDER) -> Network:
    """Return a trained network."""
    network = Network(cell, task)
    network.load_state_dict(load_file(folder / f"{cell}_{task}.safetensors"))
    return network


def train_network(cell: str, task: str, steps: int = STEPS, seed: int = 0) -> Network:
    """Train a network by Adam on delays that grow to their full length over the first two thirds of training."""
    torch.set_num_threads(1)
    generator = Generator().manual_seed(seed)
    network = Network(cell, task)
    with torch.no_grad():
        for weight in network.parameters():
            weight.copy_((2 * torch.rand(weight.shape, generator=generator) - 1) / UNITS**0.5)
        if cell == "tanh":  # keeps every direction at first
            square = torch.randn(UNITS, UNITS, generator=generator)
            network.get_parameter("recurrent.weight_hh_l0").copy_(torch.linalg.qr(square)[0])
    optimiser = torch.optim.Adam(network.parameters(), RATE)
    for step in range(steps):
        progress = step / steps
        share = min(1.0, 1.5 * progress) * float(torch.rand((), generator=generator))
        inputs, targets = network.task.batch(generator, BATCH, 10 + int(LONGEST * share))
        for group in optimiser.param_groups:
            group["lr"] = RATE * (0.5 + 0.5 * cos(pi * progress)) + 1e-5
        optimiser.zero_grad()
        loss = (network(inputs) - targets)[network.task.graded_from :].square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        if step % 500 == 0 or step == steps - 1:
            print(f"{cell} {task}: step {step}, loss {loss.item():.1e}", flush=True)
    return network


def find_memory(network: Network, **options) -> ms.SlowManifold:
    """Return the slow manifold among the states that a network visits in its task."""
    inputs, _ = network.task.batch(Generator().manual_seed(1), 300, 60)
    return ms.find_slow_manifold(ms.Dynamics(network.recurrent.double()), inputs.double(), **options)


@torch.no_grad()
def readout_errors(network: Network) -> list[float]:
    """Return the mean error of the readout when the input ends and each delay has passed."""
    inputs, targets = network.task.batch(Generator().manual_seed(2), 300, 40)
    inputs = torch.cat([inputs, torch.zeros(max(DELAYS), 300, inputs.shape[2])])
    outputs = network.float()(inputs)[len(targets) - 1 :]
    return [float(network.task.error(outputs[delay], targets[-1]).mean()) for delay in DELAYS]


COLUMNS = (
    "cell",
    "task",
    "topology",
    "agreement",
    "spread kept",
    *(f"predicted, measured, bound, readout after {delay}" for delay in DELAYS),
    "rests (stable)",
    "window",
)


def table(trained: Mapping[tuple[str, str], Network]) -> Iterator[str]:
    """Return the lines of the table, one for each network."""
    yield _line(COLUMNS)
    yield _line(["---"] * len(COLUMNS))
    for names, network in trained.items():
        readout = readout_errors(network)
        memory = find_memory(network, delays=DELAYS)
        cells = [*names, memory.topology, f"{memory.agreement:.0%}", f"{memory.size_kept:.2f}"]
        if memory:
            errors = torch.stack([memory.predicted, memory.measured, memory.bound, torch.tensor(readout).double()], 1)
            cells += [", ".join(memory.error_text(error) for error in row) for row in errors.tolist()]
            cells += [f"{len(memory.rests)} ({int(memory.rests_stable.sum())})", str(memory.window)]
        yield _line(cells)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Train if asked to, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", action="store_true", help="train the networks and write their weights")
    parser.add_argument("--only", nargs=2, metavar=("CELL", "TASK"), help="one network, such as: gru angle")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    given = parser.parse_args()
    chosen = [tuple(given.only)] if given.only else [*networks()]
    if given.train:
        given.folder.mkdir(parents=True, exist_ok=True)
        for cell, task in chosen:
            weights = train_network(cell, task).state_dict()
            save_file(weights, given.folder / f"{cell}_{task}.safetensors")
    for line in table({(cell, task): load_network(cell, task, given.folder) for cell, task in chosen}):
        print(line, flush=True)


if __name__ == "__main__":
    main()
