"""Curricula: easier versions of a task that are trained before the task itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

_Task = TypeVar("_Task")


def curriculum_stages(task: _Task, field: str, least: int = 1) -> list[_Task]:
    """Return the task with each value of `field` that its `curriculum` lists, such as "10 20 40", and then the task.

    >>> from mnemoscope.tasks import Copy
    >>> print([stage.delay for stage in curriculum_stages(Copy(delay=100, curriculum="10, 30"), "delay")])
    [10, 30, 100]
    """
    text: str = getattr(task, "curriculum")  # noqa: B009 (not every task has this field)
    final: int = getattr(task, field)
    try:
        values = [int(word) for word in text.replace(",", " ").split()]
    except ValueError:
        raise ValueError(f'A curriculum is a list of {field}s such as "10 20 40", but is {text!r}.') from None
    if any(not least <= value < final for value in values) or values != sorted(set(values)):
        raise ValueError(
            f"The {field}s of a curriculum must rise, from {least} on and below {field} = {final}, but are {values}."
        )
    stages: list[Any] = [replace(task, **{field: value, "curriculum": ""}) for value in values]  # pyright: ignore[reportArgumentType]
    return [*stages, task]
