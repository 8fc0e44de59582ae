"""The result of the transitions lens: the operators of each layer, and what they do to its state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Inexact, Int
from mnemoscope.lenses.bootstrap import bootstrap_interval, widen_certain
from mnemoscope.lenses.result import Result
from mnemoscope.lenses.transition_operators.actions import ACTIONS, WRITTEN, classify, conditions

ROUNDING = 1e-6
"""Growth that may be due to rounding errors of parts in float32."""
LISTED = 4
"""Largest number of layers with a sentence in the summary."""


_UNKNOWN = f"action must be one of {', '.join((*ACTIONS, 'write'))}, but is {{!r}}."


class Estimate(NamedTuple):
    """A mean over sequences, and its confidence interval; NaN edges for a single sequence."""

    mean: Float[Tensor, "*shape"]
    low: Float[Tensor, "*shape"]
    high: Float[Tensor, "*shape"]

    @property
    def known(self) -> bool:
        """Whether the interval is known: there are several sequences."""
        return not bool(self.low.isnan().any() or self.high.isnan().any())

    def text(self, form: Callable[[float], str] = "{:.0%}".format) -> str:
        """Return a single estimate as text, "6% (4% to 8%)"; without the interval if it is not known."""
        mean, low, high = (form(float(edge)) for edge in self)
        return f"{mean} ({low} to {high})" if self.known else mean


@dataclass(frozen=True)
class LayerTransitions:
    """The operators A of one layer, `S' = A S + W`, at every step. After the end of a sequence, numbers are NaN."""

    name: str
    """Name of the layer, "" if the network is this one layer."""
    family: str
    """Class of the recurrence."""
    structure: str
    """Either "diagonal", "real eigenvalues" or "general"; the eigenvalues of the first two take little work."""
    eigenvalues: Inexact[Tensor, "time batch heads keys"]
    """Eigenvalues of A, in descending order of modulus."""
    largest: Float[Tensor, "time batch heads"]
    """|A|, the largest singular value: above 1, some states grow in this step."""
    smallest: Float[Tensor, "time batch heads"]
    """The smallest singular value."""
    departure: Float[Tensor, "time batch heads"]
    """Henrici's departure from normality, `sqrt(|A|_F^2 - sum |lambda|^2)`."""
    kept: Float[Tensor, "time batch heads"]
    """`|A S| / |S|` of the state that this step found; NaN if it was 0."""
    written: Float[Tensor, "time batch heads"]
    """`|W| / (|A S| + |W|)`, the share of what this step wrote."""
    exponents: Float[Tensor, "batch heads count"]
    """Largest Lyapunov exponents of each sequence, per step; minus infinity for a direction that is lost."""
    sizes: Int[Tensor, " sizes"]
    """Steps of the windows over which products are taken: 1, 2, 4, ..."""
    growth: Float[Tensor, "sizes batch heads"]
    """Mean of `log |A ... A|` over windows of a size."""
    peaks: Float[Tensor, "sizes batch heads"]
    """The largest `log |A ... A|` among them."""
    radii: Float[Tensor, "sizes batch heads"]
    """Mean of the logarithm of the spectral radius over the same windows."""
    products: Inexact[Tensor, "batch heads keys"]
    """Logarithms of the eigenvalues of the product over each whole sequence, in descending order of modulus; minus
    infinity for those below its rounding error."""
    steps: Int[Tensor, " batch"]
    """Length of each sequence."""

    @property
    def heads(self) -> int:
        """Number of heads."""
        return self.largest.shape[2]

    @property
    def present(self) -> Bool[Tensor, "time batch"]:
        """Whether a sequence has a step."""
        return torch.arange(len(self.largest)).unsqueeze(1) < self.steps

    @property
    def actions(self) -> Int[Tensor, "time batch heads"]:
        """Class of each operator, a number into `ACTIONS` of `mnemoscope.lenses.transition_operators.actions`.

        -1 after the end of a sequence.
        """
        classes = classify(self.eigenvalues, self.largest)
        return classes.masked_fill(~self.present.unsqueeze(-1), -1)

    def does(self, action: str) -> Bool[Tensor, "time batch heads"]:
        """Return where an operator meets the condition of a class, or, for "write", where the step writes.

        An operator may meet several conditions; `actions` has the most drastic one.
        """
        if action == "write":
            return self.written >= WRITTEN
        if action == "fade":
            return self.actions == ACTIONS.index("fade")
        met = conditions(self.eigenvalues, self.largest)
        if action not in met:
            raise ValueError(_UNKNOWN.format(action))
        return met[action] & self.present.unsqueeze(-1)

    def share(self, action: str) -> Estimate:
        """Return the share of steps at which each head acts so, and its interval over sequences."""
        return _estimate_share(self._shares(action))

    def mean_share(self, action: str) -> Estimate:
        """Return the share of steps and heads that act so, and its interval over sequences."""
        return _estimate_share(self._shares(action).mean(1))

    def _shares(self, action: str) -> Float[Tensor, "batch heads"]:
        if action not in (*ACTIONS, "write"):
            raise ValueError(_UNKNOWN.format(action))
        acts = self.does("write") if action == "write" else self.actions == ACTIONS.index(action)
        return acts.sum(0).double() / self.steps.unsqueeze(-1)

    @property
    def exponent(self) -> Estimate:
        """Mean Lyapunov exponents of each head (heads, count), and their intervals over sequences."""
        return _estimate(self.exponents)

    @property
    def mean_growth(self) -> Estimate:
        """Mean of `growth` over sequences, (sizes, heads), and its intervals."""
        return _estimate(self.growth.transpose(0, 1))

    @property
    def memory_time(self) -> Estimate:
        """Steps after which the longest kept direction of each head has shrunk to 1/e, and their intervals.

        They are -1 / the largest exponent, and infinite where this is 0 or more.
        """
        mean, low, high = (edge[:, 0] for edge in self.exponent)
        return Estimate(*(torch.where(edge >= 0, torch.inf, -1 / edge) for edge in (mean, low, high)))

    @property
    def largest_growth(self) -> tuple[float, int]:
        """The largest norm of a product over any of the windows that were measured, and the steps of that window.

        Every single step is counted. Above 1, states can grow on these inputs, even if every eigenvalue decays; at most
        1, no product of operators grows.
        """
        single = self.largest.nan_to_num(nan=0.0).amax().log().to(self.peaks)
        windows = self.peaks[1:].nan_to_num(nan=-torch.inf, neginf=-torch.inf).amax((1, 2))
        peaks = torch.cat([single.reshape(1), windows])
        return float(peaks.max().exp()), int(self.sizes[peaks.argmax()])


