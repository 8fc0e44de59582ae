"""Sizes of memories side by side."""

from __future__ import annotations


def head_size(input_size: int, hidden_size: int, heads: int) -> int:
    """Features of each of `heads` memories that make up `hidden_size`.

    >>> head_size(3, 16, heads=2)
    8
    """
    if input_size < 1 or hidden_size < 1 or heads < 1:
        raise ValueError(
            f"Sizes must be positive, but input_size is {input_size}, hidden_size is {hidden_size} and heads is "
            f"{heads}."
        )
    if hidden_size % heads:
        raise ValueError(f"hidden_size must be a multiple of heads = {heads}, but is {hidden_size}.")
    return hidden_size // heads
