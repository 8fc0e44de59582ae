"""The training loop, to be read from top to bottom."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from math import inf, isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, BinaryIO, Protocol, get_args, runtime_checkable

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from mnemoscope.base.progress import Bar
from mnemoscope.cells import Model
from mnemoscope.cells.state import State, map_state
from mnemoscope.config.run_config import ENDLESS_EVALUATION, RunConfig
from mnemoscope.connectivity import Connectivity
from mnemoscope.tasks import Batch, Split, Task
from mnemoscope.training.build import build_model, build_task
from mnemoscope.training.callbacks import Begun, Follower, StepInfo
from mnemoscope.training.checkpoint import Carried, Counters, restore_checkpoint, save_checkpoint
from mnemoscope.training.evaluation import evaluate
from mnemoscope.training.interruption import Interruption
from mnemoscope.training.loggers import logs
from mnemoscope.training.optimising import build_optimiser, set_learning_rate
from mnemoscope.training.result import Stopped, TrainResult
from mnemoscope.training.run_folder import RunFolder
from mnemoscope.training.seeding import seeded
from mnemoscope.training.world import World, check_divisible, drop_unused, joined


class NonFiniteLoss(RuntimeError):  # noqa: N818 (as StopIteration: it says what happened)
    """The loss or its gradient became infinite or NaN."""


@runtime_checkable
class Penalised(Protocol):
    """A part of a model that adds to the loss: a matrix that is held near a set, a screen that learns to predict.

    What it adds is a mean over the sequences of a batch, or does not depend on them: of several processes each counts
    for the sequences that it has.
    """

    def penalty(self) -> Tensor | None:
        """What to add after the forward pass of a step; None: nothing."""
        ...


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
    The checkpoint knows the number of threads; a run that goes on with another one says so in a warning.

    Started by torchrun, as one of several processes, it trains one model with them. `batch_size` is that of all
    together: all draw the same batch, each works on its part of the sequences, and losses and gradients are those of
    the whole, but for rounding. The first process evaluates, writes the folder, shows the bar and calls the callbacks;
    the result comes back in all. What a network draws at random while it learns is drawn by each process for its own
    sequences, and so differs from what one process would draw. A run may go on with another number of processes.

    Evaluations are on fresh batches of an endless task, of a relational one with what it holds out of training, and on
    the validation split of one with a data set. There, the weights with the lowest validation loss are kept, and the
    result is what they reach on the whole test split; else they are the last ones.

    Args:
        config: what to train, on what, how.
        root: folder of all runs; this one lives in `<root>/<name>/<hash>`.
        resume: go on from the last checkpoint of an unfinished run; start it if there is none.
        overwrite: start again from nothing, whatever is there.
        progress: show a bar with the loss beside the task's memoryless baseline.
        callbacks: called with a `StepInfo` after every step; KeyboardInterrupt from one of them is as good as Ctrl-C.
            A `Follower` is told of begin and end too. What `config.log` names is added to them.

    """
    folder, built, followed = RunFolder(config.folder(root)), None, [*callbacks]
    with joined(config.device) as world, ExitStack() as held:

        def begin() -> dict[str, Any] | None:
            """By the first process, which tells the others whether there is something to do."""
            nonlocal built
            to_do = folder.decide(config, resume=resume, overwrite=overwrite)
            if to_do == "done":
                return folder.read_result().as_json()
            followed.extend(logs(config.log))
            built = _built(config, world, progress)
            held.enter_context(folder.claimed())
            if to_do == "start":
                folder.begin(config, world.size)
            folder.remove_debris()
            return None

        stored = world.first(begin)
        if stored is not None:
            return TrainResult.from_json(stored, folder.path)
        task, model, optimiser = built or _built(config, world, progress=False)
        with _threads(config.threads), _without_denormals():
            return _train(_Run(config, folder, task, model, optimiser, world), progress, followed, held)


def _built(config: RunConfig, world: World, progress: bool) -> tuple[Task, Model, Optimizer]:
    task = build_task(config)
    model = build_model(config, task).to(_device(config))
    optimiser = build_optimiser(config, model)
    if world.size > 1:
        check_divisible(world, config.batch_size, model)
    task.prepare(progress)
    for split in get_args(Split):
        task.batches(config.batch_size, split)  # a batch larger than the data is told here
    return task, model, optimiser


