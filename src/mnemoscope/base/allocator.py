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
BEFORE_GLIBC_2_35 = 2**25
"""Largest size above which an older glibc maps tensors separately; it refuses larger ones."""
USUAL = {M_MMAP_THRESHOLD: 2**25, M_TRIM_THRESHOLD: 2**26}
"""The largest thresholds that glibc chooses by itself; a process that has freed a tensor of 32 MiB has them."""

_LOCK = Lock()
_users = 0


@contextmanager
def kept_memory() -> Generator[None]:
    """Keep freed memory for the next tensors inside the context, instead of returning it to the system.

    glibc returns every block above 32 MiB once it is freed, and the system clears it page by page before it gives
    it out again; before version 2.35 it does so inside the context too. A training step that frees and takes large
    tensors can spend more than half of its time on that (`benchmarks/kept_memory.py`). What the process has taken is
    held until the end of the context. Nothing changes without glibc, or if a variable of the environment, MALLOC_...
    or GLIBC_TUNABLES, chooses its settings.
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
            _keep(mallopt)


def _leave(mallopt: Callable[..., int]) -> None:
    global _users
    with _LOCK:
        _users -= 1
        if _users == 0:
            for name, size in USUAL.items():
                mallopt(name, size)
            trim = _find("malloc_trim")
            if trim is not None:
                trim(0)


def _keep(mallopt: Callable[..., int]) -> None:
    """Set the thresholds. After any of them is set, glibc chooses none by itself, so both must have a large one."""
    for name, size in KEPT.items():
        if not mallopt(name, size):
            mallopt(name, BEFORE_GLIBC_2_35)
