"""Figure of the influence of past inputs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mnemoscope.drawing.axes import Figure, new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT, Colours
from mnemoscope.lenses.exact_influence.result import Influence, interval

DECADES = 4
"""Powers of ten of the influence that the colours of a matrix span."""
SERIES = ("stable", "saddle-1", "saddle-2", "unstable")
"""Colours of the layers."""


def draw_influence(
    influence: Influence, colours: Colours = LIGHT, *, figure: Any = None, font_size: float = 9
) -> Figure:
    """Draw the heads by half-life, the influence of every input on every output, and the influence against the lag."""
    figure = new_figure(11, 3.6) if figure is None else figure
    heads, matrix, curves = figure.subplots(1, 3)
    draw_heads(heads, influence, colours)
    _draw_matrix(figure, matrix, influence, colours, font_size)
    draw_curves(curves, influence, colours)
    curves.legend(frameon=False, fontsize=font_size - 1, labelcolor=colours["ink"])
    for axes in (heads, matrix, curves):
        style_axes(axes, colours, font_size)
    return figure


def draw_heads(axes: Any, influence: Influence, colours: Colours) -> None:
    """Draw the half-life of every head through values, sorted, in the colour of its layer, with 95% intervals."""
    lives = torch.cat([layer.head_half_lives for layer in influence.layers], 1)  # (sequences, heads)
    owners = torch.cat([torch.full((layer.heads,), i) for i, layer in enumerate(influence.layers)])
    order = lives.mean(0).argsort()
    means, (low, high) = lives.mean(0)[order], (edge[order] for edge in interval(lives))
    for i in range(len(influence.layers)):
        of_layer = (owners[order] == i).nonzero().flatten()
        bars = [(means - low)[of_layer].clamp_min(0).numpy(), (high - means)[of_layer].clamp_min(0).numpy()]
        colour = layer_colour(i, colours)
        axes.errorbar(
            of_layer.numpy(),
            means[of_layer].numpy(),
            bars if len(lives) > 1 else None,
            fmt="o",
            markersize=4,
            elinewidth=1,
            color=colour,
        )
    axes.set(xlabel="head, sorted", ylabel="steps", title="Half-life through values", ylim=(0, None))
    axes.xaxis.get_major_locator().set_params(integer=True)


def draw_curves(axes: Any, influence: Influence, colours: Colours) -> None:
    """Draw the influence against the lag, relative to lag 0: the full one of each layer, and that of the network."""
    for i, layer in enumerate(influence.layers):
        samples = layer.value_curves if layer.full_curves is None else layer.full_curves
        name = layer.name or ("layer" if layer.full_curves is None else "layer, full")
        _draw_curve(axes, samples, layer_colour(i, colours), name if len(influence.layers) <= 4 else None)
    if influence.model_curves is not None:
        _draw_curve(axes, influence.model_curves, colours["ink"], "network")
    axes.set(xlabel="lag", yscale="log", title="Influence, relative to lag 0", ylim=(10.0**-DECADES, None))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_formatter(lambda *_: "")
    axes.xaxis.get_major_locator().set_params(integer=True)


def layer_colour(index: int, colours: Colours) -> Any:
    """Return the colour of a layer."""
    return colours[SERIES[index % len(SERIES)]]


def _draw_curve(axes: Any, samples: Tensor, colour: Any, label: str | None) -> None:
    """Draw the mean over sequences, and its interval if there are several sequences."""
    relative = samples / samples[:, :1]
    mean = relative.nanmean(0).clamp_min(1e-30)
    axes.plot(mean.numpy(), color=colour, linewidth=1.6, label=label)
    if len(samples) > 1:
        low, high = (edge.clamp_min(1e-30).numpy() for edge in interval(relative))
        axes.fill_between(range(len(mean)), low, high, color=colour, alpha=0.2, linewidth=0)


def _draw_matrix(figure: Any, axes: Any, influence: Influence, colours: Colours, font_size: float) -> None:
    """Draw the influence of every input on every output in the first sequence."""
    from matplotlib.colors import LogNorm

    if influence.model is not None:
        energies, name = influence.model, "network"
    else:
        layer = influence.longest
        energies, name = (layer.value, "values") if layer.full is None else (layer.full, "full")
        name = f"{layer.name}, {name}" if layer.name else name
    top = float(energies.max()) or 1.0
    steps = influence.cell * energies.shape[1]
    half = steps / (2 * len(energies))  # rows are evenly spaced
    image = axes.imshow(
        energies.masked_fill(energies <= 0, torch.nan).numpy(),
        aspect="auto",
        extent=(-0.5, steps - 0.5, steps - 1 + half, -half),
        norm=LogNorm(top * 10.0**-DECADES, top, clip=True),
        cmap="viridis",
        interpolation="nearest",
    )
    bar = figure.colorbar(image, ax=axes, location="right", aspect=30)
    bar.outline.set_visible(False)
    style_axes(bar.ax, colours, font_size - 1)
    axes.set(xlabel="input", ylabel="output", title=f"Squared influence, {name}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.get_major_locator().set_params(integer=True)
