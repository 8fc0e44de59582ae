"""Figure of an intervention: its effect among those of its controls."""

from __future__ import annotations

from typing import Any

import torch

from mnemoscope.drawing.axes import Figure, new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT, Colours
from mnemoscope.lenses.intervention.result import Intervention


def draw_intervention(
    intervention: Intervention, colours: Colours = LIGHT, *, figure: Any = None, font_size: float = 9
) -> Figure:
    """Draw the effect with its interval among the effects of the controls, and all of them over the later steps."""
    from matplotlib.ticker import MaxNLocator

    figure = new_figure(8, 3.4) if figure is None else figure
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.3))
    controls, effect = intervention.control_effects, intervention.effect
    low, high = (float(edge) for edge in intervention.interval)
    spread = torch.linspace(-0.18, 0.18, len(controls))  # side by side, so that equal effects are seen
    left.plot(spread.numpy(), controls.numpy(), "o", color=colours["path"], markersize=4, label="random subspaces")
    left.errorbar(
        1,
        effect,
        yerr=[[max(effect - low, 0)], [max(high - effect, 0)]],
        fmt="o",
        color=colours["stable"],
        capsize=3,
        label="this subspace",
    )
    left.axhline(0, color=colours["line"], linewidth=0.8, zorder=0)
    left.set_xticks([0, 1], ["random\nsubspaces", "this\nsubspace"])
    left.set(xlim=(-0.6, 1.6), ylabel=_label(intervention), title="Effect and control")
    steps = torch.arange(intervention.at + 1, intervention.at + 1 + len(intervention.by_step))
    for control in intervention.control_by_step:
        right.plot(steps.numpy(), control.numpy(), color=colours["path"], linewidth=0.6, alpha=0.7)
    right.plot(steps.numpy(), intervention.by_step.numpy(), "o-", color=colours["stable"], linewidth=1.8, markersize=3)
    right.axhline(0, color=colours["line"], linewidth=0.8, zorder=0)
    right.xaxis.set_major_locator(MaxNLocator(integer=True))
    right.set(xlabel="step", title=f"{intervention.kind.capitalize()} after step {intervention.at}")
    for axes in (left, right):
        style_axes(axes, colours, font_size)
    return figure


def _label(intervention: Intervention) -> str:
    """Return the meaning of an effect, in a few words."""
    if intervention.kind == "erase":
        return "change / variance" if intervention.answers == "values" else "share that changes"
    return "share of the way to the donor" if intervention.answers == "values" else "share that becomes the donor's"
