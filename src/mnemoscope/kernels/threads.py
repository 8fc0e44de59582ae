"""Number of threads of a scan on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

SHARED_FROM = 2e6
"""Operations per step from which several threads are used. Two threads are faster than one from 1e6 if they spin while
waiting (OMP_WAIT_POLICY=active), and from above 4e6 if they sleep."""


@contextmanager
def useful_threads(h: Tensor) -> Iterator[None]:
    """Use one thread if a step is too short to be shared: waking the others would take longer than the step.

    torch stores the number per thread, so that work on other threads is not slowed. The products of the backward pass
    are included: two sleeping threads take twice as long for dV as one (N = 128, batch 10, 220 steps).
    """
    before = torch.get_num_threads()
    few = h.device.type == "cpu" and before > 1 and 2 * h.numel() * h.shape[-1] < SHARED_FROM
    if few:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        if few:
            torch.set_num_threads(before)
