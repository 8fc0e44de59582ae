"""Attention and what was kept as figures; they need the `report` extra.

`colours` go by the names of `LIGHT`; `font_size` is the size of text, in points, that the layout has room for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mnemoscope.drawing.axes import new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mnemoscope.lenses.attention.lens import Attention

MAP = "viridis"
GREY = "#9aa1a980"
"""Of states that are new, to be seen on a light and on a dark ground."""
SMALLEST = 1e-3
"""Weights from here down have one colour."""


def draw_attention(
    attention: Attention,
    sample: int = 0,
    colours: Mapping[str, str] = LIGHT,
    *,
    figure: Any = None,
    font_size: float = 9,
) -> Figure:
    """Weights as a map (Kerg, Fig 1); of a screen, what lay in memory over time, and the scores that decided."""
    if not 0 <= sample < attention.batch:
        raise ValueError(f"There are {attention.batch} sequences, counted from 0, but sequence {sample} was asked for.")
    screened = attention.scores is not None
    if figure is None:
        figure = new_figure(13.5, 4.2) if screened else new_figure(9, 4.2)
    if not screened:
        weights, received = figure.subplots(1, 2)
        draw_weights(figure, weights, attention, sample, colours, font_size)
        draw_received(received, attention, sample, colours, font_size)
        return figure
    weights, kept, scores = figure.subplots(1, 3)
    draw_weights(figure, weights, attention, sample, colours, font_size)
    draw_kept(figure, kept, attention, sample, colours, font_size)
    draw_scores(scores, attention, sample, colours, font_size)
    return figure


def draw_weights(
    figure: Figure, axes: Any, attention: Attention, sample: int, colours: Mapping[str, str], font_size: float
) -> None:
    """Row: the step that attends; column: the state that it attends to. Blank where nothing was in memory."""
    weights = attention.weights[:, :, sample].masked_fill(~attention.kept[:, :, sample], np.nan).numpy()
    from matplotlib.colors import LogNorm

    # by magnitudes: the first weight is 1 whatever the network does, and all others would look alike beside it
    least = min(max(float(np.nanmin(weights)), SMALLEST), 0.1)
    drawn = axes.imshow(weights, cmap=MAP, norm=LogNorm(least, 1, clip=True), aspect="auto", interpolation="nearest")
    bar = figure.colorbar(drawn, ax=axes, format=_plain)
    axes.set(xlabel="to the state of step", ylabel="step", title="Attention")
    _finished((axes, bar.ax), colours, font_size)


def draw_received(axes: Any, attention: Attention, sample: int, colours: Mapping[str, str], font_size: float) -> None:
    """The attention that each state was given in all."""
    received = attention.received[:, sample].numpy()
    axes.vlines(range(len(received)), 0, received, color=colours["stable"], linewidth=1.6)
    axes.set(xlabel="state of step", ylabel="attention received in all", ylim=(0, None))
    style_axes(axes, colours, font_size)


def draw_kept(
    figure: Figure, axes: Any, attention: Attention, sample: int, colours: Mapping[str, str], font_size: float
) -> None:
    """Row: a state; column: the steps at which it lay in memory. Grey while it is new, by its score from then on."""
    assert attention.scores is not None
    kept, chosen = attention.kept[:, :, sample].T.numpy(), attention.chosen[:, :, sample].T.numpy()
    scores = attention.scores[:, sample].numpy()
    from matplotlib.colors import ListedColormap

    new = np.where(kept & ~chosen, 1.0, np.nan)
    how = {"aspect": "auto", "interpolation": "nearest"}
    axes.imshow(new, cmap=ListedColormap([GREY]), **how)  # a raster, in which no colour of a page can be exchanged
    by_score = np.where(chosen, scores[:, None], np.nan)
    drawn = axes.imshow(by_score, cmap=MAP, vmin=0, vmax=_reach(by_score), **how)
    bar = figure.colorbar(drawn, ax=axes)
    axes.set(xlabel="step", ylabel="state of step", title="In memory, by relevance")
    _finished((axes, bar.ax), colours, font_size)


def draw_scores(axes: Any, attention: Attention, sample: int, colours: Mapping[str, str], font_size: float) -> None:
    """The relevance of each state, and what became of it."""
    assert attention.scores is not None
    scores, last = attention.scores[:, sample].numpy(), int(attention.last[sample])
    held, chosen = attention.kept[last, :, sample].numpy(), attention.chosen[last, :, sample].numpy()
    ever = attention.chosen[:, :, sample].any(0).numpy()
    kinds = (
        (chosen, "stable", "o", "kept to the end"),
        (ever & ~chosen, "saddle-1", "v", "kept for a while"),
        (~ever & ~held, "muted", ".", "let go"),
        (held & ~chosen, "path", "|", "still new"),
    )
    there = np.arange(len(scores))
    for which, colour, marker, label in kinds:
        which = which & attention.taken[:, sample].numpy()
        if which.any():
            axes.vlines(there[which], 0, scores[which], color=colours[colour], linewidth=1)
            axes.plot(
                there[which], scores[which], marker, color=colours[colour], markersize=5, label=label, linestyle="none"
            )
    top = float(scores.max()) or 1.0
    axes.set(
        xlabel="state of step", ylabel="relevance", title="Why: attention received while new", ylim=(0, 1.35 * top)
    )
    axes.legend(frameon=False, fontsize=font_size, labelcolor=colours["ink"], ncols=2, loc="upper center")
    style_axes(axes, colours, font_size)


def _plain(value: float, _: Any = None) -> str:
    """A number without raised letters, which the page's fonts do not have."""
    return f"{value:g}"


def _reach(values: np.ndarray) -> float:
    return float(np.nanmax(values)) or 1.0 if np.isfinite(values).any() else 1.0


def _finished(panels: tuple[Any, ...], colours: Mapping[str, str], font_size: float) -> None:
    for axes in panels:
        style_axes(axes, colours, font_size)
    panels[1].spines[:].set_visible(False)