def _train(run: _Run, progress: bool, callbacks: Sequence[Callable[[StepInfo], None]], held: ExitStack) -> TrainResult:
    config, done, world, baseline = run.config, run.done, run.world, run.task.baseline()
    shown = progress and world.is_first
    followers = [each for each in callbacks if isinstance(each, Follower) and world.is_first]
    with (
        run.folder.open_metrics(done.metrics_size) if world.is_first else nullcontext() as metrics,
        Interruption() as interruption,
        Bar(total=config.steps, initial=done.step, desc=config.name, unit="step", disable=not shown) as bar,
    ):
        for each in followers:
            held.callback(each.close)
            each.begin(Begun(config, run.folder.path, run.folder.read_metrics(), baseline))
        while done.stopped is None:
            loss, rate = run.step(interruption)
            line = None
            if done.step % config.evaluate_every == 0 or done.step == config.steps:
                line = run.evaluate(rate)
                if metrics is not None:
                    metrics.write((json.dumps(line) + "\n").encode())
                    metrics.flush()
                done.stopped = _reason_to_stop(config, done, line)
            bar.update()
            bar.set_postfix_str(_against(line["loss"] if line else loss, baseline), refresh=False)

            # Whoever wants to look; checkpoint; Ctrl-C.
            try:
                for callback in callbacks if world.is_first else ():
                    callback(StepInfo(done.step, loss, line, run.model))
            except KeyboardInterrupt:
                interruption.requested = True
            # of several processes, all stop after the step at which they were told that one of them was asked to
            stop = interruption.requested if world.size == 1 else run.told_to_stop
            if done.step % config.checkpoint_every == 0 or done.stopped is not None or stop:
                run.save(metrics)
            if stop and done.stopped is None:
                raise world.common(
                    KeyboardInterrupt(
                        f"Stopped after step {done.step} of {config.steps}; the checkpoint is in {run.folder.path}. "
                        f"Go on with train(config, resume=True), or by the same command with --resume."
                    )
                )
    content = world.first(lambda: run.finish(baseline).as_json())
    result = replace(TrainResult.from_json(content, run.folder.path), cached=False)
    for each in followers:
        each.finish(result)
    return result


