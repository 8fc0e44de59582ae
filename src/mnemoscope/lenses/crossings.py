"""Where a measured share falls below one half."""

from __future__ import annotations

from torch import Tensor


def half_crossing(places: Tensor, shares: Tensor) -> float | None:
    """Return the place at which the shares first fall below one half, by linear interpolation.

    It is None if they never do, or are below from the first place on.
    """
    below = (shares < 0.5).nonzero()[:, 0].tolist()
    if not below or below[0] == 0:
        return None
    after = below[0]
    fraction = (float(shares[after - 1]) - 0.5) / float(shares[after - 1] - shares[after])
    return float(places[after - 1] + fraction * (places[after] - places[after - 1]))
