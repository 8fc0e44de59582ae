"""Accuracy on drawn words, and moments from samples, for networks whose step is not affine in the state."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.lenses.tracking.accuracy import factor
from mnemoscope.lenses.tracking.mixtures import TINY, Mixtures, Predecessors
from mnemoscope.lenses.tracking.words import WordReader


def drawn_accuracy(
    reader: WordReader, probabilities: Float[Tensor, " letters"], length: int, words: int, seed: int = 0
) -> Float[Tensor, " length"]:
    """Return the share of right answers after each letter, over random words."""
    group, table = reader.group, torch.tensor(reader.group.table)
    generator = seeded_generator(seed)
    drawn = torch.multinomial(probabilities, words * length, replacement=True, generator=generator)
    product, right = torch.zeros(words, dtype=torch.long), []
    for letters, logits in reader.follow(drawn.view(length, words)):
        product = table[torch.tensor(group.letters)[letters], product]
        right.append((logits.argmax(-1) == product).to(torch.float64).mean())
    return torch.stack(right)


def advance_by_samples(
    reader: WordReader,
    mixtures: Mixtures,
    before: Predecessors,
    probabilities: Float[Tensor, " letters"],
    noise: Float[Tensor, "number size"],
) -> Mixtures:
    """Return mean and covariance of each class after one more letter, if the states were Gaussian before it.

    Points of the Gaussian of each class pass through the step of the network. The points have exactly the mean and
    covariance of the class, so that an affine step has no sampling error.
    """
    classes, number = len(mixtures.weights), len(noise)
    states = mixtures.means + noise @ factor(mixtures.covariances[:, 0]).mT  # (classes, number, size)
    window = torch.arange(classes).repeat_interleave(number) % reader.windows
    images = torch.stack(
        [
            reader.step(window, torch.full_like(window, letter), states.flatten(0, 1), logits=False)[0]
            for letter in range(reader.letters)
        ]
    ).view(reader.letters, classes, number, -1)
    weights = probabilities[before.letters] * mixtures.weights[before.classes, 0]  # (classes, letters)
    total = weights.sum(1)
    share = weights / total.clamp_min(TINY).unsqueeze(1)
    arrived = images[before.letters, before.classes]  # (classes, letters, number, size)
    means = torch.einsum("cl,clns->cs", share, arrived) / number
    apart = arrived - means[:, None, None]
    covariances = torch.einsum("cl,clns,clnt->cst", share, apart, apart) / number
    return Mixtures(total.unsqueeze(1), means.unsqueeze(1), covariances.unsqueeze(1))


def balanced_noise(size: int, seed: int) -> Float[Tensor, "number size"]:
    """Return normal points, twice as many as needed or more, whose mean is exactly 0 and covariance exactly 1."""
    half = max(size + 32, 128)
    draws = torch.randn(half, size, generator=seeded_generator(seed), dtype=torch.float64)
    points = torch.cat([draws, -draws])
    covariance = points.T @ points / len(points)
    return torch.linalg.solve_triangular(torch.linalg.cholesky(covariance), points.T, upper=False).T
