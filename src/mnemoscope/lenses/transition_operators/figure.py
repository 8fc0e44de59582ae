"""Figure of the transitions of one layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from mnemoscope.drawing.axes import Figure, new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT, PALETTE, Colours
from mnemoscope.lenses.transition_operators.actions import ACTIONS
from mnemoscope.lenses.transition_operators.result import LayerTransitions, Transitions

COLOURS_OF_ACTIONS = {
    "reset": "unstable",
    "rotate": "marginal",
    "reflect": "saddle-1",
    "erase": "saddle-2",
    "fade": "stable",
}
"""Names in the palette of the colours of the classes of operators; one that holds the state leaves the background."""
OPACITY = 0.8
"""Opacity of the classes; they are pixels, which cannot adapt to a dark page, and so have one colour for all pages."""
MOST_POINTS = 4000
"""Largest number of eigenvalues in the plane."""
MOST_LABELS = 48
"""Largest number of steps with a label each."""
MOST_HEADS = 12
"""Largest number of heads with a line each; more heads show the middle and the range."""


def draw_transitions(
    transitions: Transitions,
    layer: int | str = 0,
    colours: Colours = LIGHT,
    *,
    sequence: int = 0,
    figure: Any = None,
    font_size: float = 9,
) -> Figure:
    """Draw the eigenvalues, the tokens of one sequence, the exponents and the growth of products of a layer.

    The panels fill an empty `figure`, by default a new one (needs the `report` extra).
    """
    figure = new_figure(9.5, 7) if figure is None else figure
    chosen = transitions[layer]
    top, plane, exponents, growth = _panels(figure)
    labels = transitions.labels[sequence] if transitions.labels else ()
    _draw_tokens(top, chosen, sequence, labels, colours)
    _draw_plane(plane, chosen, colours)
    _draw_exponents(exponents, chosen, colours)
    _draw_growth(growth, chosen, colours)
    for axes in (top, plane, exponents, growth):
        style_axes(axes, colours, font_size)
    if labels and len(labels) <= MOST_LABELS:
        top.tick_params(axis="x", rotation=60, labelsize=font_size - 1)
    return figure


def _panels(figure: Any) -> tuple[Any, Any, Any, Any]:
    grid = figure.add_gridspec(2, 3, height_ratios=(1, 1.3))
    return (figure.add_subplot(grid[0, :]), *(figure.add_subplot(grid[1, column]) for column in range(3)))


def _head_colours(heads: int) -> Any:
    """Return a colour for each head, from a map that is readable on light and dark backgrounds."""
    from matplotlib import colormaps

    return colormaps["turbo"](np.linspace(0.08, 0.92, heads))


def _draw_tokens(axes: Any, layer: LayerTransitions, sequence: int, labels: tuple[str, ...], colours: Colours) -> None:
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Patch

    steps = int(layer.steps[sequence])
    actions = layer.actions[:steps, sequence].numpy().T  # (heads, time)
    table = {name: to_rgba(PALETTE[key][0], OPACITY) for name, key in COLOURS_OF_ACTIONS.items()}
    table["hold"] = (1.0, 1.0, 1.0, 0.0)
    pixels = np.array([table[name] for name in ACTIONS])[actions]
    axes.imshow(pixels, aspect="auto", interpolation="nearest", origin="lower")
    writes = layer.does("write")[:steps, sequence].numpy().T
    if writes.size <= MOST_POINTS:
        rows, columns = np.nonzero(writes)
        axes.scatter(columns, rows, s=7, color=colours["ink"], linewidth=0)
    met = [name for number, name in enumerate(ACTIONS) if (actions == number).any()]
    handles = [Patch(facecolor=table[name], edgecolor=colours["line"], label=name) for name in met]
    if writes.size <= MOST_POINTS and writes.any():
        handles.append(axes.scatter([], [], s=7, color=colours["ink"], label="writes"))
    beside = {"loc": "upper left", "bbox_to_anchor": (1, 1.05), "handlelength": 1.2}
    axes.legend(handles=handles, frameon=False, labelcolor=colours["ink"], **beside)
    axes.set(ylabel="head", title=f"What each step does to the state: {layer.name or layer.family}")
    axes.locator_params(axis="y", integer=True, nbins=8)
    if labels and len(labels) <= MOST_LABELS:
        axes.set_xticks(range(len(labels)), labels=[label.replace("$", r"\$") for label in labels])
    else:
        axes.set_xlabel("step")
        axes.locator_params(axis="x", integer=True)


def _draw_plane(axes: Any, layer: LayerTransitions, colours: Colours) -> None:
    turn = np.linspace(0, 2 * np.pi, 361)
    axes.fill(np.cos(turn), np.sin(turn), facecolor=colours["inside"], edgecolor=colours["muted"], zorder=1)
    values = (layer.eigenvalues + 0j)[layer.present]  # (steps, heads, keys)
    head = torch.arange(layer.heads)[:, None].expand(values.shape[1:]).expand_as(values).flatten().numpy()
    flat = values.flatten().numpy()
    order = np.random.default_rng(0).permutation(len(flat))[:MOST_POINTS]
    shown = flat[order]
    axes.scatter(np.real(shown), np.imag(shown), s=9, c=_head_colours(layer.heads)[head[order]], alpha=0.6,
                 linewidth=0, zorder=3, rasterized=True)  # fmt: skip
    axes.set_aspect("equal", adjustable="datalim")
    axes.set(xlabel="Re λ", ylabel="Im λ", title="Eigenvalues, by head")


def _draw_exponents(axes: Any, layer: LayerTransitions, colours: Colours) -> None:
    mean, low, high = (edge.numpy() for edge in layer.exponent)
    index = np.arange(1, mean.shape[1] + 1)
    finite = mean[np.isfinite(mean)]
    floor = (finite.min() if finite.size else -1.0) * 1.15 - 0.05
    shown = _head_colours(layer.heads) if layer.heads <= MOST_HEADS else [colours["path"]] * layer.heads
    for row, colour in enumerate(shown):
        kept = np.isfinite(mean[row])
        axes.plot(index[kept], mean[row][kept], marker="o", markersize=3.5, linewidth=1.2, color=colour, alpha=0.9)
        if np.isfinite(low[row]).any() and layer.heads <= MOST_HEADS:
            axes.fill_between(index[kept], low[row][kept], high[row][kept], color=colour, alpha=0.2, linewidth=0)
        lost = index[~kept]
        axes.plot(lost, np.full(len(lost), floor), marker="v", linestyle="none", markersize=5, color=colour)
    axes.axhline(0, color=colours["line"], linewidth=1, zorder=0)
    if not np.isfinite(mean).all():
        axes.text(0.02, 0.02, "▾ minus infinity", transform=axes.transAxes, color=colours["muted"])
    axes.locator_params(axis="x", integer=True)
    axes.set(xlabel="index", ylabel="per step", title="Lyapunov exponents")


def _draw_growth(axes: Any, layer: LayerTransitions, colours: Colours) -> None:
    sizes = layer.sizes.numpy()
    (growth, low, high), radii = (edge.numpy() for edge in layer.mean_growth), layer.radii.nanmean(1).numpy()
    shown = _head_colours(layer.heads) if layer.heads <= MOST_HEADS else [colours["path"]] * layer.heads
    for row, colour in enumerate(shown):
        axes.plot(sizes, growth[:, row], color=colour, linewidth=1.4)
        if layer.heads <= MOST_HEADS:
            axes.fill_between(sizes, low[:, row], high[:, row], color=colour, alpha=0.2, linewidth=0)
        if layer.structure != "diagonal":
            axes.plot(sizes, radii[:, row], color=colour, linewidth=1, linestyle="dotted")
    axes.axhline(0, color=colours["line"], linewidth=1, zorder=0)
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, labels=[str(size) for size in sizes])
    label = "log norm" if layer.structure == "diagonal" else "log norm (dotted: radius)"
    axes.set(xlabel="steps of a window", ylabel=label, title="Products")
