"""Read and write heads: their parameters from the controller, and how they address and change the memory."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from mnemoscope.base.array_types import Float
from mnemoscope.cells.fast_path import is_unmodified
from mnemoscope.cells.matrix import Bilinear
from mnemoscope.memory.intervals import Interval, interval_affine
from mnemoscope.memory.tape import addressing
from mnemoscope.memory.tape.addressing import HeadWeights, Memory, PerHead

Change = Float[Tensor, "batch writers numbers"]


class HeadAddress(NamedTuple):
    """Addressing parameters of the read heads or the write heads."""

    key: Float[Tensor, "batch heads numbers"]
    strength: PerHead
    """Key strength beta."""
    gate: PerHead
    """Interpolation gate g between content and previous weights."""
    shift: Float[Tensor, "batch heads moves"]
    gamma: PerHead

    def weights(self, memory: Memory, previous: HeadWeights) -> HeadWeights:
        """Return the weights: addressing by content, then by location (Graves et al. 2014, Fig 2)."""
        content = addressing.content_weights(memory, self.key, self.strength)
        shifted = addressing.shift_weights(addressing.interpolate(content, previous, self.gate), self.shift)
        return addressing.sharpen(shifted, self.gamma)


class HeadOutputs(NamedTuple):
    """Parameters of all heads at one step."""

    write: HeadAddress
    read: HeadAddress
    erase: Change
    add: Change


def erase_and_add(memory: Memory, weights: Float[Tensor, "batch writers slots"], erase: Change, add: Change) -> Memory:
    """Return `M(i) prod_h (1 - w_h(i) e_h) + sum_h w_h(i) a_h` (Graves et al., Eq 3-4): all erase, then all add."""
    for w, e in zip(weights.unbind(1), erase.unbind(1), strict=True):
        memory = torch.addcmul(memory, memory, w.unsqueeze(2) * e.unsqueeze(1), value=-1)
    return torch.baddbmm(memory, weights.mT, add)


class Heads(nn.Module):
    """Map from the controller's output to the parameters of the heads: one linear map, or four bilinear maps.

    beta is `least_strength + softplus`, gamma is `1 + softplus`, e is a sigmoid, k and a are tanh. For a matrix
    controller, four bilinear maps yield the keys, side by side; the add and erase matrices, side by side; the shifts of
    each head as a column; and beta, gate and gamma of each head as a column (Renanse et al. 2021, as released).
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        slot_shape: tuple[int, ...],
        read_heads: int,
        write_heads: int,
        reach: int,
        least_strength: float,
    ) -> None:
        super().__init__()
        self.slot_shape, self.least_strength = slot_shape, least_strength
        self.heads, self.writers, self.moves = read_heads + write_heads, write_heads, 2 * reach + 1
        numbers = prod(slot_shape)
        self.sizes = [numbers * self.heads, 2 * numbers * self.writers, self.moves * self.heads, 3 * self.heads]
        if len(shape) == 1:
            self.maps = nn.ModuleList([nn.Linear(shape[0], sum(self.sizes))])
            return
        rows, columns = slot_shape if len(slot_shape) == 2 else (*slot_shape, 1)
        shapes = [
            (rows, columns * self.heads),
            (rows, 2 * columns * self.writers),
            (self.moves, self.heads),
            (3, self.heads),
        ]
        self.maps = nn.ModuleList([Bilinear((shape[0], shape[1]), each) for each in shapes])

    def forward(self, hidden: Float[Tensor, "batch ..."]) -> HeadOutputs:
        key, change, moves, rest = self.parts(hidden)
        strength, gate, gamma = rest.unbind(-1)
        erase, add = change.split(self.writers, dim=1)
        parts = (
            torch.tanh(key),
            (self.least_strength + softplus(strength)).unsqueeze(-1),
            torch.sigmoid(gate).unsqueeze(-1),
            torch.softmax(moves, dim=-1),
            (1 + softplus(gamma)).unsqueeze(-1),
        )
        counts = (self.writers, self.heads - self.writers)
        write, read = zip(*(part.split(counts, dim=1) for part in parts), strict=True)
        return HeadOutputs(HeadAddress(*write), HeadAddress(*read), torch.sigmoid(erase), torch.tanh(add))

    def parts(self, hidden: Float[Tensor, "batch ..."]) -> list[Tensor]:
        """Return the parameters before any nonlinearity, each (batch, heads, ...).

        These are the keys; erase and add vectors; shifts; and beta, gate and gamma.
        """
        return self._by_head([linear(hidden) for linear in self.maps])

    def ranges(self, low: Float[Tensor, " features"], high: Float[Tensor, " features"]) -> list[Interval]:
        """Return the ranges of `parts`, each (1, heads, ...), for flat controller outputs between `low` and `high`."""
        found = [interval_affine(linear, (low, high)) for linear in self.maps]
        shapes = [each.shape_out if isinstance(each, Bilinear) else (-1,) for each in self.maps]
        ends = [
            self._by_head([part[end].view(1, *shape) for part, shape in zip(found, shapes, strict=True)])
            for end in (0, 1)
        ]
        return list(zip(*ends, strict=True))

    def _by_head(self, mapped: list[Tensor]) -> list[Tensor]:
        """Split the outputs of the maps by head, (batch, heads, ...)."""
        counts = [self.heads, 2 * self.writers, self.heads, self.heads]
        if len(mapped) == 1:
            parts = mapped[0].split(self.sizes, dim=-1)
            return [part.unflatten(-1, (count, -1)) for part, count in zip(parts, counts, strict=True)]
        # (batch, rows, heads * columns) -> (batch, heads, rows * columns)
        parts = [part.unflatten(-1, (count, -1)) for part, count in zip(mapped, counts, strict=True)]
        return [part.transpose(1, 2).flatten(2) for part in parts]

    @property
    def is_linear(self) -> bool:
        """Whether the maps are unmodified: `flat` uses their weights only."""
        return all(is_unmodified(each, nn.Linear, Bilinear) and each.bias is not None for each in self.maps)

    def flat(self) -> tuple[Float[Tensor, "parameters features"], Float[Tensor, " parameters"]]:
        """Return the matrix and bias of one linear map to all head parameters, in the order of the kernels."""
        maps, counts = list(self.maps), (self.heads, 2 * self.writers, self.heads, self.heads)
        if len(maps) == 1:
            assert isinstance(maps[0], nn.Linear)
            together = torch.cat([maps[0].weight, maps[0].bias.unsqueeze(1)], dim=1)
            split = zip(together.split(self.sizes), counts, strict=True)
            parts = [part.unflatten(0, (count, -1)) for part, count in split]
        else:
            parts = [_by_head(each, count) for each, count in zip(maps, counts, strict=True)]  # type: ignore
        key, change, moves, rest = parts
        erase, add = change.split(self.writers)
        strength, gate, gamma = rest.unbind(1)
        ordered = [
            key.flatten(0, 1),
            add.flatten(0, 1),
            erase.flatten(0, 1),
            gate,
            strength,
            gamma,
            moves.flip(1).flatten(0, 1),
        ]
        whole = torch.cat(ordered)
        return whole[:, :-1], whole[:, -1]


def _by_head(each: Bilinear, count: int) -> Float[Tensor, "heads numbers features_and_bias"]:
    """Return the matrix and bias of a bilinear map, by head; the columns of its output belong to heads."""
    assert each.bias is not None
    together = torch.cat([each.matrix(), each.bias.flatten().unsqueeze(1)], dim=1)
    rows, columns = each.shape_out
    return together.unflatten(0, (rows, count, columns // count)).transpose(0, 1).flatten(1, 2)
