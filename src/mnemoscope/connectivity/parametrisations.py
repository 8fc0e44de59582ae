"""Parametrisations of orthogonal matrices, by name."""

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
"""Each takes a size and, as `init`, the name of an initialiser; all have full capacity."""


def orthogonal(kind: str, size: int, init: str | None = None) -> Unitary:
    """Return an orthogonal matrix with the named parametrisation; None keeps its default initialiser."""
    if kind not in ORTHOGONAL:
        raise ValueError(f"Unknown kind of orthogonal matrix {kind!r}; choose one of {', '.join(ORTHOGONAL)}.")
    return ORTHOGONAL[kind](size) if init is None else ORTHOGONAL[kind](size, init=init)
