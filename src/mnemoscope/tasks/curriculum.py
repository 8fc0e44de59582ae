"""Curricula: tasks of rising length that are learned before the task itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

_Task = TypeVar("_Task")


def rising(task: _Task, field: str, least: int = 1) -> list[_Task]:
    """The task with each value of `field` that its `curriculum` names, such as "10 20 40", and then as it is.

    >>> from mnemoscope.tasks import Copy
    >>> print([stage.delay for stage in rising(Copy(delay=100, curriculum="10, 30"), "delay")])
    [10, 30, 100]
    """
    written: str = getattr(task, "curriculum")  # noqa: B009 (the type of a task does not say that it has one)
    end: int = getattr(task, field)
    try:
        values = [int(word) for word in written.replace(",", " ").split()]
    except ValueError:
        raise ValueError(f'A curriculum is a list of {field}s such as "10 20 40", but is {written!r}.') from None
    if any(not least <= value < end for value in values) or values != sorted(set(values)):
        raise ValueError(
            f"The {field}s of a curriculum rise, from {least} on and below {field} = {end}, but are {values}."
        )
    stages: list[Any] = [replace(task, **{field: value, "curriculum": ""}) for value in values]  # pyright: ignore[reportArgumentType]
    return [*stages, task]
