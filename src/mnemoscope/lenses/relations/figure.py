"""Figures of relations, occlusion, drift and generalisation (they need the `report` extra)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.drawing.axes import Figure, new_figure, style_axes
from mnemoscope.drawing.colour_maps import SEQUENTIAL, colour_limits, draw_heat_map
from mnemoscope.drawing.palette import LIGHT, Colours
from mnemoscope.lenses.relations.drift import ConfusedPair, Drift
from mnemoscope.lenses.relations.generalisation import Generalisation
from mnemoscope.lenses.relations.occlusion import Occlusion
from mnemoscope.lenses.relations.result import Relations

COLUMNS = 3
"""Panels next to each other."""
MOST = 5
"""Most matrices of a kind that are drawn; there may be dozens of heads."""
BINS = 40
"""Bins of a histogram."""
THICKEST = 0.2
"""Largest size of the objects along a matrix, as a share of the matrix."""
LINES = ("stable", "unstable", "saddle-2", "slow", "marginal", "saddle-1", "saddle-3", "path", "ink")
"""Colours of networks that are compared."""


def draw_relations(
    found: Relations,
    problem: int = 0,
    colours: Colours = LIGHT,
    *,
    picture: Float[Tensor, "height width 3"] | None = None,
    answer_names: Sequence[str] = (),
    width: float = 10.5,
    font_size: float = 9,
) -> Figure:
    """Draw a problem with its label and answer, its scores and its relations; blank where nothing is read.

    The objects are drawn along the rows and columns of a matrix. For competing rules, the titles show which one won.

    `picture` is the problem as an image, as `tasks.relational.picture` makes it (by default its objects in a row).
    `answer_names` are the meanings of the labels (by default their numbers).
    """
    if not 0 <= problem < len(found):
        raise ValueError(f"The problems are numbered 0 to {len(found) - 1}, but problem {problem} was requested.")
    matrices = _matrices(found, problem)
    figure, panels = _panels(1 + len(matrices), width, 0.6)
    objects = found.images[found.objects[problem]]
    in_a_row = np.concatenate(_rgb(objects).numpy(), axis=1)
    panels[0].imshow(in_a_row if picture is None else picture.numpy(), interpolation="nearest")
    _label_problem(panels[0], found, problem, answer_names)
    for axes, (title, matrix) in zip(panels[1:], matrices, strict=True):
        low, high = colour_limits(matrix)
        if low == 0 and high <= 1:
            draw_heat_map(axes, matrix, (0, 1), colours, font_size, cmap=SEQUENTIAL)
        else:
            draw_heat_map(axes, matrix, (low, high), colours, font_size)
        axes.set(xticks=[], yticks=[])
        above = _draw_objects_along(axes, objects)
        above.set_title(title)
        style_axes(above, colours, font_size)
    for axes in panels:
        style_axes(axes, colours, font_size)
        axes.spines[:].set_visible(False)
    return figure


def draw_occlusion(
    found: Occlusion, rows: Sequence[int] = (), colours: Colours = LIGHT, *, width: float = 10.5, font_size: float = 9
) -> Figure:
    """Draw the loss from hiding each pair of objects and all of them, then by relation, and by object if it is read.

    Lines are drawn between the `rows` of a problem, given as numbers of objects.
    """
    maps = [("Log-odds lost, nats", found.pairs.log_odds, None), ("Accuracy lost", found.pairs.accuracy, 100)]
    if len(found.relation_names) > 1:
        by_relation = list(zip(found.relation_names, found.entries.log_odds, strict=True))
        maps += [(f"Log-odds lost, {name}", values, None) for name, values in by_relation[:MOST]]
    figure, panels = _panels(1 + len(maps) + (found.objects is not None), width, 0.5)
    for axes, (title, values, percent) in zip(panels, maps, strict=False):
        matrix = values.numpy() * (percent or 1)
        low, high = colour_limits(matrix)
        high = max(high, 1.0 if percent else 1e-3)  # smaller losses are negligible
        draw_heat_map(axes, matrix, (-high if low < 0 else 0.0, high), colours, font_size)
        axes.set(title=title + (", %" if percent else ""), xlabel="with object", ylabel="relation of object")
        _draw_row_lines(axes, rows, colours)
        _integer_ticks(axes)
    rest = panels[len(maps) :]
    _draw_accuracies(rest[0], found, colours)
    if found.objects is not None:
        lost = found.objects.log_odds.numpy()
        rest[1].bar(np.arange(len(lost)), lost, color=colours["saddle-2"])
        rest[1].set(title="Log-odds lost, nats", xlabel="features of object")
        _integer_ticks(rest[1])
    for axes in panels:
        style_axes(axes, colours, font_size)
    return figure


def draw_drift(found: Drift, colours: Colours = LIGHT, *, width: float = 10.5, font_size: float = 9) -> Figure:
    """Draw histograms of the similarities of same and different objects: a row per network, a column per set."""
    networks, sets = len(found.networks), len(found.sets)
    figure = new_figure(width, (0.22 * width + 0.9) * networks)
    panels = figure.subplots(networks, sets, squeeze=False, sharex="row", sharey="row")
    d_prime, auc, mistakes = found.d_prime, found.auc, found.mistakes
    for network, row in enumerate(panels):
        values = np.concatenate([part.numpy() for number in range(sets) for part in found.pairs(network, number)])
        bins = np.linspace(values.min(), values.max() + 1e-9, BINS + 1)
        for number, axes in enumerate(row):
            same, different = found.pairs(network, number)
            for part, colour, label in ((same, "stable", "same"), (different, "unstable", "different")):
                share = np.full(len(part), 1 / max(len(part), 1))
                axes.hist(part.numpy(), bins, weights=share, color=colours[colour], alpha=0.6, label=label)
            axes.set_title(f"{found.networks[network]}, {found.sets[number]}")
            measures = (("d'", d_prime, ".2f"), ("AUC", auc, ".4f"), ("mistaken", mistakes, ".1%"))
            known = [
                f"{name} {float(measure[network, number]):{form}}"
                for name, measure, form in measures
                if not measure[network, number].isnan()
            ]
            axes.set_xlabel(f"similarity\n{', '.join(known)}")
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        row[0].set_ylabel("share of pairs")
    panels[0, 0].legend(frameon=False, labelcolor=colours["ink"])
    for axes in panels.flatten():
        style_axes(axes, colours, font_size)
    return figure


def draw_confused_pairs(
    pairs: Sequence[ConfusedPair],
    images: Float[Tensor, "images 3 height width"],
    colours: Colours = LIGHT,
    *,
    width: float = 10.5,
    font_size: float = 9,
) -> Figure:
    """Draw pairs of images with the number of mistakes out of the number of occurrences."""
    if not pairs:
        raise ValueError("There is no pair to draw.")
    figure = new_figure(width, width / len(pairs) / 2 + 0.6)
    for axes, pair in zip(figure.subplots(1, len(pairs), squeeze=False).flatten(), pairs, strict=True):
        axes.imshow(torch.cat([images[pair.first], images[pair.second]], dim=2).permute(1, 2, 0).numpy())
        axes.set_title(f"{pair.mistakes} of {pair.occurrences}")
        axes.axis("off")
        style_axes(axes, colours, font_size)
    return figure


def draw_generalisation(found: Generalisation, colours: Colours = LIGHT, *, font_size: float = 9) -> Figure:
    """Draw the accuracy on unseen shapes (solid) and on seen ones (dashed) over the number held out."""
    figure = new_figure(7, 4)
    axes = figure.add_subplot()
    for number, (network, curve) in enumerate(found.curves().items()):
        colour = colours[LINES[number % len(LINES)]]
        m, seen, unseen = zip(*curve, strict=True)
        axes.plot(m, seen, color=colour, linestyle=(0, (4, 2)), linewidth=1.2, marker="o", markerfacecolor="none")
        axes.plot(m, unseen, color=colour, linewidth=1.8, marker="o", label=network)
        runs = [run for run in found.runs if run.network == network]
        axes.plot([run.held_out for run in runs], [run.unseen for run in runs], ".", color=colour, alpha=0.5)
    if found.chance is not None:
        axes.axhline(found.chance, color=colours["muted"], linewidth=1, linestyle=(0, (1, 2)), label="chance")
    axes.plot([], [], color=colours["muted"], linestyle=(0, (4, 2)), label="seen shapes")
    axes.set(xlabel="m, shapes held out", ylabel="accuracy", ylim=(None, 1.02))
    axes.legend(frameon=False, labelcolor=colours["ink"], loc="center left", bbox_to_anchor=(1, 0.5))
    style_axes(axes, colours, font_size)
    return figure


def _panels(count: int, width: float, room: float) -> tuple[Figure, list[Any]]:
    """Return a figure of square panels, with some `room` in inches below each for its labels."""
    lines = -(-count // COLUMNS)
    figure = new_figure(width, (width / COLUMNS + room) * lines)
    return figure, [figure.add_subplot(lines, COLUMNS, number + 1) for number in range(count)]


def _matrices(found: Relations, problem: int) -> list[tuple[str, NDArray[np.floating]]]:
    matrices = []
    scores = zip(found.score_names, found.scores[problem], found.used[problem], strict=True)
    for name, matrix, used in list(scores)[:MOST]:
        title = f"Scores, {name}" if name else "Scores"
        matrices.append((title if bool(used) else f"{title} (not used)", matrix.numpy()))
    for name, matrix in list(zip(found.relation_names, found.relations[problem], strict=True))[:MOST]:
        matrices.append((f"Read: {name}" if name else "Read", matrix.masked_fill(~found.read, np.nan).numpy()))
    return matrices


def _rgb(images: Float[Tensor, "images channels height width"]) -> Float[Tensor, "images height width 3"]:
    images = images.permute(0, 2, 3, 1).clamp(0, 1)
    return images.expand(-1, -1, -1, 3) if images.shape[3] == 1 else images


def _label_problem(axes: Any, found: Relations, problem: int, answer_names: Sequence[str]) -> None:
    label, answer = int(found.labels[problem]), int(found.answers[problem])
    right, given = (answer_names[number] if answer_names else str(number) for number in (label, answer))
    probability = float(found.logits[problem].softmax(0)[answer])
    axes.set(xticks=[], yticks=[], title=f"Right: {right}", xlabel=f"Answered: {given} ({probability:.0%})")


def _draw_objects_along(axes: Any, objects: Float[Tensor, "objects channels height width"]) -> Any:
    """Draw the objects along the rows and columns of a matrix; return the axes above it."""
    images = _rgb(objects)
    images = torch.cat([images, torch.ones_like(images[..., :1])], 3).numpy()  # opaque
    width = 1 / len(objects)
    thick = min(width, THICKEST)
    above, left = axes.inset_axes((0, 1.02, 1, thick)), axes.inset_axes((-0.02 - thick, 0, thick, 1))
    for inset, along in ((above, 2), (left, 1)):
        more = round(images.shape[along] * (width / thick - 1) / 2)  # blank margins, so that no image is stretched
        padding = [(0, 0), (0, 0), (0, 0), (0, 0)]
        padding[along] = (more, more)
        inset.imshow(np.concatenate(np.pad(images, padding), axis=along - 1), aspect="auto", interpolation="nearest")
        inset.axis("off")
    return above


def _draw_accuracies(axes: Any, found: Occlusion, colours: Colours) -> None:
    """Draw the accuracy when nothing is hidden, and when all relations or all features are."""
    bars = [("nothing", 0.0, "path"), ("all relations", float(found.relations.accuracy), "stable")]
    if found.sensory is not None:
        bars.append(("all features", float(found.sensory.accuracy), "saddle-2"))
    names, losses, keys = zip(*bars, strict=True)
    positions = np.arange(len(bars))
    axes.barh(positions, [found.accuracy - loss for loss in losses], color=[colours[key] for key in keys])
    axes.set(yticks=positions, yticklabels=names, xlim=(0, 1), xlabel="accuracy", title="When hidden")
    axes.invert_yaxis()


def _draw_row_lines(axes: Any, rows: Sequence[int], colours: Colours) -> None:
    for end in list(accumulate(rows))[:-1]:
        axes.axhline(end - 0.5, color=colours["path"], linewidth=0.8)
        axes.axvline(end - 0.5, color=colours["path"], linewidth=0.8)


def _integer_ticks(axes: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    if axes.images:
        axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
