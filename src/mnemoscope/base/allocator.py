"""Memory that a process has freed, and takes again."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import Lock

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Numbers of the two settings in malloc.h of glibc."""
KEPT = {M_MMAP_THRESHOLD: 2**30, M_TRIM_THRESHOLD: 2**31 - 1}
"""Bytes from which a tensor is mapped separately, and free bytes that the process keeps: as many as an int holds."""
USUAL = {M_MMAP_THRESHOLD: 2**25, M_TRIM_THRESHOLD: 2**26}
"""The largest thresholds that glibc chooses by itself; a process that has freed a tensor of 32 MiB has them."""

_LOCK = Lock()
_users = 0


@contextmanager
def kept_memory() -> Generator[None]:
    """Keep freed memory for the next tensors inside the context, instead of returning it to the system.

    glibc returns every block above 32 MiB once it is freed, and the system clears it page by page before it gives
    it out again. A training step that frees and takes large tensors can spend more than half of its time on that
    (`benchmarks/kept_memory.py`). What the process has taken is held until the end of the context. Nothing changes
    without glibc, or if a variable of the environment, MALLOC_... or GLIBC_TUNABLES, chooses its settings.
    """
    mallopt = _find("mallopt")
    if mallopt is None:
        yield
        return
    _enter(mallopt)
    try:
        yield
    finally:
        _leave(mallopt)


def _find(name: str) -> Callable[..., int] | None:
    """Return a function of glibc; None without glibc, or where the user has set its thresholds."""
    chosen = any(variable.startswith("MALLOC_") or variable == "GLIBC_TUNABLES" for variable in os.environ)
    if sys.platform != "linux" or chosen:
        return None
    return getattr(ctypes.CDLL(None), name, None)


def _enter(mallopt: Callable[..., int]) -> None:
    global _users
    with _LOCK:
        _users += 1
        if _users == 1:
            _set(mallopt, KEPT)


def _leave(mallopt: Callable[..., int]) -> None:
    global _users
    with _LOCK:
        _users -= 1
        if _users == 0:
            _set(mallopt, USUAL)
            trim = _find("malloc_trim")
            if trim is not None:
                trim(0)


def _set(mallopt: Callable[..., int], thresholds: dict[int, int]) -> None:
    for name, size in thresholds.items():
        mallopt(name, size)
