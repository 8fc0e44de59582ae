"""Named random numbers: equal parts give equal numbers, and the global generators stay untouched."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from hashlib import sha256

import torch

from mnemoscope.base.torch_state import restored_generators


@contextmanager
def seeded(*parts: object, device: torch.device | str = "cpu") -> Generator[None]:
    """Seed torch's global generators by `parts` inside the context, and restore them afterwards.

    For code that draws from the global generator and takes no other: weight initialisers, dropout. Such contexts in
    different threads wait for each other. A thread that draws from the global generator outside of them disturbs them.

    >>> with seeded("initial weights", 0):
    ...     first = torch.rand(3)
    >>> with seeded("initial weights", 0):
    ...     print(torch.equal(first, torch.rand(3)))
    True
    """
    seed = int.from_bytes(sha256(" ".join(map(str, parts)).encode()).digest()[:8])
    devices = [torch.cuda.current_device()] if torch.device(device).type == "cuda" else []
    with restored_generators(devices):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would reseed all other devices for good
        if devices:
            torch.cuda.manual_seed(seed)
        yield
