"""Progress bars for terminals and notebooks; in a worker process a listener receives their state. Imports no torch."""

from __future__ import annotations

import functools
import sys
import threading
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, ClassVar, ParamSpec, TypeVar

with warnings.catch_warnings():
    # In a notebook it warns that it is experimental, or that it falls back to text because ipywidgets is missing.
    warnings.simplefilter("ignore")
    from tqdm.autonotebook import tqdm as tqdm

PATIENCE = 3.0
"""Seconds after which work that is usually short shows that it is going on."""
REFRESH = 1.0
"""Seconds between two updates of the time that such work has taken."""
Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


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

    It is not drawn where there is no terminal or notebook to show it.

    >>> list(slow_bar(range(3), "counting", shown=True))
    [0, 1, 2]
    """
    disabled = not (shown and (is_visible() or Bar.listener is not None))
    return Bar(steps, desc=description, unit="step", delay=PATIENCE, leave=False, disable=disabled)


def show_slow(description: str) -> Callable[[Callable[Arguments, Answer]], Callable[Arguments, Answer]]:
    """Return a decorator: on a terminal or in a notebook, a call that takes longer than `PATIENCE` shows its time.

    The line vanishes with the end of the call. Calls inside another such call show nothing, nor does a call with
    `progress=False`. While another bar is open, the time is not shown.

    >>> @show_slow("addition")
    ... def add(a, b):
    ...     return a + b
    >>> add(1, b=2)
    3
    """

    def decorate(function: Callable[Arguments, Answer]) -> Callable[Arguments, Answer]:
        @functools.wraps(function)
        def call(*args: Arguments.args, **options: Arguments.kwargs) -> Answer:
            unwanted = _Clock.running or Bar.listener is not None or options.get("progress") is False
            if unwanted or not is_visible():
                return function(*args, **options)
            with _Clock(description):
                return function(*args, **options)

        return call

    return decorate


@contextmanager
def without_clock() -> Generator[None]:
    """Context in which slow calls do not show their time."""
    before, _Clock.running = _Clock.running, True
    try:
        yield
    finally:
        _Clock.running = before


class _Clock:
    """A thread that shows how long some work has taken, from `PATIENCE` until it ends."""

    running: ClassVar[bool] = False
    """Whether a clock runs, or none is wanted."""

    def __init__(self, description: str) -> None:
        self.description, self.ended = description, threading.Event()
        self.thread = threading.Thread(target=self._show, daemon=True)

    def __enter__(self) -> None:
        _Clock.running = True
        self.thread.start()

    def __exit__(self, *reason: object) -> None:
        self.ended.set()
        self.thread.join()
        _Clock.running = False

    def _show(self) -> None:
        if self.ended.wait(PATIENCE):
            return
        while len(getattr(Bar, "_instances", ())):  # while the work shows another bar
            if self.ended.wait(REFRESH):
                return
        with Bar(desc=self.description, bar_format="{desc}: {elapsed}", leave=False) as bar:
            bar.start_t -= PATIENCE
            bar.refresh()  # at once: the first line counted from the creation of the bar
            while not self.ended.wait(REFRESH):
                bar.refresh()


def is_visible() -> bool:
    """Whether a bar can be seen: on a terminal or in a notebook."""
    return tqdm.__name__ == "tqdm_notebook" or sys.stderr.isatty()


@contextmanager
def redirect_progress(listener: Callable[[dict[str, Any]], None]) -> Generator[None]:
    """Context in which bars send their state to `listener` and draw nothing."""
    Bar.listener = listener
    try:
        yield
    finally:
        Bar.listener = None
