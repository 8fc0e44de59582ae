"""Arguments that count something."""

from __future__ import annotations

from typing import Any


def check_whole(least: int, **numbers: Any) -> None:
    """Raise unless all are whole numbers, `least` or more; the error has the name under which one was given.

    >>> check_whole(1, slots=5, heads=0)
    Traceback (most recent call last):
    ...
    ValueError: heads must be a whole number, at least 1, but is 0.
    """
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int) or number < least:
            raise ValueError(f"{name} must be a whole number, at least {least}, but is {number!r}.")
