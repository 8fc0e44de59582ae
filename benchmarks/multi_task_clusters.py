"""Which settings of a training make clusters of units: networks on the twenty tasks of Yang et al. 2019, side by side.

    python benchmarks/multi_task_clusters.py --device cuda --seconds 290 --references 40 --out FOLDER
    python benchmarks/multi_task_clusters.py --keep --measured FOLDER                  write the results of a folder

The settings of "published" are those of the authors' code (github.com/gyyang/multitask): 256 leaky softplus units in
steps of 20 ms, a recurrent matrix that starts as half the identity, noise of 0.05 in every unit, a logistic readout,
Adam at a rate of 0.001, five times as many trials of the two hardest tasks. Every other setting changes one of them,
except "repository", which has those of `multi_task.py --network relu` at steps of 20 ms, and "repository, small
inputs". A batch has trials of all tasks; the authors have one task in a batch, as "one task a batch" does here.

All networks are trained at once on the same trials, as one batched product for each step of time. The task variance is
that of noiseless trials after fixation. The number of updates depends on the machine, and is part of the results.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

import mnemoscope as ms
from common import folder, option_parser, write_json
from mnemoscope.lenses import TaskVariance
from mnemoscope.tasks.cognitive import MultiTask
from mnemoscope.tasks.cognitive.yang_rules import RESPONSE, RULES
from mnemoscope.training.run_folder import environment

STEP, LEAK = 20.0, 0.2
"""Milliseconds of a step, and the part of a time constant that it is."""
HARDEST = "Ctx DM 1, Ctx DM 2"
"""Tasks that the authors train on five times as often as on others."""
LONGEST = round((max(sum(max(length) for length in rule.durations) for rule in RULES) + RESPONSE) / STEP) + 1
"""Steps to which trials are padded."""
POOL = 600
"""Batches that are kept on the device; each update uses one of them, with fresh noise."""
TRIALS = 200
"""Test trials of each task."""
CHECKPOINTS = (1000, 3000, 10000, 30000)
"""Updates after which the networks are also measured."""
FINE = 8
"""Number of clusters from which they count as fine; Yang et al. 2019 show about a dozen."""


@dataclass(frozen=True)
class Setting:
    """A network and how it is trained."""

    name: str
    activation: str = "softplus"
    start: str = "identity"
    input_scale: float = 85**-0.5
    noise: float = 0.05
    logistic: bool = True
    penalty: float = 0.0
    """Weight of the mean absolute rate in the loss."""
    mixed: bool = True
    """Whether a batch has trials of all tasks."""


PUBLISHED = Setting("published")
REPOSITORY = Setting("repository", "relu", "gaussian", 0.3, 0.0, logistic=False)
SETTINGS = (
    PUBLISHED,
    replace(PUBLISHED, name="large inputs", input_scale=REPOSITORY.input_scale),
    replace(PUBLISHED, name="no noise of units", noise=0.0),
    replace(PUBLISHED, name="Gaussian start", start="gaussian"),
    replace(PUBLISHED, name="linear readout", logistic=False),
    replace(PUBLISHED, name="penalty of rates", penalty=1e-3),
    replace(PUBLISHED, name="one task a batch", mixed=False),
    replace(PUBLISHED, name="relu", activation="relu"),
    REPOSITORY,
    replace(REPOSITORY, name="repository, small inputs", input_scale=PUBLISHED.input_scale),
    replace(PUBLISHED, name="tanh", activation="tanh"),
)
"""Settings, with equal activations next to each other."""


# --- networks -------------------------------------------------------------------------------------------------------


def activate(name: str, x: Tensor) -> Tensor:
    """Return the rates of inputs."""
    return {"softplus": softplus, "relu": torch.relu, "tanh": torch.tanh}[name](x)


def slope(name: str, x: Tensor) -> Tensor:
    """Return the derivative of the rates."""
    if name == "tanh":
        return 1 - torch.tanh(x).square()
    return torch.sigmoid(x) if name == "softplus" else (x > 0).to(x.dtype)


class Recurrence(torch.autograd.Function):
    """Leaky rates r' = (1 - leak) r + leak f(r W + drive) of many networks, one function f for each span of them."""

    @staticmethod
    def forward(ctx: Any, drive: Tensor, matrix: Tensor, spans: tuple[tuple[str, slice], ...]) -> Tensor:
        inputs, rates = torch.empty_like(drive), torch.empty_like(drive)  # (time, networks, batch, units)
        before = torch.zeros_like(drive[0])
        for step in range(len(drive)):
            torch.baddbmm(drive[step], before, matrix, out=inputs[step])
            for name, span in spans:
                torch.lerp(before[span], activate(name, inputs[step, span]), LEAK, out=rates[step, span])
            before = rates[step]
        ctx.save_for_backward(inputs, rates, matrix)
        ctx.spans = spans
        return rates

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        inputs, rates, matrix = ctx.saved_tensors
        (grad,) = grads
        to_inputs = torch.empty_like(inputs)
        for name, span in ctx.spans:
            to_inputs[:, span] = LEAK * slope(name, inputs[:, span])
        carried = torch.zeros_like(grad[0])
        for step in reversed(range(len(grad))):
            total = grad[step] + carried
            to_inputs[step] *= total
            carried = torch.baddbmm(total, to_inputs[step], matrix.mT, beta=1 - LEAK)
        earlier, later = (each.transpose(0, 1).flatten(1, 2) for each in (rates[:-1], to_inputs[1:]))
        return to_inputs, earlier.mT @ later, None


