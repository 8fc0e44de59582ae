"""Figure of an intervention: its effect among those of its controls."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.drawing.axes import Figure, new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT, Colours
from mnemoscope.lenses.bootstrap import Interval
from mnemoscope.lenses.intervention.result import Intervention


def draw_intervention(
    intervention: Intervention, colours: Colours = LIGHT, *, figure: Any = None, font_size: float = 9
) -> Figure:
    """Draw effect and side effect with their intervals among those of the controls, and the effect at later steps."""
    from matplotlib.ticker import MaxNLocator

    figure = new_figure(8, 3.4) if figure is None else figure
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.3))
    _draw_pair(left, 0, intervention.effect, intervention.interval, intervention.control_effects, colours)
    names = ["random\nsubspaces", "this\nsubspace"]
    if intervention.kind != "erase" and float(intervention.side_possible.sum()) > 0:
        power = 0.5 if intervention.answers == "values" else 1.0  # from squared distances to distances
        effect, controls = intervention.side_effect**power, intervention.control_side_effects**power
        low, high = intervention.side_interval
        _draw_pair(left, 2, effect, (low**power, high**power), controls, colours)
        names += ["random,\naside", "this,\naside"]
    left.axhline(0, color=colours["line"], linewidth=0.8, zorder=0)
    left.set_xticks(range(len(names)), names)
    left.set(xlim=(-0.6, len(names) - 0.4), ylabel=_label(intervention), title="Effect and control")
    steps = torch.arange(intervention.at + 1, intervention.at + 1 + len(intervention.by_step))
    for control in intervention.control_by_step:
        right.plot(steps.numpy(), control.numpy(), color=colours["path"], linewidth=0.6, alpha=0.7)
    right.plot(steps.numpy(), intervention.by_step.numpy(), "o-", color=colours["stable"], linewidth=1.8, markersize=3)
    low, high = (edge.numpy() for edge in intervention.by_step_interval)
    right.fill_between(steps.numpy(), low, high, color=colours["stable"], alpha=0.2, linewidth=0)
    right.axhline(0, color=colours["line"], linewidth=0.8, zorder=0)
    right.xaxis.set_major_locator(MaxNLocator(integer=True))
    right.set(xlabel="step", title=f"{intervention.kind.capitalize()} after step {intervention.at}")
    for axes in (left, right):
        style_axes(axes, colours, font_size)
    return figure


def _draw_pair(
    axes: Any, place: int, effect: float, interval: Interval, controls: Float[Tensor, " controls"], colours: Colours
) -> None:
    """Draw the controls at one place, and the effect with its interval at the next."""
    spread = torch.linspace(-0.18, 0.18, len(controls)) + place  # side by side, so that equal effects are seen
    axes.plot(spread.numpy(), controls.numpy(), "o", color=colours["path"], markersize=4)
    below, above = (abs(float(edge) - effect) for edge in interval)
    axes.errorbar(place + 1, effect, yerr=[[below], [above]], fmt="o", color=colours["stable"], capsize=3)


def _label(intervention: Intervention) -> str:
    """Return the meaning of an effect, in a few words."""
    if intervention.kind == "erase":
        return "change / variance" if intervention.answers == "values" else "share that changes"
    return "share of the way to the donor" if intervention.answers == "values" else "share that becomes the donor's"
