"""The part of every value written that comes from the input asked for."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Inexact
from mnemoscope.cells import Model, affine_layers
from mnemoscope.cells.affine.layer import AffineLayer
from mnemoscope.lenses.interference.trials import RecallTrials

REPLACEMENTS = 16
"""Number of other sequences whose inputs replace the one asked for, below layers that do not read the inputs."""


def own_parts(
    model: Model, trials: RecallTrials, layers: Sequence[AffineLayer], step: int
) -> list[Inexact[Tensor, "batch heads writes values"]]:
    """Return, for each layer, the part of the values written before a step that the input asked for there makes.

    A layer that reads the inputs of the network writes it at its own step, and a convolution spreads it over the next
    steps: its part is the difference to the values without its projection. A nonlinearity follows the convolution, so
    that both parts of such a write depend on each other: if its part is the larger one, it counts as the whole write,
    neighbours included. Layers above other layers are not linear in
    it, and have it in all later values. There, its part is the difference to the mean of the values with this input
    replaced by those that other sequences have at the same step.
    """
    xs = model.encode(trials.inputs)
    reading = [reads_inputs(layer, xs) for layer in layers]
    replaced = [] if all(reading) else affine_layers(model, _replaced(trials, step))
    parts = []
    for which, layer in enumerate(layers):
        written = values_written(layer)[:, :, : step * layer.parts.micro_steps]
        if reading[which]:
            parts.append(_written_from_input(layer, trials, step))
        else:
            parts.append(written - values_written(replaced[which]).unflatten(0, (-1, len(written))).mean(0))
    return parts


def values_written(layer: AffineLayer) -> Inexact[Tensor, "batch heads writes values"]:
    """Return v of every write."""
    return _by_write(layer.parts.values, layer.parts.micro_steps)


def _by_write(values: Tensor, micro_steps: int) -> Inexact[Tensor, "batch heads writes values"]:
    return (values if micro_steps == 1 else values.movedim(-3, 1).flatten(0, 1)).permute(1, 2, 0, 3)


def reads_inputs(layer: AffineLayer, xs: Tensor) -> bool:
    """Return whether the inputs of a layer are those of the network, and not the outputs of a layer below."""
    return layer.inputs is not None and layer.inputs.xs.shape == xs.shape and torch.equal(layer.inputs.xs, xs)


def _written_from_input(
    layer: AffineLayer, trials: RecallTrials, step: int
) -> Inexact[Tensor, "batch heads writes values"]:
    """Return the part of the values before a step that the input asked for makes, in a layer that reads the inputs.

    A write that it makes mostly, by the squared length of all heads, counts as a whole.
    """
    sources, micro, inputs = trials.sources[step], layer.parts.micro_steps, layer.inputs
    assert inputs is not None
    written = values_written(layer)[:, :, : step * micro]
    steps = torch.arange(step, device=sources.device)
    if inputs.window == 1:
        own = (steps == sources.unsqueeze(1)).repeat_interleave(micro, 1)  # (batch, writes)
        return written * own[:, None, :, None]
    projected = inputs.project(inputs.xs[:step])
    projected = projected.masked_fill((steps.unsqueeze(1) == sources).unsqueeze(-1), 0.0)
    own = written - _by_write(layer.core.parts(inputs.mix(projected)).values, micro)
    larger, smaller = (part.abs().square().sum((1, 3), keepdim=True) for part in (own, written - own))
    return torch.where(larger > smaller, written, own)


def _replaced(trials: RecallTrials, step: int) -> Float[Tensor, "step sequences features"]:
    """Return the inputs before a step, with that asked for replaced by those of other sequences.

    All sequences with the first replacement come first, then all with the second.
    """
    inputs, sources = trials.inputs[:step], trials.sources[step]
    sequence = torch.arange(inputs.shape[1], device=inputs.device)
    number = min(REPLACEMENTS, len(sequence) - 1)
    copies = []
    for distance in torch.linspace(1, len(sequence) - 1, number).round().long().tolist():
        copy = inputs.clone()
        copy[sources, sequence] = inputs[sources, (sequence + distance) % len(sequence)]
        copies.append(copy)
    return torch.cat(copies, 1)
