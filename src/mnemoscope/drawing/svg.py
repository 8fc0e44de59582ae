"""Matplotlib figures as elements of the page, in its colours and its font, on a light or a dark ground.

figure = blank(7.2, 3.1)
figure.add_subplot().plot(x, y, color=COLOUR["stable"])
Section("My lens", "What it tells.", inline(figure, "mine", alt="What is to be seen"))
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

from mnemoscope.base.lazy_imports import need
from mnemoscope.drawing.palette import PALETTE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAMES = ("ink", "muted", "line", "path", "accent", "inside", *PALETTE)
COLOUR: dict[str, str] = {name: f"#0a0b{number:02x}" for number, name in enumerate(_NAMES)}
"""The page's colours by name. These codes stand in for them, and are exchanged when the figure is put into the page."""

LARGEST_LETTERS = 13
"""Size of letters on a narrow page, as in page.css: a figure is laid out such that they have room."""


def blank(width: float, height: float) -> Figure:
    """An empty figure of a size in inches, which belongs to no window."""
    return need("matplotlib.figure").Figure(figsize=(width, height), layout="constrained")


def quiet(axes: Any) -> None:
    """Axes that step back behind what they hold."""
    axes.tick_params(which="both", color=COLOUR["line"], labelcolor=COLOUR["muted"], labelsize=LARGEST_LETTERS)
    axes.xaxis.label.set(color=COLOUR["muted"], size=LARGEST_LETTERS)
    axes.yaxis.label.set(color=COLOUR["muted"], size=LARGEST_LETTERS)
    axes.grid(axis="y", color=COLOUR["line"], linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(COLOUR["line"])


def legend(axes: Any, place: str = "best", beside: bool = False) -> None:
    """A legend without a frame, within the axes or beside them."""
    where = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)} if beside else {"loc": place}
    axes.legend(frameon=False, labelcolor=COLOUR["ink"], fontsize=LARGEST_LETTERS, **where)


def inline(figure: Figure, name: str, *, alt: str) -> str:
    """The figure as markup. `name` keeps its ids apart from those of other figures; `alt` says what is to be seen."""
    need("jinja2")
    from markupsafe import escape

    target = io.StringIO()
    with need("matplotlib").rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(target, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = target.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    svg = re.sub(r"\bfont(-family|-size)?: [^;\"]+;?\s*", "", svg)
    head, rest = svg.split(">", 1)
    head = re.sub(r' (width|height)="[^"]*"', "", head)
    svg = f'{head} role="img" aria-label="{escape(alt)}">{rest}'
    for colour, code in COLOUR.items():
        svg = svg.replace(code, f"var(--{colour})")
    return svg
