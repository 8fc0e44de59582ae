"""The command replicate. Importing it does not import torch."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mnemoscope.base.terminal import printable, shows_progress
from mnemoscope.base.validation import check_whole
from mnemoscope.cli.tables import NO_RESULTS, RESULTS, print_error, print_table

WIDE = ("trials", "decides")
"""Columns of the status that are too wide for a terminal."""


@dataclass(frozen=True)
class Replicate:
    """Run the trials of a run list in slices of some minutes, and collect what has finished into the results.

    The list is a TOML file with a table for each entry; its order is the order of the runs. A trial that is in the
    results or has finished in --root is not run again. After the minutes, running trainings write a checkpoint, and the
    same command continues them.

        mnemoscope replicate --minutes 9 --processes 16 --share-gpu
        mnemoscope replicate --device cpu --studies comparison
        mnemoscope replicate --collect                       # merge finished trials into results/*.json
        mnemoscope replicate --status                        # what is done, what is left, and its device time
        mnemoscope replicate --markdown results/RUNS.md      # the same as a file
    """

    list: Path = RESULTS / "run_list.toml"
    """The run list: tables [[run]] with study, preset, seconds (estimated device time of a trial) and why; names of
    trials and seeds are optional."""
    studies: tuple[str, ...] = ()
    """Only the entries of these studies."""
    minutes: float = 9.0
    """Time after which running trials are interrupted; they then have half a minute to write a checkpoint."""
    processes: int = 1
    """Number of trials that run simultaneously."""
    share_gpu: bool = False
    """Start NVIDIA's Multi-Process Service, so that trials use a GPU at the same time instead of in turns."""
    device: Literal["cpu", "cuda"] | None = None
    """Device to train on instead of that of each preset; the results record it."""
    results: Path = RESULTS
    """Folder of the project's results."""
    root: Path = Path("runs")
    """Folder of all runs; the trials of a study are in <root>/studies/<study>/<preset>."""
    collect: bool = False
    """Run nothing; merge the finished trials of --root into --results and rewrite their tables. <results>/RUNS.md is
    written again if it exists."""
    replace: bool = False
    """With --collect: take the new measurement of a trial that the results have already."""
    status: bool = False
    """Run nothing; print what is done and what is left."""
    markdown: Path | None = None
    """Run nothing; write what is done and what is left to this file: a new one, or one with the marks <!-- runs --> and
    <!-- end of runs -->, between which it is written."""
    json: bool = False
    """Print the result as JSON."""

    def run(self) -> int:
        if self.replace and not self.collect:
            raise ValueError("--replace belongs to --collect.")
        if not self.results.is_dir():
            raise FileNotFoundError(f"There is no folder {self.results}. {NO_RESULTS}")
        if self.collect:
            self._collect()
        if self.status or self.markdown is not None:
            self._show_status()
        if self.collect or self.status or self.markdown is not None:
            return 0
        return self._run_slice()

    def _run_slice(self) -> int:
        from mnemoscope.engines import Local
        from mnemoscope.replication.run_list import read_run_list
        from mnemoscope.replication.time_slices import run_slice

        check_whole(1, processes=self.processes)
        planned, shown = read_run_list(self.list, self.studies), shows_progress(self.json)
        report = None if shown or self.json else lambda line: print(printable(line), flush=True)
        engine = Local(self.processes, share_gpu=self.share_gpu)
        result = run_slice(
            planned, self.minutes, engine, self.results, self.root, progress=shown, report=report, device=self.device
        )
        rows = result.table()
        if self.json:
            print(json.dumps({"runs": rows, "failed": result.failed, "too long": result.too_long}, indent=2))
        else:
            print_table(rows)
            for message in result.too_long:
                print(printable(message))
        for failed in result.failed:
            print_error(f"Failed: {failed}")
        return 1 if result.failed else 0

    def _collect(self) -> None:
        from mnemoscope.replication.collecting import collect_results
        from mnemoscope.replication.run_status import FILE

        collected = collect_results(self.root, self.results, self.studies, replace=self.replace)
        for each in collected:
            print(printable(str(each)), file=sys.stderr if self.json else sys.stdout)
        if not collected:
            message = f"{self.root} has no finished trial of a study; those of the preset smoke are no results."
            print(message, file=sys.stderr)
        if (self.results / FILE).exists() and self.list.exists():
            self._write_status(self.results / FILE)

    def _show_status(self) -> None:
        from mnemoscope.replication.run_list import read_run_list
        from mnemoscope.replication.run_status import count_uncollected, find_status, status_table

        if self.markdown is not None:
            print(f"Table: {self._write_status(self.markdown).resolve()}", file=sys.stderr if self.json else sys.stdout)
        if not self.status:
            return
        status = find_status(read_run_list(self.list, self.studies), self.results)
        rows, waiting = status_table(status), count_uncollected(status, self.root)
        if waiting:
            remedy = "`mnemoscope replicate --collect` adds them to the results"
            print(f"{waiting} more have finished in {self.root}; {remedy}.", file=sys.stderr)
        if self.json:
            print(json.dumps(rows, indent=2))
        else:
            print_table([{name: value for name, value in row.items() if name not in WIDE} for row in rows])

    def _write_status(self, path: Path) -> Path:
        """Write the status of the whole list, whichever studies are chosen."""
        from mnemoscope.replication.run_list import read_run_list
        from mnemoscope.replication.run_status import find_status, write_status

        return write_status(path, find_status(read_run_list(self.list), self.results))
