"""The network that a card is about, on its task."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from torch import Tensor

from mnemoscope.base.array_types import Int
from mnemoscope.cells import Cell, Model
from mnemoscope.config.run_config import RunConfig
from mnemoscope.inspection.options import InspectionOptions
from mnemoscope.networks.sizes import count_parameters, count_state
from mnemoscope.relational import SingleStepModel
from mnemoscope.tasks import Batch, Task
from mnemoscope.training import Accuracy, RunFolder, TrainResult, evaluate_sequences, load_model

SEQUENCES = 64
"""Test sequences on which a card is measured."""


@dataclass(frozen=True)
class Subject:
    """A network on its task, and its run."""

    model: Model
    task: Task
    seed: int
    """Seed of the batches on which the card is measured."""
    options: InspectionOptions
    config: RunConfig | None = None
    """Configuration of the run; None if the network was passed without one."""
    result: TrainResult | None = None
    """Result of the run."""

    @property
    def cell(self) -> Cell:
        return self.model.cell

    @property
    def stateless(self) -> bool:
        """Whether the network answers in one step, without a state."""
        return isinstance(self.model, SingleStepModel)

    @property
    def kind(self) -> str:
        """Class of the network."""
        return type(self.model.network if isinstance(self.model, SingleStepModel) else self.cell).__name__

    @cached_property
    def batch(self) -> Batch:
        """New sequences of the task, those of the test split."""
        return self.task.batch(SEQUENCES, self.seed, 0, "test")

    @property
    def lengths(self) -> Int[Tensor, " batch"] | None:
        """Steps of each of these sequences before its padding; None if none is padded."""
        return self.task.lengths_of(self.batch)

    @property
    def steps(self) -> int:
        """Steps of a test sequence."""
        return len(self.batch.mask)

    @cached_property
    def state_size(self) -> int:
        """Numbers in the state; of one that grows, after a test sequence."""
        return count_state(self.cell, self.steps if self.cell.grows else 1)

    @cached_property
    def accuracy(self) -> Accuracy:
        """Accuracy on these sequences."""
        return evaluate_sequences(self.model, self.task, self.batch).overall()

    @property
    def chance(self) -> float | None:
        """Accuracy of the best predictor without memory; None if the task does not state it."""
        return self.task.chance()

    @property
    def parameters(self) -> int:
        """Number of trainable numbers of the whole model, as an arena counts them."""
        return count_parameters(self.model)


NO_STATE = "The network answers in one step, without a state."
"""Why a question about memory has no meaning for a relational network."""


def subject_of_run(folder: Path, options: InspectionOptions) -> Subject:
    """Return the network of a finished run."""
    model, task, config = load_model(folder)
    return Subject(model.eval(), task, config.seed, options, config, RunFolder(folder).read_result())
