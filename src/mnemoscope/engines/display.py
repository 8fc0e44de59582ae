"""All running jobs in one display: a bar for the whole, a line for each."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from tqdm import tqdm

from mnemoscope.engines.job import Event, Outcome, Progress


class Display:
    """On a terminal, a bar that counts jobs and a line below it for each that runs; elsewhere nothing moves."""

    def __init__(self, what: str, total: int, shown: bool) -> None:
        self.bar = tqdm(total=total, desc=what, unit="trial", disable=not shown)
        self.lines: dict[int, tqdm] = {}
        self.moving = shown and self.bar.fp is not None and getattr(self.bar.fp, "isatty", lambda: False)()

    def skip(self, number: int) -> None:
        """Count jobs that need not be done."""
        self.bar.update(number)

    def outcomes(self, events: Iterable[Event]) -> Iterator[Outcome]:
        """How each job ended, while all events are shown as they come."""
        with self.bar:
            for event in events:
                if isinstance(event, Progress):
                    self._show(event)
                    continue
                if line := self.lines.pop(id(event.job), None):
                    line.close()
                self.bar.update()
                if event.error is not None:
                    self.bar.write(f"{event.job.name}: {event.error}", file=sys.stderr)
                yield event

    def _show(self, event: Progress) -> None:
        if not self.moving:
            return
        if id(event.job) not in self.lines:
            name = f"  {event.job.name}"
            self.lines[id(event.job)] = tqdm(total=event.of, desc=name, unit=event.unit, leave=False)
        line = self.lines[id(event.job)]
        if line.total != event.of or event.done < line.n:  # another bar of the same job
            line.reset(event.of)
        line.set_postfix_str(event.more, refresh=False)
        line.update(event.done - line.n)
