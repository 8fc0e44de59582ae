"""The hidden-state picture: variables travel as a wave through the subspaces that hold them."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from mnemoscope.connectivity.signed_selection import SignedSelection
from mnemoscope.drawing.axes import new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT, PALETTE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mnemoscope.lenses.variables.memories import Variables

PERIODS = 4
"""How long the picture is after the last input, in numbers of variables."""
FEWEST_STEPS, MOST_STEPS = 16, 120
MOST_LABELS = 12
"""Subspaces that are all numbered."""


def draw_wave(
    memories: Variables,
    trial: int = 0,
    colours: Mapping[str, str] = LIGHT,
    *,
    figure: Any = None,
    font_size: float = 9,
) -> Figure:
    """What each subspace holds at each step of one trial, by colour; the line follows one number on its way.

    Steps and subspaces are counted from 1, the subspace of the oldest variable. A variable comes in with the newest
    (bottom), moves on by one subspace a step, and what F makes of the last N comes in next. The line stays with a
    number until F takes it up, and goes on where F puts it. Where nothing was tried, words stand in its place.
    """
    if figure is None:
        figure = new_figure(11.5, wave_height(memories))
    trials = memories.trials
    if trials is None:
        axes = figure.add_subplot()
        axes.set_axis_off()
        words = "No variables were found." if memories.found is None else "Variables were found, but not tested."
        _say(axes, f"{words}\n{fill(memories.reason, 96 if font_size < 12 else 64)}", colours, font_size)
        return figure
    batch = trials.decoded.shape[1]
    if not 0 <= trial < batch:
        raise IndexError(f"There are {batch} trials, numbered from 0, but {trial} was asked for.")
    N, size = memories.variables, memories.size
    steps = min(max(trials.silent + PERIODS * N, FEWEST_STEPS), max(MOST_STEPS, 2 * N), len(trials.decoded))
    held = trials.decoded[:steps, trial].flatten(1).mT.numpy()
    reach = float(trials.variables.abs().max()) or 1.0  # what goes beyond is drawn as if it were just there
    axes = figure.add_subplot()
    axes.axvspan(0.5, trials.silent + 0.5, color=colours["inside"], linewidth=0, zorder=0)
    extent = (0.5, steps + 0.5, N * size - 0.5, -0.5)
    axes.imshow(tinted(held / reach, 6), extent=extent, aspect="auto", interpolation="nearest", zorder=1)
    for edge in range(1, N):
        axes.axhline(edge * size - 0.5, color=colours["inside"], linewidth=1.6 if N <= MOST_LABELS else 0.5, zorder=2)
    axes.axvline(trials.silent + 0.5, color=colours["ink"], linewidth=1.4, zorder=3)
    if memories.selection is not None:
        _draw_way(axes, memories.selection, trials.silent, steps, colours["ink"])
    _phases(axes, trials.silent, steps, colours)
    axes.set_xlim(0.5, steps + 0.5)
    axes.set_ylim(N * size - 0.5, -0.5)
    axes.locator_params(axis="x", integer=True)
    shown = range(N) if N <= MOST_LABELS else range(0, N, -(-N // MOST_LABELS))
    names = {0: "1, oldest", N - 1: f"{N}, newest"} if N > 1 else {}
    places = sorted({*shown, N - 1} - ({max(shown)} if N - 1 - max(shown) == 1 < N - len(shown) else set()))
    axes.set_yticks([(place + 0.5) * size - 0.5 for place in places], [names.get(p, str(p + 1)) for p in places])
    axes.set(xlabel="step", ylabel=f"subspace of {size}")
    axes.set_title("A wave of variables: what the state holds (blue +, red −)", pad=2.1 * font_size)
    style_axes(axes, colours, font_size)
    axes.tick_params(axis="y", length=0)
    return figure


def wave_height(memories: Variables) -> float:
    """Inches that the wave needs: more of them for more rows."""
    if memories.trials is None:
        return 1.2
    return min(max(1.3 + 0.06 * memories.variables * memories.size, 3.2), 5.2)


def tinted(values: np.ndarray, pixels: int = 1) -> np.ndarray:
    """Values in [-1, 1] as colours whose opacity is their size, which can be told apart on a light and a dark ground.

    Each is repeated `pixels` times both ways, so that a viewer that smooths does not blur them.
    """
    codes = {key: [[int(code[at : at + 2], 16) / 255 for at in (1, 3, 5)] for code in PALETTE[key]] for key in _SIGNS}
    up, down = (np.mean(codes[key], axis=0) for key in _SIGNS)
    strength = np.clip(np.nan_to_num(np.abs(values)), 0, 1)
    picture = np.concatenate([np.where(values[..., None] > 0, up, down), strength[..., None]], axis=-1)
    return picture.repeat(pixels, 0).repeat(pixels, 1)


_SIGNS = ("stable", "unstable")


def way(rule: SignedSelection, silent: int, steps: int) -> list[np.ndarray]:
    """Where a number is held on its way around the longest cycle of F: for each of its stays, (step, row) pairs.

    It begins with the number that is the first to be taken up after the last input. Element a of x(t) is in row
    (N - 1 - (T - t)) size + a at time T, and stays until the next element of the cycle takes it up, `lag` steps later.
    """
    cycle = max(rule.cycles(), key=lambda one: one.lag).elements  # a map of elements to elements has one at least
    taken_by = {rule.elements[element]: element for element in cycle}
    element = cycle[0]
    time = silent - rule.lags[taken_by[element]]
    stays = []
    while time < steps:
        follower = taken_by[element]
        times = np.arange(time, min(time + rule.lags[follower], steps))
        rows = (rule.variables - 1 - (times - time)) * rule.size + element
        stays.append(np.stack([times, rows], 1)[times >= 0])
        time, element = time + rule.lags[follower], follower
    return stays


def _draw_way(axes: Any, rule: SignedSelection, silent: int, steps: int, colour: str) -> None:
    before = None
    for stay in (stay for stay in way(rule, silent, steps) if len(stay)):
        axes.plot(stay[:, 0] + 1, stay[:, 1], color=colour, linewidth=1.1, marker="o", markersize=2.6, zorder=4)
        if before is not None:
            jump = np.stack([before, stay[0]])
            axes.plot(jump[:, 0] + 1, jump[:, 1], color=colour, linewidth=0.9, linestyle=(0, (1.5, 2)), zorder=4)
        before = stay[-1]


def _phases(axes: Any, silent: int, steps: int, colours: Mapping[str, str]) -> None:
    above = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "xytext": (0, 3), "va": "bottom"}
    for first, last, words in ((0, silent, "inputs"), (silent, steps, "no input: the network goes on by itself")):
        if last > first:
            axes.annotate(words, ((first + last + 1) / 2, 1), ha="center", color=colours["muted"], **above)


def _say(axes: Any, words: str, colours: Mapping[str, str], font_size: float) -> None:
    place = {"ha": "center", "va": "center", "transform": axes.transAxes}
    axes.text(0.5, 0.5, words, color=colours["ink"], size=font_size + 1, linespacing=1.5, **place)
