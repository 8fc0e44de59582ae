"""The files of a memory card."""

from __future__ import annotations

import json
from typing import Any

from mnemoscope.arena.card.figure import page_bytes
from mnemoscope.arena.card.page import render_card
from mnemoscope.arena.card.result import MemoryCard
from mnemoscope.report.markup import check_report_extra


def card_files(card: MemoryCard) -> dict[str, bytes]:
    """Return the content of card.html, card.json, card.pdf and card.svg by name."""
    check_report_extra()
    return {
        "card.html": render_card(card).encode(),
        "card.json": (json.dumps(card.to_dict(), indent=1, allow_nan=False) + "\n").encode(),
        "card.pdf": page_bytes(card, "pdf"),
        "card.svg": page_bytes(card, "svg"),
    }


def notebook_page(card: MemoryCard) -> Any:
    """Return the page as SVG markup."""
    svg = page_bytes(card, "svg").decode()
    return svg[svg.index("<svg") :]
