"""The commands that read back what lies on disk: studies, their scoreboard, runs. No torch at import."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mnemoscope import registry
from mnemoscope.store import (
    StoredResults,
    find_study_results,
    informative_columns,
    read_runs,
    select,
    write_csv,
    write_parquet,
)

RESULTS = Path("results")
NO_RESULTS = (
    "The project's own results are not at hand: they come with its source, in the folder results, and not with the "
    "package. --results names the folder."
)


@dataclass(frozen=True)
class Studies:
    """Show each study and its state: never run, or of which presets there are results, how many trials, and where.

    `mnemoscope list studies` tells what each is about. The project's own results lie in the folder results of its
    source, one's own in <root>/studies.

        mnemoscope studies
        mnemoscope studies --results ~/mnemoscope/results --root ~/runs --json
    """

    results: Path | None = None
    """Folder of the project's results; by default ./results, if it is there."""
    root: Path = Path("runs")
    """Folder of one's own runs."""
    json: bool = False
    """Print as JSON: a list of objects with name, summary, source, state and what is held of each preset."""

    def run(self) -> int:
        results = results_folder(self.results)
        held = [_counted(one) for one in find_study_results(results, self.root)]
        known = [entry.name for entry in registry.studies]
        strange = [one for one in held if one.study not in known]
        of = {name: [one for one in held if one.study == name] for name in known}
        unknown = "not known here" if results is None else "never run"
        if self.json:
            content = [
                {
                    "name": entry.name,
                    "summary": entry.summary,
                    "source": entry.source,
                    "state": "run" if of[entry.name] else unknown,
                    "results": [_as_json(one) for one in of[entry.name]],
                }
                for entry in registry.studies
            ]
            print(json.dumps(content, indent=2))
        else:
            print_table([line for entry in registry.studies for line in _lines(entry, of[entry.name], unknown)])
        if results is None:
            print(NO_RESULTS, file=sys.stderr)
        for one in strange:
            print(f"{one.path} is of {one.study!r}, which is no study of this version.", file=sys.stderr)
        return 0


@dataclass(frozen=True)
class Scoreboard:
    """Set everything that was published beside what came out here, over all studies: one page, or one Markdown table.

    mnemoscope scoreboard
    mnemoscope scoreboard --root None --markdown SCOREBOARD.md
    mnemoscope scoreboard --root None --pages pages            # and a page of every study that was run, with its figure
    """

    results: Path | None = None
    """Folder of the project's results; by default ./results, if it is there."""
    root: Path | None = Path("runs")
    """Folder of one's own runs; None: the project's results alone."""
    output: Path | None = None
    """Where to write the page; scoreboard.html, if neither --markdown nor --summary nor --pages is asked for."""
    markdown: Path | None = None
    """Where to write the Markdown table."""
    summary: Path | None = None
    """Markdown file, such as README.md, whose lines between <!-- scoreboard --> and <!-- end of scoreboard --> are to
    be the summary."""
    pages: Path | None = None
    """Folder into which to write a page of every file of --results: its table and its figure, without running it."""
    retell: bool = False
    """First write every file of --results again, from its trials, as the code of today tells them."""
    json: bool = False
    """Print all of it as JSON."""

    def run(self) -> int:
        from mnemoscope.replication.results import read_told, retell, write_pages
        from mnemoscope.replication.scoreboard import make_scoreboard
        from mnemoscope.replication.scoreboard_page import write_markdown, write_scoreboard, write_summary

        results = results_folder(self.results)
        if results is None and (self.root is None or not self.root.is_dir()):
            raise FileNotFoundError(f"There is nothing to show. {NO_RESULTS}")
        if self.retell and results is not None:
            retell(results)
        told, problems = read_told(results, self.root)
        board = make_scoreboard(told)
        written = []  # and told of at last: who reads may stop at the first line
        if self.markdown is not None:
            written.append(f"Table: {write_markdown(self.markdown, board).resolve()}")
        if self.summary is not None:
            written.append(f"Summary: {write_summary(self.summary, board).resolve()}")
        if self.pages is not None:
            if results is None:
                raise FileNotFoundError(f"There are no results to write pages of. {NO_RESULTS}")
            of_results = [one for one in told if one.path.suffix == ".json"]  # one's own runs have their pages
            written.append(f"Pages: {len(write_pages(of_results, self.pages))} in {self.pages.resolve()}")
        asked = (self.markdown, self.summary, self.pages)
        if self.output is not None or (not any(asked) and not self.json):
            written.append(f"Page: {write_scoreboard(self.output or Path('scoreboard.html'), board).resolve()}")
        print(json.dumps(board.as_json(), indent=2) if self.json else board.summary())
        for words in written:
            _say(words, self.json)
        if results is None:
            print(NO_RESULTS, file=sys.stderr)
        for problem in problems:
            print(problem, file=sys.stderr)
        return 0