class _Run:
    """A run under way: the parts of the loop, and what they share."""

    def __init__(
        self, config: RunConfig, folder: RunFolder, task: Task, model: Model, optimiser: Optimizer, world: World
    ) -> None:
        """At the last checkpoint, or at the beginning where there is none."""
        self.config, self.folder, self.task, self.model, self.optimiser = config, folder, task, model, optimiser
        self.world = world
        self.part = world.part(config.batch_size)
        self.learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.told_to_stop = False
        self.matrices = [matrix for matrix in model.modules() if isinstance(matrix, Connectivity)]
        self.penalised = [part for part in model.modules() if isinstance(part, Penalised)]
        self.checkpoint = folder.path / "checkpoint.safetensors"
        self.done, self.carried = Counters(threads=torch.get_num_threads(), processes=world.size), Carried()
        self._restore()
        world.check_alike(model)
        self.started = perf_counter() - self.done.seconds
        self.ahead: Batch | None = None
        """The next batch."""
        self.stages = task.stages()
        self.split: Split = "validation" if task.finite else "test"

    def _restore(self) -> None:
        """Go to the checkpoint, if there is one: the first process sends it, as others may not see its files."""
        if not self.world.first(self.checkpoint.exists):
            return
        with TemporaryDirectory() if not self.world.is_first else nullcontext(self.checkpoint.parent) as at:
            path = Path(at) / self.checkpoint.name
            if self.world.size > 1:
                content = self.world.from_first(path.read_bytes() if self.world.is_first else None)
                if not self.world.is_first:
                    path.write_bytes(content)
            self.done, self.carried = restore_checkpoint(path, self.model, self.optimiser, self.config.hash)
        if self.carried.state is not None and self.world.size > 1:
            self.carried.state = map_state(lambda whole: whole[self.part], self.carried.state)
        if self.world.is_first:
            _compare_rounding(self.done, self.world, self.config.device)

    def step(self, interruption: Interruption) -> tuple[float, float]:
        """One optimiser step on the next batch of the stream; returns the loss before it and the learning rate."""
        config, done = self.config, self.done
        rate = set_learning_rate(self.optimiser, config, done)
        batch = self._batch(done.step) if self.ahead is None else self.ahead
        self.optimiser.zero_grad()
        task, world = self.stages[done.stage], self.world
        # what is drawn for a sequence must not be drawn again for that of another process
        with seeded("step", config.seed, done.step, *((world.rank,) if world.rank else ()), device=config.device):
            total, state, accuracy = _backward(
                self.model, task, batch, config.truncate, self.carried.state, task is not self.task, self.penalised,
                self.part if world.size > 1 else None,
            )  # fmt: skip
        summed = None
        if world.size > 1:
            summed = world.add_up(self.learned, [total, accuracy or 0.0, float(interruption.requested)])
            total = summed.numbers[0]
            accuracy = None if accuracy is None else summed.numbers[1].item()
        length = nn.utils.clip_grad_norm_(self.model.parameters(), inf if config.clip is None else config.clip)
        if accuracy is not None and accuracy >= config.curriculum_score:
            done.stage += 1
        # drawn while a GPU is still at work, before anyone asks for its numbers
        self.ahead = self._batch(done.step + 1) if done.step + 1 < config.steps else None
        loss, norm = total.item(), length.item()
        if summed is not None:
            self.told_to_stop = summed.numbers[2].item() > 0
            drop_unused(self.learned, summed)
        if isfinite(loss) and isfinite(norm):
            self.optimiser.step()
            for matrix in self.matrices:
                matrix.after_step()
            done.left_out_in_a_row = 0
            done.loss_sum += loss
            done.gradient_sum += norm
            done.summed += 1
        elif done.left_out_in_a_row < config.leave_out:
            done.left_out += 1
            done.left_out_in_a_row += 1
            state = None  # what follows must not begin where this batch has ended
        else:
            raise self.world.common(self._non_finite(f"The training loss is {loss} and its gradient's norm {norm}"))
        done.step += 1
        self.carried.state = state if self.task.continues(config.batch_size, done.step) else None
        return loss, rate

    def _batch(self, number: int) -> Batch:
        return self.stages[self.done.stage].batch(self.config.batch_size, self.config.seed, number)

    def evaluate(self, rate: float) -> dict[str, Any]:
        """A line of metrics: means over the training steps since the last one, loss and scores on held-out batches,
        as the first process measures them.
        """
        line, done = self.world.first(lambda: self._evaluated(rate)), self.done
        if self.task.finite and (done.lowest_loss is None or line["loss"] < done.lowest_loss):
            self.carried.best = {name: value.clone() for name, value in self.model.state_dict().items()}
        done.loss_sum, done.gradient_sum, done.summed = 0.0, 0.0, 0
        return line

    def _evaluated(self, rate: float) -> dict[str, Any]:
        done, asked = self.done, self.config.evaluate_batches
        line = {
            "step": done.step,
            "learning_rate": rate,
            # of the batches that were not left out, if there was one
            "train_loss": done.loss_sum / done.summed if done.summed else None,
            "gradient_norm": done.gradient_sum / done.summed if done.summed else None,
        }
        if self.config.leave_out:
            line["left_out"] = done.left_out
        if len(self.stages) > 1:
            line["stage"] = done.stage
        whole = self.task.batches(self.config.batch_size, self.split)
        number = (whole or ENDLESS_EVALUATION) if asked is None else min(asked, whole or asked)
        return line | self._tested("evaluation", self.split, number)

    def save(self, metrics: BinaryIO | None) -> None:
        """Write the checkpoint, after the metrics that belong to it."""
        self.world.check_alike(self.model)
        carried = replace(self.carried, state=self.world.whole(self.carried.state, self.config.batch_size))
        self.world.first(lambda: self._write(metrics, carried))

    def _write(self, metrics: BinaryIO | None, carried: Carried) -> None:
        assert metrics is not None  # the first process has them open
        # the weights are new since the last loss: a checkpoint that gives no finite loss would not be a good one
        self._tested("checkpoint", self.split, 1)
        metrics.flush()
        os.fsync(metrics.fileno())
        self.done.metrics_size = metrics.tell()
        self.done.seconds = perf_counter() - self.started
        save_checkpoint(self.checkpoint, self.model, self.optimiser, self.done, carried, self.config.hash)

    def finish(self, baseline: float) -> TrainResult:
        """Write the network and the result; of a finite task the best network, tested on what it has not seen."""
        last, done = self.folder.read_metrics()[-1], self.done
        assert done.stopped is not None
        if self.carried.best is not None:
            self.model.load_state_dict(self.carried.best)
            last = self._tested("test", "test", self.task.batches(self.config.batch_size, "test") or 0)
        scores = {name: last[name] for name in last if name not in _NOT_SCORES}
        self.folder.save_model(self.model, self.config)
        result = TrainResult(self.folder.path, done.step, done.stopped, last["loss"], scores, baseline, done.seconds)
        self.folder.save_result(result)
        return result

    def _tested(self, why: str, split: Split, number: int) -> dict[str, float]:
        config, task, size = self.config, self.task, self.config.batch_size
        batches = (task.batch(size, config.seed, each, split).to(config.device) for each in range(number))
        continues = (task.continues(size, each, split) for each in range(number))
        with seeded(why, config.seed, self.done.step, device=config.device):
            tested = evaluate(self.model, task, batches, continues)
        if not isfinite(tested["loss"]):
            raise self._non_finite(f"The evaluation loss is {tested['loss']}")
        return tested

    def _non_finite(self, what: str) -> NonFiniteLoss:
        is_there = self.checkpoint.exists()
        kept = f"the last good checkpoint is {self.checkpoint}" if is_there else "no checkpoint had been made yet"
        return NonFiniteLoss(
            f"{what} after {self.done.step} optimiser steps; {kept}. Resuming would meet it again: lower "
            f"learning_rate, set or lower clip, let single batches be left out (leave_out), or change the initial "
            f"weights."
        )


