"""The affine recurrences of any network on given inputs, from which exact lenses start."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from mnemoscope.base.array_types import Num
from mnemoscope.cells.adapters import Network, as_cell
from mnemoscope.cells.affine.layer import AffineLayer
from mnemoscope.cells.inputs import Lengths, read_inputs
from mnemoscope.cells.model import Model
from mnemoscope.cells.sequence import start_state, without_masked
from mnemoscope.cells.state import State


class NoAffineLayerError(TypeError):
    """A network has no layer that is affine in its state."""


def affine_layers(
    network: Network | Model,
    inputs: Num[Tensor, "..."] | PackedSequence,
    state: State | None = None,
    *,
    lengths: Lengths | None = None,
) -> list[AffineLayer]:
    """Return the recurrent layers of a network that are affine in their state, with their parts on these inputs.

    Layers of other kinds, such as attention or an sLSTM, are passed through and are not in the list. A network without
    any affine layer is refused. Inputs after the end of a short sequence are set to 0; as nothing flows back in time,
    the steps before it do not depend on them.

    Args:
        network: a `Model`, a cell, or a module that `adapt` takes.
        inputs: sequences in the layout of the network.
        state: the state before the first input, as in `scan`.
        lengths: number of steps of each sequence; what follows is padding.

    >>> import torch
    >>> from mnemoscope.cells import Block, Stack
    >>> from mnemoscope.cells.affine import DeltaNet, Mamba2
    >>> network = Stack([Block(Mamba2(3, 4, heads=1), width=3), Block(DeltaNet(3, 4, heads=2), width=3)])
    >>> [(layer.name, type(layer.core).__name__) for layer in affine_layers(network, torch.zeros(7, 2, 3))]
    [('layers.0', 'Mamba2'), ('layers.1', 'DeltaNet')]

    """
    cell = network.cell if isinstance(network, Model) else as_cell(network, state)
    given = read_inputs(inputs, batch_first=cell.batch_first, lengths=lengths)
    if not given.xs.shape[1]:
        raise ValueError("Exact lenses need at least one sequence, but the batch is empty.")
    xs = without_masked(given.xs, given.mask)
    if not torch.isfinite(xs).all():
        raise ValueError("The inputs hold NaN or infinite values; for sequences of unequal length, pass lengths=[...].")
    if isinstance(network, Model):
        xs = network.encode(xs)
    layers = cell.time_first().affine_layers(xs, start_state(cell, xs, state))
    if not layers:
        raise NoAffineLayerError(
            f"{type(cell).__name__} has no layer that is affine in its state, so that its memory has no exact parts. "
            f"Such layers are the cells of mnemoscope.cells.affine, their blocks and stacks of them, and the mixers "
            f"listed in docs/adapters.md; for other networks use measure_influence, fisher_memory or gradient_norms."
        )
    return layers
