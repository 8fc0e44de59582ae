"""The sLSTM of xLSTM: an LSTM with exponential gates and a normaliser."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from mnemoscope.base.array_types import Float
from mnemoscope.base.validation import check_whole
from mnemoscope.cells.cell import Cell, Step
from mnemoscope.cells.surroundings import Surroundings


class SLSTMState(NamedTuple):
    """Output, memory and normaliser; memory and normaliser are stored divided by e^m. All are (batch, units)."""

    h: Tensor
    c: Tensor
    """Memory, scaled."""
    n: Tensor
    """Normaliser, scaled; positive after the first step."""
    m: Tensor
    """Logarithm of the scale."""


class SLSTM(Cell):
    """`c' = f c + i z`, `n' = f n + i`, `h' = o c' / n'` (Beck et al. 2024, Eq 8-17).

    `z = tanh(.)`, `i = exp(.)`, `o = sigmoid(.)` and f, the logistic function or exp (`forget`), act on affine maps of
    x and h. The recurrent matrices connect only units of one of `heads` groups. c and n are stored divided by e^m,
    where `m' = max(log f + m, log i)`, so that no gate overflows; the output does not depend on m. The gates depend on
    h, so the step is not affine in the state, unlike that of the mLSTM.

    >>> cell = SLSTM(3, 16, heads=2)
    >>> cell(torch.zeros(4, 3), cell.initial_state(4)).c.shape
    torch.Size([4, 16])
    """

    surroundings: ClassVar[Surroundings] = Surroundings(
        input_norm="layer", convolution=4, norm="layer", norm_bias=False
    )
    """The parts around the recurrence in its published block."""
    groups: ClassVar[int] = 1
    """Number of groups of output features that a norm after the gate treats apart."""

    @classmethod
    def for_blocks(cls, width: int, depth: int, **options: Any) -> list[Any]:
        """Return the recurrences of `depth` published blocks, whose inputs have `width` features."""
        return [cls(width, width, **options) for _ in range(depth)]

    def __init__(
        self, input_size: int, hidden_size: int, heads: int = 1, forget: str = "sigmoid", forget_bias: float = 3.0
    ) -> None:
        super().__init__()
        check_whole(1, input_size=input_size, hidden_size=hidden_size, heads=heads)
        if hidden_size % heads:
            raise ValueError(f"hidden_size must be a multiple of heads = {heads}, but is {hidden_size}.")
        if forget not in ("sigmoid", "exponential"):
            raise ValueError(f"forget must be 'sigmoid' or 'exponential', but is {forget!r}.")
        self.input_size, self.hidden_size, self.heads, self.forget = input_size, hidden_size, heads, forget
        self.project = nn.Linear(input_size, 4 * hidden_size)
        """Projection to i, f, z and o."""
        size = hidden_size // heads
        self.recurrent = nn.Parameter(torch.empty(4, heads, size, size).uniform_(-(size**-0.5), size**-0.5))
        with torch.no_grad():
            self.project.bias[:hidden_size] = 0
            self.project.bias[hidden_size : 2 * hidden_size] = forget_bias
        self.norm: nn.Module = nn.Identity()
        """Norm of the output, over the units of each head; a block sets it."""
        self.convolved = 2 * hidden_size
        """Number of features that the short convolution of a block acts on: those of i and f."""

    def initial_state(self, batch: int) -> SLSTMState:
        return SLSTMState(*(self.recurrent.new_zeros(batch, self.hidden_size) for _ in range(4)))

    def output(self, state: SLSTMState) -> Float[Tensor, "batch features"]:
        return state.h

    def prepare(self, xs: Float[Tensor, " ..."]) -> tuple[Tensor, Step]:
        return self.project(xs), self.advance

    def read(self, features: Tensor, state: SLSTMState) -> Float[Tensor, "batch features"]:
        """Return the output in `state`, as a block uses it."""
        return self.norm(state.h.unflatten(-1, (self.heads, -1))).flatten(-2)

    def advance(self, features: Tensor, state: SLSTMState) -> SLSTMState:
        """Return the next state from the projected inputs."""
        z, log_i, log_f, o = self._gates(features, state.h)
        kept = log_f + state.m
        m = torch.maximum(kept, log_i)  # Eq 15
        i, f = torch.exp(log_i - m), torch.exp(kept - m)  # Eq 16, 17
        c, n = f * state.c + i * z, f * state.n + i
        # after a first write that is 0 to rounding, c and n are 0, and so is the output
        return SLSTMState(o * c / n.clamp_min(torch.finfo(n.dtype).tiny), c, n, m)

    def _gates(self, u: Tensor, h: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        by_head = torch.einsum("ghij,bhj->bghi", self.recurrent, h.unflatten(-1, (self.heads, -1)))
        i, f, z, o = (u.unflatten(-1, (4, -1)) + by_head.flatten(-2)).unbind(-2)
        return torch.tanh(z), i, logsigmoid(f) if self.forget == "sigmoid" else f, torch.sigmoid(o)

    def intermediates(self, x: Tensor, state: SLSTMState) -> dict[str, Tensor]:
        gates = self._gates(self.project(x), state.h)
        return dict(zip(("z", "log_i", "log_f", "o"), gates, strict=True))

    def extra_repr(self) -> str:
        return f"heads={self.heads}, forget={self.forget}"
