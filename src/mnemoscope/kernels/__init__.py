"""Fast scans: recurrences over a whole sequence as one operation."""

from mnemoscope.kernels.activation import ACTIVATIONS, Activation
from mnemoscope.kernels.elementwise import elementwise_scan, no_elementwise_scan
from mnemoscope.kernels.linear import diagonal_scan, linear_scan, linear_scan_pays
from mnemoscope.kernels.screened import no_screened_scan, screened_scan

__all__ = [
    "ACTIVATIONS",
    "Activation",
    "diagonal_scan",
    "elementwise_scan",
    "linear_scan",
    "linear_scan_pays",
    "no_elementwise_scan",
    "no_screened_scan",
    "screened_scan",
]
