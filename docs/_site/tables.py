"""Tables of generated pages, as Markdown."""

from __future__ import annotations

from collections.abc import Sequence


def section(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], lead: str = "") -> str:
    """Return a section with a title, a lead and a table."""
    lines = [headings, ["---"] * len(headings), *rows]
    table = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
    return "\n\n".join(part for part in (f"## {title}", lead, table) if part)
