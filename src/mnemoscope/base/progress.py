"""Progress bars: on the terminal, or, in a process that works for another one, told to that one. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from tqdm import tqdm


class Bar(tqdm):
    """tqdm's bar, which a process that has no terminal of its own can pass on.

    >>> heard = []
    >>> with told_to(heard.append):
    ...     for _ in Bar(range(2), desc="counting", mininterval=0):
    ...         pass
    >>> heard[-1]
    {'what': 'counting', 'done': 2, 'of': 2, 'unit': 'it', 'more': ''}
    """

    listener: ClassVar[Callable[[dict[str, Any]], None] | None] = None

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        if Bar.listener is None:
            super().display(msg, pos)
        else:
            more = str(self.postfix or "")
            Bar.listener({"what": self.desc.rstrip(": "), "done": self.n, "of": self.total, "unit": self.unit,
                          "more": more})  # fmt: skip

    def close(self) -> None:
        if Bar.listener is None or self.disable:
            super().close()
            return
        self.display()
        self.disable = True  # tqdm ends a bar with a new line, also one that was never drawn
        self._decr_instances(self)  # pyright: ignore[reportAttributeAccessIssue]: not in its stubs


class told_to:  # noqa: N801 (used as a function)
    """While this lasts, bars tell their state to `listener` and draw nothing."""

    def __init__(self, listener: Callable[[dict[str, Any]], None]) -> None:
        self.listener = listener

    def __enter__(self) -> None:
        Bar.listener = self.listener

    def __exit__(self, *_: object) -> None:
        Bar.listener = None
