"""The page of a memory card: one A4 sheet with six rows, each a question with its entries and its panels."""

from __future__ import annotations

import io
from itertools import zip_longest
from textwrap import wrap
from typing import Any

from mnemoscope.arena.card.answers import Answer
from mnemoscope.arena.card.panels import PANELS
from mnemoscope.arena.card.result import MemoryCard
from mnemoscope.base.lazy_imports import import_report_extra
from mnemoscope.drawing.axes import Figure, new_figure
from mnemoscope.drawing.palette import LIGHT, Colours

WIDTH, HEIGHT = 8.27, 11.69
"""A4 in inches."""
LEFT, RIGHT, TOP, BOTTOM = 0.5, 0.35, 0.45, 0.5
"""Margins in inches."""
HEAD, TEXT_WIDTH, GAP = 1.0, 4.0, 0.5
"""Height of the head, width of the column of entries, and the space between it and the panels, in inches."""
FONT, LINE = 7.0, 0.118
"""Size of the text in points, and height of a line in inches."""
NAME_WIDTH = 1.45
"""Width of the names of entries in inches."""
NAME_CHARACTERS, CHARACTERS = 29, 50
"""Characters of a line of a name, and of its text."""
FOOT, FOOT_CHARACTERS = 6.0, 140
"""Size of the text of the foot in points, and characters of its lines."""
MOST_LINES = 4
"""Lines of one entry; card.json has the whole."""
LEAST_ROW = 1.3
"""Height of the lowest row in inches."""


def draw_card(card: MemoryCard, colours: Colours = LIGHT, *, figure: Any = None) -> Figure:
    """Draw the page; the rows share its height by the number of their lines."""
    figure = new_figure(WIDTH, HEIGHT) if figure is None else figure
    figure.set_layout_engine("none")
    _head(figure, card, colours)
    texts = [_lines(answer) for answer in card.answers]
    space = HEIGHT - TOP - HEAD - BOTTOM
    top = HEIGHT - TOP - HEAD
    for answer, text, height in zip(card.answers, texts, _heights([len(text) for text in texts], space), strict=True):
        _row(figure, answer, text, top, height, colours)
        top -= height
    _foot(figure, card, colours)
    return figure


def page_bytes(card: MemoryCard, kind: str) -> bytes:
    """Return the page as PDF or SVG with text as text; equal cards give equal bytes."""
    matplotlib = import_report_extra("matplotlib")
    settings = {"svg.fonttype": "none", "svg.hashsalt": "card", "pdf.fonttype": 42, "font.family": "DejaVu Sans"}
    metadata = {"svg": {"Date": None, "Creator": None}, "pdf": {"CreationDate": None, "Title": card.title}}[kind]
    target = io.BytesIO()
    with matplotlib.rc_context(settings):
        draw_card(card).savefig(target, format=kind, metadata=metadata)
    return target.getvalue()


def _head(figure: Any, card: MemoryCard, colours: Colours) -> None:
    top = HEIGHT - TOP
    _write(figure, LEFT, top, card.title, colours["ink"], 14, weight="bold")
    _write(figure, WIDTH - RIGHT, top, "memory card", colours["muted"], 9, ha="right")
    lines = [f"Network: {card.network}", f"Task: {card.task}", card.training]
    for number, line in enumerate(wrapped for text in lines for wrapped in wrap(text, 130)[:2]):
        _write(figure, LEFT, top - 0.34 - number * 0.15, line, colours["muted"], 8)


def _heights(lines: list[int], space: float) -> list[float]:
    """Return the heights of the rows in inches: the least height for all, and the rest by the lines beyond it."""
    needed = [max(0.0, (number + 2) * LINE - LEAST_ROW) for number in lines]
    free = space - len(lines) * LEAST_ROW
    if sum(needed) >= free:
        return [LEAST_ROW + need * free / sum(needed) for need in needed]
    share = (free - sum(needed)) / len(lines)
    return [LEAST_ROW + need + share for need in needed]


def _row(
    figure: Any, answer: Answer, text: list[tuple[str, str, bool]], top: float, height: float, colours: Colours
) -> None:
    """Draw a question with its entries and panels in a row whose upper edge is at `top`."""
    from matplotlib.lines import Line2D

    rule = Line2D([LEFT / WIDTH, 1 - RIGHT / WIDTH], [top / HEIGHT] * 2, color=colours["line"], linewidth=0.8)
    figure.add_artist(rule)
    _write(figure, LEFT, top - 0.07, answer.question, colours["ink"], 9, weight="bold")
    room = int((height - 0.3) / LINE)
    if len(text) > room:
        text = [*text[: room - 1], ("", "… the rest is in card.json", False)]
    for number, (name, value, known) in enumerate(text):
        y = top - 0.28 - number * LINE
        _write(figure, LEFT, y, name, colours["muted"], FONT)
        _write(figure, LEFT + NAME_WIDTH, y, value, colours["ink" if known else "muted"], FONT)
    panels = PANELS[answer.key]
    left = LEFT + TEXT_WIDTH + GAP
    whole = WIDTH - RIGHT - left
    between = 0.42 if len(panels) > 1 else 0.0
    width = (whole - (len(panels) - 1) * between) / len(panels)
    for number, draw in enumerate(panels):
        box = (left + number * (width + between), top - height + 0.36, width, height - 0.46)
        axes = figure.add_axes([box[0] / WIDTH, box[1] / HEIGHT, box[2] / WIDTH, box[3] / HEIGHT])
        draw(axes, answer, colours, FONT - 0.5)
        if number:
            axes.set_ylabel("")
            axes.set_yticklabels([])


def _lines(answer: Answer) -> list[tuple[str, str, bool]]:
    """Return the lines of the entries: name, text, and whether it is known; scores of single arena tasks are left out.

    A reason that the entry before has, too, is not repeated.
    """
    lines, before = [], ""
    for entry in (entry for entry in answer.entries if not entry.name.startswith("arena: ")):
        repeated = bool(entry.reason) and entry.reason == before
        text = f"{entry.status}: as above" if repeated else entry.text()
        before = entry.reason
        names, texts = wrap(entry.name, NAME_CHARACTERS), wrap(text, CHARACTERS)
        if len(texts) > MOST_LINES:
            texts = [*texts[: MOST_LINES - 1], f"{texts[MOST_LINES - 1][: CHARACTERS - 2]} …"]
        known = entry.status == "measured"
        lines += [(*pair, known) for pair in zip_longest(names, texts, fillvalue="")]
    return lines


def _foot(figure: Any, card: MemoryCard, colours: Colours) -> None:
    machine = card.provenance.get("machine of the card", {})
    versions = ", ".join(f"{name} {machine[name]}" for name in ("mnemoscope", "torch", "python") if name in machine)
    texts = [
        card.provenance.get("command", ""),
        "; ".join(text for text in (versions, machine.get("cpu", "")) if text),
        "Intervals and their kind, all numbers and the full reasons are in card.json.",
    ]
    lines = [line for text in texts for line in wrap(text, FOOT_CHARACTERS)[:2]]
    for number, line in enumerate(lines):
        _write(figure, LEFT, BOTTOM - 0.03 - number * 0.1, line, colours["muted"], FOOT)


def _write(figure: Any, x: float, y: float, text: str, colour: str, size: float, **style: Any) -> None:
    """Write text whose upper left corner is at a place in inches."""
    safe = text.replace("$", r"\$")  # no formulas
    figure.text(x / WIDTH, y / HEIGHT, safe, color=colour, fontsize=size, va="top", **{"ha": "left", **style})
