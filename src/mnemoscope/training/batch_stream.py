"""The training batches in order, from the current stage of the curriculum."""

from __future__ import annotations

from mnemoscope.config.run_config import RunConfig
from mnemoscope.tasks import Batch, Task
from mnemoscope.training.checkpoint import Counters


class BatchStream:
    """Training batches of a task, one per optimiser step, with the next batch drawn ahead.

    A task without a curriculum has a single stage, the task itself. `counters.stage` is the present stage, updated in
    place, and `counters.step` the number of the next batch, so that a resumed run draws the same batches.
    """

    def __init__(self, task: Task, config: RunConfig, counters: Counters) -> None:
        self._stages, self._config, self._counters = task.stages(), config, counters
        self._ahead: Batch | None = None

    @property
    def task(self) -> Task:
        """The task of the present stage."""
        return self._stages[self._counters.stage]

    @property
    def is_last_stage(self) -> bool:
        """Whether the present stage is the task itself."""
        return self._counters.stage == len(self._stages) - 1

    def next(self) -> Batch:
        """Return the batch of the present step."""
        return self._draw(self._counters.step) if self._ahead is None else self._ahead

    def advance(self, accuracy: float | None) -> None:
        """Enter the next stage if the accuracy on this batch suffices, then draw the next batch.

        Call it while a GPU is still at work: the CPU draws the batch in the meantime.
        """
        if accuracy is not None and accuracy >= self._config.curriculum_score:
            self._counters.stage += 1
        following = self._counters.step + 1
        self._ahead = self._draw(following) if following < self._config.steps else None

    def _draw(self, number: int) -> Batch:
        return self.task.batch(self._config.batch_size, self._config.seed, number)
