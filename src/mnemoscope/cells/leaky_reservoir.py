"""The equations of a leaky reservoir with output feedback."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.cells.leaky_units import LeakyUnits


class LeakyReservoir(LeakyUnits):
    """Leaky units with fixed weights and feedback of their outputs; `EchoState` builds one."""

    output_size: int
    """Number of outputs that are fed back; 0 without readout and feedback."""
    recurrent: nn.Parameter
    """W_r (hidden, hidden)."""
    bias: nn.Parameter  # type: ignore  # a reservoir always has one
    feedback: nn.Parameter | None
    """W_fb (hidden, output)."""
    readout: nn.Parameter | None
    """W_o (output, hidden)."""
    _formed: Tensor | None
    """W_c of a frozen copy, which need not be formed again."""
    _formed_of: tuple[int, ...]
    """Versions of the weights that `_formed` was computed from."""

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

    def intermediates(self, x: Tensor, state: Tensor) -> dict[str, Tensor]:
        found = super().intermediates(x, state)
        return found if self.readout is None else {**found, "z": self.read(self.output(state))}

    def _versions(self) -> tuple[int, ...]:
        """Return the version counters of W_r, W_fb and W_o, which change when these are written to."""
        weights = (self.recurrent, self.feedback, self.readout)
        return tuple(weight._version for weight in weights if weight is not None)

    def extra_repr(self) -> str:
        sizes = f"{self.input_size}, {self.hidden_size}, {self.output_size}"
        return f"{sizes}, leak={self.leak:g}, form={self.form}"
