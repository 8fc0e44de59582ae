"""Evaluations of a run on held-out batches, rules that stop it, and its final result."""

from __future__ import annotations

from math import isfinite
from typing import Any

from mnemoscope.cells import Model
from mnemoscope.config.run_config import ENDLESS_EVALUATION, RunConfig
from mnemoscope.store.run_table import NOT_SCORES
from mnemoscope.tasks import Split, Task
from mnemoscope.training.checkpoint import Carried, Counters
from mnemoscope.training.evaluation import evaluate
from mnemoscope.training.process_group import ProcessGroup
from mnemoscope.training.result import StopReason, TrainResult, non_finite_loss
from mnemoscope.training.run_folder import RunFolder
from mnemoscope.training.seeding import seeded


class Evaluator:
    """Evaluates the model of a run, on the main process only.

    Batches come from the validation split of a task with a data set, and from the test split of a generated task.
    The task is the last stage of its curriculum, whatever the present one.
    """

    def __init__(self, model: Model, task: Task, config: RunConfig, folder: RunFolder, group: ProcessGroup) -> None:
        self._model, self._task, self._config, self._folder, self._group = model, task, config, folder, group
        self._split: Split = "validation" if task.finite else "test"
        self._has_curriculum = len(task.stages()) > 1

    def evaluate(self, counters: Counters, carried: Carried, learning_rate: float) -> dict[str, Any]:
        """Return a line of metrics.jsonl, the same on all processes; keep the weights if they are the best so far.

        The line holds means over the training steps since the last evaluation, and loss and scores on held-out batches.
        """
        line = self._group.on_main(lambda: self._line(counters, learning_rate))
        if self._task.finite and (counters.lowest_loss is None or line["loss"] < counters.lowest_loss):
            carried.best = {name: value.clone() for name, value in self._model.state_dict().items()}
        counters.clear_sums()
        return line

    def check_finite(self, counters: Counters) -> None:
        """Raise unless the loss of one held-out batch is finite."""
        self._evaluate("checkpoint", self._split, 1, counters)

    def finish(self, counters: Counters, carried: Carried) -> TrainResult:
        """Write the network and the result of a run that has ended, and return the result.

        If the task has a data set, these are the best weights and their scores on the whole test split.
        """
        content = self._group.on_main(lambda: self._finish(counters, carried).as_json())
        return TrainResult.from_json(content, self._folder.path, cached=False)

    def _finish(self, counters: Counters, carried: Carried) -> TrainResult:
        last = self._folder.read_metrics()[-1]
        assert counters.stopped is not None
        if carried.best is not None:
            self._model.load_state_dict(carried.best)
            last = self._evaluate("test", "test", self._task.batches(self._config.batch_size, "test") or 0, counters)
        folder, scores = self._folder, {name: last[name] for name in last if name not in NOT_SCORES}
        folder.save_model(self._model, self._config)
        ended = (counters.step, counters.stopped, last["loss"], scores, self._task.baseline(), counters.seconds)
        result = TrainResult(folder.path, *ended)
        folder.save_result(result)
        return result

    def _line(self, counters: Counters, learning_rate: float) -> dict[str, Any]:
        requested = self._config.evaluate_batches
        line = {
            "step": counters.step,
            "learning_rate": learning_rate,
            # means over the batches that were not left out; None if all were
            "train_loss": counters.loss_sum / counters.summed if counters.summed else None,
            "gradient_norm": counters.gradient_sum / counters.summed if counters.summed else None,
        }
        if self._config.leave_out:
            line["left_out"] = counters.left_out
        if self._has_curriculum:
            line["stage"] = counters.stage
        whole = self._task.batches(self._config.batch_size, self._split)
        number = (whole or ENDLESS_EVALUATION) if requested is None else min(requested, whole or requested)
        return line | self._evaluate("evaluation", self._split, number, counters)

    def _evaluate(self, purpose: str, split: Split, number: int, counters: Counters) -> dict[str, float]:
        """Return loss and scores on the first `number` batches of a split; `purpose` and step seed random numbers."""
        config, task, size = self._config, self._task, self._config.batch_size
        batches = (task.batch(size, config.seed, index, split).to(config.device) for index in range(number))
        continues = (task.continues(size, index, split) for index in range(number))
        with seeded(purpose, config.seed, counters.step, device=config.device):
            scores = evaluate(self._model, task, batches, continues)
        if not isfinite(scores["loss"]):
            raise non_finite_loss(f"The evaluation loss is {scores['loss']}", counters.step, self._folder.checkpoint)
        return scores


def stop_reason(config: RunConfig, counters: Counters, line: dict[str, Any]) -> StopReason | None:
    """Update the counters of the lowest loss with an evaluation, and return why the run stops; None: it continues."""
    if counters.lowest_loss is None or line["loss"] < counters.lowest_loss:
        counters.lowest_loss, counters.stale = line["loss"], 0
    else:
        counters.stale += 1
        counters.worse += 1
    low_enough = config.target_loss is None or line["loss"] <= config.target_loss
    good_enough = config.target_score is None or line["accuracy"] >= config.target_score
    if low_enough and good_enough and (config.target_loss, config.target_score) != (None, None):
        return "target"
    if counters.step == config.steps:
        return "steps"
    return "patience" if config.patience is not None and counters.stale >= config.patience else None
