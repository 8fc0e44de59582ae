"""Orthogonal matrices by name, for those that are built of them."""

from __future__ import annotations

from collections.abc import Callable

from mnemoscope.connectivity.reflections import Householder
from mnemoscope.connectivity.rotations import Givens
from mnemoscope.connectivity.unitary import Cayley, Exponential, Unitary

ORTHOGONAL: dict[str, Callable[[int, str], Unitary]] = {
    "exponential": lambda size, init: Exponential(size, init),
    "cayley": lambda size, init: Cayley(size, init=init),
    "householder": lambda size, init: Householder(size, size, init),
    "givens": lambda size, init: Givens(size, size, complex=False, init=init),
}
"""Each from its size and the name of its initialiser; all of full capacity."""


def orthogonal(kind: str, size: int, init: str) -> Unitary:
    """An orthogonal matrix of the named kind."""
    if kind not in ORTHOGONAL:
        raise ValueError(f"Unknown kind of orthogonal matrix {kind!r}; choose one of {', '.join(ORTHOGONAL)}.")
    return ORTHOGONAL[kind](size, init)
