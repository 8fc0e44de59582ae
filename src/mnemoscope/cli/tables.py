"""The commands that show what is on disk: studies, scoreboard, runs. Importing them does not import torch."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import get_terminal_size
from typing import Any

from mnemoscope import registry
from mnemoscope.base.terminal import printable
from mnemoscope.store import (
    StoredResults,
    differing_columns,
    find_study_results,
    informative_columns,
    read_runs,
    select,
    write_csv,
    write_parquet,
)

GAP = "  "
"""Space between two columns of a table."""
RESULTS = Path("results")
"""Default folder of the project's results."""
NO_RESULTS = (
    "The project's results are not available: they come with its source code, in the folder results, and not with the "
    "package. Name the folder with --results."
)


@dataclass(frozen=True)
class Studies:
    """Show which studies have been run: with which presets, how many trials, and where the results are.

    `mnemoscope list studies` describes the studies. The project's results are in the folder results of its source
    code, your own are in <root>/studies.

        mnemoscope studies
        mnemoscope studies --results ~/mnemoscope/results --root ~/runs --json
    """

    results: Path | None = None
    """Folder of the project's results; by default ./results, if it exists."""
    root: Path = Path("runs")
    """Folder of your runs."""
    json: bool = False
    """Print as JSON: a list of objects with name, summary, source, state and the results of each preset."""

    def run(self) -> int:
        results = results_folder(self.results)
        stored = [_counted(each) for each in find_study_results(results, self.root)]
        known = [entry.name for entry in registry.studies]
        unregistered = [each for each in stored if each.study not in known]
        by_study = {name: [each for each in stored if each.study == name] for name in known}
        state_without = "unknown" if results is None else "not run"
        if self.json:
            content = [
                {
                    "name": entry.name,
                    "summary": entry.summary,
                    "source": entry.source,
                    "state": "run" if by_study[entry.name] else state_without,
                    "results": [_as_json(each) for each in by_study[entry.name]],
                }
                for entry in registry.studies
            ]
            print(json.dumps(content, indent=2))
        else:
            not_run = "not run" if results is not None else "not run here"
            print_table([line for entry in registry.studies for line in _lines(entry, by_study[entry.name], not_run)])
        if results is None:
            print(NO_RESULTS, file=sys.stderr)
        for each in unregistered:
            print_error(f"{each.path} belongs to {each.study!r}, which is no study of this version.")
        return 0


@dataclass(frozen=True)
class Scoreboard:
    """Compare all published values with the measured ones, as one HTML page or one Markdown table.

    Trials in --root count too, so that a study of yours is compared at once.

        mnemoscope scoreboard
        mnemoscope scoreboard --root None --markdown SCOREBOARD.md
        mnemoscope scoreboard --root None --pages pages            # with a page and a figure for every study
    """

    results: Path | None = None
    """Folder of the project's results; by default ./results, if it exists."""
    root: Path | None = Path("runs")
    """Folder of your runs; None: only the project's results."""
    output: Path | None = None
    """Where to write the page; by default scoreboard.html, unless --markdown, --summary or --pages is given."""
    markdown: Path | None = None
    """Where to write the tables as Markdown: a new file, or one with the marks <!-- tables of the scoreboard --> and
    <!-- end of the tables -->, between which they are written."""
    summary: Path | None = None
    """Markdown file, such as README.md, in which a sentence with the counts replaces the text between
    <!-- scoreboard --> and <!-- end of scoreboard -->."""
    pages: Path | None = None
    """Folder for one page per file of --results, with its table and its figure; nothing is run again."""
    rewrite: bool = False
    """First rewrite every file of --results: recompute its table from its trials with the current code."""
    json: bool = False
    """Print the scoreboard as JSON."""

    def run(self) -> int:
        from mnemoscope.replication.results import read_results, rewrite_results, write_pages
        from mnemoscope.replication.run_list import FILE, read_run_list
        from mnemoscope.replication.scoreboard import make_scoreboard
        from mnemoscope.replication.scoreboard_page import write_markdown, write_scoreboard, write_summary

        results = results_folder(self.results)
        if results is None and (self.root is None or not self.root.is_dir()):
            raise FileNotFoundError(f"There is nothing to show. {NO_RESULTS}")
        if self.rewrite and results is not None:
            rewrite_results(results)
        found, problems = read_results(results, self.root)
        plan = None if results is None else results / FILE
        board = make_scoreboard(found, read_run_list(plan) if plan is not None and plan.is_file() else ())
        written = []  # reported last: the reader may close the pipe after one line
        if self.markdown is not None:
            written.append(f"Table: {write_markdown(self.markdown, board).resolve()}")
        if self.summary is not None:
            written.append(f"Summary: {write_summary(self.summary, board).resolve()}")
        if self.pages is not None:
            if results is None:
                raise FileNotFoundError(f"There are no results for the pages. {NO_RESULTS}")
            of_results = [one for one in found if one.path.suffix == ".json"]  # the user's runs have pages
            written.append(f"Pages: {len(write_pages(of_results, self.pages))} in {self.pages.resolve()}")
        asked = (self.markdown, self.summary, self.pages)
        if self.output is not None or (not any(asked) and not self.json):
            written.append(f"Page: {write_scoreboard(self.output or Path('scoreboard.html'), board).resolve()}")
        print(json.dumps(board.as_json(), indent=2) if self.json else board.summary())
        for message in written:
            _print_note(message, self.json)
        if results is None:
            print(NO_RESULTS, file=sys.stderr)
        for problem in problems:
            print_error(problem)
        return 0


