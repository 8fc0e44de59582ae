"""The HTML page of a memory card: the six answers with their panels, for reading on a screen."""

from __future__ import annotations

from html import escape

from mnemoscope.arena.card.answers import Answer
from mnemoscope.arena.card.panels import PANELS
from mnemoscope.arena.card.result import MemoryCard
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR
from mnemoscope.report import Section, render_document
from mnemoscope.report.markup import figure_markup, table_markup
from mnemoscope.report.provenance import citation_section, provenance_section

FONT = 11
"""Size of the text of a panel."""


def render_card(card: MemoryCard) -> str:
    """Return the page as one HTML document that loads nothing else."""
    summary = "".join(
        f"<p>{escape(text)}</p>" for text in (f"Network: {card.network}", f"Task: {card.task}", card.training)
    )
    sections = [_section(answer) for answer in card.answers]
    made = "The same command with the same versions gives the same numbers on the same machine; times differ."
    command = str(card.provenance.get("command", ""))
    document = (*sections, citation_section(card.cites), provenance_section(command, made))
    return render_document(f"Memory card: {card.title}", summary, document, card.lenses)


def _section(answer: Answer) -> Section:
    rows = [(entry.name, entry.text(), entry.interval or "–") for entry in answer.entries]
    table = table_markup(answer.question, ("Quantity", "Value", "Interval"), rows)
    panels = PANELS[answer.key]
    figure = new_figure(7.2 if len(panels) > 1 else 5.6, 2.9)
    for axes, draw in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        draw(axes, answer, COLOUR, FONT)
    names = ", ".join(line.name for line in answer.lines) or "no curve"
    alt = f"{answer.question} Panel with {names}."
    return Section(answer.question, "", f"{figure_markup(figure, answer.key, alt=alt)}{table}")
