"""Figures of variables: the wave of variables through the subspaces, and the evidence (need the `report` extra)."""

from __future__ import annotations

from collections.abc import Callable
from math import isnan
from typing import Any

import numpy as np

from mnemoscope.drawing.axes import Figure, new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT, Colours
from mnemoscope.lenses.variables.interventions import PASSED
from mnemoscope.lenses.variables.modes import FLOOR
from mnemoscope.lenses.variables.result import Variables
from mnemoscope.lenses.variables.wave import draw_wave, signed_colours, wave_height

__all__ = ["draw_evidence", "draw_variables", "draw_wave"]

Panel = Callable[[Any, Variables, Colours], None]


def draw_variables(result: Variables, colours: Colours = LIGHT, *, figure: Any = None, font_size: float = 9) -> Figure:
    """Draw the wave, and below it the evidence: modes, scores, ranks, F, decoding and causal tests.

    Without variables there are two panels, and the reason as text.
    """
    rows = -(-len(_panels(result)) // 3)
    above = wave_height(result)
    if figure is None:
        figure = new_figure(11.5, above + 3.1 * rows)
        figure.set_layout_engine("constrained", w_pad=0.07, h_pad=0.07)
    top, bottom = figure.subfigures(2, 1, height_ratios=(above, 3.1 * rows), hspace=0.04)  # type: ignore
    draw_wave(result, 0, colours, figure=top, font_size=font_size)
    draw_evidence(result, colours, figure=bottom, font_size=font_size)
    return figure


def draw_evidence(
    result: Variables, colours: Colours = LIGHT, *, figure: Any = None, columns: int = 3, font_size: float = 9
) -> Figure:
    """Draw the panels with the evidence."""
    panels = _panels(result)
    columns = min(columns, 2) if len(panels) in (2, 4) else columns
    rows = -(-len(panels) // columns)
    if figure is None:
        figure = new_figure(11.5, 3.1 * rows)
    for number, draw in enumerate(panels):
        axes = figure.add_subplot(rows, columns, number + 1)
        draw(axes, result, colours)
        _legend(axes, colours, font_size)
        style_axes(axes, colours, font_size)
    return figure


def _panels(result: Variables) -> list[Panel]:
    panels: list[Panel] = [_plane, _scores]
    if result.structure is not None:
        panels += [_ranks, _boundary]
    if result.trials is not None:
        panels.append(_decoding)
    if result.tests:
        panels.append(_tests)
    return panels


def _plane(axes: Any, result: Variables, colours: Colours) -> None:
    values, count = result.modes.eigenvalues.numpy(), result.modes.count
    turn = np.linspace(0, 2 * np.pi, 361)
    axes.fill(np.cos(turn), np.sin(turn), facecolor=colours["inside"], edgecolor=colours["muted"], linewidth=0.8)
    for chosen, key, label in ((values[count:], "path", "others"), (values[:count], "stable", "memory modes")):
        if len(chosen):
            style = {"s": 16, "color": colours[key], "linewidth": 0, "label": label, "zorder": 3}
            axes.scatter(np.real(chosen), np.imag(chosen), **style)
    if result.theory is not None:
        rings = result.theory.numpy()
        style = {"s": 46, "facecolor": "none", "edgecolor": colours["ink"], "linewidth": 0.7, "label": "theory"}
        axes.scatter(np.real(rings), np.imag(rings), zorder=4, **style)
    axes.set_aspect("equal", adjustable="datalim")
    where = "at the fixed point" if result.around == "rest" else "of the fitted step"
    axes.set(xlabel="Re λ", ylabel="Im λ", title=f"Eigenvalues {where}")


def _scores(axes: Any, result: Variables, colours: Colours) -> None:
    modes = result.modes
    scores, count = modes.scores.numpy(), modes.count
    highest = float(scores.max(initial=0))
    axes.set(xlabel="mode, by falling score", title="Scores of the modes")
    if highest == 0:
        axes.set(xticks=[], yticks=[])
        style = {"ha": "center", "va": "center", "transform": axes.transAxes, "color": colours["muted"]}
        axes.text(0.5, 0.5, "all scores are 0", **style)
        return
    floor = FLOOR * highest
    index = np.arange(1, len(scores) + 1)
    drawn = np.maximum(scores, floor)
    for part, key, label in ((slice(count), "stable", "memory modes"), (slice(count, None), "path", "others")):
        if len(index[part]):
            axes.scatter(index[part], drawn[part], s=12, color=colours[key], linewidth=0, label=label, zorder=3)
    axes.axhline(floor, color=colours["muted"], linewidth=0.8, linestyle="dotted", label="counts as 0")
    if count:
        edges = drawn[count - 1], drawn[count] if count < len(drawn) else floor
        style = {"arrowstyle": "<->", "color": colours["ink"], "linewidth": 1, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", (count + 0.5, edges[1]), (count + 0.5, edges[0]), arrowprops=style)
        ratio = f"{float(f'{modes.gap:.3g}'):,.6g} times"
        place = (count + 0.5, float(np.sqrt(edges[0] * edges[1])))
        style = {"xytext": (4, 0), "textcoords": "offset points", "va": "center"}
        axes.annotate(ratio, place, color=colours["ink"], **style)
    axes.set_yscale("log")
    axes.set(xlim=(0, len(scores) + 1), ylim=(floor / 2, 4 * highest), ylabel=f"score after {modes.steps} steps")
    axes.yaxis.set_major_formatter(_power_of_ten)
    axes.yaxis.set_minor_formatter(lambda value, _: "")


def _ranks(axes: Any, result: Variables, colours: Colours) -> None:
    assert result.structure is not None
    ranks, count = result.structure.rank_profile.numpy(), result.modes.count
    steps = np.arange(len(ranks) + 1)
    axes.axhline(count, color=colours["muted"], linewidth=0.9, linestyle=(0, (4, 3)), label=f"{count} memory modes")
    axes.step(steps, np.append(0, ranks), where="post", color=colours["stable"], linewidth=1.8, label="rank")
    for step, (below, rank) in enumerate(zip(np.append(0, ranks[:-1]), ranks, strict=True), start=1):
        if len(ranks) <= 10 and rank - below > 0.08 * ranks.max():  # else there is no room for the label
            style = {"textcoords": "offset points", "xytext": (-3, 0), "ha": "right", "va": "center"}
            axes.annotate(f"+{rank - below}", (step, (rank + below) / 2), color=colours["ink"], **style)
    axes.set(xlim=(0, len(ranks) + 0.6), ylim=(0, 1.12 * max(count, int(ranks.max()))))
    axes.locator_params(integer=True)
    axes.set(xlabel="number of readings", ylabel="rank", title="Rank of the readings")


def _boundary(axes: Any, result: Variables, colours: Colours) -> None:
    F, N, size = result.F.numpy(), result.variables, result.size
    reach = max(float(np.abs(F).max()), 1.0)
    extent = (-0.5, N * size - 0.5, size - 0.5, -0.5)
    axes.imshow(signed_colours(F / reach, 8), extent=extent, aspect="auto", interpolation="nearest")
    for edge in range(1, N):
        axes.axvline(edge * size - 0.5, color=colours["muted"], linewidth=0.5)
    assert result.structure is not None
    holds, nearest = result.selection is not None, result.selection or result.structure.nearest
    if nearest is not None:
        rows, columns = np.nonzero(nearest.matrix().numpy())
        edge, line = (colours["ink"], "solid") if holds else (colours["muted"], "dotted")
        style = {"marker": "s", "s": 26, "facecolor": "none", "edgecolor": edge, "linewidth": 0.7, "linestyle": line}
        axes.scatter(columns, rows, label="signed selection" if holds else "nearest, but no selection", **style)
    every = -(-N // 8)
    axes.set_xticks([(place + 0.5) * size - 0.5 for place in range(0, N, every)], range(1, N + 1, every))
    axes.set_yticks(range(0, size, -(-size // 8)), range(1, size + 1, -(-size // 8)))
    axes.set(xlabel="subspace, oldest first", ylabel="element of the next variable")
    axes.set_title(f"F, largest entry {np.abs(F).max():.3g} (blue +)")


def _decoding(axes: Any, result: Variables, colours: Colours) -> None:
    trials = result.trials
    assert trials is not None
    first = trials.number - 1  # before that, some subspaces are empty
    times = np.arange(first, len(trials.decoded)) + 1
    axes.axvspan(0.5, trials.input_steps + 0.5, color=colours["inside"], linewidth=0, label="inputs")
    if trials.bits:
        accuracy = trials.sign_accuracy_over_time.numpy()[first:]
        axes.plot(times, accuracy, color=colours["stable"], linewidth=2, label="signs")
        axes.axhline(0.5, color=colours["muted"], linewidth=0.8, linestyle="dotted", label="chance")
    r2 = trials.r2_over_time.numpy()[first:]
    label = "R²" if r2.max() > 0 else "R² (below 0)"
    axes.plot(times, r2, color=colours["saddle-2"], linewidth=1.2, label=label)
    axes.set(xlabel="step", ylabel="share decoded", title="Decoding from the states")
    axes.set(xlim=(0.5, len(trials.decoded) + 0.5), ylim=(0, 1.04))


def _tests(axes: Any, result: Variables, colours: Colours) -> None:
    for place, test in enumerate(result.tests):
        key = "stable" if test.passed else "unstable"
        axes.barh(place + 0.22, max(test.agreement, 0), 0.3, color=colours[key], alpha=0.75, linewidth=0)
        label = test.name if test.passed else f"✗ {test.name}"
        # a long label may extend beyond the axes, into the empty margin
        axes.text(0.0, place - 0.02, label, va="bottom", ha="left", color=colours["ink"]).set_in_layout(False)
        axes.plot([test.control] * 2, [place + 0.07, place + 0.37], color=colours["ink"], linewidth=1.6)
        if not isnan(test.changed):
            axes.scatter(test.changed, place + 0.22, marker="D", s=20, color=colours["saddle-1"], zorder=4, linewidth=0)
    axes.barh([], [], color=colours["stable"], alpha=0.75, label="as predicted")
    axes.scatter([], [], marker="D", s=20, color=colours["saddle-1"], linewidth=0, label="of the changes")
    axes.plot([], [], "|", color=colours["ink"], markersize=8, markeredgewidth=1.6, label="control")
    axes.axvline(PASSED, color=colours["ink"], linewidth=0.9, linestyle=(0, (4, 3)), label=f"{PASSED:g}")
    axes.set(xlim=(0, 1.03), ylim=(len(result.tests) - 0.45, -0.45), title="Causal tests: share of the future")
    axes.set_yticks([])


def _power_of_ten(value: float, _: int) -> str:
    """Format a tick with Unicode superscripts, which keep the font size."""
    power = round(np.log10(value))
    return f"{value:g}" if -4 < power < 4 else f"10{str(power).translate(_SUPERSCRIPTS)}"


_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _legend(axes: Any, colours: Colours, font_size: float) -> None:
    """Put the legend below the panel, where it hides nothing; in two columns if the font is large."""
    from matplotlib.transforms import offset_copy

    below = offset_copy(axes.transAxes, axes.figure, y=-3.4 * font_size, units="points")
    style: dict[str, Any] = {
        "loc": "upper center",
        "bbox_to_anchor": (0.5, 0),
        "bbox_transform": below,
        "borderaxespad": 0,
    }
    style |= {"handletextpad": 0.3, "columnspacing": 0.9, "handlelength": 1.4, "ncols": 4 if font_size < 12 else 2}
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, labelcolor=colours["ink"], **style)
