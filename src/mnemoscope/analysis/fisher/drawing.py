"""Fisher memory as a figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from numpy import isfinite

from mnemoscope.analysis.spectra_drawing import LIGHT, calm, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mnemoscope.analysis.fisher.memory import FisherMemory


def draw_memory(memory: FisherMemory, colours: Mapping[str, str] = LIGHT, *, letters: float = 9) -> Figure:
    """The curve under its bound, the sum of it, and the Fisher memory matrix. Needs the `report` extra.

    Args:
        memory: what is drawn.
        colours: by the names of `LIGHT`.
        letters: size that all letters are given room for.

    """
    figure = new_figure(11.5, 3.6)
    curve, held, matrix = figure.subplots(1, 3)
    J = memory.curve.detach().numpy()
    curve.plot(J, color=colours["stable"], label="J(k)")
    bound = memory.amplification_bound.detach().numpy()
    if isfinite(bound).all():
        curve.plot(bound, color=colours["muted"], linestyle="dotted", label="what the amplification allows")
    curve.set(xlabel="steps ago", ylabel="Fisher information", ylim=(0, None))
    curve.legend(frameon=False, fontsize=letters)
    held.plot(J.cumsum(0), color=colours["stable"])
    held.axhline(float(memory.total.detach()), color=colours["muted"], linestyle="dotted")
    held.set(xlabel="steps ago, up to", ylabel="held of these", ylim=(0, None))
    J_kl = memory.matrix.detach().numpy()
    reach = float(abs(J_kl).max()) or 1.0
    matrix.imshow(J_kl, cmap="RdBu_r", vmin=-reach, vmax=reach, interpolation="nearest")
    matrix.set(xlabel="l", ylabel="k")
    for axes in (curve, held, matrix):
        calm(axes, colours, letters)
    return figure
