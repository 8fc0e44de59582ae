"""The tape lens: what a Turing machine writes and reads along sequences."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells import Model, run_with_cache
from mnemoscope.lenses.tape.result import Tape
from mnemoscope.memory.tape import TuringMachine

_RECORDED = {"memory": "memory", "added": "add", "write_weights": "write_weights", "read_weights": "read_weights"}
"""Names in the cache of a run, by the fields of `Tape`."""


def record_tape(machine: TuringMachine | Model, xs: Float[Tensor, "time batch features"]) -> Tape:
    """Record the tape of a machine along `xs`, from its initial state.

    Args:
        machine: a machine, or a model with a machine as its cell. The outputs of a model are those of its readout.
        xs: inputs (time, batch, features) of the machine or of the model.

    """
    cell = machine.cell if isinstance(machine, Model) else machine
    if not isinstance(cell, TuringMachine):
        raise TypeError(
            f"A tape is recorded from a TuringMachine, or from a model with one, but a {type(cell).__name__} was given."
        )
    with torch.no_grad():
        encoded = machine.encode(xs) if isinstance(machine, Model) else xs
        outputs, cache = run_with_cache(cell, encoded)
        outputs = machine.readout(outputs) if isinstance(machine, Model) else outputs
    return Tape(xs.cpu(), outputs.cpu(), **{name: cache[source].cpu() for name, source in _RECORDED.items()})
