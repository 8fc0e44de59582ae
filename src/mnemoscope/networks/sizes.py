"""Sizes of networks: their parameters, the numbers in their state, and the size at which networks have as many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from mnemoscope.cells.cell import Cell
from mnemoscope.cells.model import Model
from mnemoscope.cells.sequence import scan
from mnemoscope.cells.state import Layout


def count_parameters(model: nn.Module) -> int:
    """Return the number of trainable numbers of a model.

    >>> from mnemoscope.cells import GRU
    >>> count_parameters(GRU(3, 8))
    312
    """
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


@torch.no_grad()
def count_state(cell: Cell, steps: int = 1) -> int:
    """Return how many real numbers the state of a cell has after `steps` steps; a complex number counts as two.

    Everything that a cell carries from step to step counts: hidden units, matrices, the inputs that a short convolution
    stores, slots of a tape. A cell that attends to its past carries more with every step.

    >>> from mnemoscope.networks import blocks, lstm, memrnn
    >>> count_state(lstm(3, 8)), count_state(blocks(3, 16, "deltanet", depth=2))
    (16, 896)
    >>> count_state(memrnn(3, 8), steps=10) > count_state(memrnn(3, 8), steps=5)
    True
    """
    weight = next(cell.parameters())
    inputs = torch.zeros(steps, 1, cell.input_size or 1, dtype=weight.dtype, device=weight.device)
    _, state = scan(cell, inputs)
    return Layout(state).size


def find_size(count: Callable[[int], int], target: int, multiple: int = 1, start: int | None = None) -> int:
    """Return the multiple of `multiple` at which `count` comes closest to the target.

    `count` rises with the size. It raises a ValueError for a size that a network does not accept, which counts as 0: it
    is too small for the options, or not a size of its matrix. A `start` near the answer, a multiple itself, saves
    calls; without it the search starts at the smallest size.

    >>> find_size(lambda size: size**2, 1000), find_size(lambda size: size**2, 1000, multiple=10, start=80)
    (32, 30)
    """
    known: dict[int, int] = {}

    def counted(size: int) -> int:
        if size not in known:
            try:
                known[size] = count(size)
            except ValueError:
                if size >= target:  # even the smallest network of that size would have more
                    raise
                known[size] = 0
        return known[size]

    low = high = start or multiple
    step = multiple
    while counted(high) < target:
        low, high, step = high, high + step, 2 * step
    while low > multiple and counted(low) >= target:
        low, high, step = max(multiple, low - step), low, 2 * step
    while high - low > multiple:
        middle = (low + high) // (2 * multiple) * multiple
        low, high = (middle, high) if counted(middle) < target else (low, middle)
    return min((low, high), key=lambda size: abs(counted(size) - target))


def matched_size(
    cell: Callable[..., Cell], parameters: int, input_size: int, output_size: int, even: bool = True, **options: Any
) -> int:
    """Return the number of units at which a network with a linear readout has about `parameters` parameters.

    The `cell` is a factory of `networks`, or any other that takes input_size, hidden_size and these options. The number
    of units is even unless `even` is False, as some matrices need it.

    >>> from mnemoscope.networks import exprnn
    >>> matched_size(exprnn, 18_900, input_size=10, output_size=9)
    176
    """

    def count(size: int) -> int:
        return count_parameters(Model(cell(input_size=input_size, hidden_size=size, **options), output_size))

    return find_size(count, parameters, 2 if even else 1)
