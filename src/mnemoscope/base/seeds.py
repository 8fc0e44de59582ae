"""Random generators of seeds that a user passes."""

from __future__ import annotations

import numpy as np
from torch import Generator


def seeded_generator(seed: int) -> Generator:
    """Return a random generator with this seed; raise unless it is a whole number that torch accepts.

    >>> seeded_generator(2**64)
    Traceback (most recent call last):
    ValueError: seed must be a whole number from -2^63 to 2^64 - 1, such as seed=0, but is 18446744073709551616.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not -(2**63) <= seed < 2**64:
        raise ValueError(f"seed must be a whole number from -2^63 to 2^64 - 1, such as seed=0, but is {seed!r}.")
    return Generator().manual_seed(int(seed))
