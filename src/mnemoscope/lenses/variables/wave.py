"""The wave: variables travel through the subspaces that hold them."""

from __future__ import annotations

from textwrap import fill
from typing import Any

import numpy as np

from mnemoscope.connectivity.signed_selection import SignedSelection
from mnemoscope.drawing.axes import Figure, new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT, PALETTE, Colours
from mnemoscope.lenses.variables.result import Variables

PERIODS = 4
"""Steps shown after the last input, as a multiple of the number of variables."""
FEWEST_STEPS, MOST_STEPS = 16, 120
"""Fewest and most steps shown."""
MOST_LABELS = 12
"""Most subspaces for which every one is labelled."""


def draw_wave(
    result: Variables, trial: int = 0, colours: Colours = LIGHT, *, figure: Any = None, font_size: float = 9
) -> Figure:
    """Draw the content of each subspace at each step of one trial by colour, and the path of one number as a line.

    Steps and subspaces are counted from 1; subspace 1 holds the oldest variable. A variable enters the newest subspace
    (bottom) and moves by one subspace a step; F of the last N variables enters next. The line follows a number until F
    reads it, and continues at the element that F writes. Without trials, the reason is shown as text.
    """
    if figure is None:
        figure = new_figure(11.5, wave_height(result))
    trials = result.trials
    if trials is None:
        axes = figure.add_subplot()
        axes.set_axis_off()
        verdict = "No variables were found." if result.structure is None else "Variables were found, but not tested."
        text = f"{verdict}\n{fill(result.reason, 96 if font_size < 12 else 64)}"
        style: dict[str, Any] = {"ha": "center", "va": "center", "transform": axes.transAxes, "linespacing": 1.5}
        axes.text(0.5, 0.5, text, color=colours["ink"], size=font_size + 1, **style)
        return figure
    batch = trials.decoded.shape[1]
    if not 0 <= trial < batch:
        raise IndexError(f"There are {batch} trials, numbered from 0, but {trial} was asked for.")
    N, size = result.variables, result.size
    steps = min(max(trials.input_steps + PERIODS * N, FEWEST_STEPS), max(MOST_STEPS, 2 * N), len(trials.decoded))
    held = trials.decoded[:steps, trial].flatten(1).mT.numpy()
    reach = float(trials.variables.abs().max()) or 1.0  # larger values are clipped
    axes = figure.add_subplot()
    axes.axvspan(0.5, trials.input_steps + 0.5, color=colours["inside"], linewidth=0, zorder=0)
    extent = (0.5, steps + 0.5, N * size - 0.5, -0.5)
    axes.imshow(signed_colours(held / reach, 6), extent=extent, aspect="auto", interpolation="nearest", zorder=1)
    for edge in range(1, N):
        axes.axhline(edge * size - 0.5, color=colours["inside"], linewidth=1.6 if N <= MOST_LABELS else 0.5, zorder=2)
    axes.axvline(trials.input_steps + 0.5, color=colours["ink"], linewidth=1.4, zorder=3)
    if result.selection is not None:
        _draw_path(axes, result.selection, trials.input_steps, steps, colours["ink"])
    _label_phases(axes, trials.input_steps, steps, colours)
    axes.set(xlim=(0.5, steps + 0.5), ylim=(N * size - 0.5, -0.5))
    axes.locator_params(axis="x", integer=True)
    shown = range(N) if N <= MOST_LABELS else range(0, N, -(-N // MOST_LABELS))
    names = {0: "1, oldest", N - 1: f"{N}, newest"} if N > 1 else {}
    places = sorted({*shown, N - 1} - ({max(shown)} if N - 1 - max(shown) == 1 < N - len(shown) else set()))
    axes.set_yticks([(place + 0.5) * size - 0.5 for place in places], [names.get(p, str(p + 1)) for p in places])
    axes.set(xlabel="step", ylabel=f"subspace of {size}")
    axes.set_title("A wave of variables: content of the state (blue +, red −)", pad=2.1 * font_size)
    style_axes(axes, colours, font_size)
    axes.tick_params(axis="y", length=0)
    return figure


def wave_height(result: Variables) -> float:
    """Return the height of the wave in inches, which grows with the number of rows."""
    if result.trials is None:
        return 1.2
    return min(max(1.3 + 0.06 * result.variables * result.size, 3.2), 5.2)


def signed_colours(values: np.ndarray, pixels: int = 1) -> np.ndarray:
    """Return values in [-1, 1] as colours: hue by sign and opacity by size, for a light and a dark background.

    Each value fills `pixels` x `pixels` pixels, so that a viewer that smooths does not blur them.
    """
    up, down = (
        np.mean([[int(code[at : at + 2], 16) / 255 for at in (1, 3, 5)] for code in PALETTE[key]], axis=0)
        for key in ("stable", "unstable")
    )
    strength = np.clip(np.nan_to_num(np.abs(values)), 0, 1)
    picture = np.concatenate([np.where(values[..., None] > 0, up, down), strength[..., None]], axis=-1)
    return picture.repeat(pixels, 0).repeat(pixels, 1)


def cycle_path(rule: SignedSelection, input_steps: int, steps: int) -> list[np.ndarray]:
    """Return where a number is held on its path around the longest cycle of F, as (step, row) pairs per segment.

    The path begins with the first number that F reads after the last input. Element a of x(t) is in row
    (N - 1 - (T - t)) size + a at time T, until F copies it to the next element of the cycle, `lag` steps later.
    """
    cycle = max(rule.cycles(), key=lambda cycle: cycle.lag).elements  # a map of elements to elements has a cycle
    copied_to = {rule.elements[element]: element for element in cycle}
    element = cycle[0]
    time = input_steps - rule.lags[copied_to[element]]
    segments = []
    while time < steps:
        follower = copied_to[element]
        times = np.arange(time, min(time + rule.lags[follower], steps))
        rows = (rule.variables - 1 - (times - time)) * rule.size + element
        segments.append(np.stack([times, rows], 1)[times >= 0])
        time, element = time + rule.lags[follower], follower
    return segments


def _draw_path(axes: Any, rule: SignedSelection, input_steps: int, steps: int, colour: str) -> None:
    before = None
    for segment in cycle_path(rule, input_steps, steps):
        if not len(segment):
            continue
        axes.plot(segment[:, 0] + 1, segment[:, 1], color=colour, linewidth=1.1, marker="o", markersize=2.6, zorder=4)
        if before is not None:
            jump = np.stack([before, segment[0]])
            axes.plot(jump[:, 0] + 1, jump[:, 1], color=colour, linewidth=0.9, linestyle=(0, (1.5, 2)), zorder=4)
        before = segment[-1]


def _label_phases(axes: Any, input_steps: int, steps: int, colours: Colours) -> None:
    above = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "xytext": (0, 3), "va": "bottom"}
    for first, last, label in ((0, input_steps, "inputs"), (input_steps, steps, "no input: the network runs freely")):
        if last > first:
            axes.annotate(label, ((first + last + 1) / 2, 1), ha="center", color=colours["muted"], **above)
