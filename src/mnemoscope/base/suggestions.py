"""Suggestions in error messages about unknown names."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str], most: int = 1) -> str:
    """Return a question that suggests the known names most similar to `name`; "" where none is similar.

    It begins with a space, so that it can follow a sentence.

    >>> did_you_mean("clocks", ["clock", "sundial"])
    " Did you mean 'clock'?"
    >>> did_you_mean("piano", ["clock", "sundial"])
    ''
    """
    similar = get_close_matches(name, list(known), n=most)
    return f" Did you mean {' or '.join(map(repr, similar))}?" if similar else ""
