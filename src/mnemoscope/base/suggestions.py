"""Suggestions in error messages about unknown names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str], most: int = 1) -> str:
    """Return a question that suggests the known names most similar to `name`; "" where none is similar.

    A name is similar if it differs only in case, hyphens and underscores, if `name` abbreviates it by its initials or
    its first letters, or if most letters agree. The question begins with a space, so that it can follow a sentence.

    >>> did_you_mean("clocks", ["clock", "sundial"])
    " Did you mean 'clock'?"
    >>> did_you_mean("piano", ["clock", "sundial"])
    ''
    >>> did_you_mean("lr", ["learning_rate", "leak"])
    " Did you mean 'learning_rate'?"
    """
    names = list(known)
    parts = {each: re.findall(r"[^\W_]+", each.lower()) for each in names}
    letters = "".join(re.findall(r"[^\W_]+", name.lower()))
    same = [each for each in names if "".join(parts[each]) == letters]
    initials = [each for each in names if len(letters) > 1 and "".join(part[0] for part in parts[each]) == letters]
    begun = [each for each in names if len(letters) > 2 and "".join(parts[each]).startswith(letters)]
    similar = list(dict.fromkeys([*same, *initials, *begun, *get_close_matches(name, names, n=most)]))[:most]
    return f" Did you mean {' or '.join(map(repr, similar))}?" if similar else ""
