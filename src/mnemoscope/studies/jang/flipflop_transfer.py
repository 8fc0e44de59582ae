"""Whether a 4-bit flip-flop that begins with a taught 3-bit one keeps its shape (Jang, sections 7 and 7.1, Fig 8).

FORCE begins with P = I / alpha, and so ends at the least squares over all it has seen plus `alpha |W_o - beginning|^2`:
of the beginning there remains what the lesson does not touch. Both lessons are the same, of the same reservoir.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import degrees, pi
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE, add_legend, style_page_axes
from mnemoscope.registry.citations import Source
from mnemoscope.replication.claims import Claim, Row, about
from mnemoscope.replication.study import Finished, Preset, Study, Trial
from mnemoscope.studies.jang.reservoirs import (
    LEFT_ALONE,
    Lesson,
    Recipe,
    lesson,
    spread_in_words,
    table,
    transferred,
    tried,
    written,
)
from mnemoscope.studies.jang.tesseract import SHAPES, Geometry, by_chance, geometry, tesseract_edges

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BITS = 4
"""Of the flip-flop whose shapes were published."""
BEGINNINGS = {"fresh": "stable", "transferred": "saddle-2"}
"""Taught from nothing, and from the readout of one bit less; with their colours."""
PARTS = (30, 10, 3, 1)
"""W_o is looked at after a thirtieth, a tenth, a third and the whole of the lesson."""

RANDOM_VIEWS = {3: 1.0, 4: pi / 4 + 1 / pi}
"""Mean angle between random lines in as many dimensions: of density sin, or (4 / pi) sin^2, from 0 to pi / 2."""


class FlipFlopTransfer(Study):
    """Teach reservoirs four bits, from nothing and from three bits, and measure how the 16 memories lie."""

    name = "flipflop-transfer"
    title = "Four bits from nothing, or from three"
    question = "Does a flip-flop that begins with a taught one of three bits place its 16 memories otherwise?"
    claims = (
        Claim(
            about("fresh"),
            "bits along the view",
            "3: hexagonal prism",
            Source("jang", "section 7 and Fig 8a"),
            tolerance=(3, 3),
        ),
        Claim(
            about("fresh"),
            "spread of the edges",
            "roughly equidistant",
            Source("jang", "section 7.1"),
            tolerance=(0, 0.1),
        ),
        Claim(
            about("transferred"),
            "bits along the view",
            "1 or 2: cuboid",
            Source("jang", "section 7.1, Fig 8b"),
            tolerance=(1, 2),
        ),
    )
    presets: Mapping[str, Preset] = {
        "smoke": Preset(
            "Three bits from two, a small reservoir, a short lesson: it shows that the machinery works.",
            Recipe(bits=3, units=300, steps=3000, every=4, test_steps=200).settings() | {"left_alone": 50},
        ),
        "cpu": Preset(
            "N = 1000 as published, eight seeds.",
            Recipe(bits=BITS).settings() | {"left_alone": LEFT_ALONE},
            tuple(range(8)),
        ),
        "paper": Preset(
            "The same with twenty seeds.", Recipe(bits=BITS).settings() | {"left_alone": LEFT_ALONE}, tuple(range(20))
        ),
    }
    cites = ("jang", "sussillo2009")
    caption = (
        "Above: the memory states of one reservoir in the first principal components of its currents, with the edges "
        "between memories that differ in one bit; those of the last bit, which the transferred one learned later, in "
        "another colour; the second is turned, or mirrored, to be like the first. Below: distances of memories by the "
        "number of bits in which they differ, in units of the mean edge, with standard deviations over pairs, a mean "
        "over reservoirs; dotted: a regular tesseract, the square root. Right: the distance between the two readouts "
        "during the lesson, over the length of the fresh one, a line per reservoir."
    )

    def trials(self, settings: Mapping[str, Any], seeds: Iterable[int]) -> list[Trial]:
        subject = about("", f"{settings['bits']} bits")
        return [Trial(subject.name, dict(settings), seed, subject) for seed in seeds]

    def as_published(self, trial: Trial) -> bool:
        recipe = Recipe.of(dict(trial.settings))
        return recipe.as_published and recipe.bits == BITS

    def run(self, trial: Trial, folder: Path, progress: bool) -> dict[str, Any]:
        recipe, seed, alone = Recipe.of(dict(trial.settings)), trial.seed, trial.settings["left_alone"]
        keep = [recipe.steps // part for part in PARTS]
        fresh = lesson(recipe, seed, folder / "fresh.safetensors", keep=keep, progress=progress)
        before, after = transferred(recipe, seed, folder, keep=keep, progress=progress)
        taught, states = {"fresh": fresh, "transferred": after}, {}
        found: dict[str, Any] = {}
        for name, one in taught.items():
            memories = written(one.cell, recipe, alone)
            own = tried(one.cell, recipe, recipe.test(seed))
            states[name] = memories.states.double()
            found[name] = {
                "held": int(memories.held.sum()),
                "mse": own["mse"],
                "accuracy": own["accuracy"],
                "moving": _moving(one, memories.states),
                "early_error": float(one.errors[: len(one.errors) // 30].mean()),
                "held_after": [int(written(one.at(step), recipe, alone).held.sum()) for step in keep],
            }
            if memories.held.all():  # the corners of a shape are memories, all of them
                rates = one.cell.output(memories.states).detach()
                found[name] |= {"currents": _told(geometry(states[name])), "rates": _told(geometry(rates))}
        found["before_held"] = int(
            written(before.cell, Recipe.of({**trial.settings, "bits": recipe.bits - 1}), alone).held.sum()
        )
        found["steps"] = keep
        found["readouts_apart"] = [
            float((after.snapshots[step] - fresh.snapshots[step]).norm() / fresh.snapshots[step].norm())
            for step in keep
        ]
        if all("currents" in found[name] for name in taught):
            moved = (states["fresh"] - states["transferred"]).norm(dim=1).mean()
            views = [torch.tensor(found[name]["currents"]["direction"]).double() for name in taught]
            cosine = torch.nn.functional.cosine_similarity(*views, dim=0).abs().clamp_max(1)
            found["moved"] = float(moved) / fmean(found["fresh"]["currents"]["edges"])
            found["views_apart"] = float(cosine.acos().rad2deg())
        return found

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        bits = results[0].trial.settings["bits"]
        fresh, equidistant, transferred = self.claims
        compared, rest = [], []
        for name, claim in zip(BEGINNINGS, (fresh, transferred), strict=True):
            rest.append(_taught(results, name, bits))
            own = [one for one in results if "currents" in one.result[name]]
            if not own:
                continue
            compared.append(self._view(own, name, claim, bits))
            if name == "fresh":
                compared.append(self._edges(own, equidistant))
            rest += _measures(own, name, bits)
        return [*compared, *_differences([one for one in results if "moved" in one.result]), *rest]

    def _view(self, trials: Sequence[Finished], name: str, claim: Claim, bits: int) -> Row:
        along, in_rates = ([one.result[name][kind]["along"] for one in trials] for kind in ("currents", "rates"))
        named = dict(enumerate(SHAPES[bits], 1))
        counts = ", ".join(
            f"{along.count(count)} nearest to a {shape}" for count, shape in named.items() if count in along
        )
        remark = f"{counts}; in rates {', '.join(map(str, in_rates))}"
        return self.compare(trials, claim, claim.name, along, ", ".join(map(str, along)), remark)

    def _edges(self, trials: Sequence[Finished], claim: Claim) -> Row:
        spreads = {kind: [one.result["fresh"][kind]["edge_spread"] for one in trials] for kind in ("currents", "rates")}
        remark = f"standard deviation of the edges over their mean; in rates {spread_in_words(spreads['rates'], '.2f')}"
        ours = spread_in_words(spreads["currents"], ".2f")
        return self.compare(trials, claim, claim.name, spreads["currents"], ours, remark)

    def figure(self, results: Sequence[Finished]) -> Figure:
        figure = new_figure(9.0, 8.0)
        bits = results[0].trial.settings["bits"]
        parts: Any = figure.subfigures(2, 1, height_ratios=(1.5, 1))
        above, below = parts
        drawn = next((one for one in results if "moved" in one.result), None)
        first: Tensor | None = None
        for place, name in enumerate(BEGINNINGS):
            shape = None if drawn is None else drawn.result[name]["currents"]
            first = _draw_shape(above, place, name, bits, shape, first)
        left, right = below.subplots(1, 2)
        numbers = range(1, bits + 1)
        for place, (name, colour) in enumerate(BEGINNINGS.items()):
            own = [one.result[name]["currents"] for one in results if "currents" in one.result[name]]
            if own:
                means, bars = (
                    [fmean(one[key][at] / one["distances"][0] for one in own) for at in range(bits)]
                    for key in ("distances", "deviations")
                )
                left.errorbar(
                    [at + 0.12 * place - 0.06 for at in numbers],
                    means,
                    bars,
                    color=COLOUR[colour],
                    fmt="o",
                    capsize=4,
                    label=name,
                )
        left.plot(numbers, [at**0.5 for at in numbers], color=COLOUR["muted"], linestyle="dotted")
        left.set(xlabel="bits that differ", ylabel="distance", ylim=(0, None))
        left.set_xticks(list(numbers))
        for one in results:
            right.plot(
                one.result["steps"], one.result["readouts_apart"], color=COLOUR["path"], marker="o", markersize=4
            )
        right.set(xlabel="steps of the lesson", ylabel="readouts apart", xscale="log", ylim=(0, None))
        right.set_xticks(results[0].result["steps"], [f"{step:,}" for step in results[0].result["steps"]])
        right.set_xticks([], minor=True)
        for axes in (left, right):
            style_page_axes(axes)
        add_legend(left, "lower right")
        return figure


def _moving(taught: Lesson, states: Tensor) -> float:
    """Largest change of a current in one more step: how far the states are from rest."""
    with torch.no_grad():
        silence = torch.zeros(len(states), taught.cell.output_size)  # as many inputs as outputs
        return float((taught.cell(silence, states) - states).abs().max())


def _told(shape: Geometry) -> dict[str, Any]:
    """What is kept of a shape, for JSON."""
    lists = ("edges", "distances", "deviations", "angles", "variances", "direction", "likeness")
    numbers = ("edge_spread", "additive", "closest", "last_edge", "last_variance")
    scale = float(shape.projected.abs().max())
    return {
        **{name: table(getattr(shape, name), 4) for name in lists},
        **{name: round(getattr(shape, name), 4) for name in numbers},
        "along": shape.along,
        "shape": shape.shape,
        "hull": shape.hull,
        "projected": table(shape.projected / scale, 3),
    }


def _taught(results: Sequence[Finished], name: str, bits: int) -> Row:
    own = [one.result[name] for one in results]
    accuracy, error = (
        spread_in_words([one[key] for one in own], form) for key, form in (("accuracy", ".4f"), ("mse", ".2g"))
    )
    moving = max(one["moving"] for one in own)
    remark = f"of {2**bits}; accuracy {accuracy}, MSE {error}; a current still moves by {moving:.0e} a step at most"
    return Row(f"{name}: memories held", "not published", _several([one["held"] for one in own]), remark=remark)


def _measures(trials: Sequence[Finished], name: str, bits: int) -> list[Row]:
    """What nothing was published of, in currents."""
    seen = [one.result[name]["currents"] for one in trials]
    angles = [angle for one in seen for angle in one["angles"]]
    likeness = [
        f"{shape} {spread_in_words([one['likeness'][place] for one in seen], '.2f')}"
        for place, shape in enumerate(SHAPES[bits])
    ]
    chances = ", ".join(f"{shape} {share:.0%}" for shape, share in zip(SHAPES[bits], by_chance(bits), strict=True))
    ideal = "12 of a prism, 8 of a cuboid" if bits == BITS else "not published"
    return [
        Row(
            f"{name}: likeness to",
            "not published",
            "; ".join(likeness),
            remark=f"cosine of the directions of view; random views: {chances}",
        ),
        Row(
            f"{name}: corners of the hull",
            ideal,
            _several([one["hull"] for one in seen]),
            remark=f"of the projection; closest pair {spread_in_words([one['closest'] for one in seen], '.2f')} of the "
            f"mean distance, 0 in both",
        ),
        Row(f"{name}: last edge / others", "not published", spread_in_words([one["last_edge"] for one in seen])),
        Row(
            f"{name}: angles of edges",
            "not published",
            f"{min(angles):.0f} to {max(angles):.0f} degrees",
            remark=f"c + E s tells {spread_in_words([one['additive'] for one in seen], '.2f')} of the variance",
        ),
        Row(
            f"{name}: variance left out / others",
            "not published",
            spread_in_words([one["last_variance"] for one in seen], ".2f"),
            remark=f"of principal component {bits}; at 1, accidents choose the view",
        ),
    ]


def _differences(trials: Sequence[Finished]) -> list[Row]:
    """The two reservoirs of a seed beside each other."""
    if not trials:
        return []
    found = [one.result for one in trials]
    apart = [[one["readouts_apart"][place] for one in found] for place in (0, -1)]
    early = [spread_in_words([one[name]["early_error"] for one in found], ".2g") for name in BEGINNINGS]
    return [
        Row(
            "between both: memories apart",
            "not published",
            spread_in_words([one["moved"] for one in found], ".2f"),
            remark="mean distance of the same memory, in edges; of currents",
        ),
        Row(
            "between both: views apart",
            "not published",
            f"{spread_in_words([one['views_apart'] for one in found], '.0f')} degrees",
            remark=f"two random ones: {degrees(RANDOM_VIEWS[trials[0].trial.settings['bits']]):.0f} on average",
        ),
        Row(
            "between both: readouts apart",
            "not published",
            spread_in_words(apart[1], ".2f"),
            remark=f"of the length of W_o; after a thirtieth of the lesson {spread_in_words(apart[0], '.2f')}",
        ),
        Row(
            "both: error before the early updates",
            "not published",
            " against ".join(early),
            remark="fresh against transferred; a thirtieth of the lesson",
        ),
    ]


def _several(counts: Sequence[int]) -> str:
    return str(counts[0]) if len(set(counts)) == 1 else ", ".join(map(str, counts))


def _draw_shape(
    figure: Any, place: int, name: str, bits: int, shape: Mapping[str, Any] | None, like: Tensor | None
) -> Tensor | None:
    """One projection, turned such that it is nearest to another one, `like`; gives the points as drawn."""
    deep = bits > 3
    axes: Any = figure.add_subplot(1, 2, place + 1, projection="3d" if deep else "rectilinear")
    axes.set_axis_off()
    title = f"{name}: not all are held" if shape is None else f"{name}: nearest to a {shape['shape']}"
    axes.set_title(title, color=COLOUR["ink"], size=PAGE_FONT_SIZE)
    if shape is None:
        return None
    points = torch.tensor(shape["projected"])
    if like is not None:
        U, _, V_T = torch.linalg.svd(points.mT @ like)
        points = points @ U @ V_T
    for one, other, bit in tesseract_edges(bits):
        colour = COLOUR["saddle-1" if bit == bits - 1 else "path"]
        axes.plot(*points[[one, other]].T.tolist(), color=colour, linewidth=1.6)
    axes.scatter(*points.T.tolist(), color=COLOUR["stable"], s=36, zorder=3, **({"depthshade": False} if deep else {}))
    if deep:
        axes.set_box_aspect((1, 1, 1), zoom=1.35)
        axes.view_init(elev=18, azim=-55)
        reach = float(points.abs().max())
        axes.set(xlim=(-reach, reach), ylim=(-reach, reach), zlim=(-reach, reach))
    else:
        axes.set_aspect("equal")
    return points


STUDY = FlipFlopTransfer()
