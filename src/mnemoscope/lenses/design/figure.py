"""Figure of a designed network."""

from __future__ import annotations

from typing import Any

import torch

from mnemoscope.drawing.axes import Figure, new_figure
from mnemoscope.drawing.palette import LIGHT, Colours
from mnemoscope.lenses.design.constraints import Constraint
from mnemoscope.lenses.design.result import MemoryDesign
from mnemoscope.lenses.fisher.figure import finish_panels


def draw_design(design: MemoryDesign, colours: Colours = LIGHT, *, font_size: float = 9) -> Figure:
    """Draw each matrix as a line, its singular values, the memory with its bound, and the ascent."""
    lines = design.lines
    figure = new_figure(3.4 * (len(lines) + 3), 3.4)
    *images, singular, curve, ascent = figure.subplots(1, len(lines) + 3)
    names = ["V"] if len(lines) == 1 else ["$U^T$", "$V^T$"]
    reach = max(float(line.abs().max()) for line in lines) or 1.0
    for axes, line, name in zip(images, lines, names, strict=True):
        axes.imshow(line.numpy(), cmap="RdBu_r", vmin=-reach, vmax=reach, interpolation="nearest")
        axes.set_title(f"{name} as a line", fontsize=font_size, color=colours["ink"])
        axes.set(xticks=[], yticks=[])
    _draw_singular_values(singular, design, colours)
    singular.set(ylim=(-0.05 * reach, None))
    _draw_memory(curve, design, colours)
    _draw_ascent(ascent, design, colours)
    finish_panels((*images, singular, curve, ascent), (singular, curve, ascent), colours, font_size)
    return figure


def _draw_singular_values(axes: Any, design: MemoryDesign, colours: Colours) -> None:
    names = ["V"] if design.U is None else ["U", "V"]
    for matrix, name, marker in zip(design.parts[:-1], names, "os", strict=False):
        values = torch.linalg.svdvals(matrix).numpy()
        style = {"color": colours["stable"], "markerfacecolor": "none" if marker == "s" else None}
        axes.plot(range(1, len(values) + 1), values, marker, label=name, **style)
    if design.norm is not None:
        axes.axhline(design.norm, color=colours["muted"], linestyle="dotted", label="limit")
    axes.set(xlabel="index", ylabel="singular value")
    axes.xaxis.get_major_locator().set_params(integer=True)


def _draw_memory(axes: Any, design: MemoryDesign, colours: Colours) -> None:
    memory = design.memory
    shown = min(len(memory), max(2 * memory.size, design.lags or 0))
    J = (memory.curve[:shown] / memory.input_information).numpy()
    axes.plot(J, color=colours["stable"], marker="." if shown < 40 else "", label="J(k)")
    alpha = Constraint(design.norm, design.frobenius).largest ** (2 * len(design.shape))
    bound = 1 / (alpha ** -torch.arange(shown, dtype=torch.float64)).cumsum(0)
    axes.plot(bound.numpy(), color=colours["muted"], linestyle="dotted", label="bound of the norm")
    if design.lags is not None and design.lags < shown:
        axes.axvline(design.lags - 0.5, color=colours["line"])
    axes.set(xlabel="k steps ago", ylabel="Fisher information", ylim=(0, None))


def _draw_ascent(axes: Any, design: MemoryDesign, colours: Colours) -> None:
    marker = "o" if len(design.ascent) == 1 else ""
    axes.plot(design.ascent.numpy(), color=colours["stable"], label="best ascent", marker=marker)
    axes.axhline(design.bound, color=colours["muted"], linestyle="dotted", label="upper bound")
    axes.axhline(design.line, color=colours["muted"], linestyle="dashed", label="delay line")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set(xlabel="iteration", ylabel="relative total", ylim=(0, None))