@dataclass(frozen=True, repr=False)
class Transitions(Result):
    """The operators of all affine layers of a network on given inputs.

    >>> import mnemoscope as ms
    >>> cell = ms.networks.deltanet(3, 8, beta_max=2.0)
    >>> result = ms.transitions(cell, torch.randn(20, 4, 3))
    >>> result[0].eigenvalues.shape, result[0].exponents.shape
    (torch.Size([20, 4, 1, 8]), torch.Size([4, 1, 8]))
    """

    noun: ClassVar[str] = "transitions"
    drawn_by: ClassVar[str] = "draw_transitions"

    layers: tuple[LayerTransitions, ...]
    """The layers, from the input to the output."""
    labels: tuple[tuple[str, ...], ...] = ()
    """Label of each step of each sequence; empty if none were given."""
    transient: int = 0
    """Steps before the mean of the exponents begins."""

    def __len__(self) -> int:
        """Return the number of layers."""
        return len(self.layers)

    def __getitem__(self, layer: int | str) -> LayerTransitions:
        """Return a layer by its number or its name."""
        if isinstance(layer, int):
            return self.layers[layer]
        named = {each.name: each for each in self.layers}
        if layer not in named:
            raise KeyError(f"There is no layer {layer!r}; the layers are {', '.join(map(repr, named))}.")
        return named[layer]

    def by_label(self, layer: int | str = 0) -> dict[str, dict[str, Estimate]]:
        """Return, for each label, the share of its occurrences and heads with each action, and that write.

        The intervals are a bootstrap over sequences; they are NaN for a label that occurs in a single one.
        """
        if not self.labels:
            raise ValueError("The steps have no labels: pass labels=... to transitions.")
        chosen = self[layer]
        numbers = {label: number for number, label in enumerate(dict.fromkeys(chain(*self.labels)))}
        acts = [chosen.actions == number for number in range(len(ACTIONS))]
        met = torch.stack([*acts, chosen.does("write")], -1).double().mean(2)  # (time, batch, actions), over heads
        sums = torch.zeros(len(self.labels), len(numbers), len(ACTIONS) + 2, dtype=torch.float64)  # last: occurrences
        for sequence, names in enumerate(self.labels):
            places = torch.tensor([numbers[label] for label in names], dtype=torch.long)
            sums[sequence, :, :-1].index_add_(0, places, met[: len(names), sequence])
            sums[sequence, :, -1] += torch.bincount(places, minlength=len(numbers))
        holding = (sums[..., -1] > 0).sum(0).unsqueeze(-1)  # sequences that hold each label
        mean = _occurrence_share(sums)
        interval = widen_certain(bootstrap_interval(sums, _occurrence_share), mean, holding)
        edges = (mean, *(edge.masked_fill(holding < 2, torch.nan) for edge in interval))
        return {
            label: {
                name: Estimate(*(edge[number, place] for edge in edges))
                for place, name in enumerate((*ACTIONS, "write"))
            }
            for label, number in numbers.items()
        }

    def most(self, action: str, layer: int | str = 0, number: int = 5) -> list[tuple[str, Estimate]]:
        """Return the labels with the largest shares of an action, or of "write", and these shares; none that are 0."""
        table = self.by_label(layer)
        if action not in (*ACTIONS, "write"):
            raise ValueError(_UNKNOWN.format(action))
        ranked = sorted(((label, shares[action]) for label, shares in table.items()), key=lambda item: -item[1].mean)
        return [(label, share) for label, share in ranked[:number] if share.mean > 0]

    def summary(self) -> str:
        """Return what the operators of the first layers do, how long they keep a state, and whether states grow."""
        shown = [_sentence(layer) for layer in self.layers[:LISTED]]
        if len(self) > LISTED:
            left = len(self) - LISTED
            shown.append(f"{left} more layer{'s are' if left > 1 else ' is'} not listed.")
        return " ".join(shown)


