"""Orthogonal matrices by name, for those that are built of them."""

from __future__ import annotations

from collections.abc import Callable

from mnemoscope.connectivity.givens import Givens
from mnemoscope.connectivity.householder import Householder
from mnemoscope.connectivity.unitary import Cayley, Exponential, Unitary

ORTHOGONAL: dict[str, Callable[..., Unitary]] = {
    "exponential": Exponential,
    "cayley": Cayley,
    "householder": lambda size, **options: Householder(size, size, **options),
    "givens": lambda size, **options: Givens(size, size, complex=False, **options),
}
"""Each from its size and, if one wants another than its own, the name of an initialiser; all of full capacity."""


def orthogonal(kind: str, size: int, init: str | None = None) -> Unitary:
    """An orthogonal matrix of the named kind."""
    if kind not in ORTHOGONAL:
        raise ValueError(f"Unknown kind of orthogonal matrix {kind!r}; choose one of {', '.join(ORTHOGONAL)}.")
    return ORTHOGONAL[kind](size) if init is None else ORTHOGONAL[kind](size, init=init)
