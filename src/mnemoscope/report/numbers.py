"""Numbers as the pages write them."""

from __future__ import annotations

from math import isinf, isnan


def format_number(value: float) -> str:
    """Format a number to three significant digits.

    >>> format_number(1234.5), format_number(2e-28), format_number(float("inf")), format_number(float("nan"))
    ('1234', '2e-28', '∞', '–')
    """
    if isnan(value):
        return "–"
    if isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:.0f}" if 1000 <= abs(value) < 100_000 else f"{value:.3g}"
