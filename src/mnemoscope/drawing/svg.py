"""Matplotlib figures as inline SVG that follows the colours and the font of a page, light or dark.

figure = new_figure(7.2, 3.1)
figure.add_subplot().plot(x, y, color=COLOUR["stable"])
Section("My lens", "What it shows.", inline_svg(figure, "mine", alt="Description of the figure"))
"""

from __future__ import annotations

import io
import re
from typing import Any

from mnemoscope.base.lazy_imports import import_report_extra
from mnemoscope.drawing.axes import Figure, mute_axes
from mnemoscope.drawing.palette import PALETTE

_NAMES = ("ink", "muted", "line", "path", "accent", "inside", *PALETTE)
COLOUR: dict[str, str] = {name: f"#0a0b{number:02x}" for number, name in enumerate(_NAMES)}
"""Placeholders of the page's colours, by name. `inline_svg` replaces them by the page's CSS variables."""

PHONE_WIDTH = 5.6
"""Width of a figure in inches that fits the screen of a phone; a wider one scrolls there."""
PAGE_FONT_SIZE = 13
"""Size of text on a narrow page in pixels, as in page.css. Figures for a page must have room for it."""


def style_page_axes(axes: Any) -> None:
    """Mute the axes of a figure for a page, and add horizontal grid lines."""
    mute_axes(axes, COLOUR, PAGE_FONT_SIZE)
    axes.grid(axis="y", color=COLOUR["line"], linewidth=0.8)


def add_legend(axes: Any, place: str = "best", beside: bool = False) -> None:
    """Add a legend without a frame, at `place` inside the axes or `beside` them on the right."""
    position = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)} if beside else {"loc": place}
    axes.legend(frameon=False, labelcolor=COLOUR["ink"], fontsize=PAGE_FONT_SIZE, **position)


def inline_svg(figure: Figure, name: str, *, alt: str) -> str:
    """Return a figure in the colours of `COLOUR` as SVG markup for a page, in a pane that scrolls on a narrow screen.

    `name` is a prefix that keeps its ids apart from those of other figures; `alt` describes it to readers who cannot
    see it.
    """
    import_report_extra("jinja2")
    from markupsafe import escape

    target = io.StringIO()
    with import_report_extra("matplotlib").rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(target, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = target.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    svg = re.sub(r"\bfont(-family|-size)?: [^;\"]+;?\s*", "", svg)
    head, rest = svg.split(">", 1)
    head = re.sub(r' (width|height)="[^"]*"', "", head)
    units = 72 * figure.get_figwidth()
    svg = f'{head} role="img" aria-label="{escape(alt)}" style="--units: {units:.0f}">{rest}'
    for colour, code in COLOUR.items():
        svg = svg.replace(code, f"var(--{colour})")
    return f'<div class="pane">{svg}</div>'
