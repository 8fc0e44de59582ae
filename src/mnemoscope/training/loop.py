"""The training loop, to be read from top to bottom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from math import inf, isfinite
from pathlib import Path

from torch import nn

from mnemoscope.base.progress import Bar
from mnemoscope.config.run_config import RunConfig
from mnemoscope.training.backward_pass import BackwardPass
from mnemoscope.training.batch_stream import BatchStream
from mnemoscope.training.callbacks import Callback, CallbackList, StartInfo, StepInfo
from mnemoscope.training.checkpoint_store import CheckpointStore
from mnemoscope.training.evaluator import Evaluator, stop_reason
from mnemoscope.training.graphed_pass import training_stream
from mnemoscope.training.interruption import Interruption
from mnemoscope.training.metrics_file import MetricsFile
from mnemoscope.training.optimiser import set_learning_rate
from mnemoscope.training.process_group import ProcessGroup, join_process_group
from mnemoscope.training.result import TrainResult, non_finite_loss
from mnemoscope.training.run_folder import RunFolder
from mnemoscope.training.setup import Setup, cpu_settings, set_up


def train(
    config: RunConfig,
    root: str | Path = "runs",
    *,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = True,
    callbacks: Sequence[Callback | Callable[[StepInfo], None]] = (),
) -> TrainResult:
    """Train the network of `config` in its folder under `root`, and return the result.

    A finished run is not repeated: its stored result is returned. Equal configurations give equal weights, bit for bit,
    on one machine with one number of threads, also if it was interrupted (by Ctrl-C, SIGTERM or force) and resumed. The
    checkpoint stores the number of threads; a run that resumes with another number warns. Several threads may train at
    the same time, each another run; their steps take turns, so that processes (an engine) are faster.

    Evaluations use fresh batches of a generated task (for a relational task: of what it holds out of training), and the
    validation split of a task with a data set. A data set's result is the loss on the whole test split, with the
    weights of the lowest validation loss; otherwise the last weights are kept.

    Started by torchrun, several processes train one model. `batch_size` counts the sequences of all processes: all draw
    the same batch, each runs its shard, and losses and gradients are those of the whole batch up to rounding. Rank 0
    evaluates, writes the folder, shows the progress bar and calls the callbacks; all ranks return the result. Random
    numbers that a network draws while it learns are drawn by each process for its shard, and so differ from those of a
    single process. A run may resume with another number of processes.

    Args:
        config: network, task and training settings.
        root: folder of all runs; this run is in `<root>/<name>/<hash>`.
        resume: continue an unfinished run from its last checkpoint; start it if there is none.
        overwrite: start anew and discard an earlier run.
        progress: show a bar with the loss and the task's memoryless baseline.
        callbacks: functions that are called with a `StepInfo` after every step, or `Callback` objects. A
            KeyboardInterrupt from one of them acts like Ctrl-C. `config.log` adds loggers.

    """
    if not isinstance(config, RunConfig):
        raise TypeError(
            f"train takes a RunConfig, such as mnemoscope.config.PRESETS['flipflop'], but a {type(config).__name__} "
            f"was given."
        )
    folder = RunFolder(config.folder(root))
    with join_process_group(config.device) as group, ExitStack() as resources:
        setup = set_up(config, folder, group, resources, resume=resume, overwrite=overwrite, progress=progress)
        if isinstance(setup, TrainResult):
            return setup
        resources.enter_context(cpu_settings(config.threads))
        resources.enter_context(training_stream(config.device))
        listeners = CallbackList([*callbacks, *setup.loggers] if group.is_main else [], resources)
        return _train(config, folder, setup, group, listeners, progress and group.is_main)


def _train(
    config: RunConfig, folder: RunFolder, setup: Setup, group: ProcessGroup, callbacks: Callback, progress: bool
) -> TrainResult:
    task, model, optimiser, _ = setup
    evaluator = Evaluator(model, task, config, folder, group)
    checkpoint = CheckpointStore(folder, model, optimiser, config, group)
    counters, carried = checkpoint.restore()
    batches, baseline = BatchStream(task, config, counters), task.baseline()
    with (
        MetricsFile(folder.metrics if group.is_main else None, counters.metrics_size) as metrics,
        Interruption() as interruption,
        Bar(total=config.steps, initial=counters.step, desc=config.name, unit="step", disable=not progress) as bar,
    ):
        backward = BackwardPass(model, config, group, counters, interruption)
        callbacks.on_start(StartInfo(config, folder.path, folder.read_metrics() if group.is_main else [], baseline))
        while counters.stopped is None:
            learning_rate = set_learning_rate(optimiser, config, counters)

            # Draw a batch, run it forward and backward, clip the gradient.
            batch = batches.next()
            optimiser.zero_grad()
            result = backward(batches.task, batch, carried.state, scored=not batches.is_last_stage)
            norm = nn.utils.clip_grad_norm_(model.parameters(), inf if config.clip is None else config.clip)
            batches.advance(result.accuracy)  # draws the next batch while a GPU is still at work
            loss, gradient_norm = result.loss.item(), norm.item()
            backward.wait()

            # Step, or leave out a batch whose loss or gradient is not finite.
            carried.state = None
            if isfinite(loss) and isfinite(gradient_norm):
                optimiser.step()
                counters.add_step(loss, gradient_norm)
                if task.continues(config.batch_size, counters.step + 1):
                    carried.state = result.state
            elif counters.left_out_in_a_row < config.leave_out:
                counters.add_left_out()
            else:
                reason = f"The training loss is {loss} and its gradient's norm {gradient_norm}"
                raise group.shared_error(non_finite_loss(reason, counters.step, folder.checkpoint))
            counters.step += 1

            # Evaluate.
            line = None
            if counters.step % config.evaluate_every == 0 or counters.step == config.steps:
                line = evaluator.evaluate(counters, carried, learning_rate)
                metrics.write(line)
                counters.stopped = stop_reason(config, counters, line)
            bar.update()
            bar.set_postfix_str(f"loss {line['loss'] if line else loss:.2e}, baseline {baseline:.2e}", refresh=False)
            try:
                callbacks.on_step(StepInfo(counters.step, loss, line, model))
            except KeyboardInterrupt:
                interruption.requested = True

            # Save a checkpoint, and stop after Ctrl-C or SIGTERM.
            if counters.step % config.checkpoint_every == 0 or counters.stopped is not None or interruption.stop:
                checkpoint.save(counters, carried, metrics, evaluator)
            if interruption.stop and counters.stopped is None:
                place = (
                    f"after step {counters.step} of {config.steps}; the checkpoint is in {folder.path}. "
                    f"Continue with train(config, resume=True), or by the same command with --resume."
                )
                raise group.shared_error(interruption.error(place))
    finished = evaluator.finish(counters, carried)
    callbacks.on_end(finished)
    return finished
