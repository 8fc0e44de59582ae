"""Figures of the tape lens (they need the `report` extra)."""

from __future__ import annotations

from math import isqrt
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.drawing.axes import Figure, new_figure, style_axes
from mnemoscope.drawing.colour_maps import SEQUENTIAL, colour_limits, draw_heat_map
from mnemoscope.drawing.palette import LIGHT, Colours
from mnemoscope.lenses.tape.result import Tape, UniformFixedPoints

USED = 0.05
"""Smallest weight at which a slot counts as used; the longest run of unused slots around the ring is not drawn."""
COLUMNS = 3
"""Panels next to each other: the labels of more would not fit on a page."""


def draw_tape(
    tape: Tape,
    sample: int = 0,
    colours: Colours = LIGHT,
    *,
    shape: tuple[int, int] | None = None,
    probabilities: bool = False,
    width: float = 10.5,
    font_size: float = 9,
) -> Figure:
    """Draw inputs, outputs and added contents at the top, the final tape and the weights of each head below.

    Matrices are tiled in order, row by row: slots that are matrices, and inputs and outputs of a given `shape`. Without
    a shape, those with a square number of features are square matrices if the slots are matrices. Outputs that are
    `probabilities` are drawn from 0 to 1. The height of the figure follows from its `width` and the number of heads.
    """
    if not 0 <= sample < tape.batch:
        raise ValueError(f"The sequences are numbered 0 to {tape.batch - 1}, but sequence {sample} was requested.")
    memory = tape.memory[-1, sample]
    matrices = memory.dim() == 3
    steps = slice(None) if tape.taken is None else tape.taken[:, sample]  # those at which the sequence has an input
    write_weights, read_weights = tape.write_weights[steps, sample], tape.read_weights[steps, sample]
    heads = _heads("writes", write_weights) + _heads("reads", read_weights)
    slots = used_slots(torch.cat([write_weights, read_weights], 1).amax((0, 1)))
    rows = 1 + -(-(1 + len(heads)) // COLUMNS)
    figure = new_figure(width, (0.24 * width + 1.8) * rows)
    grid = figure.add_gridspec(rows, COLUMNS, height_ratios=(1, *(1.25,) * (rows - 1)))
    above = [figure.add_subplot(grid[0, number]) for number in range(COLUMNS)]
    below = [figure.add_subplot(grid[1 + number // COLUMNS, number % COLUMNS]) for number in range(1 + len(heads))]

    sequences = (
        ("Inputs", _shaped(tape.inputs[steps, sample], shape, matrices), None),
        ("Outputs", _shaped(tape.outputs[steps, sample], shape, matrices), (0.0, 1.0) if probabilities else None),
        ("Added by head 1" if tape.added.shape[2] > 1 else "Added to the tape", tape.added[steps, sample, 0], None),
    )
    style = (colours, font_size)
    for axes, (title, values, limits) in zip(above, sequences, strict=True):
        _strip(axes, values, "step", style, limits=limits)
        axes.set_title(title)
    _strip(below[0], memory[slots], "slot", style, slots=slots)
    below[0].set_title("Tape at the end")
    for axes, (title, weights) in zip(below[1:], heads, strict=True):
        draw_heat_map(axes, weights[:, slots].T.numpy(), (0, 1), *style, cmap=SEQUENTIAL, aspect="auto")
        axes.set(xlabel="step", ylabel="slot", title=title)
        _integer_ticks(axes, slots)
    for axes in (*above, *below):
        style_axes(axes, *style)
    return figure


def draw_multipliers(points: UniformFixedPoints, colours: Colours = LIGHT) -> Figure:
    """Draw the multipliers of every point in the complex plane, with the unit circle."""
    figure = new_figure(max(3.6 * len(points), 3.6), 3.8)
    for number, axes in enumerate(figure.subplots(1, max(len(points), 1), squeeze=False).flatten()):
        angle = np.linspace(0, 2 * np.pi, 181)
        axes.plot(np.cos(angle), np.sin(angle), color=colours["muted"], linewidth=1)
        if len(points):
            waves, equal = points.wave_multipliers[number].flatten(), points.reduced.eigenvalues[number]
            for values, colour, label in ((waves, "saddle-2", "unequal slots"), (equal, "stable", "equal slots")):
                axes.plot(values.real.numpy(), values.imag.numpy(), ".", color=colours[colour], label=label)
            axes.legend(frameon=False, labelcolor=colours["ink"])
        axes.set(title=f"Point {number}" if len(points) else "No fixed point", xlabel="Re", ylabel="Im", aspect="equal")
        style_axes(axes, colours, 9)
    return figure


def _heads(verb: str, weights: Float[Tensor, "time heads slots"]) -> list[tuple[str, Tensor]]:
    if weights.shape[1] == 1:
        return [(f"Where it {verb}", weights[:, 0])]
    return [(f"Head {number + 1} {verb}", head) for number, head in enumerate(weights.unbind(1))]


def used_slots(largest: Float[Tensor, " slots"]) -> list[int]:
    """Return the slots to show: all except the longest unused run, in the order of the ring from the end of that run.

    Args:
        largest: largest weight of any head on each slot. If all slots are used, or none, all are returned in order.

    >>> used_slots(torch.tensor([1.0, 0.2, 0.0, 1.0, 0.0, 0.0, 0.0, 0.4]))
    [7, 0, 1, 2, 3]

    """
    count, used = len(largest), (largest >= USED).nonzero().flatten().tolist()
    if len(used) in (0, count):
        return list(range(count))
    nexts = [*used[1:], used[0] + count]
    gaps = [after - slot for slot, after in zip(used, nexts, strict=True)]
    # the last of equally long runs, so that slot 0 stays at the top
    longest = max(range(len(used)), key=lambda number: (gaps[number], number))
    return [(nexts[longest] + step) % count for step in range(count + 1 - gaps[longest])]


def _shaped(values: Float[Tensor, "time features"], shape: tuple[int, int] | None, matrices: bool) -> Tensor:
    side = isqrt(values.shape[1])
    if shape is None and matrices and side**2 == values.shape[1]:
        shape = (side, side)
    return values if shape is None else values.unflatten(1, shape)


def _strip(
    axes: Any,
    values: Float[Tensor, "count ..."],
    noun: str,
    style: tuple[Colours, float],
    limits: tuple[float, float] | None = None,
    slots: list[int] | None = None,
) -> None:
    """Draw vectors as columns, those of slots as rows that keep their numbers, and matrices as tiles."""
    tiles = values.dim() == 3
    picture = _tiled(values.numpy()) if tiles else values.T.numpy() if slots is None else values.numpy()
    draw_heat_map(axes, picture, limits or colour_limits(picture), *style, aspect="equal" if tiles else "auto")
    if tiles:
        axes.spines[:].set_visible(False)
        first, last = (slots[0], slots[-1]) if slots else (0, len(values) - 1)
        axes.set(xticks=[], yticks=[], xlabel=f"{noun}s {first} to {last}")  # a longer label would not fit on a page
    else:
        axes.set(**({"xlabel": noun, "ylabel": "number"} if slots is None else {"xlabel": "number", "ylabel": noun}))
        _integer_ticks(axes, slots)


def _tiled(values: NDArray[np.floating]) -> NDArray[np.floating]:
    """Tile matrices (count, rows, columns) into a picture that is nearly square, with blanks between them."""
    count, rows, columns = values.shape
    across = min(count, max(1, round((count * rows / columns) ** 0.5)))
    down = -(-count // across)
    picture = np.full((down * (rows + 1) - 1, across * (columns + 1) - 1), np.nan)
    for number, matrix in enumerate(values):
        row, column = divmod(number, across)
        top, left = row * (rows + 1), column * (columns + 1)
        picture[top : top + rows, left : left + columns] = matrix
    return picture


def _integer_ticks(axes: Any, slots: list[int] | None = None) -> None:
    """Place ticks at integers; on the vertical axis label them with the numbers of the slots."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    if slots is not None:
        labels = {position: str(slot) for position, slot in enumerate(slots)}
        axes.yaxis.set_major_formatter(FuncFormatter(lambda position, _: labels.get(round(position), "")))
