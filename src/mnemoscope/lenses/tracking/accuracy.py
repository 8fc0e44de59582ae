"""Accuracy at a length, from the distribution of the states: samples of it pass through the network's readout."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.tracking.mixtures import Mixtures
from mnemoscope.lenses.tracking.words import WordReader

NEGLIGIBLE = 1e-9
"""Weight of a component below which it is left out."""


def sampled_accuracy(
    reader: WordReader, mixtures: Mixtures, probabilities: Float[Tensor, " letters"], samples: int
) -> tuple[float, float]:
    """Return the probability of the right answer after one more letter, and its standard error.

    Args:
        reader: the network.
        mixtures: the distribution of states before the letter.
        probabilities: probability of each letter.
        samples: number of states to draw, over all components and letters.

    """
    group, table = reader.group, torch.tensor(reader.group.table)
    classes, parts = (mixtures.weights > NEGLIGIBLE).nonzero(as_tuple=True)
    weights = mixtures.weights[classes, parts]
    number = max(min(samples // (len(weights) * reader.letters), 4096), 16)
    noise = normal_points(number, reader.size)
    states = mixtures.means[classes, parts].unsqueeze(1) + noise @ factor(mixtures.covariances[classes, parts]).mT
    states, owner = states.flatten(0, 1), classes.repeat_interleave(number)
    right = torch.zeros(len(weights), number, dtype=torch.float64)
    for letter, chance in enumerate(probabilities.tolist()):
        letters = torch.full_like(owner, letter)
        _, logits = reader.step(owner % reader.windows, letters, states)
        assert logits is not None
        products = table[group.letters[letter]][owner // reader.windows]
        right += chance * (logits.argmax(-1) == products).view_as(right)
    error = (weights.square() * right.var(1) / number).sum().sqrt()
    return float((weights * right.mean(1)).sum()), float(error)


def factor(covariances: Float[Tensor, "*batch size size"]) -> Float[Tensor, "*batch size size"]:
    """Return L with L L^T equal to each covariance, which may be singular."""
    values, vectors = torch.linalg.eigh(covariances)
    return vectors * values.clamp_min(0).sqrt().unsqueeze(-2)


def normal_points(number: int, size: int, seed: int = 0) -> Float[Tensor, "number size"]:
    """Return points that fill a standard normal distribution more evenly than independent draws."""
    uniform = torch.quasirandom.SobolEngine(size, scramble=True, seed=seed).draw(number, dtype=torch.float64)
    return torch.special.ndtri(uniform.clamp(1e-10, 1 - 1e-10))
