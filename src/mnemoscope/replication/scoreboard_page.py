"""The scoreboard as a page and as Markdown."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mnemoscope import registry
from mnemoscope.base.files import write_between, write_marked, write_output
from mnemoscope.registry.citations import short_name
from mnemoscope.replication.results import PresetResults
from mnemoscope.replication.scoreboard import THIS_PROJECT, Item, Line, Scoreboard, counts
from mnemoscope.replication.verdicts import APART, Verdict
from mnemoscope.report.document import Section, render_document
from mnemoscope.report.markup import render_template, table_markup
from mnemoscope.store import StoredResults

HEADINGS = ("quantity", "published", "agreement", "ours", "networks", "verdict", "source", "command")
COMMAND = "mnemoscope scoreboard --root None --markdown SCOREBOARD.md"
COUNTS = ("<!-- scoreboard -->", "<!-- end of scoreboard -->")
"""Marks around the counts in a Markdown file that has other content too."""
TABLES = ("<!-- tables of the scoreboard -->", "<!-- end of the tables -->")
"""Marks around the tables in a Markdown file."""
LEAD = (
    "Each line has one published number or statement, the range of measured values that agree with it, and the "
    "measurement of the preset nearest to it. The networks are those within the range, of all that were measured, with "
    "the standard error of their mean and, where the mean is compared, its interval of 95%. A network whose training "
    "diverged counts as one that does not agree. Networks marked 'by our recipe' were trained by other settings than "
    "the published ones, which the page of a study lists. It also says how each range was chosen. Networks marked "
    "'by a reduced recipe' were trained by a named recipe that is smaller than the published one; their verdicts are "
    "counted apart, whatever they are. Networks on another "
    "task, or that have not solved it in a shorter training, are not compared. A command links to its measurements; "
    "without a link, it would make them. If trials have earlier settings, the preset has changed since, so the command "
    "would train by other settings than those in the linked file."
)
_ABOUT = {
    "karuvally2023": "Variables in the weights of recurrent networks, and the episodic memory behind them.",
    "karuvally2023notebook": "A table of 20 seeds, in the notebook of Karuvally et al. 2023 and not in the paper.",
    "energy_notes": "Does the energy of the episodic memory fall?",
    "kerg2022thesis": "Inductive biases for efficient information transfer: non-normal networks, attention, screening.",
    "renanse2021": "Memory capacity of recurrent networks with matrix representation, and their tapes.",
    "jang": "Recurrent neural networks as dynamical systems: flip-flops, and how their memories emerge.",
    "mante2013": "Context-dependent decisions: evidence is selected and integrated by one dynamical process.",
    "grazzi2025": "State tracking by linear recurrences needs negative eigenvalues.",
    "siems2025": "State tracking by products of reflections.",
    "yang2024delta": "DeltaNet on small tasks of recall, copying and memorising.",
    "peng2025": "RWKV-7 on the same tasks.",
    "lin_attn_bench": "An independent measurement of the same tasks, in the repository lin-attn-bench.",
    "arora2024": "Recall of many values, and how wide a network it takes.",
    "jelassi2024": "Copying: attention against states of fixed size.",
    "gu2024": "Selective state-space models: copying among noise, and induction heads.",
    THIS_PROJECT: "Not published: claims that the studies derive, and test together with the published ones.",
}
_NAMES = {
    "karuvally2023notebook": "Its notebook",
    "energy_notes": "Notes on its energy",
    THIS_PROJECT: "This project",
}
"""Headings of works whose short name is not clear."""


@dataclass(frozen=True)
class StudySection:
    """The claims of one work that one study tests."""

    name: str
    title: str
    anchor: str
    runs: list[tuple[str, str, str]]
    """For each preset: its progress, the command, and the address of the results."""
    lines: list[tuple[Line, str]]
    """Lines, each with the address of its measurement, or an empty text."""


def write_scoreboard(path: str | Path, board: Scoreboard) -> Path:
    """Write the page as one HTML file, with relative links to the results."""
    path = Path(path)
    found = counts(board.published())
    counted = [(verdict.value, found[verdict]) for verdict in Verdict]
    facts = render_template("scoreboard_summary.html", summary=board.summary(), counts=counted)
    sections = [Section("By source", LEAD, table_markup("By source", ("source", *Verdict, "all"), _by_work(board)))]
    for work in board.works():
        studies = list(_studies(board, work, path.parent))
        table = render_template("scoreboard.html", studies=studies, headings=HEADINGS)
        sections.append(Section(heading(work), _ABOUT.get(work, ""), table))
    return _write(path, render_document("Scoreboard", facts + render_template("scoreboard_style.html"), sections))


def write_markdown(path: str | Path, board: Scoreboard) -> Path:
    """Write the tables into a new Markdown file, or between the marks of one, with relative links to the results."""
    path = Path(path)
    rule = "[How a verdict is reached](docs/verdicts.md) explains the rule."
    lines = ["# Scoreboard", "", board.summary(), "", f"{LEAD} {rule}", "", f"Written by `{COMMAND}`.", ""]
    lines += _table(("source", *Verdict, "all"), _by_work(board))
    lines += _open_questions(board)
    for work in board.works():
        lines += ["", f"## {heading(work)}", "", *([_ABOUT[work]] if work in _ABOUT else [])]
        for study in _studies(board, work, path.parent):
            lines += ["", f"### {study.title}", ""]
            lines += [f"- [{progress}]({target}): `{command}`" for progress, command, target in study.runs]
            lines += [] if study.runs else [f"- never run: `mnemoscope study {study.name}`"]
            lines += ["", *_table(HEADINGS, [_cells(line, target) for line, target in study.lines])]
    return write_marked(path, TABLES, "\n".join(lines))


def write_summary(path: str | Path, board: Scoreboard) -> Path:
    """Write the counts as a table between the marks `<!-- scoreboard -->` and `<!-- end of scoreboard -->`."""
    groups = {"published numbers and statements": board.published(), "more, by a reduced recipe": board.reduced()}
    table = _table(
        ("", *Verdict), [[f"{len(items)} {name}", *_by_verdict(items)] for name, items in groups.items() if items]
    )
    write_between(path, COUNTS, "\n".join(["", *table, "", board.remarks(), ""]))
    return Path(path)


def _by_verdict(items: Sequence[Item]) -> list[str]:
    """Return how many claims have each verdict."""
    found = counts(items)
    return [str(found[verdict]) for verdict in Verdict]


def _by_work(board: Scoreboard) -> list[list[str]]:
    """Return a row for each work and one for all published claims."""
    groups = {heading(work): board.claims_of(work) for work in board.works() if work != THIS_PROJECT}
    groups = {name: [item for item in items if item.published] for name, items in groups.items()}
    groups |= {"all published": board.published(), "by a reduced recipe": board.reduced()}
    groups |= {"true by construction": board.by_construction(), "without a result": board.without_result()}
    groups[heading(THIS_PROJECT)] = board.claims_of(THIS_PROJECT)
    return [[name, *_by_verdict(items), str(len(items))] for name, items in groups.items() if items]


def _open_questions(board: Scoreboard) -> list[str]:
    """Return the published claims that do not match for a reason that is unknown, or that no run has tested."""
    published = [*board.published(), *board.reduced()]
    unknown = [item for item in published if item.cause_unknown]
    untested = [item for item in published if item.cause_untested]
    studies = {item.study: registry.studies.load(item.study).title for item in unknown + untested}
    lines = []
    for title, items in (("Causes that are unknown", unknown), ("Causes that no run has tested", untested)):
        rows = [
            [
                heading(item.work),
                studies[item.study],
                *_cells(line, "")[:2],
                line.ours,
                _verdict(line),
            ]
            for item in items
            for line in item.lines
            if line.verdict in APART
        ]
        if rows:
            lines += ["", f"## {title}", ""]
            lines += _table(("source", "study", "quantity", "published", "ours", "verdict"), rows)
    return lines


def heading(work: str) -> str:
    """Return the name of a work: author and year, or the one that this project gives it."""
    return _NAMES.get(work) or short_name(work)


def _studies(board: Scoreboard, work: str, base: Path) -> Iterator[StudySection]:
    items = board.claims_of(work)
    for name in dict.fromkeys(item.study for item in items):
        results = [each for each in board.results if each.study.name == name]
        runs = [(_progress(each), each.command, _address(each.path, base)) for each in results]
        lines = [line for item in items if item.study == name for line in item.lines]
        linked = [(line, _address(line.results.path, base) if line.results else "") for line in lines]
        yield StudySection(name, registry.studies.load(name).title, f"{name}-{work}", runs, linked)


def _progress(results: PresetResults) -> str:
    held = StoredResults(results.study.name, results.preset, results.path, len(results.finished), results.of_preset)
    return f"{results.preset}, trials: {held.progress}"


def _address(path: Path, base: Path) -> str:
    return Path(os.path.relpath(path, base)).as_posix()


def _cells(line: Line, target: str) -> list[str]:
    command = f"`{line.command}`" if line.command else ""
    command = f"[{command}]({target})" if line.results else command
    command = "; ".join(filter(None, (command, line.changed)))
    agreement = "" if line.claim.agreement is None else str(line.claim.agreement)
    return [
        line.quantity,
        str(line.claim.value),
        agreement,
        line.ours,
        line.seeds,
        _verdict(line),
        str(line.claim.source),
        command,
    ]


def _verdict(line: Line) -> str:
    return ": ".join(filter(None, (f"{line.judgement}{line.mark}", line.judgement.reason)))


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [headings, ["---"] * len(headings), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]


def _write(path: Path, text: str) -> Path:
    write_output(path, text.encode())
    return path