class Networks(nn.Module):
    """Several networks of leaky units, whose settings are listed; networks of one activation are neighbours."""

    deviation: Tensor
    logistic: Tensor
    penalty: Tensor

    def __init__(self, settings: list[Setting], seeds: list[int], size: int, task: MultiTask) -> None:
        super().__init__()
        self.settings = settings
        starts = []
        for setting, seed in zip(settings, seeds, strict=True):
            generator = torch.Generator().manual_seed(seed)
            drive = setting.input_scale * torch.randn(task.input_size, size, generator=generator)
            gaussian = torch.randn(size, size, generator=generator) / size**0.5
            readout = torch.randn(size, task.output_size, generator=generator) / size**0.5
            starts.append((drive, gaussian if setting.start == "gaussian" else torch.eye(size) / 2, readout))
        self.drive, self.matrix, self.readout = (nn.Parameter(torch.stack(each)) for each in zip(*starts, strict=True))
        self.bias = nn.Parameter(torch.zeros(len(settings), 1, size))
        self.readout_bias = nn.Parameter(torch.zeros(len(settings), 1, task.output_size))
        deviation = torch.tensor([setting.noise * (2 / LEAK) ** 0.5 for setting in settings])
        self.register_buffer("deviation", deviation[:, None, None])
        self.register_buffer("penalty", torch.tensor([setting.penalty for setting in settings]))
        self.register_buffer("logistic", torch.tensor([setting.logistic for setting in settings])[:, None, None])
        names = [setting.activation for setting in settings]
        self.spans = tuple((name, slice(names.index(name), names.index(name) + names.count(name))) for name in
                           dict.fromkeys(names))  # fmt: skip

    def rates(self, inputs: Tensor, *, noisy: bool) -> Tensor:
        """Return the rates (time, networks, batch, units) for inputs (time, networks or 1, batch, features)."""
        by_network = inputs.transpose(0, 1)  # (networks or 1, time, batch, features)
        flat = by_network.flatten(1, 2).expand(len(self.settings), -1, -1)
        drive = torch.baddbmm(self.bias, flat, self.drive).unflatten(1, by_network.shape[1:3]).transpose(0, 1)
        drive = drive + self.deviation * torch.randn_like(drive) if noisy else drive
        return Recurrence.apply(drive.contiguous(), self.matrix, self.spans)

    def outputs(self, rates: Tensor) -> Tensor:
        """Return what the readouts show."""
        found = rates @ self.readout + self.readout_bias
        return torch.where(self.logistic, found.sigmoid(), found)


# --- trials ---------------------------------------------------------------------------------------------------------


