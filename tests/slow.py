"""Slow tests: `make test-all` runs them, `make test` leaves them out.

A test over many cases that takes seconds has `@representatives(...)`: `make test` runs these cases, chosen so that no
branch of the package is reached by the others alone, and `make test-all` runs all of them.
"""

import os
from collections.abc import Iterable
from typing import Any

import pytest

SLOW = pytest.mark.slow


def slow(*cases: Any) -> list[Any]:
    """Return cases for `pytest.mark.parametrize` marked as slow; each case is a value or a tuple of values."""
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=SLOW) for case in cases]


def after(number: int, cases: Iterable[Any]) -> list[Any]:
    """Return the cases, with all after the first `number` marked as slow."""
    listed = list(cases)
    return [*listed[:number], *slow(*listed[number:])]


def representatives(*cases: str) -> pytest.MarkDecorator:
    """Run only these cases of a parametrised test, named by their ids, unless slow tests are requested."""
    return pytest.mark.representatives(*cases)


def leave_out_slow(items: list[Any]) -> list[Any]:
    """Remove the slow tests from the collected ones unless they are requested, and return them.

    Skipping one takes about 3 ms in the three processes of `make test` together.
    """
    _mark_all_but_representatives(items)
    slow = [] if "MNEMOSCOPE_SLOW" in os.environ else [item for item in items if item.get_closest_marker("slow")]
    left_out = {*slow}
    items[:] = [item for item in items if item not in left_out]
    return slow


def _mark_all_but_representatives(items: Iterable[Any]) -> None:
    """Mark the other cases of tests with representatives as slow; raise if one of them is no case of its test."""
    found: dict[str, set[str]] = {}
    named: dict[str, set[str]] = {}
    for item in items:
        chosen = item.get_closest_marker("representatives")
        if chosen is None:
            continue
        test, case = f"{item.path}::{item.originalname}", item.callspec.id
        named[test] = {*chosen.args}
        found.setdefault(test, set()).add(case)
        if case not in chosen.args:
            item.add_marker(SLOW)
    for test, cases in named.items():
        if len(found[test]) > len(cases) and not cases <= found[test]:  # fewer if a case is run by its name
            raise pytest.UsageError(f"{test} has no case {sorted(cases - found[test])}, which should represent it.")
