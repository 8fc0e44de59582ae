"""Networks whose states are matrices (Renanse et al. 2021)."""

from mnemoscope.cells.matrix.bilinear import Bilinear

__all__ = ["Bilinear"]
