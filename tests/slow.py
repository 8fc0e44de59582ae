"""Slow tests: `make test-all` runs them, `make test` skips them."""

import os
from collections.abc import Iterable
from typing import Any

import pytest

SLOW = pytest.mark.skipif("MNEMOSCOPE_SLOW" not in os.environ, reason="slow; set MNEMOSCOPE_SLOW=1 to run it")


def slow(*cases: Any) -> list[Any]:
    """Return cases for `pytest.mark.parametrize` marked as slow; each case is a value or a tuple of values."""
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=SLOW) for case in cases]


def after(number: int, cases: Iterable[Any]) -> list[Any]:
    """Return the cases, with all after the first `number` marked as slow."""
    listed = list(cases)
    return [*listed[:number], *slow(*listed[number:])]
