"""Fisher memory of an affine recurrence about the values that it has written, along given inputs, exactly.

Each column of the state follows `s_t = A_t s_(t-1) + k_t v_t + z_t` by itself, with the same operators and noise of
variance eps in every number. The information of the last state about a past value is therefore a matter of keys alone,

    J_ss' = w_s^T C^-1 w_s',    w_s = A_T ... A_(s+1) k_s,    C = sum_s eps P_s P_s^T,    P_s = A_T ... A_(s+1),

for each column, and does not depend on the values. Each of several micro-steps per input writes another value, while
noise enters once per input. C is diagonal if the operators are; otherwise it follows by rank-two updates, and one pass
backwards yields all w_s (`written_signals.py`). This takes O(T d^2) for d keys, where the linearised flat state of d e
numbers takes O(T (d e)^3).
"""

from __future__ import annotations

from math import inf

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from mnemoscope.base.array_types import Int, Num
from mnemoscope.cells import AffineLayer, Cell, Lengths, Model, Network, State, affine_layers, as_cell, read_inputs
from mnemoscope.cells.affine.parts import Parts
from mnemoscope.cells.affine_reading import NoAffineLayerError
from mnemoscope.lenses.fisher.matrix_system import Noise
from mnemoscope.lenses.fisher.result import FisherMemory
from mnemoscope.lenses.fisher.square_root import check_steps
from mnemoscope.lenses.fisher.written_signals import (
    Signals,
    signals_by_covariance,
    signals_by_factor,
    write_information,
)

ROUTE = "values of an affine recurrence"


@torch.no_grad()
def value_memory(
    layer: AffineLayer, steps: Int[Tensor, " batch"] | None = None, *, noise: Noise = 1.0, lags: int | None = None
) -> FisherMemory:
    """Compute the Fisher memory of each head about the values written, at the end of each sequence.

    Args:
        layer: the recurrence on given inputs.
        steps: number of steps of each sequence; all by default.
        noise: variance of the noise that enters every number of the state at every input.
        lags: length of the curve, in micro-steps; the whole sequence by default.

    """
    layer = layer.memory()
    precise, micro = layer.precise(), layer.parts.micro_steps
    longest, batch = layer.features.shape[:2]
    if not batch:
        raise ValueError("The memory of values needs at least one sequence, but the batch is empty.")
    steps = torch.full((batch,), longest) if steps is None else steps.cpu()
    signals = int(steps.max()) * micro
    lags = signals if lags is None else lags
    if not isinstance(lags, int) or not 1 <= lags <= signals:
        raise ValueError(f"The sequences have {signals} writes, so that lags must be 1 to {signals}, but is {lags}.")
    variance = _variance(noise)
    keys = layer.start.shape[-2]
    shape = (batch, layer.start.shape[1], signals)
    traces = precise.start.new_full((*shape, keys), torch.nan)
    information = traces.real.new_full(shape, torch.nan)
    factor, error = traces.real.new_zeros(*shape[:2], keys, keys), 0.0
    for length in steps.unique().tolist():  # sequences of the same length run together
        alike = (steps == length).nonzero().flatten().to(traces.device)
        found = _signals(precise.first_steps(length, alike))
        traces[alike, :, : length * micro], factor[alike] = found.traces, found.factor
        information[alike, :, : length * micro] = found.information
        error = max(error, found.error)
    check_steps(factor.flatten(0, 1), error)
    traces, information = traces / variance**0.5, information / variance
    return FisherMemory(
        traces=traces[..., :lags, :].contiguous().cpu(),
        total=traces.abs().square().nansum((-2, -1)).cpu(),
        input_information=information[..., :lags].contiguous().cpu(),
        bound=(keys * micro * information.nan_to_num(0).amax(-1)).cpu(),
        amplification=torch.full((lags,), torch.nan, dtype=torch.float64),
        shape=(keys,),
        route=ROUTE,
        error=error,
        factor=(variance**0.5 * factor).cpu(),
        steps=signals,
        lengths=None if bool((steps == steps[0]).all()) else micro * steps,
    )


def layer_along(
    network: Network | Model,
    given: Num[Tensor, "..."] | np.ndarray | PackedSequence,
    *,
    mask: Tensor | None,
    lengths: Lengths | None,
    state: State | None,
    layer: int | str | None,
) -> tuple[AffineLayer, Int[Tensor, " batch"]] | None:
    """Return an affine layer of a network on these inputs, and the number of its steps; None if it has no such layer.

    Without `layer` there must be only one.
    """
    cell = network.cell if isinstance(network, Model) else as_cell(network, state)
    if type(cell).affine_layers is Cell.affine_layers:
        return None
    xs = given if isinstance(given, PackedSequence) else torch.as_tensor(given)
    read = read_inputs(xs, batch_first=cell.batch_first, mask=mask, lengths=lengths)
    sequences, steps = read.without_gaps()
    try:
        layers = affine_layers(network, read.in_layout(sequences), state, lengths=steps)
    except NoAffineLayerError:
        return None
    named = {each.name: each for each in layers}
    if layer is None and len(layers) > 1:
        raise ValueError(
            f"This network has {len(layers)} affine layers, {', '.join(map(repr, named))}: pass layer=<name or number> "
            f"or each of mnemoscope.cells.affine_layers(network, inputs) as the system."
        )
    if isinstance(layer, str):
        if layer not in named:
            raise ValueError(f"There is no affine layer {layer!r}; the layers are {', '.join(map(repr, named))}.")
        return named[layer], steps
    if layer is not None and not -len(layers) <= layer < len(layers):
        raise ValueError(f"There are {len(layers)} affine layers, numbered from 0, but layer is {layer}.")
    return layers[layer or 0], steps


def _signals(layer: AffineLayer) -> Signals:
    if layer.parts.erase is None:
        return _diagonal_signals(layer.parts)
    return signals_by_covariance(layer) or signals_by_factor(layer)


def _diagonal_signals(parts: Parts) -> Signals:
    """Return the signals of diagonal operators: decays are multiplied, and the noise of keys is independent."""
    pieces = parts.each()
    keys = torch.stack([piece.keys for piece in pieces], 1).flatten(0, 1)  # every micro-step in order of time
    d = torch.stack([piece.decays.expand_as(piece.keys) for piece in pieces], 1).flatten(0, 1)
    after = torch.cat([d[1:], torch.ones_like(d[:1])])
    products = after.flip(0).cumprod(0).flip(0)  # P of each micro-step
    noise = products[parts.micro_steps - 1 :: parts.micro_steps]  # it enters after the last micro-step of an input
    scale = noise.abs().square().sum(0).sqrt()  # (batch, heads, keys)
    traces = (products * keys / scale).movedim(0, 2).flip(2)
    return Signals(traces, write_information(parts), torch.diag_embed(scale), 0.0)


def _variance(noise: Noise) -> float:
    if not isinstance(noise, int | float | np.number) or not 0 < float(noise) < inf:
        raise ValueError(
            f"The memory of values takes the variance of independent noise, a positive number, but noise is {noise!r}."
        )
    return float(noise)
