"""A tape as a figure; it needs the `report` extra. `colours` go by the names of `LIGHT`."""

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.drawing.axes import new_figure, style_axes
from mnemoscope.drawing.colour_maps import SEQUENTIAL, add_colour_bar, colour_limits, colour_map
from mnemoscope.drawing.palette import LIGHT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mnemoscope.lenses.tape.lens import Tape

TOUCHED = 0.05
"""Slots whose weights stay below this were not used; the longest run of them around the ring is left out."""
ACROSS = 3
"""Pictures side by side: on a page there is room for the words of no more."""


def draw_tape(
    tape: Tape,
    sample: int = 0,
    colours: Mapping[str, str] = LIGHT,
    *,
    input_shape: tuple[int, int] | None = None,
    output_shape: tuple[int, int] | None = None,
    chances: bool = False,
    width: float = 10.5,
    font_size: float = 9,
) -> Figure:
    """Above, inputs, outputs and what was added at each step; below, the tape at the end and each head over time.

    Matrices stand side by side in order, row by row. Inputs and outputs are taken for square matrices where
    the slots are matrices and their number of features is a square.

    Args:
        tape: what `record_tape` saw.
        sample: which sequence.
        colours: by the names of `LIGHT`.
        input_shape: of an input that is a matrix.
        output_shape: of an output that is a matrix.
        chances: whether outputs are chances, from 0 to 1.
        width: of the figure, in inches; its height goes by the number of heads.
        font_size: size of text, in points, that the layout has room for.

    """
    if not 0 <= sample < tape.batch:
        raise ValueError(f"There are {tape.batch} sequences, counted from 0, but sequence {sample} was asked for.")
    memory = tape.memory[-1, sample]
    matrices = memory.dim() == 3
    heads = _heads("writes", tape.write_weights[:, sample]) + _heads("reads", tape.read_weights[:, sample])
    slots = used_slots(torch.cat([tape.write_weights[:, sample], tape.read_weights[:, sample]], 1).amax((0, 1)))
    lines = 1 + -(-(1 + len(heads)) // ACROSS)
    figure = new_figure(width, (0.24 * width + 1.8) * lines)
    places = figure.add_gridspec(lines, ACROSS, height_ratios=(1, *(1.25,) * (lines - 1)))
    above = [figure.add_subplot(places[0, number]) for number in range(ACROSS)]
    below = [figure.add_subplot(places[1 + number // ACROSS, number % ACROSS]) for number in range(1 + len(heads))]

    shown = (
        ("Inputs", _shaped(tape.inputs[:, sample], input_shape, matrices), None),
        ("Outputs", _shaped(tape.outputs[:, sample], output_shape, matrices), (0.0, 1.0) if chances else None),
        ("Added by head 1" if tape.added.shape[2] > 1 else "Added to the tape", tape.added[:, sample, 0], None),
    )
    bars = []
    for axes, (title, values, limits) in zip(above, shown, strict=True):
        bars.append(add_colour_bar(axes, _strip(axes, values, "step", limits=limits)))
        axes.set_title(title)
    bars.append(add_colour_bar(below[0], _strip(below[0], memory[slots], "slot", slots, down=True)))
    below[0].set_title("Tape at the end")
    for axes, (title, weights) in zip(below[1:], heads, strict=True):
        picture = weights[:, slots].T.numpy()
        drawn = axes.imshow(picture, cmap=SEQUENTIAL, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        axes.set(xlabel="step", ylabel="slot", title=title)
        _whole(axes, slots)
        bars.append(add_colour_bar(axes, drawn))
    for axes in (*above, *below):
        style_axes(axes, colours, font_size)
    for bar in bars:
        bar.outline.set_visible(False)
        style_axes(bar.ax, colours, font_size - 1)
    return figure


def _heads(what: str, weights: Float[Tensor, "time heads slots"]) -> list[tuple[str, Tensor]]:
    """Each head's weights with a title."""
    if weights.shape[1] == 1:
        return [(f"Where it {what}", weights[:, 0])]
    return [(f"Head {number + 1} {what}", each) for number, each in enumerate(weights.unbind(1))]


def used_slots(largest: Float[Tensor, " slots"]) -> list[int]:
    """The slots to show, from their largest weights: all but the longest run that no head came to, in the order of the
    ring, which begins behind that run. All of them from 0 on where all were used, or none.

    >>> used_slots(torch.tensor([1.0, 0.2, 0.0, 1.0, 0.0, 0.0, 0.0, 0.4]))
    [7, 0, 1, 2, 3]
    """
    count, used = len(largest), (largest >= TOUCHED).nonzero().flatten().tolist()
    if len(used) in (0, count):
        return list(range(count))
    nexts = [*used[1:], used[0] + count]
    gaps = [after - slot for slot, after in zip(used, nexts, strict=True)]
    longest = max(range(len(used)), key=lambda place: (gaps[place], place))  # of equal ones the last: 0 stays above
    return [(nexts[longest] + step) % count for step in range(count + 1 - gaps[longest])]


def _shaped(values: Float[Tensor, "time features"], shape: tuple[int, int] | None, matrices: bool) -> Tensor:
    side = isqrt(values.shape[1])
    if shape is None and matrices and side**2 == values.shape[1]:
        shape = (side, side)
    return values if shape is None else values.unflatten(1, shape)


def _strip(
    axes: Any,
    values: Float[Tensor, "count ..."],
    what: str,
    slots: list[int] | None = None,
    down: bool = False,
    limits: tuple[float, float] | None = None,
) -> Any:
    """Vectors as columns, or as rows where `down`; matrices as tiles, row by row. Slots have their own numbers."""
    tiles = values.dim() == 3
    picture = _tiled(values.numpy()) if tiles else values.numpy() if down else values.T.numpy()
    low, high = colour_limits(picture) if limits is None else limits
    drawn = axes.imshow(picture, cmap=colour_map(low), vmin=low, vmax=high, interpolation="nearest",
                        aspect="equal" if tiles else "auto")  # fmt: skip
    if tiles:
        axes.spines[:].set_visible(False)
        first, last = (slots[0], slots[-1]) if slots else (0, len(values) - 1)
        axes.set(xticks=[], yticks=[], xlabel=f"{what}s {first} to {last}")  # longer words have no room on a page
    else:
        axes.set(**({"xlabel": "number", "ylabel": what} if down else {"xlabel": what, "ylabel": "number"}))
        _whole(axes, slots)
    return drawn


def _tiled(values: NDArray[np.floating]) -> NDArray[np.floating]:
    """Matrices (count, rows, columns) in a near square of tiles with blanks between them."""
    count, rows, columns = values.shape
    across = min(count, max(1, round((count * rows / columns) ** 0.5)))
    lines = -(-count // across)
    picture = np.full((lines * (rows + 1) - 1, across * (columns + 1) - 1), np.nan)
    for number, matrix in enumerate(values):
        line, place = divmod(number, across)
        top, left = line * (rows + 1), place * (columns + 1)
        picture[top : top + rows, left : left + columns] = matrix
    return picture


def _whole(axes: Any, slots: list[int] | None = None) -> None:
    """Ticks at whole numbers; downwards those of slots, in their order."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    if slots is not None:
        named = {place: str(slot) for place, slot in enumerate(slots)}
        axes.yaxis.set_major_formatter(FuncFormatter(lambda place, _: named.get(round(place), "")))
