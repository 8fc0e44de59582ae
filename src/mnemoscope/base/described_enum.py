"""Enumerations whose members have a description besides their number."""

from __future__ import annotations

from enum import IntEnum


class DescribedEnum(IntEnum):
    """An integer with a description in English: a member is written as the pair of both.

    >>> class Outcome(DescribedEnum):
    ...     FIXED = 0, "reached a fixed point"
    >>> Outcome(0).description
    'reached a fixed point'
    """

    description: str

    def __new__(cls, value: int, description: str) -> DescribedEnum:
        member = int.__new__(cls, value)
        member._value_, member.description = value, description
        return member
