"""Relations, what a decoder reads of them, drift and generalisation as figures; they need the `report` extra.

`colours` go by the names of `LIGHT`; `font_size` is the size of text, in points, that the layout has room for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.drawing.axes import new_figure, style_axes
from mnemoscope.drawing.colour_maps import SEQUENTIAL, add_colour_bar, colour_limits, colour_map
from mnemoscope.drawing.palette import LIGHT
from mnemoscope.relational import Scenes
from mnemoscope.tasks.relational import RelationalTask, picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mnemoscope.lenses.relations.drift import Confused, Drift
    from mnemoscope.lenses.relations.generalisation import Generalisation
    from mnemoscope.lenses.relations.lens import Relations
    from mnemoscope.lenses.relations.occlusion import Occlusion

ACROSS = 3
"""Panels side by side."""
MOST = 5
"""Matrices of a kind that are drawn; there may be dozens of heads."""
BINS = 40
THICKEST = 0.2
"""Of the matrix beside which they stand: the objects along it."""
LINES = ("stable", "unstable", "saddle-2", "slow", "marginal", "saddle-1", "saddle-3", "path", "ink")
"""Colours of networks side by side."""


def draw_relations(
    seen: Relations,
    task: RelationalTask,
    problem: int = 0,
    colours: Mapping[str, str] = LIGHT,
    *,
    width: float = 10.5,
    font_size: float = 9,
) -> Figure:
    """The images of a problem with its label and answer, then scores, then relations; blank where nothing is read.

    Along the rows and columns of a matrix stand the objects. Of rules that compete, the titles say which one won.
    """
    if not 0 <= problem < len(seen):
        raise ValueError(f"There are {len(seen)} problems, counted from 0, but problem {problem} was asked for.")
    matrices = _matrices(seen, problem)
    lines = -(-(1 + len(matrices)) // ACROSS)
    figure = new_figure(width, (width / ACROSS + 0.6) * lines)
    panels = [figure.add_subplot(lines, ACROSS, number + 1) for number in range(1 + len(matrices))]
    _draw_problem(panels[0], seen, task, problem)
    objects = seen.images[seen.objects[problem]]
    bars = []
    for axes, (title, matrix) in zip(panels[1:], matrices, strict=True):
        low, high = colour_limits(matrix)
        if low == 0 and high <= 1:
            drawn = axes.imshow(matrix, cmap=SEQUENTIAL, vmin=0, vmax=1, interpolation="nearest")
        else:
            drawn = axes.imshow(matrix, cmap=colour_map(low), vmin=low, vmax=high, interpolation="nearest")
        axes.set(xticks=[], yticks=[])
        above = _beside(axes, objects)
        above.set_title(title)
        style_axes(above, colours, font_size)
        bars.append(add_colour_bar(axes, drawn))
    for axes in panels:
        style_axes(axes, colours, font_size)
        axes.spines[:].set_visible(False)
    for bar in bars:
        bar.outline.set_visible(False)
        style_axes(bar.ax, colours, font_size - 1)
    return figure


def draw_occlusion(
    found: Occlusion,
    rows: Sequence[int] = (),
    colours: Mapping[str, str] = LIGHT,
    *,
    width: float = 10.5,
    font_size: float = 9,
) -> Figure:
    """What is lost with each pair of objects, and with all of them; then by relations, and by objects where the model
    reads them.

    Args:
        found: what was lost.
        rows: objects of each row of the problem, as a task has them: lines are drawn between rows.
        colours: by the names of `LIGHT`.
        width: of the figure, in inches.
        font_size: size of text, in points, that the layout has room for.

    """
    maps = [("Log-odds lost, nats", found.pairs.log_odds, None), ("Accuracy lost", found.pairs.accuracy, 100)]
    if len(found.relation_names) > 1:
        each = zip(found.relation_names, found.entries.log_odds, strict=True)
        maps += [(f"Log-odds lost, {name}", values, None) for name, values in list(each)[:MOST]]
    panels = 1 + len(maps) + (found.objects is not None)
    lines = -(-panels // ACROSS)
    figure = new_figure(width, (width / ACROSS + 0.5) * lines)
    places = [figure.add_subplot(lines, ACROSS, number + 1) for number in range(panels)]
    bars = []
    for axes, (title, values, percent) in zip(places, maps, strict=False):
        matrix = values.numpy() * (percent or 1)
        low, high = colour_limits(matrix)
        high = max(high, 1.0 if percent else 1e-3)  # less is nothing
        low = -high if low < 0 else 0.0
        drawn = axes.imshow(matrix, cmap=colour_map(low), vmin=low, vmax=high, interpolation="nearest")
        axes.set(title=title + (", %" if percent else ""), xlabel="with object", ylabel="relation of object")
        _between(axes, rows, colours)
        _whole(axes)
        bars.append(add_colour_bar(axes, drawn))
    rest = places[len(maps) :]
    _draw_whole(rest[0], found, colours)
    if found.objects is not None:
        lost = found.objects.log_odds.numpy()
        rest[1].bar(np.arange(len(lost)), lost, color=colours["saddle-2"])
        rest[1].set(title="Log-odds lost, nats", xlabel="features of object")
        _whole(rest[1])
    for axes in places:
        style_axes(axes, colours, font_size)
    for bar in bars:
        bar.outline.set_visible(False)
        style_axes(bar.ax, colours, font_size - 1)
    return figure


def draw_drift(
    found: Drift, colours: Mapping[str, str] = LIGHT, *, width: float = 10.5, font_size: float = 9
) -> Figure:
    """A row for each network and a column for each set: how alike pairs of the same and of different objects are."""
    networks, sets = len(found.networks), len(found.sets)
    figure = new_figure(width, (0.22 * width + 0.9) * networks)
    panels = figure.subplots(networks, sets, squeeze=False, sharex="row", sharey="row")
    d_prime, auc, mistakes = found.d_prime, found.auc, found.mistakes
    for network, row in enumerate(panels):
        reach = np.concatenate([part.numpy() for of in range(sets) for part in found.pairs(network, of)])
        bins = np.linspace(reach.min(), reach.max() + 1e-9, BINS + 1)
        for of, axes in enumerate(row):
            for values, colour, label in zip(
                found.pairs(network, of), ("stable", "unstable"), ("same", "different"), strict=True
            ):
                share = np.full(len(values), 1 / max(len(values), 1))
                axes.hist(values.numpy(), bins, weights=share, color=colours[colour], alpha=0.6, label=label)
            axes.set_title(f"{found.networks[network]}, {found.sets[of]}")
            measured = (("d'", d_prime, ".2f"), ("AUC", auc, ".4f"), ("mistaken", mistakes, ".1%"))
            told = [f"{name} {float(all_of[network, of]):{form}}" for name, all_of, form in measured
                    if not all_of[network, of].isnan()]  # fmt: skip
            axes.set_xlabel(f"similarity\n{', '.join(told)}")
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        row[0].set_ylabel("share of pairs")
    panels[0, 0].legend(frameon=False, labelcolor=colours["ink"])
    for axes in panels.flatten():
        style_axes(axes, colours, font_size)
    return figure


def draw_confused(
    pairs: Sequence[Confused],
    images: Float[Tensor, "images 3 height width"],
    colours: Mapping[str, str] = LIGHT,
    *,
    width: float = 10.5,
    font_size: float = 9,
) -> Figure:
    """Pairs of images side by side, and in how many of the cases one is mistaken for the other."""
    if not pairs:
        raise ValueError("There is no pair to draw.")
    figure = new_figure(width, width / len(pairs) / 2 + 0.6)
    for axes, pair in zip(figure.subplots(1, len(pairs), squeeze=False).flatten(), pairs, strict=True):
        axes.imshow(torch.cat([images[pair.one], images[pair.other]], dim=2).permute(1, 2, 0).numpy())
        axes.set_title(f"{pair.times} of {pair.of}")
        axes.axis("off")
        style_axes(axes, colours, font_size)
    return figure


def draw_generalisation(
    found: Generalisation, colours: Mapping[str, str] = LIGHT, *, figure: Any = None, font_size: float = 9
) -> Figure:
    """Accuracy on unseen shapes, solid, and on those that were trained with, dashed, over how many were held out."""
    if figure is None:
        figure = new_figure(7, 4)
    axes = figure.add_subplot()
    for number, (network, curve) in enumerate(found.curves().items()):
        colour = colours[LINES[number % len(LINES)]]
        m, seen, unseen = zip(*curve, strict=True)
        axes.plot(m, seen, color=colour, linestyle=(0, (4, 2)), linewidth=1.2, marker="o", markerfacecolor="none")
        axes.plot(m, unseen, color=colour, linewidth=1.8, marker="o", label=network)
        own = [run for run in found.runs if run.network == network]
        axes.plot([run.held_out for run in own], [run.unseen for run in own], ".", color=colour, alpha=0.5)
    if found.chance is not None:
        axes.axhline(found.chance, color=colours["muted"], linewidth=1, linestyle=(0, (1, 2)), label="chance")
    axes.plot([], [], color=colours["muted"], linestyle=(0, (4, 2)), label="seen shapes")
    axes.set(xlabel="m, shapes held out", ylabel="accuracy", ylim=(None, 1.02))
    axes.legend(frameon=False, labelcolor=colours["ink"], loc="center left", bbox_to_anchor=(1, 0.5))
    style_axes(axes, colours, font_size)
    return figure


def _matrices(seen: Relations, problem: int) -> list[tuple[str, NDArray[np.floating]]]:
    """Titles and values."""
    found = []
    for name, matrix, used in list(zip(seen.score_names, seen.scores[problem], seen.used[problem], strict=True))[:MOST]:
        title = f"Scores, {name}" if name else "Scores"
        found.append((title if bool(used) else f"{title} (not used)", matrix.numpy()))
    for name, matrix in list(zip(seen.relation_names, seen.relations[problem], strict=True))[:MOST]:
        found.append((f"Read: {name}" if name else "Read", matrix.masked_fill(~seen.read, np.nan).numpy()))
    return found


def _draw_problem(axes: Any, seen: Relations, task: RelationalTask, problem: int) -> None:
    scenes = Scenes(seen.images, seen.objects, seen.labels)
    axes.imshow(picture(task, scenes, problem).numpy(), interpolation="nearest")
    label, answer = int(seen.labels[problem]), int(seen.answers[problem])
    chance = float(seen.logits[problem].softmax(0)[answer])
    axes.set(xticks=[], yticks=[], title=f"Right: {task.answers[label]}",
             xlabel=f"Answered: {task.answers[answer]} ({chance:.0%})")  # fmt: skip


def _beside(axes: Any, objects: Float[Tensor, "objects channels height width"]) -> Any:
    """The objects along the rows and the columns of a matrix; returns the axes of those above."""
    images = objects.permute(0, 2, 3, 1).clamp(0, 1)
    if images.shape[3] == 1:
        images = images.expand(-1, -1, -1, 3)
    images = torch.cat([images, torch.ones_like(images[..., :1])], 3).numpy()  # opaque
    width = 1 / len(objects)
    thick = min(width, THICKEST)
    above, left = axes.inset_axes((0, 1.02, 1, thick)), axes.inset_axes((-0.02 - thick, 0, thick, 1))
    for inset, along in ((above, 2), (left, 1)):
        more = round(images.shape[along] * (width / thick - 1) / 2)  # blank on both sides, so that none is stretched
        padding = [(0, 0), (0, 0), (0, 0), (0, 0)]
        padding[along] = (more, more)
        inset.imshow(np.concatenate(np.pad(images, padding), axis=along - 1), aspect="auto", interpolation="nearest")
        inset.axis("off")
    return above


def _draw_whole(axes: Any, found: Occlusion, colours: Mapping[str, str]) -> None:
    """Accuracy when nothing is hidden, and when everything of a kind is."""
    shown = [("nothing", 0.0, "path"), ("all relations", float(found.relations.accuracy), "stable")]
    if found.sensory is not None:
        shown.append(("all features", float(found.sensory.accuracy), "saddle-2"))
    names, lost, chosen = zip(*shown, strict=True)
    places = np.arange(len(shown))
    axes.barh(places, [found.accuracy - each for each in lost], color=[colours[each] for each in chosen])
    axes.set(yticks=places, yticklabels=names, xlim=(0, 1), xlabel="accuracy", title="When hidden")
    axes.invert_yaxis()


def _between(axes: Any, rows: Sequence[int], colours: Mapping[str, str]) -> None:
    """Lines between the rows of a problem."""
    for end in list(accumulate(rows))[:-1]:
        axes.axhline(end - 0.5, color=colours["path"], linewidth=0.8)
        axes.axvline(end - 0.5, color=colours["path"], linewidth=0.8)


def _whole(axes: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    if axes.images:
        axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