@dataclass(frozen=True)
class Runs:
    """Read all runs back as one table: also those of studies, finished or not.

    It shows in which settings they differ and how they went; --columns asks for others.

        mnemoscope runs --where 'accuracy>0.9' cell=gru --sort loss
        mnemoscope runs --columns name seed accuracy folder --csv runs.csv
    """

    root: Path = Path("runs")
    """Folder of all runs."""
    where: tuple[str, ...] = ()
    """Conditions that all hold: a column, one of = != < <= > >=, and a value; quoted, for < and > mean something to a
    shell."""
    sort: str | None = None
    """Column to sort by."""
    descending: bool = False
    """Largest first."""
    columns: tuple[str, ...] = ()
    """Columns to show; JSON and files have all of them unless some are asked for."""
    json: bool = False
    """Print as JSON: a list of objects."""
    csv: Path | None = None
    """Write it to a CSV file."""
    parquet: Path | None = None
    """Write it to a Parquet file (extra `table`)."""

    def run(self) -> int:
        runs = read_runs(self.root)
        chosen = select(runs, self.where, self.sort, descending=self.descending)
        table = select(chosen, columns=self.columns or None) if chosen else []
        columns = list(next(iter(select(runs, columns=self.columns or None)), {}))  # a wrong name is told here
        if self.csv is not None:
            _say(f"Written: {write_csv(self.csv, table, columns)}", self.json)
        if self.parquet is not None:
            _say(f"Written: {write_parquet(self.parquet, table, columns)}", self.json)
        if self.json:
            print(json.dumps(table, indent=2))
        elif not runs:
            print(f"There is no run below {self.root}.")
        elif self.csv is None and self.parquet is None:
            print_table(table if self.columns else select(chosen, columns=informative_columns(chosen)))
            all_of = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
            print(f"{len(chosen)} of {all_of}." if self.where else f"{all_of}.")
        for problem in dict.fromkeys(run["problem"] for run in chosen if run["problem"] is not None):
            folders = [run["folder"] for run in chosen if run["problem"] == problem]
            more = f" and {len(folders) - 1} more" if len(folders) > 1 else ""
            print(f"{folders[0]}{more}: {problem}", file=sys.stderr)
        return 0


def results_folder(given: Path | None) -> Path | None:
    """The folder of the project's results; None where it is not at hand."""
    if given is None:
        return RESULTS if RESULTS.is_dir() else None
    if not given.is_dir():
        raise FileNotFoundError(f"There is no folder {given}. {NO_RESULTS}")
    return given


def _lines(entry: registry.Entry, held: Sequence[StoredResults], unknown: str) -> list[dict[str, str]]:
    """Of a study, a line for each preset that was run, or one."""
    told = [(one.preset, one.progress, str(one.path)) for one in held] or [("", unknown, "")]
    return [
        {"study": name, "preset": preset, "trials": trials, "where": where, "source": source}
        for (name, source), (preset, trials, where) in zip(
            [(entry.name, entry.source), *[("", "")] * (len(told) - 1)], told, strict=True
        )
    ]


def _counted(one: StoredResults) -> StoredResults:
    """With the number of the preset's trials, for which the study must be asked where its folder has no summary."""
    if one.of_preset is not None or one.problem is not None or one.path.is_file() or one.study not in registry.studies:
        return one
    from mnemoscope.replication.trial_files import finished_trials, of_the_preset, preset_of  # imports torch

    study = registry.studies.load(one.study)
    try:
        preset = preset_of(study, one.preset)
        return replace(
            one, of_preset=tuple(of_the_preset(study, preset, finished_trials(study, preset, one.path)).values())
        )
    except ValueError as error:
        return replace(one, problem=str(error))


def _as_json(one: StoredResults) -> dict[str, Any]:
    done, all_of = one.of_preset or (None, None)
    return {
        "preset": one.preset,
        "finished": one.trials,
        "of the preset": done,
        "trials of the preset": all_of,
        "path": str(one.path),
        "command": one.command,
        "problem": one.problem,
    }


def print_table(rows: Sequence[Mapping[str, Any]]) -> None:
    """In columns, with a line of names."""
    if not rows:
        return
    columns = list(rows[0])
    lines = [columns, *([_words(row[column]) for column in columns] for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
    for line in lines:
        print("  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip())


def _words(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _say(words: str, as_json: bool) -> None:
    print(words, file=sys.stderr if as_json else sys.stdout)
