"""Checks of numeric arguments."""

from __future__ import annotations

from math import isnan
from numbers import Integral, Real
from typing import Any


def check_whole(least: int, **numbers: Any) -> None:
    """Raise unless all arguments are whole numbers of at least `least`; the error names the argument.

    >>> check_whole(1, slots=5, heads=0)
    Traceback (most recent call last):
    ...
    ValueError: heads must be a whole number, at least 1, but is 0.
    """
    for name, number in numbers.items():
        if not is_whole(number, least):
            raise ValueError(f"{name} must be a whole number, at least {least}, but is {number!r}.")


def is_whole(number: Any, least: int) -> bool:
    """Return whether `number` is a whole number, of Python or of NumPy, and at least `least`.

    >>> is_whole(3, 1), is_whole(True, 1), is_whole(3.0, 1)
    (True, False, False)
    """
    return isinstance(number, Integral) and not isinstance(number, bool) and int(number) >= least


def check_type(kind: type | tuple[type, ...], description: str, **values: Any) -> None:
    """Raise unless all arguments are of a type; the error names the argument, and describes what it should be.

    >>> check_type(dict, "a table", options=[1])
    Traceback (most recent call last):
    TypeError: options must be a table, but is a list.
    """
    for name, value in values.items():
        if not isinstance(value, kind):
            raise TypeError(f"{name} must be {description}, but is a {type(value).__name__}.")


def is_number(value: Any) -> bool:
    """Return whether `value` is a real number, of Python or of NumPy, and not NaN.

    >>> is_number(0.5), is_number(True), is_number("0.5"), is_number(float("nan"))
    (True, False, False, False)
    """
    return isinstance(value, Real) and not isinstance(value, bool) and not isnan(value)
