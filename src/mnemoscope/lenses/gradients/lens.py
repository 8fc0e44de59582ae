"""The gradient lens: how much of a loss reaches each past state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from mnemoscope.base.array_types import Inexact
from mnemoscope.base.progress import show_slow
from mnemoscope.cells import Lengths, Network, State, as_cell, check_finite_inputs, read_inputs
from mnemoscope.cells.sequence import start_state
from mnemoscope.lenses.gradients.backpropagation import norms_by_part, norms_over_time
from mnemoscope.lenses.gradients.result import GradientNorms


@show_slow("gradients")
def gradient_norms(
    network: Network,
    xs: Inexact[Tensor, "time batch ..."] | PackedSequence,
    loss: Callable[[Any], Tensor],
    *,
    by: Literal["time", "part"] = "time",
    name: str = "",
    state: State | None = None,
    mask: Tensor | None = None,
    lengths: Lengths | None = None,
) -> GradientNorms:
    """Measure `|dL / dh_t|` at every step: how much of a loss reaches back to time t, over all paths.

    If a cell attends to its past, h_t is the output of the inner cell. Its gradient comes through s_t and through all
    later attention (Kerg, 4.4.1); it is exact, and its memory grows linearly with time. For any other cell h_t is the
    whole state. If a cell cuts gradients while it learns (`SparseBacktracking`, `HDetach` in training mode), these are
    the gradients it learns by.

    Args:
        network: a cell, a recurrent module of torch.nn, or what `adapt` returns for a network of your own.
        xs: inputs (time, batch, ...), or (batch, time, ...) if the network is a torch.nn module with `batch_first`; or
            a `PackedSequence`.
        loss: a function from the outputs, as `scan` returns them for these inputs, to one number.
        by: "time" measures the state as a whole. "part" returns one curve for each part of the state, and so shows
            which path gradients take. The squares of all parts add up to the square of the whole, unless the cell
            attends to its past.
        name: label of the curve, such as "before training"; with `by="part"` the parts label their curves.
        state: the state to start from; the cell's initial state by default.
        mask: the shape of the inputs without their features, False where a sequence has no input. Its state is held
            there, and the norm is NaN.
        lengths: number of steps of each sequence, instead of a mask.

    A rotation passes gradients on unchanged:

    >>> import torch
    >>> from mnemoscope.cells import Elman
    >>> from mnemoscope.connectivity import Exponential
    >>> cell = Elman(2, 4, "linear", Exponential(4))
    >>> result = gradient_norms(cell, torch.randn(6, 1, 2), lambda outputs: outputs[-1, 0, 0])
    >>> result.norms.flatten().round(decimals=4).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]

    The parts of a Turing machine are its controller, its memory, the (logarithms of the) weights of its heads, and the
    vectors it has read. A gradient that arrives at the memory has skipped the steps since the memory was written; a
    gradient through the controller takes every step. Nearly empty memory has large gradients, because the cosine
    between a short slot and a key changes quickly.

    >>> from mnemoscope.networks import ntm
    >>> machine = ntm(3, 8, slots=6)
    >>> gradient_norms(machine, torch.randn(9, 2, 3), lambda outputs: outputs[-1].sum(), by="part").names
    ('controller', 'memory', 'read weights', 'write weights', 'reads')

    To compare a model on a task before and after training:

        before = gradient_norms(model.cell, model.encode(batch.inputs),
                                lambda outputs: task.loss(model.readout(outputs), batch), name="before training")
        before.concatenate(after).figure()

    """
    if by not in ("time", "part"):
        raise ValueError(f'by must be "time" or "part", but is {by!r}.')
    if by == "part" and name:
        raise ValueError(f'With by="part" the parts of the state label their curves: omit name={name!r}.')
    cell = as_cell(network, state)
    given = read_inputs(xs, batch_first=cell.batch_first, mask=mask, lengths=lengths)
    check_finite_inputs(given.xs, given.mask)
    state = start_state(cell, given.xs, state)

    def loss_in_layout(outputs: Tensor) -> Tensor:
        value = loss(given.as_given(outputs))
        if not isinstance(value, Tensor) or value.numel() != 1:
            found = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
            raise ValueError(f"loss must return a tensor of one number, such as outputs[-1].sum(), but gave {found}.")
        if not value.requires_grad:
            raise ValueError("The loss has no gradient: compute it from the outputs, without detach() or numpy.")
        if not bool(value.isfinite()):
            raise ValueError(f"The loss is {value.item()}, so that it has no gradient: inputs or loss are not finite.")
        return value

    if by == "part":
        return GradientNorms(*norms_by_part(cell, given.xs, loss_in_layout, state, given.mask))
    norms = norms_over_time(cell, given.xs, loss_in_layout, state, given.mask)
    return GradientNorms(norms.detach().double().cpu().unsqueeze(0), (name,))
