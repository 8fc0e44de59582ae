"""Progress bars for terminals and notebooks; in a worker process a listener receives their state. Imports no torch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, ClassVar

with warnings.catch_warnings():
    # In a notebook it warns that it is experimental, or that it falls back to text because ipywidgets is missing.
    warnings.simplefilter("ignore")
    from tqdm.autonotebook import tqdm as tqdm

PATIENCE = 3.0
"""Seconds after which a loop that is usually short shows a bar."""


class Bar(tqdm):  # ty: ignore[unsupported-base] (one of two classes, chosen above)
    """A tqdm bar whose state a listener can receive instead of the screen.

    >>> states = []
    >>> with redirect_progress(states.append):
    ...     for _ in Bar(range(2), desc="counting", mininterval=0):
    ...         pass
    >>> states[-1]
    {'description': 'counting', 'done': 2, 'total': 2, 'unit': 'it', 'postfix': ''}
    """

    listener: ClassVar[Callable[[dict[str, Any]], None] | None] = None

    def __init__(self, *args: Any, **options: Any) -> None:
        if Bar.listener is not None and tqdm.__name__ == "tqdm_notebook":
            options["display"] = False  # the widget, which appears before the first call of `display`
        super().__init__(*args, **options)

    def display(self, *args: Any, **options: Any) -> None:
        if Bar.listener is None:
            super().display(*args, **options)
        else:
            state = {"description": self.desc.rstrip(": "), "done": self.n, "total": self.total, "unit": self.unit}
            Bar.listener({**state, "postfix": str(self.postfix or "")})

    def close(self) -> None:
        if Bar.listener is None or self.disable:
            super().close()
            return
        self.display()
        self.disable = True  # tqdm ends every bar with a new line, even one that it never drew
        self._decr_instances(self)  # pyright: ignore[reportAttributeAccessIssue]: not in its stubs


def slow_bar(steps: range, description: str, *, shown: bool) -> Bar:
    """Return the steps of a loop behind a bar that appears if the loop takes longer than `PATIENCE`, and then vanishes.

    >>> list(slow_bar(range(3), "counting", shown=True))
    [0, 1, 2]
    """
    return Bar(steps, desc=description, unit="step", delay=PATIENCE, leave=False, disable=not shown)


@contextmanager
def redirect_progress(listener: Callable[[dict[str, Any]], None]) -> Generator[None]:
    """Context in which bars send their state to `listener` and draw nothing."""
    Bar.listener = listener
    try:
        yield
    finally:
        Bar.listener = None
