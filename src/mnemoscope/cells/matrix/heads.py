"""Sizes of parallel memories (heads)."""

from __future__ import annotations

from mnemoscope.base.validation import check_whole


def head_size(input_size: int, hidden_size: int, heads: int) -> int:
    """Return the features of each of `heads` memories that together have `hidden_size` features.

    >>> head_size(3, 16, heads=2)
    8
    """
    check_whole(1, input_size=input_size, hidden_size=hidden_size, heads=heads)
    if hidden_size % heads:
        raise ValueError(f"hidden_size must be a multiple of heads = {heads}, but is {hidden_size}.")
    return hidden_size // heads
