"""Elementwise nonlinearities with what the analyses need to know of them: derivative and range."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import torch
from torch import Tensor, nn

from mnemoscope.shapes import Float


class Nonlinearity(nn.Module):
    """An elementwise function. Its derivative comes from autograd unless a subclass has it in closed form."""

    low: float = -inf
    high: float = inf
    """The range of the function; the analyses use it to bound the state."""

    def derivative(self, z: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Derivative at the pre-activation `z`."""
        pull_back = torch.func.vjp(self.forward, z)[1]
        return pull_back(torch.ones_like(z))[0]


class Tanh(Nonlinearity):
    """The hyperbolic tangent."""

    low, high = -1.0, 1.0

    def forward(self, z: Tensor) -> Tensor:
        return torch.tanh(z)

    def derivative(self, z: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return 1 - torch.tanh(z).square()


class Logistic(Nonlinearity):
    """`1 / (1 + exp(-z))`."""

    low, high = 0.0, 1.0

    def forward(self, z: Tensor) -> Tensor:
        return torch.sigmoid(z)

    def derivative(self, z: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        s = torch.sigmoid(z)
        return s * (1 - s)


class ReLU(Nonlinearity):
    """`max(z, 0)`."""

    low = 0.0

    def forward(self, z: Tensor) -> Tensor:
        return torch.relu(z)

    def derivative(self, z: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return (z > 0).to(z.dtype)


class Linear(Nonlinearity):
    """The identity: a linear network."""

    def forward(self, z: Tensor) -> Tensor:
        return z

    def derivative(self, z: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return torch.ones_like(z)


class ModReLU(Nonlinearity):
    """`z/|z| relu(|z| + b)` with a learned bias per unit (Arjovsky et al. 2016, Eq 8); bias ~ U(-0.01, 0.01)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.empty(size).uniform_(-0.01, 0.01))

    def forward(self, z: Tensor) -> Tensor:
        # sgn(0) = 0 keeps the value and the gradient finite at the origin, for complex z too.
        return torch.sgn(z) * torch.relu(z.abs() + self.bias)

    def derivative(self, z: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return ((z.abs() + self.bias > 0) & (z != 0)).to(z.dtype)


class Elementwise(Nonlinearity):
    """Any elementwise function of one tensor, with its range if the user knows it."""

    def __init__(self, function: Callable[[Tensor], Tensor], low: float = -inf, high: float = inf) -> None:
        super().__init__()
        self.function = function
        self.low, self.high = low, high

    def forward(self, z: Tensor) -> Tensor:
        return self.function(z)


_BY_NAME: dict[str, Callable[[int], Nonlinearity]] = {
    "tanh": lambda size: Tanh(),
    "relu": lambda size: ReLU(),
    "modrelu": ModReLU,
    "logistic": lambda size: Logistic(),
    "linear": lambda size: Linear(),
}
NAMES = tuple(_BY_NAME)


def nonlinearity(which: str | Nonlinearity | Callable[[Tensor], Tensor], size: int) -> Nonlinearity:
    """A nonlinearity for `size` units from its name, from a module, or from any elementwise function."""
    if isinstance(which, Nonlinearity):
        return which
    if isinstance(which, str):
        if which not in _BY_NAME:
            raise ValueError(f"Unknown nonlinearity {which!r}; choose one of {', '.join(NAMES)}, or pass a function.")
        return _BY_NAME[which](size)
    return Elementwise(which)
