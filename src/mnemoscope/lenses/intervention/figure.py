"""Figure of an intervention: its effect among those of its controls."""

from __future__ import annotations

from collections.abc import Sequence
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
    _draw_steps(right, intervention, colours)
    for axes in (left, right):
        style_axes(axes, colours, font_size)
    return figure


def draw_interventions(
    interventions: Sequence[Intervention], colours: Colours = LIGHT, *, figure: Any = None, font_size: float = 9
) -> Figure:
    """Draw the effects of several interventions on one variable and of the controls, with intervals of both.

    The right panel has the effect of the last one at each later step, if several have one.
    """
    figure = new_figure(8, 3.4) if figure is None else figure
    over_time = int(interventions[-1].by_step.isfinite().sum()) > 1
    panels = figure.subplots(1, 1 + over_time, squeeze=False, width_ratios=(1.3, 1)[: 1 + over_time])[0]
    for place, each in enumerate(interventions):
        if not float(each.possible.sum()) > 0:
            continue
        spread = torch.linspace(-0.1, 0.1, len(each.control)) + place + 0.16
        panels[0].plot(
            spread.numpy(), each.control_effects.numpy(), ".", color=colours["path"], markersize=4, alpha=0.4, zorder=1
        )
        controls = float(each.control_effects.mean())
        for side, effect, interval, colour in (
            (-0.16, each.effect, each.interval, "stable"),
            (0.16, controls, each.control_interval, "path"),
        ):
            bars = [[abs(float(edge) - effect)] for edge in interval]
            panels[0].errorbar(place + side, effect, yerr=bars, fmt="o", color=colours[colour], capsize=3, zorder=2)
    for label, colour in (("this subspace", "stable"), ("random subspaces", "path")):
        panels[0].plot([], [], "o", color=colours[colour], label=label)
    panels[0].axhline(0, color=colours["line"], linewidth=0.8, zorder=0)
    panels[0].set_xticks(range(len(interventions)), [each.kind for each in interventions])
    panels[0].set(xlim=(-0.6, len(interventions) - 0.4), ylabel="effect", title="Effect and control")
    figure.legend(loc="outside lower left", ncols=2, frameon=False, fontsize=font_size, labelcolor=colours["ink"])
    if over_time:
        _draw_steps(panels[1], interventions[-1], colours)
    for axes in panels:
        style_axes(axes, colours, font_size)
    return figure


def _draw_steps(axes: Any, intervention: Intervention, colours: Colours) -> None:
    """Draw the effect at each later step, among those of the controls."""
    from matplotlib.ticker import MaxNLocator

    known = intervention.by_step.isfinite()  # an effect is possible
    steps = torch.arange(intervention.at + 1, intervention.at + 1 + len(known))[known].numpy()
    for control in intervention.control_by_step:
        axes.plot(steps, control[known].numpy(), color=colours["path"], linewidth=0.6, alpha=0.7)
    axes.plot(steps, intervention.by_step[known].numpy(), "o-", color=colours["stable"], linewidth=1.8, markersize=3)
    low, high = (edge[known].numpy() for edge in intervention.by_step_interval)
    axes.fill_between(steps, low, high, color=colours["stable"], alpha=0.2, linewidth=0)
    axes.axhline(0, color=colours["line"], linewidth=0.8, zorder=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="step", title=f"{intervention.kind.capitalize()} after step {intervention.at}")


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
