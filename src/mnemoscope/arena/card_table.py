"""A table of memory cards: one row for each network, with the entries in which networks on one task differ."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from re import sub

from mnemoscope.arena.card.answers import Entry
from mnemoscope.arena.card.result import MemoryCard

SHOWN = {
    "memory capacity": "amount",
    "Fisher memory": "amount",
    "fixed points": "mechanism",
    "what a step does": "mechanism",
    "accuracy at 4 x length": "failures",
    "tolerated noise": "failures",
    "time of one step": "cost",
}
"""Entries of the table, and the question of the card that each of them belongs to."""


def load_cards(folder: str | Path, arena: str) -> dict[str, MemoryCard]:
    """Return the cards of an arena in a folder, by network: `<network>.json`, or `<network>/card.json`.

    Cards of other arenas are left out, and so are files that cannot be read, with a warning.
    """
    files = {path.stem: path for path in Path(folder).glob("*.json")}
    files |= {path.parent.name: path for path in Path(folder).glob("*/card.json")}
    cards = {}
    for name in sorted(files):
        try:
            card = MemoryCard.load(files[name])
            shown_entries(card)
        except (ValueError, OSError, KeyError) as error:
            warnings.warn(f"A memory card is left out: {error}", stacklevel=2)
            continue
        if card.provenance.get("arena") == arena:
            cards[name] = card
    return cards


def shown_entries(card: MemoryCard) -> list[Entry]:
    """Return the entries of a card's row, in the order of `SHOWN`."""
    return [card[question][name] for name, question in SHOWN.items()]


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
    """Return the table as Markdown."""
    lines = [["network", *SHOWN], ["---"] * (1 + len(SHOWN))]
    lines += [[name, *map(short_text, shown_entries(card))] for name, card in cards.items()]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
