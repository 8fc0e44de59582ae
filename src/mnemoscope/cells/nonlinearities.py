"""Elementwise nonlinearities, with the derivative and the range that analyses need."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.cells.enclosure import Enclosure
from mnemoscope.kernels import ACTIVATIONS, Activation


class Nonlinearity(nn.Module):
    """An elementwise function. Its derivative comes from autograd unless a subclass has it in closed form."""

    low: float = -inf
    """Lower end of the function's range, which bounds the state."""
    high: float = inf
    """Upper end of the function's range."""

    def description(self) -> Activation | None:
        """Return the activation that the kernels can fuse, or None if they must call this module."""
        return None

    def derivative(self, z: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return the derivative at the pre-activation `z`."""
        pull_back = torch.func.vjp(self.forward, z)[1]
        return pull_back(torch.ones_like(z))[0]

    def enclose(self, z: Enclosure) -> Enclosure | None:
        """Return the range of the function and of its derivative over ranges of `z`, or None if they are not known."""
        return None


class FusableNonlinearity(Nonlinearity):
    """A nonlinearity that the kernels implement and can fuse with a scan."""

    bias: nn.Parameter | None

    def __init__(self, activation: Activation) -> None:
        super().__init__()
        self.activation = activation
        self.low, self.high = activation.low, activation.high
        self.register_parameter("bias", None)

    def description(self) -> Activation | None:
        overridden = type(self).forward is not FusableNonlinearity.forward or "forward" in vars(self)
        return None if overridden else self.activation

    def forward(self, z: Tensor) -> Tensor:
        return self.activation(z, self.bias)

    def derivative(self, z: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return self.activation.pull_back(torch.ones_like(z), self(z), self.bias)

    def enclose(self, z: Enclosure) -> Enclosure | None:
        activation = self.description()
        if activation is None:
            return None
        if activation.name == "modrelu":
            if self.bias is None or bool((self.bias > 0).any()):
                return None  # it jumps at 0
            return (z + self.bias).relu() - (z * -1 + self.bias).relu()
        known = {"tanh": Enclosure.tanh, "logistic": Enclosure.sigmoid, "relu": Enclosure.relu, "linear": lambda z: z}
        return known[activation.name](z) if activation.name in known else None

    def extra_repr(self) -> str:
        return self.activation.name


class ModReLU(FusableNonlinearity):
    """`z/|z| relu(|z| + b)` with a learned bias per unit (Arjovsky et al. 2016, Eq 8); bias ~ U(-0.01, 0.01)."""

    def __init__(self, size: int) -> None:
        super().__init__(ACTIVATIONS["modrelu"])
        self.bias = nn.Parameter(torch.empty(size).uniform_(-0.01, 0.01))


class Elementwise(Nonlinearity):
    """Any elementwise function of one tensor, with its range if it is known."""

    def __init__(self, function: Callable[[Tensor], Tensor], low: float = -inf, high: float = inf) -> None:
        super().__init__()
        self.function = function
        self.low, self.high = low, high

    def forward(self, z: Tensor) -> Tensor:
        return self.function(z)


_BY_NAME: dict[str, Callable[[int], Nonlinearity]] = {
    name: ModReLU if activation.takes_bias else lambda size, activation=activation: FusableNonlinearity(activation)
    for name, activation in ACTIVATIONS.items()
}
NAMES = tuple(_BY_NAME)
"""Names that `make_nonlinearity` accepts."""


def make_nonlinearity(which: str | Nonlinearity | Callable[[Tensor], Tensor], size: int) -> Nonlinearity:
    """Return a nonlinearity for `size` units, given its name, a module, or any elementwise function."""
    if isinstance(which, Nonlinearity):
        return which
    if isinstance(which, str):
        if which not in _BY_NAME:
            raise ValueError(f"Unknown nonlinearity {which!r}; choose one of {', '.join(NAMES)}, or pass a function.")
        return _BY_NAME[which](size)
    return Elementwise(which)
