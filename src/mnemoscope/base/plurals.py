"""Counts with their nouns, and lists of words."""

from __future__ import annotations

from collections.abc import Iterable


def pluralise(count: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun.

    >>> pluralise(1, "start"), pluralise(3, "start")
    ('1 start', '3 starts')
    """
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def listed(words: Iterable[str]) -> str:
    """Return words as a list of a sentence.

    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    *before, last = words
    return f"{', '.join(before)} and {last}" if before else last
