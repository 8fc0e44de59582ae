"""Figures of the attention lens (they need the `report` extra)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mnemoscope.drawing.axes import Figure, new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT, Colours
from mnemoscope.lenses.attention.result import NO_STEP, Attention, AttentionDependencies

COLOUR_MAP = "viridis"
GREY = "#9aa1a980"
"""Colour of new states, visible on a light and on a dark background."""
SMALLEST = 1e-3
"""Weights up to this one share one colour."""


def draw_attention(attention: Attention, sample: int = 0, colours: Colours = LIGHT, *, font_size: float = 9) -> Figure:
    """Draw the weights as a map (Kerg, Fig 1); for a screen also the states in memory and the scores that decided."""
    if not 0 <= sample < attention.batch:
        raise ValueError(f"The sequences are numbered 0 to {attention.batch - 1}, but sequence {sample} was requested.")
    screened = attention.scores is not None
    figure = new_figure(13.5 if screened else 9, 4.2)
    panels = figure.subplots(1, 3 if screened else 2)
    draw_weights(panels[0], attention, sample, colours, font_size)
    if screened:
        draw_kept(panels[1], attention, sample, colours, font_size)
        draw_scores(panels[2], attention, sample, colours, font_size)
    else:
        draw_received(panels[1], attention, sample, colours, font_size)
    return figure


def draw_dependencies(found: AttentionDependencies, colours: Colours = LIGHT) -> Figure:
    """Draw how many weights count at each step, and how many states and weights a gradient passes to reach it."""
    figure = new_figure(9, 3.6)
    left, right = figure.subplots(1, 2)
    there = (found.kappa != NO_STEP).numpy()
    for axes, counts, colour, label in (
        (left, found.kappa, "stable", "kappa"),
        (right, found.depth, "stable", "hidden states"),
        (right, found.skips, "saddle-1", "attention weights"),
    ):
        steps, sequences = np.nonzero(there)
        shade = {"color": colours[colour], "alpha": 0.3, "linestyle": "none"}
        axes.plot(steps, counts.numpy()[steps, sequences], ".", **shade)
        present = there.any(1)
        means = np.nanmean(np.where(there, counts.numpy(), np.nan)[present], axis=1)
        axes.plot(np.nonzero(present)[0], means, color=colours[colour], linewidth=1.6, label=label)
    left.set(xlabel="step", ylabel="weights that count", ylim=(0, None))
    right.set(xlabel="step", ylabel="on the way to the last step", ylim=(0, None))
    right.legend(frameon=False, labelcolor=colours["ink"])
    for axes in (left, right):
        style_axes(axes, colours, 9)
    return figure


def draw_weights(axes: Any, attention: Attention, sample: int, colours: Colours, font_size: float) -> None:
    """Draw the weights: a row for each step that attends, a column for each state; blank where none was in memory."""
    weights = attention.weights[:, :, sample].masked_fill(~attention.kept[:, :, sample], np.nan).numpy()
    from matplotlib.colors import LogNorm

    # logarithmic: the first weight is always 1, and next to it all others would look alike
    norm = LogNorm(min(max(float(np.nanmin(weights)), SMALLEST), 0.1), 1, clip=True)
    image = axes.imshow(weights, cmap=COLOUR_MAP, norm=norm, aspect="auto", interpolation="nearest")
    axes.set(xlabel="to the state of step", ylabel="step", title="Attention")
    _finish(axes, image, colours, font_size, format=lambda weight, _: f"{weight:g}")  # the page has no superscripts


def draw_received(axes: Any, attention: Attention, sample: int, colours: Colours, font_size: float) -> None:
    """Draw the total attention that each state received."""
    received = attention.received[:, sample].numpy()
    axes.vlines(range(len(received)), 0, received, color=colours["stable"], linewidth=1.6)
    axes.set(xlabel="state of step", ylabel="total attention received", ylim=(0, None))
    style_axes(axes, colours, font_size)


def draw_kept(axes: Any, attention: Attention, sample: int, colours: Colours, font_size: float) -> None:
    """Draw when each state was in memory: a row for each state, grey while it is new, then coloured by its score."""
    assert attention.scores is not None
    kept, chosen = attention.kept[:, :, sample].T.numpy(), attention.chosen[:, :, sample].T.numpy()
    scores = attention.scores[:, sample].numpy()
    from matplotlib.colors import ListedColormap

    new = np.where(kept & ~chosen, 1.0, np.nan)
    style = {"aspect": "auto", "interpolation": "nearest"}
    axes.imshow(new, cmap=ListedColormap([GREY]), **style)  # a page cannot replace the colours of a raster image
    by_score = np.where(chosen, scores[:, None], np.nan)
    image = axes.imshow(by_score, cmap=COLOUR_MAP, vmin=0, vmax=float(np.nanmax(by_score, initial=0)) or 1.0, **style)
    axes.set(xlabel="step", ylabel="state of step", title="In memory, by relevance")
    _finish(axes, image, colours, font_size)


def draw_scores(axes: Any, attention: Attention, sample: int, colours: Colours, font_size: float) -> None:
    """Draw the relevance of each state, marked by how long it was kept."""
    assert attention.scores is not None
    scores, last = attention.scores[:, sample].numpy(), int(attention.last[sample])
    held, chosen = attention.kept[last, :, sample].numpy(), attention.chosen[last, :, sample].numpy()
    ever = attention.chosen[:, :, sample].any(0).numpy()
    kinds = (
        (chosen, "stable", "o", "kept to the end"),
        (ever & ~chosen, "saddle-1", "v", "kept for some time"),
        (~ever & ~held, "muted", ".", "dropped"),
        (held & ~chosen, "path", "|", "still new"),
    )
    steps, taken = np.arange(len(scores)), attention.taken[:, sample].numpy()
    for members, colour, marker, label in kinds:
        shown = members & taken
        if shown.any():
            axes.vlines(steps[shown], 0, scores[shown], color=colours[colour], linewidth=1)
            style = {"color": colours[colour], "markersize": 5, "linestyle": "none"}
            axes.plot(steps[shown], scores[shown], marker, label=label, **style)
    top = float(scores.max()) or 1.0
    axes.set(xlabel="state of step", ylabel="relevance", title="Attention received while new", ylim=(0, 1.35 * top))
    axes.legend(frameon=False, fontsize=font_size, labelcolor=colours["ink"], ncols=2, loc="upper center")
    style_axes(axes, colours, font_size)


def _finish(axes: Any, image: Any, colours: Colours, font_size: float, **options: Any) -> None:
    """Add a colour bar, and style both."""
    bar = axes.figure.colorbar(image, ax=axes, **options)
    for panel in (axes, bar.ax):
        style_axes(panel, colours, font_size)
    bar.ax.spines[:].set_visible(False)
