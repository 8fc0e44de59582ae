"""The distribution of states given the product of the word: mixtures of Gaussians with exact mean and covariance.

A class is an element of the group, with a window of the last letters if the network has a short convolution. Given the
letter, a step is one affine map, so mean and covariance of a class follow from those of the classes before it, and are
exact at every length. With several components for a class, the mixture also follows the shape of the distribution:
after each letter, similar components are merged into one with the same mean and covariance.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.lenses.tracking.words import AffineMaps, WordReader

TINY = torch.finfo(torch.float64).tiny


@dataclass(frozen=True)
class Predecessors:
    """The classes and letters that lead to each class, as many as there are letters."""

    classes: Int[Tensor, "classes letters"]
    letters: Int[Tensor, "classes letters"]
    windows: int

    @classmethod
    def of(cls, reader: WordReader) -> Predecessors:
        """Return the predecessors of the pairs of element and window, numbered `element * windows + window`."""
        group, n, windows = reader.group, reader.letters, reader.windows
        classes, letters = [], []
        for element, window in product(range(group.order), range(windows)):
            last = [window % n] * n if windows > 1 else list(range(n))
            before = [oldest * (windows // n) + window // n for oldest in range(n)] if windows > 1 else [0] * n
            old = [group.table[group.inverses[group.letters[letter]]][element] for letter in last]
            classes.append([g * windows + w for g, w in zip(old, before, strict=True)])
            letters.append(last)
        return cls(torch.tensor(classes), torch.tensor(letters), windows)


@dataclass(frozen=True)
class Mixtures:
    """Gaussian components of each class; the weights of all classes sum to 1."""

    weights: Float[Tensor, "classes components"]
    means: Float[Tensor, "classes components size"]
    covariances: Float[Tensor, "classes components size size"]

    @property
    def probabilities(self) -> Float[Tensor, " classes"]:
        """Probability of each class."""
        return self.weights.sum(1)

    def merged(self) -> Mixtures:
        """Return one Gaussian for each class, with the same mean and covariance."""
        bins = torch.zeros_like(self.weights, dtype=torch.long)
        return _merge(self.weights, self.means, self.covariances, bins, 1)


def start_mixtures(reader: WordReader, probabilities: Float[Tensor, " letters"], components: int) -> Mixtures:
    """Return the states after the first words, one for each window: single points."""
    words = reader.first_words()
    states = reader.run(words)
    weights = torch.zeros(reader.classes, components, dtype=torch.float64)
    means = torch.zeros(*weights.shape, reader.size, dtype=torch.float64)
    for window, word in enumerate(words.T.tolist()):
        element = reader.group.multiply(reader.group.letters[letter] for letter in word)
        weights[element * reader.windows + window, 0] = prod(float(probabilities[letter]) for letter in word)
        means[element * reader.windows + window, 0] = states[window]
    covariances = torch.zeros(*means.shape, reader.size, dtype=torch.float64)
    return Mixtures(weights, means, covariances)


def advance(
    mixtures: Mixtures, maps: AffineMaps, before: Predecessors, probabilities: Float[Tensor, " letters"]
) -> Mixtures:
    """Return the distribution after one more letter."""
    components = mixtures.weights.shape[1]
    window = before.classes % before.windows
    A, b = maps.matrices[window, before.letters], maps.offsets[window, before.letters]  # (classes, letters, ...)
    weights = probabilities[before.letters].unsqueeze(-1) * mixtures.weights[before.classes]
    means = mixtures.means[before.classes] @ A.mT + b.unsqueeze(-2)
    covariances = _conjugate(A, mixtures.covariances[before.classes])
    weights, means, covariances = weights.flatten(1), means.flatten(1, 2), covariances.flatten(1, 2)
    if components == 1:
        return _merge(weights, means, covariances, torch.zeros_like(weights, dtype=torch.long), 1)
    directions = _directions(weights, means, covariances)
    bins = _bins(weights, (means @ directions.unsqueeze(-1)).squeeze(-1), components)
    return _merge(weights, means, covariances, bins, components)


def _conjugate(A: Float[Tensor, "*batch size size"], C: Float[Tensor, "*batch parts size size"]) -> Tensor:
    """Return `A C A^T` for several C with the same A, as two large products."""
    shape = C.shape
    left = A @ C.movedim(-3, -2).flatten(-2)  # (*batch, size, parts * size)
    left = left.unflatten(-1, shape[-3::2]).movedim(-2, -3).flatten(-3, -2)
    return (left @ A.mT).view(shape)


def _merge(weights: Tensor, means: Tensor, covariances: Tensor, bins: Tensor, number: int) -> Mixtures:
    """Return one component for each bin, with the mean and covariance of all that fall into it."""
    share = torch.nn.functional.one_hot(bins, number).mT.to(weights) * weights.unsqueeze(1)  # (classes, bins, old)
    total = share.sum(-1)
    share = share / total.clamp_min(TINY).unsqueeze(-1)
    centres = share @ means
    apart = means - centres.gather(1, bins.unsqueeze(-1).expand_as(means))
    within = covariances + apart.unsqueeze(-1) * apart.unsqueeze(-2)
    return Mixtures(total, centres, torch.einsum("cjk,ckde->cjde", share, within))


def _directions(weights: Tensor, means: Tensor, covariances: Tensor) -> Float[Tensor, "classes size"]:
    """Return the direction from each class to the one that its states may be mistaken for.

    It is the class with the largest variance along the difference of the means, relative to their squared distance.
    """
    whole = _merge(weights, means, covariances, torch.zeros_like(weights, dtype=torch.long), 1)
    centres, reached = whole.means[:, 0], whole.weights[:, 0] > 0
    apart = centres.unsqueeze(0) - centres.unsqueeze(1)  # from the row to the column
    distances = apart.square().sum(-1)
    variances = (apart @ whole.covariances[:, 0] * apart).sum(-1)
    risk = torch.where((distances > 0) & reached, variances / distances.square().clamp_min(TINY), -1.0)
    direction = apart[torch.arange(len(apart)), risk.argmax(1)]
    return direction / torch.linalg.vector_norm(direction, dim=1, keepdim=True).clamp_min(TINY)


def _bins(weights: Tensor, positions: Tensor, number: int) -> Tensor:
    """Return the bin of each component: those next to each other share one, and bins at the ends hold less weight."""
    order = positions.argsort(1)
    sorted_weights = weights.gather(1, order)
    share = sorted_weights.cumsum(1) - sorted_weights / 2
    share = share / weights.sum(1, keepdim=True).clamp_min(TINY)
    edges = torch.special.ndtr(torch.linspace(-2.2, 2.2, number + 1, dtype=torch.float64)[1:-1])
    return torch.zeros_like(order).scatter_(1, order, torch.bucketize(share, edges))


def separation_and_spread(mixtures: Mixtures, windows: int) -> tuple[float, float]:
    """Return the least distance between the mean states of two elements, and the root mean square spread about them."""
    merged = mixtures.merged()
    grouped = Mixtures(
        merged.weights.view(-1, windows),
        merged.means.view(-1, windows, merged.means.shape[-1]),
        merged.covariances.view(-1, windows, *merged.covariances.shape[-2:]),
    ).merged()
    reached = grouped.probabilities > 0
    means = grouped.means[reached, 0]
    distances = torch.cdist(means, means) + torch.diag(torch.full((len(means),), torch.inf, dtype=torch.float64))
    variance = grouped.covariances[:, 0].diagonal(dim1=-2, dim2=-1).sum(-1)
    spread = float((grouped.probabilities * variance).sum().clamp_min(0).sqrt())
    return float(distances.min()) if len(means) > 1 else float("nan"), spread
