"""The equations of a leaky reservoir with output feedback."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.cells.cell import Box, Cell, Step
from mnemoscope.cells.enclosure import Enclosure
from mnemoscope.cells.intervals import function_range, product_range
from mnemoscope.cells.nonlinearities import Nonlinearity

Form = Literal["current", "rate"]


class LeakyReservoir(Cell):
    """One Euler step of a leaky reservoir; `EchoState` builds one and documents its two forms."""

    form: Form
    leak: float
    """`dt / tau`, in (0, 1]."""
    hidden_size: int
    output_size: int
    """Number of outputs that are fed back; 0 without readout and feedback."""
    phi: Nonlinearity
    recurrent: nn.Parameter
    """W_r (hidden, hidden)."""
    drive: nn.Parameter
    """B (hidden, input)."""
    bias: nn.Parameter
    """b (hidden)."""
    feedback: nn.Parameter | None
    """W_fb (hidden, output)."""
    readout: nn.Parameter | None
    """W_o (output, hidden)."""
    _formed: Tensor | None
    """W_c of a frozen copy, which need not be formed again."""
    _formed_of: tuple[int, ...]
    """Versions of the weights that `_formed` was computed from."""

    def initial_state(self, batch: int) -> Float[Tensor, "batch hidden"]:
        return torch.zeros(batch, self.hidden_size, dtype=self.recurrent.dtype, device=self.recurrent.device)

    def output(self, state: Float[Tensor, "*batch hidden"]) -> Float[Tensor, "*batch hidden"]:
        """Return the rates r."""
        return self.phi(state) if self.form == "current" else state

    def read(self, rates: Float[Tensor, "*batch hidden"]) -> Float[Tensor, "*batch output"]:
        """Return the outputs z = W_o r (Jang, Eq 23)."""
        if self.readout is None:
            raise ValueError("This reservoir has no readout; give it an output_size, or put it in a Model.")
        return rates @ self.readout.mT

    def combined(self) -> Float[Tensor, "hidden hidden"]:
        """Return `W_c = W_r + W_fb W_o` (Jang, Eq 26)."""
        if self._formed is not None and self._formed_of == self._versions():
            return self._formed
        if self.feedback is None or self.readout is None:
            return self.recurrent
        return torch.addmm(self.recurrent, self.feedback, self.readout)

    def prepare(self, xs: Float[Tensor, " ..."]) -> tuple[Tensor, Step]:
        W_T, leak = self.combined().mT, self.leak
        us = xs @ self.drive.mT + self.bias
        if self.form == "current":
            return us, lambda u, x: (1 - leak) * x + leak * (self.phi(x) @ W_T + u)
        return us, lambda u, r: (1 - leak) * r + leak * self.phi(r @ W_T + u)

    def jacobian(self, x: Tensor, state: Tensor) -> Tensor:
        """Return `(1 - leak) I + leak W_c diag(r'(x))`; in the rate form `diag(phi') W_c` (Jang, Eq 20 on W_c)."""
        W = self.combined()
        if self.form == "current":
            J = self.leak * self.phi.derivative(state).unsqueeze(-2) * W
        else:
            slope = self.phi.derivative(state @ W.mT + x @ self.drive.mT + self.bias)
            J = self.leak * slope.unsqueeze(-1) * W
        J.diagonal(dim1=-2, dim2=-1).add_(1 - self.leak)
        return J

    def bounds(self, low: Tensor, high: Tensor) -> Box | None:
        """Bound rates by the range of phi, and currents by the range of W_c r + B u + b over such rates."""
        rates = function_range(self.phi, self.bias)
        if rates is None or self.form == "rate":
            return rates
        least, most = product_range(self.combined(), *rates)
        from_low, from_high = product_range(self.drive, low, high)
        # A larger box is invariant too. Without the margin, a unit without any input would have a box of width 0,
        # which rounding errors leave.
        margin = 1e-6 * (1 + torch.maximum(least.abs(), most.abs()).amax())
        return least + from_low + self.bias - margin, most + from_high + self.bias + margin

    def enclose(self, x: Enclosure, state: Enclosure) -> Enclosure | None:
        u = x.linear(self.drive, self.bias)
        inner = self.phi.enclose(state if self.form == "current" else state.linear(self.combined()) + u)
        if inner is None:
            return None
        driven = inner.linear(self.combined()) + u if self.form == "current" else inner
        return state * (1 - self.leak) + driven * self.leak

    def intermediates(self, x: Tensor, state: Tensor) -> dict[str, Tensor]:
        pre = self.output(state) @ self.combined().mT + x @ self.drive.mT + self.bias
        return {"pre": pre} if self.readout is None else {"pre": pre, "z": self.read(self.output(state))}

    def _versions(self) -> tuple[int, ...]:
        """Return the version counters of W_r, W_fb and W_o, which change when these are written to."""
        weights = (self.recurrent, self.feedback, self.readout)
        return tuple(weight._version for weight in weights if weight is not None)

    def extra_repr(self) -> str:
        sizes = f"{self.input_size}, {self.hidden_size}, {self.output_size}"
        return f"{sizes}, leak={self.leak:g}, form={self.form}"
