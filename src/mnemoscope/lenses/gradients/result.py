"""Gradient norms through time, as a result that can be compared, drawn and saved."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan, nan
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.result import Result


@dataclass(frozen=True, repr=False)
class GradientNorms(Result):
    """Norm of a loss's gradient at each past step (Kerg, Fig 2 left).

    A curve belongs to one network, or to one part of a network's state.

    >>> from mnemoscope.cells import Elman
    >>> from mnemoscope.connectivity import Dense
    >>> from mnemoscope.lenses import gradient_norms
    >>> half = Elman(2, 3, "linear", Dense.from_matrix(torch.eye(3) / 2))
    >>> gradient_norms(half, torch.randn(5, 1, 2), lambda outputs: outputs[-1].sum()).summary()
    'The gradient shrinks by a factor of 0.5 per step back; at the first step it is 0.0625 of its value at the last.'
    """

    noun: ClassVar[str] = "gradient norms"
    drawn_by: ClassVar[str] = "draw_gradients"

    norms: Float[Tensor, "curves time batch"]
    """`|dL / dh_t|` of each sequence; NaN where a sequence has no step."""
    names: tuple[str, ...] = ("",)
    """Labels of the curves: networks, such as "before training", or parts of a state."""

    def __len__(self) -> int:
        """Return the number of curves."""
        return len(self.names)

    @property
    def curve(self) -> Float[Tensor, "curves time"]:
        """log10 of the norm, averaged over the sequences that have the step; -inf where it is 0, NaN without one."""
        return self.norms.nanmean(2).log10()

    @property
    def decay(self) -> Float[Tensor, " curves"]:
        """Factor by which the gradient changes per step back: the slope of a least-squares line through the curve.

        Steps without gradient are left out; NaN where fewer than two steps remain.
        """
        return torch.stack([_decay(curve) for curve in self.curve])

    def concatenate(self, other: GradientNorms) -> GradientNorms:
        """Return the curves of both, which must have the same steps and sequences."""
        if self.norms.shape[1:] != other.norms.shape[1:]:
            raise ValueError(
                f"Gradients are compared over the same steps and sequences, but one has (time, batch) = "
                f"{tuple(self.norms.shape[1:])} and the other {tuple(other.norms.shape[1:])}."
            )
        return GradientNorms(torch.cat([self.norms, other.norms]), self.names + other.names)

    def summary(self) -> str:
        """Return the decay per step back and the ends of each curve, in sentences."""
        sentences = []
        for name, curve, decay in zip(self.names, self.curve, self.decay.tolist(), strict=True):
            subject = f"{name[0].upper()}{name[1:]}: the gradient" if name else "The gradient"
            change = f"{'shrinks' if decay < 1 else 'grows'} by a factor of {decay:.3g} per step back"
            change = "neither shrinks nor grows on average" if f"{decay:.3g}" == "1" else change
            change = "has no measurable decay" if isnan(decay) else change
            ratio = _first_over_last(curve)
            if (decay - 1) * (ratio - 1) < 0:  # a line does not describe the curve: its ends differ the other way
                change = "does not change steadily"
            sentences.append(f"{subject} {change}; {_ends(curve)}.")
        return " ".join(sentences)


def _first_over_last(curve: Float[Tensor, " time"]) -> float:
    """Return the ratio of the first value of the curve to the last one that arrives; NaN if none does."""
    taken, arrives = (~curve.isnan()).nonzero().flatten(), (curve > -torch.inf).nonzero().flatten()
    return float(10 ** (curve[taken[0]] - curve[arrives[-1]])) if len(arrives) else nan


def _ends(curve: Float[Tensor, " time"]) -> str:
    """Compare the first and the last value of the curve, and name its minimum if that lies between them."""
    taken, arrives = (steps.nonzero().flatten().tolist() for steps in (~curve.isnan(), curve > -torch.inf))
    if not arrives:
        return "it arrives nowhere"
    first, last, end = taken[0], arrives[-1], taken[-1]
    ratio = _first_over_last(curve)
    text = f"at the first step it is {ratio:.3g} of its value at {'the last' if last == end else f'step {last}'}"
    minimum = min(arrives, key=curve.tolist().__getitem__)
    text += f", and smallest at step {minimum}" if first < minimum < last else ""
    if last == end:
        return text
    later = "the last step" if last + 1 == end else f"steps {last + 1} to {end}"
    return f"{text}, and at {later} it is 0: the loss does not depend on the state there"


def _decay(curve: Float[Tensor, " time"]) -> Float[Tensor, ""]:
    arrives = curve.isfinite()
    if int(arrives.sum()) < 2:
        return curve.new_tensor(torch.nan)
    back = -torch.arange(len(curve), dtype=curve.dtype)[arrives]
    back, logs = back - back.mean(), curve[arrives] - curve[arrives].mean()
    return 10 ** (back @ logs / (back @ back))
