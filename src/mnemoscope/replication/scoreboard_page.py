"""The scoreboard as a page and as Markdown."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mnemoscope import registry
from mnemoscope.base.files import write_atomically
from mnemoscope.replication.results import Told
from mnemoscope.replication.scoreboard import KINDS, OTHERS, OURS, WORKS, Item, Line, Scoreboard, counts
from mnemoscope.report.document import Section, render_document
from mnemoscope.report.markup import render_template, table_markup
from mnemoscope.store import StoredResults

HEADINGS = ("quantity", "published", "ours", "preset", "verdict", "source")
COMMAND = "mnemoscope scoreboard --root None --markdown SCOREBOARD.md"
MARKS = ("<!-- scoreboard -->", "<!-- end of scoreboard -->")
"""Around the summary in a Markdown file that says other things too."""
LEAD = (
    "Each line has one published number or statement, and what came out here with the preset that is nearest to it. "
    "A verdict is by the range that the study has declared beside what was published; where conditions differ, there "
    "is none. A preset links to what was measured."
)
_ABOUT = {
    "Karuvally et al. 2023": "Variables in the weights of recurrent networks, and the episodic memory behind them.",
    "Notes on its energy": "Whether the energy of the episodic memory falls.",
    "Kerg 2022": "Inductive biases for efficient information transfer: non-normal networks, attention, screening.",
    "Renanse et al. 2021": "Memory capacity of recurrent networks with matrix representation, and their tapes.",
    "Jang": "Recurrent neural networks, a dynamical systems perspective: flip-flops, and how their memories are born.",
    OTHERS: "Neural Turing machines.",
    OURS: "Not published: what the studies have derived themselves, put to the test beside what was.",
}


@dataclass(frozen=True)
class OfStudy:
    """What one study has to say of one work."""

    name: str
    title: str
    anchor: str
    runs: list[tuple[str, str, str]]
    """Of each preset, how much of it was run, the command, and where the results are."""
    lines: list[tuple[Line, str]]
    """With the address of what was measured, or nothing."""


def write_scoreboard(path: str | Path, board: Scoreboard) -> Path:
    """Write the page as one HTML file, with links from where it lies to the results."""
    path = Path(path)
    facts = render_template("scoreboard_summary.html", summary=board.summary(), counts=_counted(board.published()))
    sections = [Section("By source", LEAD, table_markup("By source", ("source", *KINDS, "all"), _by_work(board)))]
    for work in board.works():
        studies = list(_studies(board, work, path.parent))
        sections.append(
            Section(work, _ABOUT[work], render_template("scoreboard.html", studies=studies, headings=HEADINGS))
        )
    return _write(path, render_document("Scoreboard", facts + render_template("scoreboard_style.html"), sections))


def write_markdown(path: str | Path, board: Scoreboard) -> Path:
    """Write the tables as one Markdown file, with links from where it lies to the results."""
    path = Path(path)
    lines = ["# Scoreboard", "", board.summary(), "", LEAD, "", f"Written by `{COMMAND}`.", ""]
    lines += _table(("source", *KINDS, "all"), _by_work(board))
    for work in board.works():
        lines += ["", f"## {work}", "", _ABOUT[work]]
        for study in _studies(board, work, path.parent):
            lines += ["", f"### {study.title}", ""]
            lines += [f"- [{words}]({target}): `{command}`" for words, command, target in study.runs]
            lines += [] if study.runs else [f"- never run: `mnemoscope study {study.name}`"]
            lines += ["", *_table(HEADINGS, [_cells(line, target) for line, target in study.lines])]
    return _write(path, "\n".join(lines) + "\n")


def write_summary(path: str | Path, board: Scoreboard) -> Path:
    """Write how all that was published fared between the marks `<!-- scoreboard -->` and `<!-- end of scoreboard -->`
    of a Markdown file; the rest of it stays.
    """
    path = Path(path)
    text = path.read_text(encoding="utf-8")
    before, begin, rest = text.partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not begin or not end:
        raise ValueError(f"{path} has no place for the summary: it must have the lines {MARKS[0]} and {MARKS[1]}.")
    table = _table(("source", *KINDS, "all"), _by_work(board))
    return _write(path, "\n".join([before + begin, "", board.summary(), "", *table, "", end + after]))


def _by_work(board: Scoreboard) -> list[list[str]]:
    """A row for each work and one for all that was published."""
    groups = {work: board.of_work(work) for work in board.works() if work != OURS}
    groups |= {"all published": board.published(), OURS: board.of_work(OURS)}
    return [
        [name, *(str(counts(items)[kind]) for kind in KINDS), str(len(items))]
        for name, items in groups.items()
        if items
    ]


def _counted(items: Sequence[Item]) -> list[tuple[str, int]]:
    found = counts(items)
    return [(kind, found[kind]) for kind in KINDS]


def _studies(board: Scoreboard, work: str, base: Path) -> Iterator[OfStudy]:
    items = board.of_work(work)
    order = [*WORKS, OTHERS, OURS].index(work)
    for name in dict.fromkeys(item.study for item in items):
        told = [one for one in board.told if one.study.name == name]
        runs = [(_how_much(one), one.command, _address(one.path, base)) for one in told]
        lines = [line for item in items if item.study == name for line in item.lines]
        linked = [(line, _address(line.told.path, base) if line.told else "") for line in lines]
        yield OfStudy(name, registry.studies.load(name).title, f"{name}-{order}", runs, linked)


def _how_much(one: Told) -> str:
    held = StoredResults(one.study.name, one.preset, one.path, len(one.finished), one.of_preset)
    return f"{one.preset}, trials: {held.progress}"


def _address(path: Path, base: Path) -> str:
    return Path(os.path.relpath(path, base)).as_posix()


def _cells(line: Line, target: str) -> list[str]:
    preset = f"[{line.preset}]({target})" if target else ""
    verdict = f"{line.verdict}: {line.because}" if line.because else line.verdict
    return [line.quantity, line.published, line.ours, preset, verdict, line.source]


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [headings, ["---"] * len(headings), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.encode())
    return path
