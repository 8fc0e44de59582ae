"""The facts on the page of a run."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from mnemoscope.cells import Cell, Model
from mnemoscope.config.run_config import RunConfig
from mnemoscope.inspection.on_task import NetworkOnTask, constant_token
from mnemoscope.inspection.options import InspectionOptions
from mnemoscope.lenses import Dynamics
from mnemoscope.relational import SingleStepModel
from mnemoscope.report import NetworkPage
from mnemoscope.tasks import Task, TokenTask
from mnemoscope.training import RunFolder


@dataclass(frozen=True)
class LoadedRun:
    """A trained run, and how to inspect it."""

    folder: Path
    model: Model
    task: Task
    config: RunConfig
    options: InspectionOptions

    @property
    def seed(self) -> int:
        """Seed of the run and of its batches."""
        return self.config.seed


def page_of_run(run: LoadedRun, dynamics: Dynamics | None = None) -> NetworkPage:
    """Return the page of a run with its facts and training curve, before any lens is applied.

    The constant input of `dynamics` is one of the facts.
    """
    config, task = run.config, run.task
    result = RunFolder(run.folder).read_result()
    if isinstance(run.model, SingleStepModel):
        network = ("Network", f"{config.cell} {_describe_options(config.cell_options)}")
        title = f"{config.cell} on {config.task}"
    else:
        units = f"{_describe_size(run.model.cell, config.hidden_size)} units"
        network, title = ("Cell", f"{config.cell}, {units}"), f"{config.cell} with {units}"
    return NetworkPage(
        title=f"{config.name}: {title}",
        facts=[
            network,
            ("Parameters", f"{sum(weight.numel() for weight in run.model.parameters()):,}"),
            ("Task", f"{config.task} {_describe_options(config.task_options)}"),
            ("Loss", f"{result.loss:.2e} after {result.steps:,} steps ({result.baseline:.2e} {task.baseline_label})"),
            *((name.capitalize(), _describe_score(name, value, task)) for name, value in result.scores.items()),
            ("Seed", f"{config.seed}"),
            *([] if dynamics is None else [("Constant input", describe_constant(run, dynamics))]),
        ],
        curve=RunFolder(run.folder).read_metrics(),
        baseline=result.baseline,
        baseline_label=task.baseline_label,
        command=run.options.command or shlex.join(["mnemoscope", "inspect", str(run.folder)]),
    )


def describe_constant(run: NetworkOnTask, dynamics: Dynamics) -> str:
    """Return the constant input as text; of a task on tokens, the token."""
    if not isinstance(run.task, TokenTask):
        return describe_input(dynamics)
    token = constant_token(run.task, run.options)
    label = run.task.label(token)
    return f"the token {token}" if label == str(token) else f"the token {token} ({label})"


def describe_input(dynamics: Dynamics) -> str:
    """Return the constant input as text."""
    values = dynamics.input[0].tolist()
    return "zeros" if not any(values) else ", ".join(f"{value:g}" for value in values)


def _describe_size(cell: Cell, hidden_size: int) -> str:
    """Return the units of a cell; the rows and columns if the state, or that of a controller, is a matrix."""
    shape = getattr(cell, "controller_shape", None) or getattr(cell, "state_shape", None)
    return " x ".join(map(str, shape)) if shape else str(hidden_size)


def _describe_score(name: str, value: float, task: Task) -> str:
    baseline = task.uninformed_summary() if name == "wrong bits" else ""
    chance = task.chance()
    if name == "accuracy" and chance is not None:
        baseline = f"{chance:.4f} {task.baseline_label}"
    return f"{value:.4f}, {baseline}" if baseline else f"{value:.4f}"


def _describe_options(options: dict[str, bool | int | float | str]) -> str:
    return "(" + ", ".join(f"{name} {value}" for name, value in options.items()) + ")" if options else ""
