"""The score of a network on trials, for lenses that compare variants of one network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from mnemoscope.cells import Model, Network
from mnemoscope.lenses.behaviour import record_behaviour

Score = Callable[[Any], float]
"""From a network to a number; a variant of the network is passed in its place."""


def score_on_trials(
    inputs: Tensor | None,
    targets: Tensor | None,
    score: Score | None,
    *,
    readout: Callable[[Tensor], Tensor] | None = None,
    mask: Tensor | None = None,
) -> tuple[Score, str]:
    """Return the function that scores a variant of a network, and the name of its score.

    It is the given function, or the mean square error or the accuracy of `record_behaviour` on trials with targets.
    """
    if (score is None) == (targets is None):
        raise ValueError("Pass either targets for the inputs, or a score: a function from a network to a number.")
    if score is not None:
        return lambda network: float(torch.no_grad()(score)(network)), "score"
    if inputs is None:
        raise ValueError("Targets belong to inputs; pass the inputs too.")

    def on_trials(network: Network | Model) -> float:
        found = record_behaviour(network, inputs, targets, readout=readout, mask=mask).score
        assert found is not None  # there are targets
        return found

    kind = "mean square error" if targets is not None and targets.is_floating_point() else "accuracy"
    return on_trials, kind


def kept_share(scores: Tensor, worst: float, best: float) -> Tensor:
    """Return which share of the difference between two scores is kept: 1 for `best`, 0 for `worst`.

    It is the same for scores that should be high and for errors, and NaN if the two scores are equal.
    """
    return (scores - worst) / (best - worst) if best != worst else scores * float("nan")
