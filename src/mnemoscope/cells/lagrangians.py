"""Lagrangians: convex functions L whose gradient sigma = grad L is a nonlinearity. Energies are built from them.

| name | sigma(x) | L(x) | L*(g), the convex conjugate |
|---|---|---|---|
| tanh | tanh(beta x) | sum log cosh(beta x) / beta | sum (g artanh g + log(1 - g^2) / 2) / beta |
| logistic | 1 / (1 + e^(-beta x)) | sum log(1 + e^(beta x)) / beta | sum (g log g + (1 - g) log(1 - g)) / beta |
| softmax | softmax(beta x) | log sum e^(beta x) / beta | sum g log g / beta |
| relu | max(x, 0) | sum max(x, 0)^2 / 2 | sum g^2 / 2 |
| polynomial | sgn(x) abs(x)^(n-1) | sum abs(x)^n / n | sum abs(g)^m / m, 1/n + 1/m = 1 |
| linear | x | sum x^2 / 2 | sum g^2 / 2 |

L* is infinite where no x has sigma(x) = g, not even in the limit.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, log

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from mnemoscope.base.array_types import Float


class Lagrangian(nn.Module):
    """A convex L and its gradient sigma over the last dimension. This base class is "linear": L = |x|^2 / 2."""

    name = "linear"
    elementwise = True
    """Whether L is a sum over units, so that sigma acts on each unit separately."""
    low: float = -inf
    """Lower end of the range of sigma."""
    high: float = inf
    """Upper end of the range of sigma."""

    def forward(self, x: Float[Tensor, "*batch units"]) -> Float[Tensor, "*batch units"]:
        """Return sigma(x)."""
        return x

    def value(self, x: Float[Tensor, "*batch units"]) -> Float[Tensor, "*batch"]:
        """Return L(x)."""
        return x.square().sum(-1) / 2

    def conjugate(self, g: Float[Tensor, "*batch units"]) -> Float[Tensor, "*batch"]:
        """Return L*(g) = max over x of x.g - L(x); at g = sigma(x) it is x.g - L(x)."""
        return g.square().sum(-1) / 2

    def slope(self, x: Float[Tensor, "*batch units"]) -> Float[Tensor, "*batch units"]:
        """Return the derivative of an elementwise sigma, unit by unit."""
        if not self.elementwise:
            raise ValueError(f"{self.name} is not elementwise; its derivative is a matrix, `jacobian`.")
        return torch.func.vjp(self.forward, x)[1](torch.ones_like(x))[0]

    def jacobian(self, x: Float[Tensor, "*batch units"]) -> Float[Tensor, "*batch units units"]:
        """Return the derivative of sigma: the Hessian of L, symmetric and positive semi-definite."""
        if self.elementwise:
            return torch.diag_embed(self.slope(x))
        flat = x.reshape(-1, x.shape[-1])
        return torch.func.vmap(torch.func.jacrev(self.forward))(flat).reshape(*x.shape, x.shape[-1])

    def divergence(self, a: Float[Tensor, "*batch units"], b: Float[Tensor, "*batch units"]) -> Float[Tensor, "*batch"]:
        """Return the Bregman divergence D(a || b) = L(a) - L(b) - sigma(b).(a - b), which is never negative."""
        return self.value(a) - self.value(b) - (self(b) * (a - b)).sum(-1)

    def extra_repr(self) -> str:
        return self.name


class _Sharpened(Lagrangian):
    """Base class of Lagrangians with an inverse temperature: sigma(beta x) and L(beta x) / beta."""

    def __init__(self, beta: float = 1.0) -> None:
        super().__init__()
        if not 0 < beta < inf:
            raise ValueError(f"beta must be positive and finite, but is {beta}.")
        self.beta = float(beta)

    def extra_repr(self) -> str:
        return self.name if self.beta == 1 else f"{self.name}, beta = {self.beta:g}"


class Tanh(_Sharpened):
    """tanh(beta x)."""

    name, low, high = "tanh", -1.0, 1.0

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.beta * x)

    def value(self, x: Tensor) -> Tensor:
        z = self.beta * x
        small, size = z.clamp(-1, 1), z.abs()
        # log cosh z, accurate near 0, where it is about z^2 / 2, and without overflow far from 0
        near = torch.log1p(2 * torch.sinh(small / 2).square())
        far = size + softplus(-2 * size) - log(2)
        return torch.where(size < 1, near, far).sum(-1) / self.beta

    def conjugate(self, g: Tensor) -> Tensor:
        inner, edge = g.clamp(-0.5, 0.5), g.clamp(-1, 1)
        near = inner * torch.atanh(inner) + torch.log1p(-inner.square()) / 2
        far = (torch.special.xlog1py(1 + edge, edge) + torch.special.xlog1py(1 - edge, -edge)) / 2
        return _within(g, -1, 1, torch.where(g.abs() < 0.5, near, far)).sum(-1) / self.beta

    def slope(self, x: Tensor) -> Tensor:
        z = 2 * self.beta * x  # 1 - tanh^2, accurate and differentiable even where cosh overflows
        return 4 * self.beta * torch.sigmoid(z) * torch.sigmoid(-z)


class Logistic(_Sharpened):
    """The logistic function of beta x."""

    name, low, high = "logistic", 0.0, 1.0

    def forward(self, x: Tensor) -> Tensor:
        return torch.sigmoid(self.beta * x)

    def value(self, x: Tensor) -> Tensor:
        return softplus(self.beta * x).sum(-1) / self.beta

    def conjugate(self, g: Tensor) -> Tensor:
        edge = g.clamp(0, 1)
        entropy = torch.special.xlogy(edge, edge) + torch.special.xlog1py(1 - edge, -edge)
        return _within(g, 0, 1, entropy).sum(-1) / self.beta

    def slope(self, x: Tensor) -> Tensor:
        return self.beta * self(x) * self(-x)


class Softmax(_Sharpened):
    """softmax(beta x), which is not elementwise."""

    name, low, high, elementwise = "softmax", 0.0, 1.0, False

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(self.beta * x, -1)

    def value(self, x: Tensor) -> Tensor:
        return torch.logsumexp(self.beta * x, -1) / self.beta

    def conjugate(self, g: Tensor) -> Tensor:
        normalised = (g.sum(-1) - 1).abs() <= 1e-6  # the accuracy of a softmax in float32
        edge = g.clamp(0, 1)
        values = _within(g, 0, 1, torch.special.xlogy(edge, edge)).sum(-1) / self.beta
        return torch.where(normalised, values, inf)

    def jacobian(self, x: Tensor) -> Tensor:
        s = self(x)
        return self.beta * (torch.diag_embed(s) - s.unsqueeze(-1) * s.unsqueeze(-2))


class ReLU(Lagrangian):
    """max(x, 0)."""

    name, low = "relu", 0.0

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x)

    def value(self, x: Tensor) -> Tensor:
        return torch.relu(x).square().sum(-1) / 2

    def conjugate(self, g: Tensor) -> Tensor:
        return _within(g, 0, inf, g.square() / 2).sum(-1)

    def slope(self, x: Tensor) -> Tensor:
        return (x > 0).to(x.dtype)


class Polynomial(Lagrangian):
    """sgn(x) |x|^(degree - 1), the gradient of sum |x|^degree / degree; dense associative memories have degree > 2."""

    name = "polynomial"

    def __init__(self, degree: float = 3.0) -> None:
        super().__init__()
        if not 1 < degree < inf:
            raise ValueError(f"|x|^degree has a convex conjugate for 1 < degree < infinity, but degree is {degree}.")
        self.degree = float(degree)

    def forward(self, x: Tensor) -> Tensor:
        if self.degree < 2:  # the slope at 0 is infinite
            return x.sign() * x.abs() ** (self.degree - 1)
        return x * x.abs() ** (self.degree - 2)

    def value(self, x: Tensor) -> Tensor:
        return (x.abs() ** self.degree).sum(-1) / self.degree

    def conjugate(self, g: Tensor) -> Tensor:
        dual = self.degree / (self.degree - 1)
        return (g.abs() ** dual).sum(-1) / dual

    def slope(self, x: Tensor) -> Tensor:
        return (self.degree - 1) * x.abs() ** (self.degree - 2)

    def extra_repr(self) -> str:
        return f"polynomial, degree = {self.degree:g}"


LAGRANGIANS: dict[str, Callable[[], Lagrangian]] = {
    kind.name: kind for kind in (Lagrangian, Tanh, Logistic, Softmax, ReLU, Polynomial)
}
"""Lagrangians by name."""


def make_lagrangian(which: str | Lagrangian) -> Lagrangian:
    """Return the named Lagrangian with its default options; a Lagrangian is returned unchanged.

    >>> sigma = make_lagrangian("softmax")
    >>> x = torch.tensor([1.0, 2.0])
    >>> torch.allclose(sigma.conjugate(sigma(x)), (x * sigma(x)).sum() - sigma.value(x))
    True
    """
    if isinstance(which, Lagrangian):
        return which
    if which not in LAGRANGIANS:
        raise ValueError(
            f"Unknown nonlinearity {which!r}; choose one of {', '.join(LAGRANGIANS)}, or pass a Lagrangian."
        )
    return LAGRANGIANS[which]()


def _within(g: Tensor, low: float, high: float, values: Tensor) -> Tensor:
    """Return `values` where g is in [low, high] up to rounding, and infinity elsewhere."""
    slack = 4 * torch.finfo(g.dtype).eps
    inside = (g >= low - slack) & (g <= high + slack)
    return torch.where(inside, values, inf)
