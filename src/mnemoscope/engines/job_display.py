"""One display for all running jobs: a bar that counts them, and a line per job."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from mnemoscope.base.progress import tqdm
from mnemoscope.engines.job import Event, Outcome, Progress


class JobDisplay:
    """A bar that counts finished jobs and, on a terminal, a line below it for each running job."""

    def __init__(self, description: str, total: int, shown: bool) -> None:
        self.bar = tqdm(total=total, desc=description, unit="trial", disable=not shown)
        self.lines: dict[int, tqdm] = {}
        self.on_terminal = shown and self.bar.fp is not None and getattr(self.bar.fp, "isatty", lambda: False)()

    def skip(self, number: int) -> None:
        """Count jobs that need not run."""
        self.bar.update(number)

    def outcomes(self, events: Iterable[Event]) -> Iterator[Outcome]:
        """Yield the outcomes among the events, and display all events as they come."""
        with self.bar:
            for event in events:
                if isinstance(event, Progress):
                    self._show(event)
                    continue
                if line := self.lines.pop(id(event.job), None):
                    line.close()
                self.bar.update()
                if event.error is not None and not event.interrupted:
                    self.bar.write(f"{event.job.name}: {event.error}", file=sys.stderr)
                yield event

    def _show(self, event: Progress) -> None:
        if not self.on_terminal:
            return
        if id(event.job) not in self.lines:
            name = f"  {event.job.name}"
            self.lines[id(event.job)] = tqdm(total=event.total, desc=name, unit=event.unit, leave=False)
        line = self.lines[id(event.job)]
        if line.total != event.total or event.done < line.n:  # the job has started another bar
            line.reset(event.total)
        line.set_postfix_str(event.postfix, refresh=False)
        line.update(event.done - line.n)
