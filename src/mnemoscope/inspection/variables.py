"""The variables of a network trained on variable binding."""

from __future__ import annotations

from mnemoscope.cells import Model
from mnemoscope.lenses import Variables, find_variables
from mnemoscope.tasks import Batch, Task, VariableBinding


def inspect_variables(model: Model, task: Task, batch: Batch) -> Variables | str | None:
    """Return the variables of a network, or why they cannot be found; None for other tasks."""
    if not isinstance(task, VariableBinding):
        return None
    try:
        return find_variables(model, inputs=batch.inputs, variables=batch.targets)
    except ValueError as error:
        return str(error)
