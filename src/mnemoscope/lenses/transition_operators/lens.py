"""The transitions lens: spectra of the operators by which each input of an affine recurrence changes the state."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from mnemoscope.base.array_types import Int, Num
from mnemoscope.base.progress import show_slow
from mnemoscope.base.validation import check_whole
from mnemoscope.cells import Lengths, Model, Network, State, as_cell, read_inputs
from mnemoscope.cells.affine.layer import AffineLayer
from mnemoscope.cells.affine_reading import affine_layers
from mnemoscope.lenses.token_labels import Labels, read_labels
from mnemoscope.lenses.transition_operators.content import kept_and_written
from mnemoscope.lenses.transition_operators.exponents import exponents_along
from mnemoscope.lenses.transition_operators.products import products_along
from mnemoscope.lenses.transition_operators.result import LayerTransitions, Transitions
from mnemoscope.lenses.transition_operators.structures import Structure, TokenSpectra, structure_of, token_spectra

MOST_EXPONENTS = 64
"""Largest number of keys of a head whose exponents are all computed by default."""
FEW_EXPONENTS = 8
"""Exponents of larger heads by default."""
WORKSPACE = 2**22
"""Numbers in all operators that are formed together: 32 MB."""


@show_slow("transitions")
@torch.no_grad()
def transitions(
    network: Network | Model,
    inputs: Num[Tensor, "..."] | PackedSequence,
    *,
    state: State | None = None,
    lengths: Lengths | None = None,
    labels: Labels | None = None,
    exponents: int | None = None,
    transient: int | None = None,
    seed: int = 0,
) -> Transitions:
    """Compute the spectra of the operators A of `S' = A S + W`, and of their products, along inputs.

    For every affine layer, head and step: eigenvalues, largest and smallest singular value and departure from
    normality of A; whether the step resets, rotates, reflects, erases, holds or fades the state, and whether it
    writes (`mnemoscope.lenses.transition_operators.actions` defines each). Along the inputs: Lyapunov exponents, and
    the growth of products over windows and over the whole sequence. An exact property of the recurrence on these
    inputs; what surrounds it, such as a gate of the outputs, is not part of A. The state of an mLSTM is divided by its
    scale, and so are its operators.

    Args:
        network: a `Model`, a cell, or a module that `adapt` takes, with layers that are affine in their state.
        inputs: sequences in the layout of the network.
        state: the state before the first input, as in `scan`.
        lengths: number of steps of each sequence; what follows is padding.
        labels: names of the steps: a list of strings, one such list for each sequence, or a tokenizer with
            `convert_ids_to_tokens` if the inputs are token numbers.
        exponents: number of Lyapunov exponents, the largest ones; by default all, or 8 of heads with more than 64
            keys.
        transient: steps in which directions align, before the mean of the exponents begins; by default a tenth of the
            shortest sequence.
        seed: seed of the first directions.

    A delta rule with beta = 2 reflects, and so remembers the parity of its inputs:

    >>> from mnemoscope.cells.affine import DeltaNet
    >>> cell = DeltaNet(2, 4, beta_max=2.0)
    >>> result = transitions(cell, 4 * torch.randn(30, 2, 2))
    >>> sorted({*result[0].actions.flatten().tolist()} - {2, 3, 4, 5})  # reflect, erase, hold or fade; no rotation
    []

    """
    layers = [layer.memory() for layer in affine_layers(network, inputs, state, lengths=lengths)]
    cell = network.cell if isinstance(network, Model) else as_cell(network, state)
    given = read_inputs(inputs, batch_first=cell.batch_first, lengths=lengths)
    time, batch = layers[0].features.shape[:2]
    steps = torch.full((batch,), time) if given.mask is None else given.mask.sum(0).cpu()
    shortest = int(steps.min())
    transient = shortest // 10 if transient is None else transient
    check_whole(0, transient=transient)
    if transient >= shortest:
        raise ValueError(f"The shortest sequence has {shortest} steps, but the transient alone takes {transient}.")
    found = [_layer_transitions(layer, steps, exponents, transient, seed) for layer in layers]
    return Transitions(tuple(found), read_labels(labels, given.xs, steps.tolist()), transient)


def _layer_transitions(
    layer: AffineLayer, steps: Int[Tensor, " batch"], count: int | None, transient: int, seed: int
) -> LayerTransitions:
    rounding = float(torch.finfo(layer.start.dtype.to_real()).eps)
    precise, on_device = layer.precise(), steps.to(layer.start.device)
    keys = layer.start.shape[-2]
    if count is None:
        count = keys if keys <= MOST_EXPONENTS else FEW_EXPONENTS
    check_whole(1, exponents=count)
    structure = structure_of(precise.parts)
    spectra = _spectra(precise, structure)
    kept, written = kept_and_written(precise)
    past_end = torch.arange(len(kept), device=kept.device).unsqueeze(1) >= on_device  # (time, batch)
    rates = exponents_along(precise, on_device, min(count, keys), transient, rounding, seed)
    products = products_along(precise, on_device, rounding)

    def known(values: Tensor) -> Tensor:
        return values.masked_fill(past_end.reshape(*past_end.shape, *(1,) * (values.dim() - 2)), torch.nan).cpu()

    return LayerTransitions(
        name=layer.name,
        family=type(layer.core).__name__,
        structure=structure,
        eigenvalues=known(spectra.eigenvalues),
        largest=known(spectra.largest),
        smallest=known(spectra.smallest),
        departure=known(spectra.departure),
        kept=known(kept),
        written=known(written),
        exponents=rates.cpu(),
        sizes=products.sizes,
        growth=products.growth.cpu(),
        peaks=products.peaks.cpu(),
        radii=products.radii.cpu(),
        products=products.whole.cpu(),
        steps=steps,
    )


def _spectra(layer: AffineLayer, structure: Structure) -> TokenSpectra:
    """Return the spectra of all steps, in blocks of time if operators are formed."""
    batch, heads, keys = layer.start.shape[:3]
    block = max(1, WORKSPACE // (batch * heads * keys**2))
    starts = range(0, len(layer.features), block)
    blocks = [token_spectra(layer.between(start, start + block), structure) for start in starts]
    return TokenSpectra(*(torch.cat(parts) for parts in zip(*blocks, strict=True)))
