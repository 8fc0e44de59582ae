"""The layouts in which sequences are given. Inside the package every sequence is time first.

One rule holds for every public function that takes inputs: they are in the layout of the network, (batch, time, ...)
for a torch.nn module with `batch_first`, otherwise (time, batch, ...). `read_inputs` converts them where they enter,
and outputs, states and gates that are returned as tensors are converted back where they leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from mnemoscope.base.array_types import Bool, Int, Num

Lengths = Int[Tensor, " batch"] | Sequence[int]
"""Number of steps of each sequence."""


@dataclass(frozen=True)
class Inputs:
    """Sequences, time first, and the layout in which they were given."""

    xs: Num[Tensor, "time batch ..."]
    """The inputs; those of short sequences are padded."""
    mask: Bool[Tensor, "time batch"] | None
    """False where a sequence has no input; None if all have an input at every step."""
    batch_first: bool
    """Whether tensors were given, and are returned, batch first."""
    packed: PackedSequence | None
    """The sequences, if they were given packed."""

    def in_layout(self, tensor: Tensor) -> Tensor:
        """Return a tensor (time, batch, ...) in the layout of the inputs."""
        return tensor.transpose(0, 1) if self.batch_first else tensor

    def without_gaps(self) -> tuple[Tensor, Int[Tensor, " batch"]]:
        """Return the inputs of each sequence without gaps, time first and followed by zeros, and their numbers."""
        if self.mask is None:
            return self.xs, torch.full(self.xs.shape[1:2], self.xs.shape[0], device=self.xs.device)
        order = (~self.mask).to(torch.uint8).argsort(dim=0, stable=True)  # (time, batch), inputs first
        lengths = self.mask.sum(0)
        moved = self.xs[order, torch.arange(self.xs.shape[1], device=self.xs.device)]
        past_end = torch.arange(self.xs.shape[0], device=self.xs.device).unsqueeze(1) >= lengths
        longest = int(lengths.max())
        return moved.masked_fill(past_end.reshape(*past_end.shape, *(1,) * (moved.dim() - 2)), 0)[:longest], lengths

    def as_given(self, outputs: Tensor) -> Tensor | PackedSequence:
        """Return outputs (time, batch, ...) in the layout of the inputs, packed if the inputs were."""
        if self.packed is None:
            return self.in_layout(outputs)
        order, sizes = self.packed.sorted_indices, self.packed.batch_sizes
        longest_first = outputs if order is None else outputs[:, order]
        lengths = (sizes.unsqueeze(1) > torch.arange(outputs.shape[1])).sum(0)
        data = pack_padded_sequence(longest_first, lengths).data
        return PackedSequence(data, sizes, order, self.packed.unsorted_indices)


def read_inputs(
    xs: Tensor | PackedSequence,
    *,
    batch_first: bool = False,
    mask: Tensor | None = None,
    lengths: Lengths | None = None,
) -> Inputs:
    """Return sequences time first, with a mask where their lengths differ.

    Args:
        xs: inputs (time, batch, ...), or (batch, time, ...) if `batch_first`; or a `PackedSequence`.
        batch_first: the layout of inputs and mask, `Cell.batch_first`.
        mask: of bool, in the layout of the inputs without features: False where a sequence has no input.
        lengths: number of steps of each sequence, instead of a mask; what follows is padding.

    """
    if isinstance(xs, PackedSequence):
        if mask is not None or lengths is not None:
            raise ValueError("A PackedSequence has its own lengths: omit mask and lengths.")
        padded, steps = pad_packed_sequence(xs)
        return Inputs(padded, _mask(steps, padded), batch_first, xs)
    if not isinstance(xs, Tensor):
        raise TypeError(
            f"Inputs are a tensor or a PackedSequence, but a {type(xs).__name__} was given. torch.as_tensor(...) "
            f"converts arrays and lists of numbers."
        )
    if mask is not None and lengths is not None:
        raise ValueError("Pass either mask or lengths, not both.")
    if mask is not None and (mask.shape != xs.shape[:2] or mask.dtype != torch.bool):
        names = "(batch, time)" if batch_first else "(time, batch)"
        raise ValueError(
            f"mask must be of bool and of shape {names} = {tuple(xs.shape[:2])}, but is {mask.dtype} of shape "
            f"{tuple(mask.shape)}."
        )
    if batch_first and xs.dim() > 1:
        xs, mask = xs.transpose(0, 1), None if mask is None else mask.transpose(0, 1)
    if lengths is not None:
        mask = _mask(_checked_lengths(lengths, xs), xs)
    return Inputs(xs, None if mask is None else mask.to(xs.device), batch_first, None)


def check_finite_inputs(xs: Num[Tensor, "time batch ..."], mask: Bool[Tensor, "time batch"] | None = None) -> None:
    """Raise if inputs are NaN or infinite at a step that is not padding; the error names the first one.

    >>> check_finite_inputs(torch.tensor([[[0.0]], [[torch.nan]]]))
    Traceback (most recent call last):
    ValueError: The inputs hold NaN or infinite values, first in sequence 0 at step 1; if lengths differ, pass lengths.
    """
    if not xs.is_floating_point() or xs.dim() < 2:
        return
    wrong = ~(xs.isfinite().flatten(2).all(2) if xs.dim() > 2 else xs.isfinite())
    wrong = wrong if mask is None else wrong & mask
    if bool(wrong.any()):
        sequence, step = wrong.T.nonzero()[0].tolist()
        raise ValueError(
            f"The inputs hold NaN or infinite values, first in sequence {sequence} at step {step}; if lengths differ, "
            f"pass lengths."
        )


def read_equal_inputs(xs: Tensor | PackedSequence, *, batch_first: bool = False) -> Tensor:
    """Return sequences of equal length, time first; raise for a `PackedSequence` whose sequences differ in length.

    >>> packed = torch.nn.utils.rnn.pack_sequence([torch.zeros(3, 2), torch.zeros(2, 2)])
    >>> read_equal_inputs(packed)
    Traceback (most recent call last):
    ValueError: The sequences of the PackedSequence differ in length, from 2 to 3 steps: pass sequences of equal length.
    """
    given = read_inputs(xs, batch_first=batch_first)
    if given.mask is not None and not bool(given.mask.all()):
        steps = given.mask.sum(0)
        raise ValueError(
            f"The sequences of the PackedSequence differ in length, from {int(steps.min())} to {int(steps.max())} "
            f"steps: pass sequences of equal length."
        )
    return given.xs


def _checked_lengths(lengths: Lengths, xs: Tensor) -> Int[Tensor, " batch"]:
    steps = torch.as_tensor(lengths)
    time, batch = xs.shape[:2]
    whole = not (steps.is_floating_point() or steps.is_complex() or steps.dtype == torch.bool)
    if steps.shape != (batch,) or not whole or not bool(((steps >= 1) & (steps <= time)).all()):
        raise ValueError(
            f"lengths must be {batch} whole numbers from 1 to {time}, the number of steps of each sequence, but are "
            f"{steps.tolist()}."
        )
    return steps


def _mask(lengths: Tensor, xs: Tensor) -> Bool[Tensor, "time batch"] | None:
    """Return a mask on the device of the inputs; None if all sequences have every step."""
    if bool((lengths == xs.shape[0]).all()):
        return None
    return torch.arange(xs.shape[0], device=xs.device).unsqueeze(1) < lengths.to(xs.device)
