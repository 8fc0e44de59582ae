"""A designed network as a figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from mnemoscope.drawing.axes import new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT
from mnemoscope.lenses.fisher.constraints import Constraint

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mnemoscope.lenses.fisher.design import MemoryDesign


def draw_design(design: MemoryDesign, colours: Mapping[str, str] = LIGHT, *, font_size: float = 9) -> Figure:
    """The matrix (of a matrix network, both) as a line, singular values, memory under its bound, and the ascent. Needs
    the `report` extra.

    Args:
        design: what is drawn.
        colours: by the names of `LIGHT`.
        font_size: size of text, in points, that the layout has room for.

    """
    lines = design.lines
    figure = new_figure(3.4 * (len(lines) + 3), 3.4)
    *pictures, singular, curve, ascent = figure.subplots(1, len(lines) + 3)
    names = ["V"] if len(lines) == 1 else ["$U^T$", "$V^T$"]
    reach = max(float(line.abs().max()) for line in lines) or 1.0
    for axes, line, name in zip(pictures, lines, names, strict=True):
        axes.imshow(line.numpy(), cmap="RdBu_r", vmin=-reach, vmax=reach, interpolation="nearest")
        axes.set_title(f"{name} as a line", fontsize=font_size, color=colours["ink"])
        axes.set(xticks=[], yticks=[])
    for one, name, marker in zip(design.parts[:-1], ["V"] if design.U is None else ["U", "V"], "os", strict=False):
        values = torch.linalg.svdvals(one).numpy()
        singular.plot(range(1, len(values) + 1), values, marker, color=colours["stable"], label=name,
                      markerfacecolor="none" if marker == "s" else None)  # fmt: skip
    if design.norm is not None:
        singular.axhline(design.norm, color=colours["muted"], linestyle="dotted", label="allowed")
    singular.set(xlabel="number", ylabel="singular value", ylim=(-0.05 * reach, None))
    singular.xaxis.get_major_locator().set_params(integer=True)
    size = design.memory.size
    shown = min(len(design.memory), max(2 * size, design.lags or 0))
    J = (design.memory.curve[:shown] / design.memory.input_information).numpy()
    curve.plot(J, color=colours["stable"], marker="." if shown < 40 else "", label="J(k)")
    alpha = Constraint(design.norm, design.frobenius).largest ** (2 * len(design.shape))
    allowed = 1 / (alpha ** -torch.arange(shown, dtype=torch.float64)).cumsum(0)
    curve.plot(allowed.numpy(), color=colours["muted"], linestyle="dotted", label="what the norm allows")
    if design.lags is not None and design.lags < shown:
        curve.axvline(design.lags - 0.5, color=colours["line"])
    curve.set(xlabel="steps ago", ylabel="Fisher information", ylim=(0, None))
    ascent.plot(design.ascent.numpy(), color=colours["stable"], label="best ascent",
                marker="o" if len(design.ascent) == 1 else "")  # fmt: skip
    ascent.axhline(design.bound, color=colours["muted"], linestyle="dotted", label="none holds more")
    ascent.axhline(design.line, color=colours["muted"], linestyle="dashed", label="a delay line")
    ascent.xaxis.get_major_locator().set_params(integer=True)
    ascent.set(xlabel="iteration", ylabel="held", ylim=(0, None))
    for axes in (singular, curve, ascent):
        axes.legend(frameon=False, fontsize=font_size)
    for axes in (*pictures, singular, curve, ascent):
        style_axes(axes, colours, font_size)
    return figure
