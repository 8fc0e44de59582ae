"""The result of the influence lens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.lenses.bootstrap import Interval, bootstrap_interval
from mnemoscope.lenses.exact_influence.summaries import half_life
from mnemoscope.lenses.result import Result

NAMED = 5
"""Tokens that a summary names."""


@dataclass(frozen=True)
class LayerInfluence:
    """The influence of the inputs of one layer on what it reads from its memory."""

    name: str
    """Name of the layer; "" if the network is this one layer."""
    value: Float[Tensor, "cells cells"]
    """Squared value path of the first sequence, the sum over heads: `|M_ts v_s|^2` for the read t and the input s. A
    cell is the mean over `Influence.cell` x `Influence.cell` steps."""
    value_curves: Float[Tensor, "sequences lags"]
    """The same against the lag, the mean over the reads of each sequence."""
    head_half_lives: Float[Tensor, "sequences heads"]
    """First lag at which the value path of a head is below half of that at lag 0; the length of the sequence if
    none is."""
    head_windows: Float[Tensor, "sequences heads"]
    """Number of last inputs that hold the share `Influence.share` of the value path of a head, a mean over reads."""
    head_participations: Float[Tensor, "sequences heads"]
    """Number of inputs that share the value path of a head: `(sum I)^2 / sum I^2`, a mean over reads."""
    state_norms: Float[Tensor, " time"]
    """Norm of the state of all heads along the first sequence."""
    full: Float[Tensor, "cells cells"] | None = None
    """Squared derivatives of the reads by the inputs of the layer, through values, keys, gates and convolution."""
    full_curves: Float[Tensor, "sequences lags"] | None = None
    """The same against the lag."""
    full_error: float = 0.0
    """Largest standard error of a number of `full`, relative to it, if it is estimated; 0 if it is exact."""

    @property
    def heads(self) -> int:
        """Number of heads."""
        return self.head_half_lives.shape[1]

    @property
    def half_lives(self) -> Float[Tensor, " heads"]:
        """Half-life of each head through values, the mean over the sequences."""
        return self.head_half_lives.mean(0)


@dataclass(frozen=True, repr=False)
class Influence(Result):
    """How much every past input matters for every output: through values, for each layer, and for the whole network.

    The value path is exact for what a layer reads, but is not the whole influence: an input also acts through gates,
    keys, queries and convolutions. The full influence of a layer, and that of the network, include these; they are
    derivatives, and hold for small changes of the inputs.
    """

    noun: ClassVar[str] = "an influence"
    drawn_by: ClassVar[str] = "draw_influence"

    layers: tuple[LayerInfluence, ...]
    """The layers that are affine in their state."""
    lengths: Int[Tensor, " sequences"]
    """Number of steps of each sequence."""
    labels: tuple[str, ...]
    """Labels of the steps of the first sequence; empty if none were given."""
    retention: Float[Tensor, " length"]
    """For each input of the first sequence, its influence on later outputs relative to that of the other inputs at the
    same lags. It is that through the network; the mean of the layers' if that was not computed."""
    kept: Int[Tensor, " length"]
    """For each input of the first sequence, the last lag at which its influence is at least half of its largest."""
    share: float = 0.9
    """Share of the influence that a window holds."""
    cell: int = 1
    """Steps that a row or column of a matrix stands for: 1, but more for long sequences."""
    model: Float[Tensor, "rows cells"] | None = None
    """Squared derivatives of the outputs `rows` of the network by its encoded inputs, in the first sequence."""
    rows: Int[Tensor, " rows"] | None = None
    """Steps of these outputs."""
    model_curves: Float[Tensor, "sequences lags"] | None = None
    """The same against the lag, the mean over the outputs of each sequence."""
    model_windows: Float[Tensor, " sequences"] | None = None
    """Number of last inputs that hold the share of the influence on an output of the network, a mean over outputs."""
    model_error: float = 0.0
    """Largest standard error of a number of `model`, relative to it, if it is estimated; 0 if it is exact."""

    @property
    def longest(self) -> LayerInfluence:
        """The layer whose value path has the longest half-life."""
        lives = [float(half_life(layer.value_curves.nanmean(0))) for layer in self.layers]
        return self.layers[lives.index(max(lives))]

    @property
    def best_kept(self) -> list[int]:
        """The inputs of the first sequence in the order of their retention, largest first."""
        known = self.retention.nan_to_num(nan=-1.0)
        return [step for step in known.argsort(descending=True, stable=True).tolist() if float(known[step]) >= 0]

    def label(self, step: int) -> str:
        """Return the label of a step, or its number if there are no labels."""
        return self.labels[step] if self.labels else f"step {step}"

    def summary(self) -> str:
        """Return how long values are kept, how far back the outputs depend on the inputs, and on which of them."""
        return " ".join(
            text for text in (self._of_values(), self._of_layers(), self._of_model(), self._of_tokens()) if text
        )

    def _of_values(self) -> str:
        heads, longest = torch.cat([layer.head_half_lives for layer in self.layers], 1), self.longest
        number = _number(longest.value_curves, half_life, longest.value_curves.shape[1])
        where = f" of {longest.name}, which keeps values longest," if len(self.layers) > 1 else ""
        spread = (
            f"; those of {heads.shape[1]} heads of {_count(len(self.layers), 'layer')}, each a mean over sequences, "
            f"range from {_mean(heads[:, heads.mean(0).argmin()])} to {_mean(heads[:, heads.mean(0).argmax()])}"
        )
        of_heads = spread if heads.shape[1] > 1 else ""
        return (
            f"Through values alone, the half-life of an input in the reads{where} is {number}{of_heads}. "
            f"Gates, keys and convolutions are not part of this path."
        )

    def _of_layers(self) -> str:
        layer = self.longest
        if layer.full_curves is None:
            return ""
        number = _number(layer.full_curves, half_life, layer.full_curves.shape[1])
        return f"With them, it is {number}{_error(layer.full_error)}."

    def _of_model(self) -> str:
        if self.model_windows is None:
            return ""
        window = _number(self.model_windows.unsqueeze(1), lambda mean: mean[0], int(self.lengths.max()) + 1, "input")
        return (
            f"Through the whole network, {self.share:.0%} of the influence on an output comes from the last "
            f"{window}{_error(self.model_error)}."
        )

    def _of_tokens(self) -> str:
        best = self.best_kept[:NAMED]
        if not best:
            return ""
        named = ", ".join(f"{self.label(step)!r} at {step}" if self.labels else self.label(step) for step in best)
        return (
            f"In the first sequence, later outputs depend most on {named}, compared with other inputs at the same lags."
        )


