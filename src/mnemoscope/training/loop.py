"""The training loop, to be read from top to bottom."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from math import cos, inf, isfinite, pi
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adam, AdamW, Optimizer, RMSprop
from tqdm import tqdm

from mnemoscope.cells import Model
from mnemoscope.cells.state import map_state
from mnemoscope.config import RunConfig
from mnemoscope.tasks import Batch, Task
from mnemoscope.training.build import build_model, build_task
from mnemoscope.training.checkpoint import Counters, restore_checkpoint, save_checkpoint
from mnemoscope.training.interruption import Interruption
from mnemoscope.training.result import Stopped, TrainResult
from mnemoscope.training.run_folder import RunFolder
from mnemoscope.training.seeding import seeded

_OPTIMISERS: dict[str, Callable[..., Optimizer]] = {"adam": Adam, "adamw": AdamW, "rmsprop": RMSprop}


class NonFiniteLoss(RuntimeError):  # noqa: N818 (as StopIteration: it says what happened)
    """The loss or its gradient became infinite or NaN."""


@dataclass(frozen=True)
class StepInfo:
    """What a callback is told after every optimiser step."""

    step: int
    """Optimiser steps done."""
    loss: float
    """Training loss before the step."""
    evaluation: dict[str, Any] | None
    """The line that was written to metrics.jsonl, if this step was evaluated."""
    model: Model


def train(
    config: RunConfig,
    root: str | Path = "runs",
    *,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = True,
    callbacks: Sequence[Callable[[StepInfo], None]] = (),
) -> TrainResult:
    """Train the network of `config` in its folder under `root`, and return how it went.

    A finished run is not repeated: its stored result comes back. Equal configurations give equal weights, bit for bit,
    on one machine with one number of threads; also if the run was interrupted, by Ctrl-C or by force, and resumed.

    Args:
        config: what to train, on what, how.
        root: folder of all runs; this one lives in `<root>/<name>/<hash>`.
        resume: go on from the last checkpoint of an unfinished run; start it if there is none.
        overwrite: start again from nothing, whatever is there.
        progress: show a bar with the loss beside the task's memoryless baseline.
        callbacks: called with a `StepInfo` after every step; KeyboardInterrupt from one of them is as good as Ctrl-C.

    """
    folder = RunFolder(config.folder(root))
    to_do = folder.decide(config, resume=resume, overwrite=overwrite)
    if to_do == "done":
        return folder.read_result()
    task = build_task(config)
    model = build_model(config, task).to(_device(config))
    optimiser = _optimiser(config, model)
    with folder.claimed(), _threads(config.threads):
        if to_do == "start":
            folder.begin(config)
        folder.remove_debris()
        return _train(config, folder, task, model, optimiser, progress, callbacks)


def _train(
    config: RunConfig,
    folder: RunFolder,
    task: Task,
    model: Model,
    optimiser: Optimizer,
    progress: bool,
    callbacks: Sequence[Callable[[StepInfo], None]],
) -> TrainResult:
    checkpoint = folder.path / "checkpoint.safetensors"
    done = Counters()
    if checkpoint.exists():
        done = restore_checkpoint(checkpoint, model, optimiser, config.hash)
    started = perf_counter() - done.seconds
    baseline = task.baseline()
    tests = [
        task.batch(config.batch_size, config.seed, number, "test").to(config.device)
        for number in range(config.evaluate_batches)
    ]

    with (
        folder.open_metrics(done.metrics_size) as metrics,
        Interruption() as interruption,
        tqdm(total=config.steps, initial=done.step, desc=config.name, unit="step", disable=not progress) as bar,
    ):

        def save() -> None:
            # the weights are new since the last loss: a checkpoint that gives no finite loss would not be a good one
            with seeded("checkpoint", config.seed, done.step, device=config.device):
                tried = evaluate(model, task, tests[:1])["loss"]
            if not isfinite(tried):
                raise _non_finite(f"The evaluation loss is {tried}", done.step, checkpoint)
            metrics.flush()
            os.fsync(metrics.fileno())
            done.metrics_size = metrics.tell()
            done.seconds = perf_counter() - started
            save_checkpoint(checkpoint, model, optimiser, done, config.hash)

        while done.stopped is None:
            # One optimiser step on the next batch of the stream.
            rate = _set_learning_rate(optimiser, config, done.step)
            batch = task.batch(config.batch_size, config.seed, done.step).to(config.device)
            optimiser.zero_grad()
            with seeded("step", config.seed, done.step, device=config.device):
                loss = _backward(model, task, batch, config.truncate)
            norm = nn.utils.clip_grad_norm_(model.parameters(), inf if config.clip is None else config.clip).item()
            if not (isfinite(loss) and isfinite(norm)):
                raise _non_finite(f"The training loss is {loss} and its gradient's norm {norm}", done.step, checkpoint)
            optimiser.step()
            done.step += 1
            done.loss_sum += loss
            done.gradient_sum += norm
            done.summed += 1

            # Evaluation: a line of metrics, and whether to stop.
            line = None
            if done.step % config.evaluate_every == 0 or done.step == config.steps:
                line = {
                    "step": done.step,
                    "learning_rate": rate,
                    "train_loss": done.loss_sum / done.summed,
                    "gradient_norm": done.gradient_sum / done.summed,
                }
                with seeded("evaluation", config.seed, done.step, device=config.device):
                    line |= evaluate(model, task, tests)
                if not isfinite(line["loss"]):
                    raise _non_finite(f"The evaluation loss is {line['loss']}", done.step, checkpoint)
                metrics.write((json.dumps(line) + "\n").encode())
                metrics.flush()
                done.loss_sum, done.gradient_sum, done.summed = 0.0, 0.0, 0
                done.stopped = _reason_to_stop(config, done, line)
            bar.update()
            bar.set_postfix_str(_against(line["loss"] if line else loss, baseline), refresh=False)

            # Whoever wants to look; checkpoint; Ctrl-C.
            try:
                for callback in callbacks:
                    callback(StepInfo(done.step, loss, line, model))
            except KeyboardInterrupt:
                interruption.requested = True
            if done.step % config.checkpoint_every == 0 or done.stopped is not None or interruption.requested:
                save()
            if interruption.requested and done.stopped is None:
                raise KeyboardInterrupt(
                    f"Stopped after step {done.step} of {config.steps}; the checkpoint is in {folder.path}. "
                    f"Go on with train(config, resume=True), or by the same command with --resume."
                )

    last = folder.read_metrics()[-1]
    scores = {name: last[name] for name in last if name not in _NOT_SCORES}
    folder.save_model(model, config)
    result = TrainResult(folder.path, done.step, done.stopped, last["loss"], scores, baseline, done.seconds)
    folder.save_result(result)
    return result


_NOT_SCORES = ("step", "learning_rate", "train_loss", "gradient_norm", "loss")


def _backward(model: Model, task: Task, batch: Batch, truncate: int | None) -> float:
    """Add the gradient of the batch's loss to the parameters' `.grad`, and return the loss.

    Truncated BPTT: the sequence is cut into windows of `truncate` steps; the state is carried from one to the next, its
    gradient is not. The windows' gradients add up to one optimiser step per sequence, so that truncation changes which
    paths a gradient takes, but neither the loss nor what a step is. A window in which no step counts is only passed
    through.
    """
    counted = int(batch.mask.sum())
    state, total = None, 0.0
    for window in batch.windows(truncate):
        share = int(window.mask.sum()) / counted
        with nullcontext() if share else torch.no_grad():
            outputs, state = model(window.inputs, state)
            state = map_state(Tensor.detach, state)
        if share:
            loss = task.loss(outputs, window) * share
            loss.backward()
            total += loss.item()
    return total


@torch.no_grad()
def evaluate(model: Model, task: Task, batches: Iterable[Batch]) -> dict[str, float]:
    """Mean loss and scores of a model over batches of a task, in evaluation mode."""
    training = model.training
    model.eval()
    rows = []
    for batch in batches:
        outputs, _ = model(batch.inputs)
        rows.append({"loss": task.loss(outputs, batch).item(), **task.scores(outputs, batch)})
    model.train(training)
    return {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}


def _optimiser(config: RunConfig, model: Model) -> Optimizer:
    """The optimiser; the recurrent matrix is a group of its own if it has its own learning rate."""
    recurrent, rest = [], []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            (recurrent if name.startswith("cell.connectivity.") else rest).append(parameter)
    if config.recurrent_learning_rate is None:
        groups = [{"params": [*recurrent, *rest], "base_rate": config.learning_rate}]
    elif not recurrent:
        raise ValueError(
            f"recurrent_learning_rate is for a cell with a connectivity module, which {config.cell!r} has not."
        )
    else:
        groups = [
            {"params": recurrent, "base_rate": config.recurrent_learning_rate},
            {"params": rest, "base_rate": config.learning_rate},
        ]
    if not recurrent and not rest:
        raise ValueError("The model has no parameters to train.")
    return _OPTIMISERS[config.optimiser](groups, lr=config.learning_rate, weight_decay=config.weight_decay)


def _set_learning_rate(optimiser: Optimizer, config: RunConfig, step: int) -> float:
    """The schedule, a function of the number of steps done; returns the rate of most parameters."""
    factor = 1.0 if config.schedule == "constant" else (1 + cos(pi * step / config.steps)) / 2
    for group in optimiser.param_groups:
        group["lr"] = group["base_rate"] * factor
    return config.learning_rate * factor


def _reason_to_stop(config: RunConfig, done: Counters, line: dict[str, Any]) -> Stopped | None:
    """Keep count of the lowest loss, and say whether this evaluation was the last one."""
    if done.lowest_loss is None or line["loss"] < done.lowest_loss:
        done.lowest_loss, done.stale = line["loss"], 0
    else:
        done.stale += 1
    low_enough = config.target_loss is None or line["loss"] <= config.target_loss
    good_enough = config.target_score is None or line["accuracy"] >= config.target_score
    if low_enough and good_enough and (config.target_loss, config.target_score) != (None, None):
        return "target"
    if done.step == config.steps:
        return "steps"
    return "patience" if config.patience is not None and done.stale >= config.patience else None


def _non_finite(what: str, step: int, checkpoint: Path) -> NonFiniteLoss:
    kept = f"the last good checkpoint is {checkpoint}" if checkpoint.exists() else "no checkpoint had been made yet"
    return NonFiniteLoss(
        f"{what} after {step} optimiser steps; {kept}. Resuming would meet it again: lower learning_rate, set or lower "
        f"clip, or change the initial weights."
    )


def _against(loss: float, baseline: float) -> str:
    return f"loss {loss:.2e}, baseline {baseline:.2e}"


def _device(config: RunConfig) -> torch.device:
    if config.device == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            'device is "cuda", but torch sees no GPU here. Use device = "cpu", or a torch built with CUDA.'
        )
    return torch.device(config.device)


@contextmanager
def _threads(number: int | None) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(before if number is None else number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
