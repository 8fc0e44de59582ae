"""The sLSTM of xLSTM: an LSTM with exponential gates and a normaliser."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, silu

from mnemoscope.base.array_types import Float
from mnemoscope.base.validation import check_whole
from mnemoscope.cells.block_diagonal import BlockDiagonal
from mnemoscope.cells.cell import Step
from mnemoscope.cells.convolution import Twice
from mnemoscope.cells.fast_path import FastPath, NoFastPath
from mnemoscope.cells.fused_gated import why_unusual
from mnemoscope.cells.recurrence import Recurrence
from mnemoscope.cells.surroundings import Surroundings
from mnemoscope.kernels.slstm import LARGEST, new_scale, no_slstm_scan, slstm_scan
from mnemoscope.kernels.stepping import held_steps

HEADS_OPERATIONS = 4e6
"""Operations of a step's product over all heads up to which the fused scan takes several heads: some 40 microseconds,
less than the calls of a step in the loop."""


class SLSTMState(NamedTuple):
    """Output, memory and normaliser; memory and normaliser are stored divided by e^m. All are (batch, units)."""

    h: Tensor
    c: Tensor
    """Memory, scaled."""
    n: Tensor
    """Normaliser, scaled; positive after the first step."""
    m: Tensor
    """Logarithm of the scale."""


class SLSTM(Recurrence):
    """`c' = f c + i z`, `n' = f n + i`, `h' = o c' / n'` (Beck et al. 2024, Eq 8-17).

    `z = tanh(.)`, `i = exp(.)`, `o = sigmoid(.)` and f, the logistic function or exp (`forget`), act on affine maps of
    x and h. The recurrent matrices connect only units of one of `heads` groups. c and n are stored divided by e^m,
    where `m' = max(log f + m, log i)`, or log i at the first write, so that no gate overflows; the output does not
    depend on m. The gates depend on h, so the step is not affine in the state, unlike that of the mLSTM.

    >>> cell = SLSTM(3, 16, heads=2)
    >>> cell(torch.zeros(4, 3), cell.initial_state(4)).c.shape
    torch.Size([4, 16])
    """

    whole_sequences = True
    called_by_fast_path = frozenset({"preactivations"})
    surroundings: ClassVar[Surroundings] = Surroundings(
        input_norm="layer",
        convolution=4,
        norm="layer",
        norm_bias=False,
        projection=False,
        feed_forward="geglu",
        inner=4 / 3,
    )

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
        self.norm = nn.Identity()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        lineage = cls.__mro__
        owner = next(index for index, base in enumerate(lineage) if "run" in vars(base))
        defined = set().union(*(vars(base) for base in lineage[:owner]))
        if defined & {"advance", "_advance", "_gates", "read"}:
            cls.whole_sequences = False  # `run` may not compute the same as these steps

    @classmethod
    def for_blocks(cls, width: int, depth: int, **options: Any) -> list[Any]:
        return [BlockSLSTM(width, level / max(depth - 1, 1), **options) for level in range(depth)]

    def initial_state(self, batch: int) -> SLSTMState:
        return SLSTMState(*(self.recurrent.new_zeros(batch, self.hidden_size) for _ in range(4)))

    def output(self, state: SLSTMState) -> Float[Tensor, "batch features"]:
        return state.h

    def prepare(self, xs: Float[Tensor, " ..."]) -> tuple[Tensor, Step]:
        return self.project(xs), self.advance

    def fast_path(self, xs: Tensor, state: SLSTMState, mask: Tensor | None) -> FastPath | NoFastPath:
        reason = self._why_not_fused(xs, state, mask)
        if reason is not None:
            return NoFastPath(reason)
        name = f"fused slstm ({xs.device.type})"
        return FastPath(name, lambda: self._fused(self.preactivations(self.project(xs)), state, mask))

    def _why_not_fused(self, xs: Tensor, state: SLSTMState, mask: Tensor | None) -> str | None:
        reason = why_unusual(xs, *state, *self.parameters())
        on_cpu = xs.device.type == "cpu"
        if reason is None and torch.compiler.is_compiling() and not on_cpu:
            reason = "the fused scan of an sLSTM was not tried under torch.compile on a GPU"
        if reason is None:
            reason = no_slstm_scan(xs.device, xs.dtype, self.hidden_size, xs.shape[1])
        operations = 2 * xs.shape[1] * 4 * self.hidden_size**2
        if reason is None and on_cpu and self.heads > 1 and operations > HEADS_OPERATIONS:
            reason = "one product for all heads would take longer than a product for each"
        return reason

    def _fused(self, us: Tensor, state: SLSTMState, mask: Tensor | None) -> tuple[Tensor, SLSTMState]:
        V = torch.cat([torch.block_diag(*by_head) for by_head in self.recurrent])  # (gates, units)
        hs, last = slstm_scan(us, state, V, self.forget == "exponential", mask)
        return hs, SLSTMState(*last)

    def run(
        self, features: Float[Tensor, "time batch features"], state: SLSTMState, mask: Tensor | None
    ) -> tuple[Tensor, SLSTMState]:
        """Return the outputs of a whole sequence and the last state.

        The inputs of all gates are computed at once; the steps of the state follow as one operation, or in a loop.
        """
        us = self.preactivations(features)
        if self._why_not_fused(us, state, mask) is None:
            hs, state = self._fused(us, state, mask)
        else:
            steps = []
            for u, held in zip(us.unbind(), held_steps(mask, len(us)), strict=True):
                after = self._advance(u, state)
                if held is not None:
                    after = SLSTMState(*(torch.where(held, *pair) for pair in zip(state, after, strict=True)))
                state = after
                steps.append(state.h)
            hs = torch.stack(steps)
        return self.read(features, state._replace(h=hs)), state

    def kernel_name(self, device: torch.device, dtype: torch.dtype) -> str:
        return f"slstm, with the inputs of all steps at once ({device.type})"

    def read(self, features: Tensor, state: SLSTMState) -> Float[Tensor, "*batch features"]:
        """Return the output in `state`, as a block uses it."""
        return self.norm(state.h.unflatten(-1, (self.heads, -1))).flatten(-2)

    def advance(self, features: Tensor, state: SLSTMState) -> SLSTMState:
        """Return the next state from the projected inputs."""
        return self._advance(self.preactivations(features), state)

    def _advance(self, u: Tensor, state: SLSTMState) -> SLSTMState:
        """Return the next state from what the gates take from the inputs."""
        z, log_i, log_f, o = self._gates(u, state.h)
        kept = log_f + state.m
        m = new_scale(kept, log_i, state.n)  # Eq 15
        i, f = torch.exp(log_i - m), torch.exp((kept - m).clamp_max(LARGEST))  # Eq 16, 17
        c, n = f * state.c + i * z, f * state.n + i
        return SLSTMState(o * c / n.clamp_min(torch.finfo(n.dtype).tiny), c, n, m)

    def preactivations(self, features: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch gates"]:
        """Return what i, f, z and o take from the inputs, in this order: here the features."""
        return features

    def _gates(self, u: Tensor, h: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        by_head = torch.einsum("ghij,bhj->bghi", self.recurrent, h.unflatten(-1, (self.heads, -1)))
        i, f, z, o = (u.unflatten(-1, (4, -1)) + by_head.flatten(-2)).unbind(-2)
        return torch.tanh(z), i, logsigmoid(f) if self.forget == "sigmoid" else f, torch.sigmoid(o)

    def intermediates(self, x: Tensor, state: SLSTMState) -> dict[str, Tensor]:
        gates = self._gates(self.preactivations(self.project(x)), state.h)
        return dict(zip(("z", "log_i", "log_f", "o"), gates, strict=True))

    def extra_repr(self) -> str:
        return f"heads={self.heads}, forget={self.forget}"


class BlockSLSTM(SLSTM):
    """The sLSTM of a published block: i and f see the last few inputs (Beck et al. 2024).

    i and f are maps of SiLU of the convolved inputs, z and o of the inputs themselves; the matrices have a block for
    each head. At the start the recurrent matrices are 0, and the biases of f fall from 5 to -7 within a head, more
    slowly the higher the block is: `height` is 0 in the first block and 1 in the last.
    """

    def __init__(self, width: int, height: float, heads: int = 1, forget: str = "sigmoid") -> None:
        super().__init__(width, width, heads, forget)
        self.convolved, self.project = width, Twice(width)
        self.maps = nn.ModuleList([BlockDiagonal(width, heads, bias=False) for _ in range(4)])
        """Maps to i, f, z and o."""
        self.bias = nn.Parameter(torch.zeros(4, heads, width // heads))
        places = torch.linspace(0, 1, width // heads)
        with torch.no_grad():
            self.bias[1] = 5 - 12 * places ** (0.3 + 1.3 * height)
        nn.init.zeros_(self.recurrent)
        for each in self.maps:
            nn.init.normal_(each.get_parameter("weight"), std=(2 / (5 * width)) ** 0.5)

    def preactivations(self, features: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch gates"]:
        convolved, x = features.tensor_split([self.convolved], dim=-1)
        c = silu(convolved)
        inputs = (c, c, x, x)
        return torch.cat([each(u) for each, u in zip(self.maps, inputs, strict=True)], dim=-1) + self.bias.flatten()