def _number(samples: Tensor, statistic: Callable[[Tensor], Tensor], longest: int, noun: str = "step") -> str:
    """Return a number of steps of the mean over sequences, with its interval if there are several sequences.

    A half-life of `longest` steps stands for one that the sequences are too short to show.
    """

    def text(value: float) -> str:
        return f"{value:.3g}" if value < longest else f"{longest} or more"

    number = text(float(statistic(samples.nanmean(0))))
    counted = f"{number} {noun}{'' if number == '1' else 's'}"
    low, high = (float(edge) for edge in interval(samples, statistic))
    known = len(samples) > 1 and low < longest
    return f"{counted} (95% interval {text(low)} to {text(high)})" if known else counted


def _mean(values: Float[Tensor, " sequences"]) -> str:
    """Return the mean over sequences, with its interval if there are several."""
    low, high = bootstrap_interval(values)
    return f"{float(values.mean()):.3g}" + f" ({float(low):.3g} to {float(high):.3g})" * (len(values) > 1)


def interval(samples: Float[Tensor, "sequences ..."], statistic: Callable[[Tensor], Tensor] | None = None) -> Interval:
    """Return the interval over sequences of a statistic of the mean over sequences; by default of the mean."""
    if statistic is None:
        return bootstrap_interval(samples)
    return bootstrap_interval(samples, lambda drawn: statistic(drawn.nanmean(0)))


def _error(error: float) -> str:
    if not error:
        return ""
    return f" (estimated from random directions; the standard error of a single influence is at most {error:.0%})"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