@dataclass(frozen=True)
class Runs:
    """Show all runs as one table, finished or not, including those of studies.

    The table has the settings in which the runs differ, and their results. Columns in which all runs agree are one line
    above it. On a terminal, columns that do not fit are named below it; --columns selects the columns to show.
    Truncated runs and runs of a newer version are flagged.

        mnemoscope runs --where 'accuracy>0.9' cell=gru --sort loss
        mnemoscope runs --columns name seed accuracy folder --csv runs.csv
    """

    root: Path = Path("runs")
    """Folder of all runs."""
    where: tuple[str, ...] = ()
    """Conditions that a run must meet: a column, one of = != < <= > >=, and a value. Quote them, because < and > are
    special characters of the shell."""
    sort: str | None = None
    """Column to sort by."""
    descending: bool = False
    """Largest first."""
    columns: tuple[str, ...] = ()
    """Columns to show, whatever the width of the terminal; by default JSON and files have all columns."""
    json: bool = False
    """Print as JSON: a list of objects."""
    csv: Path | None = None
    """Write the table to a CSV file."""
    parquet: Path | None = None
    """Write the table to a Parquet file (extra `table`)."""

    def run(self) -> int:
        runs = read_runs(self.root)
        chosen = select(runs, self.where, self.sort, descending=self.descending)
        table = select(chosen, columns=self.columns or None) if chosen else []
        columns = list(next(iter(select(runs, columns=self.columns or None)), {}))  # raises on an unknown column
        if self.csv is not None:
            _print_note(f"Written: {write_csv(self.csv, table, columns)}", self.json)
        if self.parquet is not None:
            _print_note(f"Written: {write_parquet(self.parquet, table, columns)}", self.json)
        if self.json:
            print(json.dumps(table, indent=2))
        elif not runs:
            print(printable(f"There are no runs in {self.root}."))
        elif self.csv is None and self.parquet is None:
            if self.columns:
                print_table(table)
            else:
                _print_fitting(select(chosen, columns=informative_columns(chosen)))
            total = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
            print(f"{len(chosen)} of {total}." if self.where else f"{total}.")
        for problem in dict.fromkeys(run["problem"] for run in chosen if run["problem"] is not None):
            folders = [run["folder"] for run in chosen if run["problem"] == problem]
            more = f" and {len(folders) - 1} more" if len(folders) > 1 else ""
            print_error(f"{folders[0]}{more}: {problem}")
        return 0


def results_folder(given: Path | None) -> Path | None:
    """Return the folder of the project's results; None if it is not available."""
    if given is None:
        return RESULTS if RESULTS.is_dir() else None
    if not given.is_dir():
        raise FileNotFoundError(f"There is no folder {given}. {NO_RESULTS}")
    return given


