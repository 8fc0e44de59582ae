"""Tables of memory cards: one for each task, with a row for each network and the entries in which networks differ."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from re import sub

from mnemoscope.arena.card.answers import Entry
from mnemoscope.arena.card.result import MemoryCard
from mnemoscope.arena.definition import Arena

SHOWN = {
    "accuracy on its task": "remembered",
    "half-life in the outputs": "duration",
    "memory capacity": "amount",
    "Fisher memory": "amount",
    "fixed points": "mechanism",
    "accuracy at 4 x length": "failures",
    "accuracy at 2 x load": "failures",
    "accuracy at 4 x load": "failures",
    "accuracy with noise of 10%": "failures",
    "tolerated noise": "failures",
    "time of one step": "cost",
    "what a step does": "mechanism",
}
"""Entries of a table, the longest text last, and the question of the card that each of them belongs to."""


def load_cards(folder: str | Path, arena: Arena) -> dict[str, dict[str, MemoryCard]]:
    """Return the cards of an arena in a folder, by task and network; tasks without a card are left out.

    A card is the file `<task>/<network>.json`, or `<task>/<network>/card.json`. Cards of another arena with this name
    are left out, and so are files that cannot be read, with a warning.
    """
    cards: dict[str, dict[str, MemoryCard]] = {}
    for task, network in product(arena.tasks, arena.networks):
        place = Path(folder, task.name, network.name)
        files = (place.with_name(f"{place.name}.json"), place / "card.json")
        card = next((_load(file) for file in files if file.exists()), None)
        if card is not None and card.provenance.get("arena") == arena.name:
            cards.setdefault(task.name, {})[network.name] = card
    return cards


def _load(file: Path) -> MemoryCard | None:
    try:
        card = MemoryCard.load(file)
        shown_entries(card)
    except (ValueError, OSError, KeyError) as error:
        warnings.warn(f"A memory card is left out: {error}", stacklevel=3)
        return None
    return card


def shown_entries(card: MemoryCard) -> dict[str, Entry]:
    """Return the entries of a card that a table may show, by name, in the order of `SHOWN`."""
    return {name: card[question][name] for name, question in SHOWN.items()}


def shown_columns(cards: Iterable[MemoryCard]) -> list[str]:
    """Return the columns of a table: those of `SHOWN` that apply to one of its cards."""
    rows = [shown_entries(card) for card in cards]
    return [name for name in SHOWN if any(row[name].status != "not applicable" for row in rows)]


def short_text(entry: Entry) -> str:
    """Return an entry without its interval, its remarks and the name of its layer, or its finding as text.

    >>> short_text(Entry("tolerated noise", 0.3, "%", note="largest level that was tried"))
    '30.0%'
    >>> short_text(Entry("what a step does", note="rotate 70% (69% to 71%), hold 30% (29% to 31%) of steps"))
    'rotate 70%, hold 30% of steps'
    >>> short_text(Entry("what a step does", note="layers.1 of 2 layers: fade 100% of steps"))
    'fade 100% of steps'
    """
    if entry.status != "measured":
        return "–" if entry.status == "not applicable" else entry.status
    if entry.value is None:
        return sub(r" \([^)]* to [^)]*\)", "", sub(r"^\S+ of \d+ layers: ", "", entry.note))
    return replace(entry, low=None, high=None, note="").text()


def cards_as_markdown(cards: Mapping[str, MemoryCard]) -> str:
    """Return the table of the cards on one task as Markdown."""
    columns = shown_columns(cards.values())
    lines = [["network", *columns], ["---"] * (1 + len(columns))]
    for name, card in cards.items():
        entries = shown_entries(card)
        lines.append([name, *(short_text(entries[column]) for column in columns)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
