"""Trained estimates of the relevance of a new state (Kerg, sections 4.8 and 7.5, describes both without a formula)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from mnemoscope.base.array_types import Bool, Float


class Relevance(NamedTuple):
    """Relevance of a state when it is stored."""

    bias: Float[Tensor, "batch 1"] | None = None
    """Bias of its alignment scores; None: no bias."""
    score: Float[Tensor, " batch"] | None = None
    """Initial relevance; None: 0."""


class Learned(nn.Module):
    """`r = sigmoid(g(h))` with a network g of one hidden layer; r is the relevance of h, log r its bias."""

    def __init__(self, size: int, hidden: int = 16) -> None:
        super().__init__()
        self.g = nn.Sequential(nn.Linear(size, hidden), nn.Tanh(), nn.Linear(hidden, 1))

    def forward(
        self, s: Tensor, h: Float[Tensor, "batch features"], x: Tensor | None, present: Tensor | None
    ) -> Relevance:
        log_r = logsigmoid(self.g(h))
        return Relevance(log_r, log_r.exp().squeeze(-1))


class Surprise(nn.Module):
    """`|x_t - P s_{t-1} - b|^2`, the error of a linear prediction of the input by the macro-state before it.

    The task loss has no gradient for P. Instead there is a penalty with gradients for P and b only: the mean error over
    all steps in training mode since the last call of `penalty`. The gradient is accumulated step by step, so that no
    step is stored. Steps under `torch.no_grad()` or a `torch.func` transform do not count.
    """

    def __init__(self, input_size: int | None, size: int) -> None:
        super().__init__()
        if input_size is None:
            raise ValueError('The score "surprise" predicts inputs, and needs a cell with an input_size.')
        self.predict = nn.Linear(size, input_size)
        self._number = 0
        self._sums = (torch.zeros(()),) * 3
        """The error, and its gradients for P and b, summed over the steps."""

    def forward(
        self,
        s: Float[Tensor, "batch features"],
        h: Tensor,
        x: Float[Tensor, "batch inputs"],
        present: Bool[Tensor, " batch"] | None,
    ) -> Relevance:
        wrong = self.predict(s) - x
        if self.training and torch.is_grad_enabled() and not torch._C._are_functorch_transforms_active():
            self._count(s.detach(), wrong.detach(), present)
        return Relevance(None, wrong.square().sum(-1))

    def penalty(self) -> Float[Tensor, ""] | None:
        """Return the mean error of the steps since the last call, or None if there were none."""
        if not self._number:
            return None
        P, b, (error, into_P, into_b) = self.predict.weight, self.predict.bias, self._sums
        gradient = ((P - P.detach()) * into_P).sum() + ((b - b.detach()) * into_b).sum()
        penalty = (error + gradient) / self._number  # the error, with the accumulated gradient
        self._number = 0
        return penalty

    @torch.no_grad()
    def _count(self, s: Tensor, wrong: Tensor, present: Tensor | None) -> None:
        if present is not None:
            wrong = wrong * present.unsqueeze(-1)
        new = (wrong.square().sum(), 2 * wrong.T @ s, 2 * wrong.sum(0))
        self._sums = tuple(map(torch.add, new, self._sums)) if self._number else new
        self._number += len(s) if present is None else int(present.sum())