def _lines(entry: registry.Entry, stored: Sequence[StoredResults], not_run: str) -> list[dict[str, str]]:
    """Return the rows of a study in the table: one for each preset that was run, or one."""
    cells = [(each.preset, each.progress, str(each.path)) for each in stored] or [("", not_run, "")]
    return [
        {"study": name, "preset": preset, "trials": trials, "where": where, "source": source}
        for (name, source), (preset, trials, where) in zip(
            [(entry.name, entry.source), *[("", "")] * (len(cells) - 1)], cells, strict=True
        )
    ]


def _counted(stored: StoredResults) -> StoredResults:
    """Return the results with the number of trials of the preset, computed from the study if there is no summary."""
    known = stored.of_preset is not None or stored.problem is not None or stored.path.is_file()
    if known or stored.study not in registry.studies:
        return stored
    from mnemoscope.replication.trial_files import finished_trials, preset_progress  # imports torch

    study = registry.studies.load(stored.study)
    try:
        counts = preset_progress(study, stored.preset, finished_trials(study, stored.preset, stored.path))
        return replace(stored, of_preset=tuple(counts.values()))
    except Exception as error:  # a study may fail in any way on measurements of the wrong type
        return replace(stored, problem=f"cannot be read: {error or type(error).__name__}")


def _as_json(stored: StoredResults) -> dict[str, Any]:
    finished, total = stored.of_preset or (None, None)
    return {
        "preset": stored.preset,
        "finished": stored.trials,
        "of the preset": finished,
        "trials of the preset": total,
        "path": str(stored.path),
        "command": stored.command,
        "problem": stored.problem,
    }


def print_table(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows as aligned columns, below a header line."""
    if not rows:
        return
    columns, widths = list(rows[0]), _widths(rows)
    for line in ([_text(column) for column in columns], *([_text(row[column]) for column in columns] for row in rows)):
        cells = (text.ljust(widths[column]) for text, column in zip(line, columns, strict=True))
        print(GAP.join(cells).rstrip())


def _widths(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return the width of each column of a table."""
    return {column: max(map(len, [_text(column), *(_text(row[column]) for row in rows)])) for column in rows[0]}


def _print_fitting(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a table of runs, with columns in which all agree as a line above, and names of those too wide below."""
    if not rows:
        return
    differing = differing_columns(rows, list(rows[0])) if len(rows) > 1 else list(rows[0])
    constant = [column for column in rows[0] if column not in differing]
    if constant:
        print("All runs: " + ", ".join(f"{_text(column)} {_text(rows[0][column])}" for column in constant) + ".")
    shown = differing
    if sys.stdout.isatty():
        shown = columns_that_fit(_widths(rows), differing, get_terminal_size().columns)
    print_table(select(rows, columns=shown))
    hidden = [column for column in differing if column not in shown]
    if hidden:
        print(f"Too wide for this terminal: {', '.join(map(_text, hidden))}. Choose columns with --columns.")


def columns_that_fit(widths: Mapping[str, int], columns: Sequence[str], available: int) -> list[str]:
    """Return the columns of a table of runs that fit into the available width, in their order.

    The folder, by which a run is inspected, comes first, then loss and accuracy, then the other columns from left to
    right. A column that does not fit is omitted, and narrower ones after it may still fit. One column is always
    returned.

    >>> columns_that_fit({"cell": 4, "task_options.delay": 18, "loss": 6, "folder": 9}, ["cell", "loss", "folder"], 80)
    ['cell', 'loss', 'folder']
    >>> columns_that_fit({"cell": 4, "delay": 18, "loss": 6, "folder": 9}, ["cell", "delay", "loss", "folder"], 24)
    ['cell', 'loss', 'folder']
    """
    preferred = ("folder", "loss", "accuracy")
    first = sorted(columns, key=lambda column: preferred.index(column) if column in preferred else len(preferred))
    chosen, used = {first[0]}, widths[first[0]]
    for column in first[1:]:
        if used + len(GAP) + widths[column] <= available:
            chosen.add(column)
            used += len(GAP) + widths[column]
    return [column for column in columns if column in chosen]


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else printable(str(value)).replace("\n", " ")


def print_error(message: str) -> None:
    """Print a message on stderr; it may quote names from files."""
    print(printable(message), file=sys.stderr)


def _print_note(message: str, as_json: bool) -> None:
    """Print a message next to the result: on stderr if stdout has to be pure JSON."""
    print(printable(message), file=sys.stderr if as_json else sys.stdout)
