"""The tape lens: what a Turing machine writes and reads along sequences."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from mnemoscope.base.array_types import Num
from mnemoscope.base.progress import show_slow
from mnemoscope.cells import Lengths, Model, read_inputs, run_with_cache
from mnemoscope.cells.sequence import without_masked
from mnemoscope.lenses.tape.result import Tape
from mnemoscope.lenses.whole_network import in_evaluation_mode
from mnemoscope.memory.tape import TuringMachine

_RECORDED = {"memory": "memory", "added": "add", "write_weights": "write_weights", "read_weights": "read_weights"}
"""Names in the cache of a run, by the fields of `Tape`."""


@show_slow("tape")
@in_evaluation_mode
def record_tape(
    machine: TuringMachine | Model,
    xs: Num[Tensor, "time batch ..."] | PackedSequence,
    mask: Tensor | None = None,
    *,
    lengths: Lengths | None = None,
) -> Tape:
    """Record the tape of a machine along `xs`, from its initial state.

    Args:
        machine: a machine, or a model with a machine as its cell. The outputs of a model are those of its readout.
        xs: inputs (time, batch, features) of the machine or of the model; or a `PackedSequence`. Of tokens, which a
            model embeds, the embeddings are recorded.
        mask: (time, batch), False where a sequence has no input. The tape is held there, and no head writes or reads:
            its weights are NaN.
        lengths: number of steps of each sequence, instead of a mask.

    """
    cell = machine.cell if isinstance(machine, Model) else machine
    if not isinstance(cell, TuringMachine):
        raise TypeError(
            f"A tape is recorded from a TuringMachine, or from a model with one, but a {type(cell).__name__} was given."
        )
    given = read_inputs(xs, mask=mask, lengths=lengths)
    inputs = without_masked(given.xs, given.mask)
    with torch.no_grad():
        encoded = machine.encode(inputs) if isinstance(machine, Model) else inputs
        outputs, cache = run_with_cache(cell, encoded, mask=given.mask)
        outputs = machine.step_readout(outputs) if isinstance(machine, Model) else outputs
    inputs = inputs if inputs.is_floating_point() else encoded
    recorded = {name: cache[source].cpu() for name, source in _RECORDED.items()}
    if given.mask is None:
        return Tape(inputs.cpu(), outputs.cpu(), **recorded)
    taken = given.mask.cpu()
    for name in ("write_weights", "read_weights"):  # parts of the state, which is held
        recorded[name] = recorded[name].masked_fill(~taken[..., None, None], torch.nan)
    return Tape(inputs.cpu(), outputs.cpu(), **recorded, taken=taken)
