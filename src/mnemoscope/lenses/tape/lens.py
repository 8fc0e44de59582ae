"""The tape of a machine along sequences: contents, and where heads wrote and read."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells import Model, run_with_cache
from mnemoscope.lenses.storage import load_result, save_result
from mnemoscope.memory.tape import TuringMachine

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Tape:
    """What a machine wrote and read (Graves et al. 2014, Fig 6; Renanse et al. 2021, Fig 6 and 8).

    >>> from mnemoscope.networks import ntm
    >>> tape = record_tape(ntm(3, 8, slots=6, slot_size=4), torch.randn(9, 2, 3))
    >>> tape.memory.shape, tape.write_weights.shape
    (torch.Size([9, 2, 6, 4]), torch.Size([9, 2, 1, 6]))
    """

    inputs: Float[Tensor, "time batch features"]
    outputs: Float[Tensor, "time batch outputs"]
    memory: Float[Tensor, "time batch slots ..."]
    """After each step."""
    added: Float[Tensor, "time batch writers ..."]
    """What each head that writes put down."""
    write_weights: Float[Tensor, "time batch writers slots"]
    read_weights: Float[Tensor, "time batch readers slots"]

    def __len__(self) -> int:
        """Steps."""
        return self.inputs.shape[0]

    @property
    def batch(self) -> int:
        """Sequences."""
        return self.inputs.shape[1]

    @property
    def sharpness(self) -> tuple[float, float]:
        """The largest weight of a head that writes, and of one that reads, in the mean: 1 if each looks at one slot."""
        return float(self.write_weights.amax(-1).mean()), float(self.read_weights.amax(-1).mean())

    def summary(self) -> str:
        """The result in words."""
        write, read = self.sharpness
        return (
            f"{self.batch} sequence{'s' if self.batch > 1 else ''} of {len(self)} steps on {self.memory.shape[2]} "
            f"slots. The largest weight of a head is {write:.2f} where it writes and {read:.2f} where it reads, in the "
            f"mean."
        )

    def __repr__(self) -> str:
        return f"Tape({self.summary()})"

    def save(self, path: str | Path) -> None:
        """Write one `.safetensors` file; `Tape.load` reads it back."""
        save_result(path, "Tape", {each.name: getattr(self, each.name) for each in fields(self)}, {})

    @classmethod
    def load(cls, path: str | Path) -> Tape:
        """Read what `save` wrote."""
        tensors, _ = load_result(path, "Tape", "a tape")
        return cls(**tensors)

    def figure(self, sample: int = 0) -> Figure:
        """Inputs and outputs, the tape, and where its heads were, of one sequence (needs the `report` extra)."""
        from mnemoscope.lenses.tape.figure import draw_tape

        return draw_tape(self, sample)


def record_tape(machine: TuringMachine | Model, xs: Float[Tensor, "time batch features"]) -> Tape:
    """The tape of a machine along `xs`, from its initial state; of a model, outputs are those of its readout.

    Args:
        machine: a machine, or a model with one as its cell.
        xs: inputs (time, batch, features), as the machine or the model takes them.

    """
    cell = machine.cell if isinstance(machine, Model) else machine
    if not isinstance(cell, TuringMachine):
        raise TypeError(
            f"A tape is looked at in a TuringMachine, or in a model with one, but a {type(cell).__name__} was given."
        )
    with torch.no_grad():
        seen = machine.encode(xs) if isinstance(machine, Model) else xs
        outputs, cache = run_with_cache(cell, seen)
        outputs = machine.readout(outputs) if isinstance(machine, Model) else outputs
    names = {"memory": "memory", "added": "add", "write_weights": "write_weights", "read_weights": "read_weights"}
    return Tape(xs.cpu(), outputs.cpu(), **{name: cache[source].cpu() for name, source in names.items()})
