"""All running jobs in one display: a bar for the whole, a line for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tqdm import tqdm

from mnemoscope.engines.job import Job, Outcome


class Display:
    """On a terminal, a bar that counts jobs and a line below it for each that runs; elsewhere nothing moves."""

    def __init__(self, what: str, total: int, shown: bool) -> None:
        self.bar = tqdm(total=total, desc=what, unit="trial", disable=not shown)
        self.lines: dict[int, tqdm] = {}
        self.moving = shown and self.bar.fp is not None and getattr(self.bar.fp, "isatty", lambda: False)()

    def tell(self, job: Job, state: dict[str, Any]) -> None:
        """What the bar of a job shows now."""
        if not self.moving:
            return
        if id(job) not in self.lines:
            self.lines[id(job)] = tqdm(total=state["of"], desc=f"  {job.name}", unit=state["unit"], leave=False)
        line = self.lines[id(job)]
        if line.total != state["of"] or state["done"] < line.n:  # another bar of the same job
            line.reset(state["of"])
        line.set_postfix_str(state["more"], refresh=False)
        line.update(state["done"] - line.n)

    def watched(self, outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
        """The outcomes, counted and told as they come."""
        with self.bar:
            for outcome in outcomes:
                if line := self.lines.pop(id(outcome.job), None):
                    line.close()
                self.bar.update()
                if outcome.error is not None:
                    self.bar.write(f"{outcome.job.name}: {outcome.error}")
                yield outcome
