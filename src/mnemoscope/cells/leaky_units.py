"""The equations of leaky units, in the current and in the rate form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.cells.cell import Box, Cell, Step
from mnemoscope.cells.enclosure import Enclosure
from mnemoscope.cells.intervals import function_range, product_range
from mnemoscope.cells.nonlinearities import Nonlinearity

Form = Literal["current", "rate"]


class LeakyUnits(Cell):
    """One Euler step of leaky units with recurrent matrix W, input weights B and bias b; subclasses define W.

    - "current": `x' = (1 - leak) x + leak (W phi(x) + B u + b)`; the state is a current, and outputs are rates phi(x);
    - "rate": `r' = (1 - leak) r + leak phi(W r + B u + b)`; the state and the outputs are rates.
    """

    form: Form
    leak: float
    """`dt / tau`, in (0, 1]."""
    hidden_size: int
    phi: Nonlinearity
    drive: nn.Parameter
    """B (hidden, input)."""
    bias: nn.Parameter | None
    """b (hidden)."""
    noise: float = 0.0
    """Standard deviation of noise in each unit in training mode, for a small leak."""

    def combined(self) -> Float[Tensor, "hidden hidden"]:
        """Return W, with the feedback of outputs if there is any."""
        raise NotImplementedError(f"{type(self).__name__} must define combined().")

    def recurrent_input(self) -> Callable[[Tensor], Tensor]:
        """Return the function from rates (..., hidden) to `W r`."""
        W_T = self.combined().mT
        return lambda rates: rates @ W_T

    def initial_state(self, batch: int) -> Float[Tensor, "batch hidden"]:
        return torch.zeros(batch, self.hidden_size, dtype=self.drive.dtype, device=self.drive.device)

    def output(self, state: Float[Tensor, "*batch hidden"]) -> Float[Tensor, "*batch hidden"]:
        """Return the rates r."""
        return self.phi(state) if self.form == "current" else state

    def driven(self, xs: Float[Tensor, "*batch input"]) -> Float[Tensor, "*batch hidden"]:
        """Return `B u + b`."""
        us = xs @ self.drive.mT
        return us if self.bias is None else us + self.bias

    def with_noise(self, us: Float[Tensor, "*batch hidden"]) -> Float[Tensor, "*batch hidden"]:
        """Return `B u + b` with the noise of training mode."""
        if not (self.training and self.noise):
            return us
        return us + self.noise * (2 / self.leak) ** 0.5 * torch.randn_like(us)

    def prepare(self, xs: Float[Tensor, " ..."]) -> tuple[Tensor, Step]:
        recurrent, leak, us = self.recurrent_input(), self.leak, self.with_noise(self.driven(xs))
        if self.form == "current":
            return us, lambda u, x: (1 - leak) * x + leak * (recurrent(self.phi(x)) + u)
        return us, lambda u, r: (1 - leak) * r + leak * self.phi(recurrent(r) + u)

    def jacobian(self, x: Tensor, state: Tensor) -> Tensor:
        """Return `(1 - leak) I + leak W diag(phi'(x))`; in the rate form `diag(phi') W` (Jang, Eq 20)."""
        W = self.combined()
        if self.form == "current":
            J = self.leak * self.phi.derivative(state).unsqueeze(-2) * W
        else:
            slope = self.phi.derivative(state @ W.mT + self.driven(x))
            J = self.leak * slope.unsqueeze(-1) * W
        J.diagonal(dim1=-2, dim2=-1).add_(1 - self.leak)
        return J

    def bounds(self, low: Tensor, high: Tensor) -> Box | None:
        """Bound rates by the range of phi, and currents by the range of W r + B u + b over such rates."""
        rates = function_range(self.phi, self.drive[:, 0])
        if rates is None or self.form == "rate":
            return rates
        least, most = product_range(self.combined(), *rates)
        from_low, from_high = product_range(self.drive, low, high)
        # A larger box is invariant too. Without the margin, a unit without any input would have a box of width 0,
        # which rounding errors leave.
        margin = 1e-6 * (1 + torch.maximum(least.abs(), most.abs()).amax())
        bias = 0 if self.bias is None else self.bias
        return least + from_low + bias - margin, most + from_high + bias + margin

    def enclose(self, x: Enclosure, state: Enclosure) -> Enclosure | None:
        u = x.linear(self.drive, self.bias)
        inner = self.phi.enclose(state if self.form == "current" else state.linear(self.combined()) + u)
        if inner is None:
            return None
        driven = inner.linear(self.combined()) + u if self.form == "current" else inner
        return state * (1 - self.leak) + driven * self.leak

    def intermediates(self, x: Tensor, state: Tensor) -> dict[str, Tensor]:
        return {"pre": self.recurrent_input()(self.output(state)) + self.driven(x)}


def check_leak(leak: float) -> float:
    """Return the leak as a float; raise unless it is in (0, 1]."""
    if not 0 < leak <= 1:
        raise ValueError(f"leak = dt / tau is in (0, 1], but is {leak}.")
    return float(leak)
