"""Limits on what is computed or held in memory at a time, which depend on the device.

A CPU is fast while numbers stay in its cache; a GPU is fast if it gets much to do at a time.
"""

from __future__ import annotations

from torch import Tensor


def of_device(limits: dict[str, int], x: Tensor) -> int:
    """Return the limit for the device of a tensor, of limits for "cpu" and "cuda"."""
    return limits["cuda" if x.is_cuda else "cpu"]