def make_batch(mixed: bool, number: int, size: int) -> tuple[np.ndarray, ...]:
    """Return noiseless inputs, targets and weights of the loss, whose sum over a batch is that of a mean."""
    torch.set_num_threads(1)
    if mixed:  # two sevenths of the trials are added for the hardest tasks, which makes five times as many
        parts = [MultiTask(noise=0.0).trials(size * 5 // 7, 0, number).batch]
        parts += [MultiTask(noise=0.0, rules=HARDEST).trials(size - size * 5 // 7, 1, number).batch]
    else:
        chances = torch.tensor([5.0 if rule.name in HARDEST.split(", ") else 1.0 for rule in RULES])
        rule = int(torch.multinomial(chances, 1, generator=torch.Generator().manual_seed(number)))
        parts = [MultiTask(noise=0.0, rules=RULES[rule].name).trials(size, 2, number).batch]
    counted = sum(int(part.mask.sum()) for part in parts)
    task = MultiTask()
    columns = [(part.inputs, part.targets, task.weights(part) * part.mask.unsqueeze(2) / counted * 1000)
               for part in parts]  # fmt: skip
    return tuple(
        torch.cat([_padded(each) for each in column], 1).half().numpy() for column in zip(*columns, strict=True)
    )


def _padded(values: Tensor) -> Tensor:
    return torch.cat([values, values.new_zeros(LONGEST - len(values), *values.shape[1:])])


class Batches:
    """Pools of batches on the device, which processes fill during a training."""

    def __init__(self, workers: ProcessPoolExecutor, processes: int, size: int, device: str) -> None:
        self.workers, self.size, self.device = workers, size, device
        self.made = 0
        self.pools: dict[bool, list[tuple[Tensor, ...]]] = {True: [], False: []}
        self.pending: list[tuple[bool, Future[Any]]] = []
        for _ in range(2 * processes):
            self._ask()
        while not all(self.pools.values()):
            self.pending[0][1].result()
            self.collect()

    def _ask(self) -> None:
        mixed = self.made % 2 == 0
        self.pending.append((mixed, self.workers.submit(make_batch, mixed, self.made, self.size)))
        self.made += 1

    def collect(self) -> None:
        """Move finished batches to the device, and ask for others."""
        waiting = []
        for mixed, future in self.pending:
            if not future.done():
                waiting.append((mixed, future))
                continue
            pool = self.pools[mixed]
            if len(pool) >= POOL:
                pool.pop(0)
            pool.append(tuple(torch.from_numpy(each).to(self.device) for each in future.result()))
        asked = len(self.pending) - len(waiting)
        self.pending = waiting
        for _ in range(asked):
            self._ask()

    def draw(self, mixed: bool) -> tuple[Tensor, ...]:
        """Return a batch at random."""
        pool = self.pools[mixed]
        return pool[int(torch.randint(len(pool), ()))]


# --- training -------------------------------------------------------------------------------------------------------


class Trainer:
    """One update of all networks, recorded as a graph on a GPU."""

    def __init__(self, networks: Networks, batches: Batches, rate: float, device: str, eager: bool) -> None:
        self.networks, self.batches, self.device = networks, batches, device
        self.single = [number for number, setting in enumerate(networks.settings) if not setting.mixed]
        self.deviation = float(MultiTask(step=STEP).noise_deviation[0])
        self.optimiser = torch.optim.Adam(networks.parameters(), lr=rate, capturable=device == "cuda")
        # (time, networks, batch, features): all networks see the same trials, except those of "one task a batch"
        self.buffers = [
            each.float().unsqueeze(1).repeat(1, len(networks.settings), 1, 1) for each in batches.draw(True)
        ]
        self.losses = torch.zeros(len(networks.settings), device=device)
        self.graph = None
        self.fill()
        if device == "cuda" and not eager:
            self._record()

    def fill(self) -> None:
        """Put new trials into the buffers."""
        drawn = {True: self.batches.draw(True)} | ({False: self.batches.draw(False)} if self.single else {})
        for place, buffer in enumerate(self.buffers):
            buffer.copy_(drawn[True][place].unsqueeze(1).expand_as(buffer))
            for number in self.single:
                buffer[:, number].copy_(drawn[False][place])

    def update(self) -> None:
        """Train on new trials."""
        self.fill()
        if self.graph is None:
            self._update()
        else:
            self.graph.replay()

    def _update(self) -> None:
        inputs, targets, weights = self.buffers
        self.optimiser.zero_grad(set_to_none=True)
        rates = self.networks.rates(inputs + self.deviation * torch.randn_like(inputs[:, :1]), noisy=True)
        errors = weights * (self.networks.outputs(rates) - targets).square()
        losses = errors.sum((0, 2, 3)) / 1000 / targets.shape[3]
        self.losses.copy_(losses.detach())
        (losses + self.networks.penalty * rates.abs().mean((0, 2, 3))).sum().backward()
        for weight in self.networks.parameters():
            assert weight.grad is not None
            weight.grad.clamp_(-1, 1)  # as in the authors' code
        self.optimiser.step()

    def _record(self) -> None:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self._update()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._update()


# --- measurements ---------------------------------------------------------------------------------------------------


@torch.no_grad()
def accuracies(networks: Networks, device: str) -> list[dict[str, float]]:
    """Return the share of right trials of each task, for each network, with all noise."""
    found: list[dict[str, float]] = [{} for _ in networks.settings]
    for rule in RULES:
        task = MultiTask(step=STEP, rules=rule.name)
        batch = task.batch(TRIALS, 0, 0, "test")
        outputs = networks.outputs(networks.rates(batch.inputs.to(device).unsqueeze(1), noisy=True)).cpu()
        for number, scores in enumerate(found):
            scores[rule.name] = round(task.scores(outputs[:, number], batch)["accuracy"], 3)
    return found


@torch.no_grad()
def recorded(networks: Networks, device: str) -> Iterator[np.ndarray]:
    """Yield the rates of each network in a noiseless trial of every combination of conditions."""
    inputs = MultiTask(step=STEP).grid().batch.inputs
    rates = networks.rates(inputs.to(device).unsqueeze(1), noisy=False)
    for number in range(len(networks.settings)):
        yield rates[:, number].cpu().numpy()


def clusters(rates: np.ndarray, references: int, with_fixation: bool = False) -> dict[str, Any]:
    """Return the clusters of units by their task variance, as the authors' without the steps of fixation."""
    torch.set_num_threads(1)
    trials = MultiTask(step=STEP).grid()
    activity = torch.from_numpy(rates).double()
    time = torch.arange(len(activity)).unsqueeze(1)
    begin = torch.zeros_like(trials.lengths) if with_fixation else trials.table.epoch("fixation").stops
    activity = activity.masked_fill(((time < begin) | (time >= trials.lengths)).unsqueeze(2), torch.nan)
    recording = ms.Recording(activity, trials.table)
    found = ms.task_variance(recording, by="rule", most_clusters=30, references=references, noiseless=True)
    facts = {"finite": bool(np.isfinite(rates).all()), "active": int(found.active.sum()), "number": found.number}
    if found.scores is None or found.clusters is None:  # silent units, or weights that diverged
        return facts | {"silhouettes": [], "fine": None, "without_clusters": None, "probability": None}
    return facts | {
        "sizes": torch.bincount(found.clusters[found.active]).tolist(),
        "silhouettes": [round(float(score), 3) for score in found.scores],
        "fine": _fine(found),
        "without_clusters": None if found.null is None else round(float(found.null.median()), 3),
        "probability": found.probability,
        "variance": [[float(f"{value:.3g}") for value in unit] for unit in found.variance.tolist()],
    }


def _fine(found: TaskVariance) -> dict[str, float]:
    """Return the best of the fine clusters, and how often data without clusters reach as much with any number."""
    assert found.scores is not None
    scores = found.scores[FINE - 2 :]
    row = {"number": FINE + int(scores.argmax()), "silhouette": round(float(scores.max()), 3)}
    if found.null is None:
        return row
    return row | {"probability": (1 + int((found.null >= scores.max()).sum())) / (1 + len(found.null))}


def measure(
    networks: Networks, device: str, workers: ProcessPoolExecutor, references: int, with_fixation: bool = False
) -> list[Future[dict[str, Any]]]:
    """Ask for the clusters of all networks."""
    function = partial(clusters, references=references, with_fixation=with_fixation)
    return [workers.submit(function, rates) for rates in recorded(networks, device)]


# --- command --------------------------------------------------------------------------------------------------------


def train(options: Any) -> None:
    """Train all networks for so many seconds, and write measurements into a folder."""
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(0)
    began, device = time.monotonic(), options.device
    options.out.mkdir(parents=True, exist_ok=True)
    chosen = [setting for setting in SETTINGS if not options.settings or setting.name in options.settings]
    settings = [setting for setting in chosen for _ in range(options.seeds)]
    seeds = [seed for _ in chosen for seed in range(options.seeds)]
    networks = Networks(settings, seeds, options.units, MultiTask(step=STEP)).to(device)
    processes = options.processes or len(os.sched_getaffinity(0))
    rows: list[dict[str, Any]] = [
        {**asdict(setting), "seed": seed} for setting, seed in zip(settings, seeds, strict=True)
    ]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as workers:
        batches = Batches(workers, processes, options.batch, device)
        trainer = Trainer(networks, batches, options.rate, device, options.eager)
        print(f"{len(settings)} networks; ready after {time.monotonic() - began:.0f} s", flush=True)
        later: dict[int, tuple[list[dict[str, float]], list[Future[dict[str, Any]]]]] = {}
        updates = 0
        while time.monotonic() - began < options.seconds and updates < options.updates:
            trainer.update()
            updates += 1
            if updates % 20 == 0:
                batches.collect()
            if updates % 500 == 0:
                losses = ", ".join(f"{loss:.4f}" for loss in trainer.losses.tolist())
                print(
                    f"{updates} updates, {time.monotonic() - began:.0f} s, {batches.made} batches: {losses}", flush=True
                )
            if updates in CHECKPOINTS:
                later[updates] = accuracies(networks, device), measure(networks, device, workers, 0)
        for _, future in batches.pending:
            future.cancel()
        print(f"{updates} updates after {time.monotonic() - began:.0f} s", flush=True)
        torch.save({name: value.cpu() for name, value in networks.state_dict().items()}, options.out / "networks.pt")
        included = measure(networks, device, workers, 0, with_fixation=True)
        later[updates] = accuracies(networks, device), measure(networks, device, workers, options.references)
        for number, row in enumerate(rows):
            row["accuracy"] = later[updates][0][number]
            row["after"] = {
                at: {"accuracy": round(sum(scores[number].values()) / len(RULES), 3), **futures[number].result()}
                for at, (scores, futures) in sorted(later.items())
            }
            row["with_fixation"] = included[number].result()
            _write(options, rows[: number + 1], updates, batches.made)


def _write(options: Any, rows: list[dict[str, Any]], updates: int, made: int) -> None:
    settings = {name: value for name, value in vars(options).items() if isinstance(value, int | float | str)}
    content = {"trained_on": environment(), "options": settings, "updates": updates, "batches": made, "rows": rows}
    (options.out / "multi_task_clusters.json").write_text(json.dumps(content))


def main() -> None:
    """Train, or write the results of a training."""
    parser = option_parser(__doc__)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--eager", action="store_true", help="record no graph of an update on a GPU")
    parser.add_argument("--seconds", type=float, default=320, help="when the training ends")
    parser.add_argument("--updates", type=int, default=1_000_000, help="most updates")
    parser.add_argument("--units", type=int, default=256)
    parser.add_argument("--batch", type=int, default=112, help="trials of a batch")
    parser.add_argument("--rate", type=float, default=0.001, help="learning rate")
    parser.add_argument("--seeds", type=int, default=3, help="networks of each setting")
    parser.add_argument("--settings", nargs="+", choices=[setting.name for setting in SETTINGS])
    parser.add_argument("--references", type=int, default=100, help="data sets without clusters")
    parser.add_argument("--processes", type=int, help="processes that make trials and clusters")
    parser.add_argument("--out", type=Path, default=Path("runs/bench/multi_task_clusters"))
    parser.add_argument("--name", default="multi_task_clusters", help="name of the file of results")
    parser.add_argument("--measured", type=Path, help="folder of a finished training, whose results are written")
    options = parser.parse_args()
    if options.measured is None:
        train(options)
        return
    content = json.loads((options.measured / "multi_task_clusters.json").read_text())
    for row in content["rows"]:
        last = [*row["after"].values()][-1]
        for found in (*row["after"].values(), row["with_fixation"]):
            found["silhouette"] = max(found["silhouettes"], default=None)
            found.pop("variance", None)  # a number for each unit and task: megabytes
            if found is not last:
                del found["silhouettes"]
                found.pop("sizes", None)
    write_json(folder(options.keep) / f"{options.name}.json", **content)


if __name__ == "__main__":
    main()
