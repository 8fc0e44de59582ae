"""Counts with their nouns."""

from __future__ import annotations


def pluralise(count: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun.

    >>> pluralise(1, "start"), pluralise(3, "start")
    ('1 start', '3 starts')
    """
    return f"{count} {noun if count == 1 else plural or noun + 's'}"