def _estimate(values: Tensor) -> Estimate:
    """Return the mean over sequences (the first dimension) and its interval; infinite where a value is infinite."""
    mean, infinite = values.nanmean(0), values.isinf().any(0)
    low, high = bootstrap_interval(values.masked_fill(values.isinf(), torch.nan))
    return Estimate(mean, *(torch.where(infinite, mean, edge) for edge in (low, high)))


def _estimate_share(shares: Float[Tensor, "batch ..."]) -> Estimate:
    """Return the mean share over sequences and its interval, which is never a point."""
    mean = shares.mean(0)
    return Estimate(mean, *widen_certain(bootstrap_interval(shares), mean, len(shares)))


def _occurrence_share(sums: Float[Tensor, "batch labels columns"]) -> Float[Tensor, "labels actions"]:
    """Return the sums of all but the last column over that of the last; NaN for a label that does not occur."""
    total = sums.sum(0)
    return total[:, :-1] / total[:, -1:]


def _sentence(layer: LayerTransitions) -> str:
    shares = [(name, layer.mean_share(name)) for name in ACTIONS]
    listed = ", ".join(f"{name} it at {share.text()}" for name, share in shares if share.mean >= 0.005)
    writes = layer.mean_share("write").text()
    lost = ", and some directions are lost in a single step" * bool(layer.exponents.isneginf().any())
    grown, window = layer.largest_growth
    growth = (
        f"States can grow up to {grown:.3g} times, over {window} step{'s' * (window > 1)}, in the windows measured."
        if grown > 1 + ROUNDING
        else "No state grows."
    )
    return (
        f"{layer.name or layer.family}: the operators of the state {listed} of the steps, and {writes} write. By "
        f"the largest Lyapunov exponent, a head keeps its slowest direction {_span(layer.memory_time)}{lost}. {growth}"
    )


def _span(times: Estimate) -> str:
    """Describe the shortest and the longest time of a head, with their intervals."""
    order = times.mean.argsort()
    shortest, longest = (Estimate(*(edge[place] for edge in times)) for place in (order[0], order[-1]))
    if shortest.mean == torch.inf:
        return "without exponential loss"
    texts = [each.text(_steps) for each in (shortest, longest)]
    return f"for {texts[0] if shortest.mean == longest.mean else ' to '.join(texts)} steps"


def _steps(time: float) -> str:
    return "infinitely many" if time == torch.inf else f"{time:.3g}"
