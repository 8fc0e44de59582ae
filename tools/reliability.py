"""Shared by `make soak` and `make numerics`: numbered cases with seeds, their table, and the page that shows it.

A check is one function that runs one case. It raises if the case fails; whatever it returns is an error to compare. A
case has a seed, so that the command in the report repeats it alone.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import date
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reliability.md"
FAILURES = ROOT / "build" / "reliability"
"""Folders of failed cases."""
COLUMNS = ("check", "what is done", "tried", "survived", "failed", "notes", "seed", "date", "commit")


class NotRun(Exception):  # noqa: N818
    """Raised by a check that this machine cannot run, with the reason."""


@dataclass
class Case:
    """One numbered case of a check."""

    number: int
    seed: int
    folder: Path
    """An empty folder, which is kept if the case fails."""
    random: Random
    notes: Counter[str] = field(default_factory=Counter)
    """Counts to show with the result, such as kills in the middle of a write."""


class Check(NamedTuple):
    """A kind of attack, or a comparison with a reference."""

    name: str
    what: str
    run: Callable[[Case], float | None]
    """Runs one case and raises if it fails; may return its error."""
    cases: int
    """Number of cases at scale 1."""
    per_case: int = 1
    """Number of attempts in a case, for the count in the table."""


@dataclass
class Counts:
    """Results of some cases of a check."""

    tried: int = 0
    failures: list[int] = field(default_factory=list)
    """Numbers of failed cases."""
    notes: Counter[str] = field(default_factory=Counter)
    errors: list[float] = field(default_factory=list)

    def add(self, other: Counts) -> None:
        """Add the results of other cases of the same check."""
        self.tried += other.tried
        self.failures = sorted([*self.failures, *other.failures])
        self.notes.update(other.notes)
        self.errors += other.errors


class Batch(NamedTuple):
    """A check that runs all its cases itself."""

    name: str
    what: str
    run: Callable[[int, int], Mapping[str, Any]]
    """Takes number and seed; returns "tried", "passed", "failed", "reproductions", and further counts as notes."""
    cases: int


class Row(NamedTuple):
    """A row of the table."""

    check: str
    what: str
    tried: str = ""
    survived: str = ""
    failed: str = ""
    notes: str = ""
    seed: str = ""
    date: str = ""
    commit: str = ""


def main(
    program: str, checks: Sequence[Check | Batch], description: str | None, arguments: Sequence[str] | None
) -> int:
    """Run the checks, print their rows, write them into the page, and return 1 if a case failed."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {program}", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [check.name for check in checks]
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help=f"one of {', '.join(names)}")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="by default the time, so that runs differ")
    parser.add_argument("--case", type=int, help="repeat this case alone, with --only and --seed of the report")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the number of cases, such as 0.1")
    parser.add_argument("--minutes", type=float, help="start no case of a check after its share of this time")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes that run cases at the same time")
    parser.add_argument("--write", action="store_true", help="write the rows into docs/reliability.md")
    given = parser.parse_args(arguments)
    chosen = [check for check in checks if given.only is None or check.name in given.only]
    share = None if given.minutes is None else 60 * given.minutes / len(chosen)
    failed = False
    # forked, so that each process keeps what its cases share
    jobs = ProcessPoolExecutor(given.jobs, mp_context=get_context("fork")) if given.jobs > 1 else nullcontext()
    with jobs as pool:
        for check in chosen:
            started = time.monotonic()
            row = _run(program, check, given, None if share is None else started + share, pool)
            failed |= row.failed not in ("", "0")
            counts = "  ".join(f"{name} {getattr(row, name) or '-':>5}" for name in ("tried", "survived", "failed"))
            duration = f"{time.monotonic() - started:.0f} s, seed {given.seed}"
            print(f"{row.check:18} {counts}  {row.notes}  ({duration})", flush=True)
            if given.write and given.case is None:
                write_rows(PAGE, program, [check.name for check in checks], [row])
    return 1 if failed else 0


