"""Hand-made fixed points for the tests of figures and pages."""

import torch

from mnemoscope.lenses import FixedPoints


def empty(size, bounded=True):
    """Return a result without points."""
    none = torch.zeros(0, dtype=torch.float64)
    count = torch.zeros(0, dtype=torch.int64)
    return FixedPoints(none.reshape(0, size), none, none.reshape(0, size, size), count, False, bounded)
