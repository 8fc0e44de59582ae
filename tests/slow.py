"""Tests that take long: run by `make test-all`, and left out of `make test`."""

import os
from collections.abc import Iterable
from typing import Any

import pytest

SLOW = pytest.mark.skipif("MNEMOSCOPE_SLOW" not in os.environ, reason="takes long; set MNEMOSCOPE_SLOW=1 to run it")


def slow(*cases: Any) -> list[Any]:
    """Cases of `pytest.mark.parametrize` that take long together; each is a value, or the tuple of several."""
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=SLOW) for case in cases]


def after(number: int, cases: Iterable[Any]) -> list[Any]:
    """The first so many as they are, the others slow."""
    listed = list(cases)
    return [*listed[:number], *slow(*listed[number:])]
