"""Empty figures, and axes that do not distract from their content.

Every function that draws takes `colours` by the names of `LIGHT` and the `font_size`, in points, that it has room for.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Any

from mnemoscope.base.lazy_imports import import_report_extra
from mnemoscope.drawing.palette import Colours

if TYPE_CHECKING:
    from matplotlib.figure import Figure
else:
    Figure = Any  # importing matplotlib takes long, and it may not be installed


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size in inches, which belongs to no window (needs the `report` extra)."""
    import_report_extra("matplotlib")
    from mnemoscope.base.inline_figure import InlineFigure

    return InlineFigure(figsize=(width, height), layout="constrained")


def style_axes(axes: Any, colours: Colours, font_size: float) -> None:
    """Mute the frame and the labels of finished axes, and set the size of all their text."""
    mute_axes(axes, colours, font_size)
    axes.title.set(color=colours["ink"], size=max(font_size, 11))
    legend = axes.get_legend()
    for text in [*axes.texts, *(legend.get_texts() if legend else ())]:
        text.set_size(font_size - 1)


def add_space(figure: Any, dimensions: int, place: Any = 111) -> Any:
    """Add axes of two dimensions, or of three with a pale grid, at a place of a grid."""
    if dimensions != 3:
        return figure.add_subplot(place)
    from matplotlib import rc_context

    with rc_context({"grid.color": "0.9", "grid.linewidth": 0.6}):
        return figure.add_subplot(place, projection="3d")


def label_axes(axes: Any, labels: Sequence[str], font_size: float = 9) -> None:
    """Label two or three axes, and make the box of three less prominent than its content."""
    axes.set(**dict(zip(("xlabel", "ylabel", "zlabel"), labels, strict=False)))
    if len(labels) == 3:
        for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
            axis.set_pane_color((1, 1, 1, 0))
        axes.locator_params(nbins=4)
        axes.tick_params(labelsize=font_size - 1)
        axes.set_box_aspect(None, zoom=0.98)


def label_log_axis(axes: Any) -> None:
    """Label a logarithmic y axis with plain numbers, since the fonts of a page have no superscripts."""
    from matplotlib.ticker import AutoLocator, LogLocator, NullFormatter, NullLocator

    low, high = axes.get_ylim()
    if high < 5 * low:  # 1, 2 and 5 may give a single label
        axes.yaxis.set_major_locator(AutoLocator())
        axes.yaxis.set_minor_locator(NullLocator())
    elif floor(log10(high)) - ceil(log10(low)) < 1:  # fewer than two powers of ten: label 2 and 5 too
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def mute_axes(axes: Any, colours: Colours, font_size: float) -> None:
    """Draw the left and the bottom spine alone, thin and pale, with muted labels and ticks."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(colours["line"])
    axes.tick_params(which="both", color=colours["line"], labelcolor=colours["muted"], labelsize=font_size)
    axes.xaxis.label.set(color=colours["muted"], size=font_size)
    axes.yaxis.label.set(color=colours["muted"], size=font_size)