def _run(
    program: str, check: Check | Batch, given: argparse.Namespace, until: float | None, pool: Executor | None
) -> Row:
    stamp = {"seed": str(given.seed), "date": date.today().isoformat(), "commit": commit()}
    number = max(1, round(check.cases * given.scale))
    try:
        if isinstance(check, Batch):
            result = dict(check.run(number, given.seed))
            counts = {"tried": "tried", "survived": "passed", "failed": "failed"}
            columns = {column: str(result.pop(name)) for column, name in counts.items()}
            notes = "; ".join(f"{name} {value}" for name, value in result.items() if value not in ("", 0))
            return Row(check.name, check.what, **columns, notes=notes, **stamp)
        total, numbers = Counts(), range(number) if given.case is None else [given.case]
        for counts in _parts(program, check, given.seed, numbers, until, pool):
            total.add(counts)
            if len(numbers) > 1:
                print(f"  {check.name}: {total.tried} of {len(numbers)}, {len(total.failures)} failed", flush=True)
        return Row(check.name, check.what, **_columns(total, check.per_case), **stamp)
    except NotRun as reason:
        return Row(check.name, check.what, notes=f"not run: {reason}", **stamp)


def _parts(
    program: str, check: Check, seed: int, numbers: Sequence[int], until: float | None, pool: Executor | None
) -> Iterator[Counts]:
    """Run the cases in about ten parts, in this process or in those of a pool, and yield the results of each part."""
    size = max(1, len(numbers) // 10)
    parts = [numbers[first : first + size] for first in range(0, len(numbers), size)]
    if pool is None:
        yield from (_cases(program, check, seed, part, until) for part in parts)
        return
    waiting = [pool.submit(_cases, program, check, seed, part, until) for part in parts]
    try:
        yield from (done.result() for done in as_completed(waiting))
    finally:
        for each in waiting:
            each.cancel()


def _cases(program: str, check: Check, seed: int, numbers: Sequence[int], until: float | None) -> Counts:
    counts = Counts()
    for number in numbers:
        if number and until is not None and time.monotonic() > until:
            break
        folder = FAILURES / check.name / f"{seed}-{number}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        case = Case(number, seed, folder, Random(f"{check.name} {seed} {number}"), counts.notes)
        try:
            error = check.run(case)
            counts.errors += [] if error is None else [error]
        except NotRun:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        except Exception:
            command = f"python -m {program} --only {check.name} --seed {seed} --case {number}"
            (folder / "failure.txt").write_text(f"{command}\n\n{traceback.format_exc()}")
            print(f"{check.name}: case {number} failed. Repeat it: {command}\n{traceback.format_exc()}", flush=True)
            counts.failures.append(number)
        else:
            shutil.rmtree(folder, ignore_errors=True)
        counts.tried += 1
    return counts


def _columns(total: Counts, per_case: int) -> dict[str, str]:
    """Return the cells of a row for the results of a check."""
    words = [f"{count} {name}" for name, count in total.notes.items()]
    words += [f"largest error {max(total.errors):.1e}"] if total.errors else []
    failures = ", ".join(map(str, total.failures[:8])) + (" …" if len(total.failures) > 8 else "")
    words += [f"cases {failures}"] if failures else []
    counts = {"tried": total.tried, "survived": total.tried - len(total.failures), "failed": len(total.failures)}
    return {**{name: f"{count * per_case:,}" for name, count in counts.items()}, "notes": "; ".join(words)}


def commit() -> str:
    """Return the commit of the working tree, with a plus if files have changed since."""
    head = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    dirty = ["git", "status", "--porcelain", "--untracked-files=no", "--", ".", f":!{PAGE.relative_to(ROOT)}"]
    changes = subprocess.run(dirty, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    return (head.stdout.strip() or "unknown") + ("+" if changes else "")


def write_rows(page: Path, program: str, order: Sequence[str], rows: Sequence[Row]) -> None:
    """Replace the rows of a program's table in a page; rows of other checks stay, those of unknown checks go."""
    text = page.read_text(encoding="utf-8")
    begin, end = f"<!-- {program} -->\n", f"<!-- end of {program} -->"
    head, found, rest = text.partition(begin)
    table, closed, tail = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{page} has no lines {begin.strip()} and {end}, between which the table is written.")
    cells = [re.split(r"\s*(?<!\\)\|\s*", line.strip())[1:-1] for line in table.splitlines() if line.startswith("|")]
    kept = {each[0]: Row(*each) for each in cells[2:] if len(each) == len(COLUMNS)}
    kept |= {row.check: Row(*(cell.replace("|", "\\|") for cell in row)) for row in rows}
    lines = [COLUMNS, ["---"] * len(COLUMNS), *(kept[name] for name in order if name in kept)]
    written = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    page.write_text(f"{head}{begin}{written}{end}{tail}", encoding="utf-8")
