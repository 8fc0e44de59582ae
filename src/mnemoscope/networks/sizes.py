"""Sizes at which networks have equally many parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mnemoscope.cells.cell import Cell
from mnemoscope.cells.model import Model


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
        try:
            model = Model(cell(input_size=input_size, hidden_size=size, **options), output_size)
        except ValueError:
            if size >= parameters:  # even the smallest network of that size would have more parameters
                raise
            return 0  # too small for the options, or a size that the matrix does not accept
        return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)

    step = 2 if even else 1
    low = high = step
    while count(high) < parameters:
        low, high = high, 2 * high
    while high - low > step:
        middle = (low + high) // (2 * step) * step
        low, high = (middle, high) if count(middle) < parameters else (low, middle)
    return min((low, high), key=lambda size: abs(count(size) - parameters))