_NOT_SCORES = ("step", "learning_rate", "train_loss", "gradient_norm", "left_out", "stage", "loss")


def _backward(
    model: Model,
    task: Task,
    batch: Batch,
    truncate: int | None,
    state: State | None = None,
    scored: bool = False,
    penalised: Sequence[Penalised] = (),
    part: slice | None = None,
) -> tuple[Tensor, State, float | None]:
    """Add the gradient of the batch's loss and of the penalties to the parameters' `.grad`; returns the loss without
    these, the last state, detached, and the accuracy if it is asked for.

    Truncated BPTT: the sequence is cut into windows of `truncate` steps; the state is carried from one to the next, its
    gradient is not. The windows' gradients add up to one optimiser step per sequence, so that truncation changes which
    paths a gradient takes, but neither the loss nor what a step is. A window in which no step counts is only passed
    through.

    With `part`, only these sequences of the batch, of which `state` is, are gone through, and everything is their share
    in what the whole batch gives: losses by the steps that count, penalties by the sequences.
    """
    device = next(model.parameters()).device
    counted = int(batch.mask.sum())
    total, accuracy = torch.zeros((), device=device), 0.0
    windows = [*batch.windows(truncate)]
    for number, window in enumerate(windows, start=1):
        counts = bool(window.mask.any())  # in any sequence, so that all parts of a batch take the same steps
        window = window if part is None else window.part(part)
        share = int(window.mask.sum()) / counted  # counted where the batch was drawn: a GPU need not be waited for
        window, costs = window.to(device), []
        with nullcontext() if counts else torch.no_grad():
            outputs, state = model(window.inputs, state)
            state = map_state(Tensor.detach, state)
        if counts:
            loss = task.loss(outputs, window) * share
            costs.append(loss)
            total = total + loss.detach()
            if scored and share:
                accuracy += share * task.scores(outputs.detach(), window)["accuracy"]
        if number == len(windows):
            penalties = [each.penalty() for each in penalised]
            sequences = 1.0 if part is None else window.mask.shape[1] / batch.mask.shape[1]
            costs += [sequences * each for each in penalties if each is not None and each.requires_grad]
        if costs:
            torch.autograd.backward(costs)  # at once, as they may share a graph
    return total, state, accuracy if scored else None


def _reason_to_stop(config: RunConfig, done: Counters, line: dict[str, Any]) -> Stopped | None:
    """Keep count of the lowest loss, and say whether this evaluation was the last one."""
    if done.lowest_loss is None or line["loss"] < done.lowest_loss:
        done.lowest_loss, done.stale = line["loss"], 0
    else:
        done.stale += 1
        done.worse += 1
    low_enough = config.target_loss is None or line["loss"] <= config.target_loss
    good_enough = config.target_score is None or line["accuracy"] >= config.target_score
    if low_enough and good_enough and (config.target_loss, config.target_score) != (None, None):
        return "target"
    if done.step == config.steps:
        return "steps"
    return "patience" if config.patience is not None and done.stale >= config.patience else None


def _compare_rounding(begun: Counters, world: World, device: str) -> None:
    before, now = begun.threads, torch.get_num_threads()
    words = "its numbers may differ in the last digits from those of a run without interruption. To have the same,"
    if begun.processes != world.size:
        warnings.warn(
            f"This run was begun by {_counted(begun.processes)} and goes on with {_counted(world.size)}: {words} use "
            f"as many.",
            stacklevel=5,  # whoever called train
        )
    elif device == "cpu" and before is not None and before != now:
        warnings.warn(
            f"This run was begun with {before} CPU threads and goes on with {now}: {words} set threads = {before} "
            f"(`--threads {before}`).",
            stacklevel=5,
        )


def _counted(processes: int) -> str:
    return "1 process" if processes == 1 else f"{processes} processes"


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


@contextmanager
def _without_denormals() -> Iterator[None]:
    """Numbers too small for float32 count as 0 in this thread. Some CPUs are many times slower with them, and a network
    that has settled is full of them: of the moments that Adam keeps for an encoder with a saturated softmax a quarter,
    and where a Turing machine has unlearned its task, a step takes four times as long (x86).
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)  # torch's own setting; there is no way to ask for it
