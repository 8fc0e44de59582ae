"""The table of an arena as Markdown, for the docs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mnemoscope.arena.card.result import MemoryCard
from mnemoscope.arena.card_table import cards_as_markdown
from mnemoscope.arena.cell import CONFIDENCE, ArenaCell
from mnemoscope.arena.result import ArenaTable
from mnemoscope.base.files import write_marked
from mnemoscope.lenses.noise_tolerance.lens import LEVELS
from mnemoscope.training.build import task_named

SPACE = "\N{NO-BREAK SPACE}"
MARKS = ("<!-- arena -->", "<!-- end of arena -->")
"""Marks around the table in a file that may have other content too."""


def write_markdown(
    path: str | Path, table: ArenaTable, cards: Mapping[str, Mapping[str, MemoryCard]] | None = None
) -> Path:
    """Write the table as Markdown into a new file, or between the marks of an existing one, and return the path.

    Accuracies at longer spans become a further table, and so do the memory cards of each task, as `load_cards` returns
    them.
    """
    parts = [table_as_markdown(table), *_longer(table), *_cards(table, cards or {})]
    return write_marked(path, MARKS, "\n\n".join(parts))


def table_as_markdown(table: ArenaTable, short: bool = False) -> str:
    """Return the table as Markdown: a row for each network, then the reasons of empty cells.

    The short form has two digits and no intervals.
    """
    lines = [["network", "mean", "state", *table.tasks]]
    lines.append(["---"] * len(lines[0]))
    for name in table.ranking():
        (skill, number), state = table.mean_skill(name), table.mean_state(name)
        part = f" ({number} of {len(table.tasks)})" if number < len(table.tasks) else ""
        reach = "" if short else _plus_minus(table.mean_reach(name))
        shown = "" if skill is None else f"{skill:.2f}{part}" if short else f"{skill:.3f}{reach}{part}"
        accuracies = (_accuracy(table.cell(name, task), short) for task in table.tasks)
        lines.append([name, shown, "" if state is None else f"{state:,.0f}", *accuracies])
    chances = (f"{chance:.2f}" if (chance := table.chances.get(task)) is not None else "" for task in table.tasks)
    lines.append(["*chance*", "0", "", *chances])
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    remarks = [
        f"- {cell.network} on {cell.task}: {'; '.join(cell.remarks())}." for cell in table.cells() if cell.remarks()
    ]
    listed = ["\n".join(remarks)] if remarks else []
    if short:
        return "\n\n".join([table.summary(), text, *listed])
    legend = (
        f"Accuracy, mean over seeds, ± half the width of its {CONFIDENCE}. Mean: over the tasks, on a scale on which "
        f"chance is 0 and no error is 1, with an interval from the variances of all tasks. State: numbers in the "
        f"state, mean over the tasks."
    )
    return "\n\n".join([table.summary(), text, legend, *listed])


def longer_as_markdown(table: ArenaTable) -> str:
    """Return the accuracies at the longest span of each task as Markdown, or "" if the arena has no longer spans."""
    tasks = [each for each in table.arena.tasks if each.longer]
    if not tasks:
        return ""
    lines = [["network", *(f"{each.name} {each.longer[-1]}" for each in tasks)]]
    lines.append(["---"] * len(lines[0]))
    for name in table.ranking():
        found = (table.cell(name, each.name).longer.get(each.longer[-1]) for each in tasks)
        lines.append([name, *("–" if value is None else f"{value:.3f}" for value in found)])
    chances = (task_named(each.task, each.task_options).at(each.longer[-1]).chance() for each in tasks)
    lines.append(["*chance*", *("" if chance is None else f"{chance:.2f}" for chance in chances)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _longer(table: ArenaTable) -> list[str]:
    """Return the table of longer spans with a sentence; nothing without such spans, or without any run."""
    if not any(cell.longer for cell in table.cells()) or not (longer := longer_as_markdown(table)):
        return []
    lead = "The same networks at spans that they were not trained on, the longest of each task; mean over seeds:"
    return [lead, longer]


def _cards(table: ArenaTable, cards: Mapping[str, Mapping[str, MemoryCard]]) -> list[str]:
    """Return the tables of the memory cards, one for each task with a sentence; nothing without cards."""
    parts = []
    for task, found in cards.items():
        ranked = {name: found[name] for name in table.ranking() if name in found}
        descriptions = " and ".join(dict.fromkeys(card.task for card in ranked.values()))
        parts += [f"Memory cards on {task}, of one trained network each ({descriptions}):", cards_as_markdown(ranked)]
        if missing := [name for name in table.ranking() if name not in found]:
            reasons = (f"{name} ({table.cell(name, task).reason or 'not made yet'})" for name in missing)
            parts.append(f"Without a card on {task}: {', '.join(reasons)}.")
    levels = ", ".join(f"{level:.0%}" for level in LEVELS[1:])
    legend = (
        "The cards have the intervals. What a step does: share of the steps, last affine layer. Load: how much must be "
        "held at once, relative to training. Tolerated noise: the largest of the levels "
        f"{levels} at which half of the advantage over no memory is left. Time of one step: a single sequence on the "
        "machine of the card. A dash: not applicable; a column that applies to no network is left out."
    )
    return [*parts, legend] if parts else []


def _accuracy(cell: ArenaCell, short: bool) -> str:
    if cell.accuracy is None:
        return "–"
    if short:
        return f"{cell.accuracy:.2f}"
    return f"{cell.accuracy:.3f}{_plus_minus(cell.reach)}"


def _plus_minus(reach: float | None) -> str:
    return "" if reach is None else f"{SPACE}±{SPACE}{reach:.3f}"
