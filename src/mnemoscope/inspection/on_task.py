"""A network on its task: what the lenses of a page and of a memory card need of it."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Num
from mnemoscope.cells import Model, run_with_cache
from mnemoscope.inspection.options import InspectionOptions
from mnemoscope.lenses import Dynamics
from mnemoscope.tasks import Task, TokenTask


@runtime_checkable
class NetworkOnTask(Protocol):
    """A network, the task that it does, and how to inspect it; a run on disk is one."""

    @property
    def model(self) -> Model: ...

    @property
    def task(self) -> Task: ...

    @property
    def seed(self) -> int:
        """Seed of its batches."""
        ...

    @property
    def options(self) -> InspectionOptions: ...


def constant_token(task: TokenTask, options: InspectionOptions) -> int:
    """Return the token at which fixed points are searched for: the one of the options, or else the one of rest."""
    given = [task.rest] if options.input is None else list(options.input)
    if len(given) != 1 or given[0] not in range(task.input_size):
        raise ValueError(
            f"The inputs of this run are tokens, so that the constant input is one number from 0 to "
            f"{task.input_size - 1}, but it is {', '.join(f'{number:g}' for number in given)}."
        )
    return int(given[0])


def constant_dynamics(run: NetworkOnTask) -> Dynamics:
    """Return the cell at the constant input of the options; for tokens, at that token or the one of rest."""
    constant = run.options.constant_input()
    if isinstance(run.task, TokenTask):
        constant = torch.tensor(constant_token(run.task, run.options))
    return Dynamics(run.model.cell, None if constant is None else run.model.encode(constant[None])[0])


def visited_states(
    model: Model, dynamics: Dynamics, inputs: Num[Tensor, "time batch ..."]
) -> Float[Tensor, "time batch size"]:
    """Return the flat states that a network visits along inputs."""
    with torch.no_grad():
        return run_with_cache(dynamics.cell, model.encode(inputs).to(dynamics.input))[1].flat()
