"""Causal attention: queries read the values of all past inputs by a softmax, as in a Transformer."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.base.validation import check_whole
from mnemoscope.cells.cell import Step
from mnemoscope.cells.fast_path import FastPath, NoFastPath
from mnemoscope.cells.recurrence import Recurrence

KERNEL = "scaled dot product attention"
SLOWEST = 10_000.0
"""Ratio of the highest and, nearly, the lowest frequency of rotary positions (Su et al. 2024)."""


class KeyValueState(NamedTuple):
    """Keys and values of all inputs up to now."""

    keys: Float[Tensor, "batch slots features"]
    values: Float[Tensor, "batch slots features"]
    filled: Float[Tensor, "batch slots"]
    """1 where a slot holds an input, and 0 where the sequence had none."""


class CausalAttention(Recurrence):
    """`o_t = sum_s softmax_s(q_t^T k_s / sqrt(d)) v_s` over all s up to t, for each head (Vaswani et al. 2017).

    q, k and v are linear maps of the inputs. The state is the list of all keys and values, which grows by one slot with
    every step: this is not a recurrence of bounded memory, but the Transformer that such recurrences are compared with.

    Args:
        input_size: number of input features.
        hidden_size: number of output features, a multiple of heads.
        heads: number of queries, each with a part of the values.
        positions: "rotary" turns queries and keys by angles in proportion to their position (Su et al. 2024), so that
            their product depends on the distance; "none" leaves the order to the causal mask.

    >>> cell = CausalAttention(3, 8, heads=2)
    >>> state = cell(torch.zeros(5, 3), cell(torch.zeros(5, 3), cell.initial_state(5)))
    >>> state.keys.shape
    torch.Size([5, 2, 8])

    """

    reads_input = True
    whole_sequences = True

    def __init__(self, input_size: int, hidden_size: int, heads: int = 1, positions: str = "rotary") -> None:
        super().__init__()
        check_whole(1, input_size=input_size, hidden_size=hidden_size, heads=heads)
        if positions not in ("rotary", "none"):
            raise ValueError(f'positions must be "rotary" or "none", but is {positions!r}.')
        unit = 2 * heads if positions == "rotary" else heads
        if hidden_size % unit:
            needs = "and rotary positions turn pairs, so that it must be a multiple of" if unit > heads else "of"
            raise ValueError(f"hidden_size is divided among {heads} heads, {needs} {unit}, but is {hidden_size}.")
        self.input_size, self.hidden_size, self.heads, self.positions = input_size, hidden_size, heads, positions
        self.project = nn.Linear(input_size, 3 * hidden_size, bias=False)
        """Projection to q, k and v."""
        self.norm = nn.Identity()

    @property
    def grows(self) -> bool:
        return True

    @property
    def output_features(self) -> int:
        return self.hidden_size

    def extra_repr(self) -> str:
        return f"heads={self.heads}, positions={self.positions}"

    def initial_state(self, batch: int) -> KeyValueState:
        empty = next(self.parameters()).new_zeros(batch, 0, self.hidden_size)
        return KeyValueState(empty, empty, empty[..., 0])

    def prepare(self, xs: Float[Tensor, "*batch inputs"]) -> tuple[Tensor, Step]:
        return self.project(xs), self.advance

    def output_at(self, x: Float[Tensor, "batch inputs"], state: Any) -> Float[Tensor, "batch outputs"]:
        return self.read(self.project(x), state)

    def advance(self, features: Float[Tensor, "batch features"], state: Any) -> KeyValueState:
        _, k, v = features.split(self.hidden_size, dim=-1)
        k = self._turned(k, _count(state.filled).sum(1))
        return KeyValueState(
            torch.cat([state.keys, k.unsqueeze(1)], 1),
            torch.cat([state.values, v.unsqueeze(1)], 1),
            pad(state.filled, (0, 1), value=1.0),
        )

    def read(self, features: Float[Tensor, "batch features"], state: Any) -> Float[Tensor, "batch outputs"]:
        q = self._turned(features[..., : self.hidden_size], _count(state.filled).sum(1) - 1).unsqueeze(1)
        allowed = (state.filled > 0).unsqueeze(1)
        return self._attend(q, state, allowed).squeeze(1)

    def fast_path(self, xs: Tensor, state: Any, mask: Tensor | None) -> FastPath | NoFastPath:
        return FastPath(self.kernel_name(xs.device, xs.dtype), lambda: self.run(self.project(xs), state, mask))

    def kernel_name(self, device: torch.device, dtype: torch.dtype) -> str:
        return f"{KERNEL} ({device.type})"

    def run(
        self, features: Float[Tensor, "time batch features"], state: Any, mask: Bool[Tensor, "time batch"] | None
    ) -> tuple[Float[Tensor, "time batch outputs"], KeyValueState]:
        """Return the outputs of a whole sequence and the last state."""
        q, k, v = features.transpose(0, 1).split(self.hidden_size, dim=-1)  # (batch, time, features)
        old, time = state.keys.shape[1], len(features)
        new = k.new_ones(k.shape[:2]) if mask is None else mask.T.to(k.dtype)
        filled = torch.cat([state.filled, new], 1)
        places = _count(filled).cumsum(1)[:, old:] - 1
        keys = torch.cat([state.keys, self._turned(k, places)], 1)
        last = KeyValueState(keys, torch.cat([state.values, v], 1), filled)
        if mask is None and not old:
            return self._attend(self._turned(q, places), last, None).transpose(0, 1), last
        step = torch.arange(old + time, device=k.device)
        earlier = step <= step[old:].unsqueeze(1)  # (time, slots)
        # a step without an input may attend to itself, since a softmax over nothing has no value; nobody reads it
        itself = step == step[old:].unsqueeze(1)
        allowed = earlier & (filled > 0).unsqueeze(1) | itself
        return self._attend(self._turned(q, places), last, allowed).transpose(0, 1), last

    def _attend(
        self, q: Float[Tensor, "batch time features"], state: KeyValueState, allowed: Tensor | None
    ) -> Float[Tensor, "batch time outputs"]:
        """Return what queries read; `allowed` (batch, time, slots) or None for all earlier slots."""
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (q, state.keys, state.values))
        allowed = None if allowed is None else allowed.unsqueeze(1)
        reads = scaled_dot_product_attention(q, k, v, allowed, is_causal=allowed is None)
        return self.norm(reads.transpose(1, 2)).flatten(-2)

    def _turned(
        self, vectors: Float[Tensor, "*batch features"], places: Float[Tensor, "*batch"]
    ) -> Float[Tensor, "*batch features"]:
        """Return queries or keys, turned by their positions."""
        if self.positions == "none":
            return vectors
        first, second = vectors.unflatten(-1, (self.heads, 2, -1)).unbind(-2)
        pairs = first.shape[-1]
        rates = SLOWEST ** -(torch.arange(pairs, device=places.device, dtype=places.dtype) / pairs)
        angles = (places[..., None] * rates).unsqueeze(-2)
        cos, sin = angles.cos().to(vectors.dtype), angles.sin().to(vectors.dtype)
        return torch.stack([first * cos - second * sin, first * sin + second * cos], -2).flatten(-3)


def _count(filled: Float[Tensor, "batch slots"]) -> Float[Tensor, "batch slots"]:
    """Return the slots in a dtype that counts them exactly: bfloat16 has no whole numbers between 256 and 258."""
    return filled.to(torch.promote_types(filled.dtype, torch.float32))
