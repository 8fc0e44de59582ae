"""Geometry of 4-bit flip-flops trained from scratch or from a 3-bit one (Jang, sections 7 and 7.1, Fig 8).

FORCE starts with P = I / alpha. It thus ends at the least-squares solution over the whole training with the penalty
`alpha |W_o - initial W_o|^2`: only the part of the initial readout that the training data do not determine remains.
Both trainings use the same data and the same reservoir.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import degrees, isfinite, nan, pi
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE, add_legend, style_page_axes
from mnemoscope.replication.agreement import chosen, exactly
from mnemoscope.replication.claims import Claim, Row, about, unpublished, with_reason
from mnemoscope.replication.study import Finished, Preset, Study, Trial, listed
from mnemoscope.replication.verdicts import Verdict
from mnemoscope.studies.jang import reservoirs
from mnemoscope.studies.jang.reservoir_claims import EQUIDISTANT
from mnemoscope.studies.jang.reservoirs import JANG, LEFT_ALONE, Recipe, TrainedReservoir, mean_and_deviation
from mnemoscope.studies.jang.tesseract import SHAPES, Geometry, geometry, random_view_shares, tesseract_edges

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BITS = 4
"""Number of bits of the published flip-flop."""
PUBLISHED: dict[str, Any] = {**Recipe(BITS).settings(), "left_alone": LEFT_ALONE}
ALONG, HELD = "bits along the view", "memories held"
INITIAL_READOUTS = {"fresh": "stable", "transferred": "saddle-2"}
"""Initial readouts: zero, or the readout trained with one bit less; with their colours."""
NO_SHAPE = "nan: a network that has lost memories has no shape"
PARTS = (30, 10, 3, 1)
"""W_o is measured after a thirtieth, a tenth, a third and the whole of the training."""

RANDOM_VIEWS = {3: 1.0, 4: pi / 4 + 1 / pi}
"""By number of dimensions: mean angle between random lines, with density sin, or (4 / pi) sin^2, on 0 to pi / 2."""


class FlipFlopTransfer(Study):
    """Train reservoirs on four bits, from scratch and from three bits, and measure the geometry of the 16 memories."""

    name = "flipflop-transfer"
    title = "Four bits from scratch, or from three"
    question = "Does a flip-flop that starts from a trained 3-bit one arrange its 16 memories differently?"
    claims = (
        Claim(about("fresh"), ALONG, "3: hexagonal prism", JANG("section 7 and Fig 8a"), exactly(3)),
        Claim(
            about("fresh"),
            "spread of the edges",
            "roughly equidistant",
            JANG("section 7.1"),
            EQUIDISTANT,
        ),
        Claim(
            about("transferred"),
            ALONG,
            "1 or 2: cuboid",
            JANG("section 7.1, Fig 8b"),
            chosen(1, 2, "a view of a cuboid has one or two bits along it"),
        ),
        Claim(
            about("transferred"),
            HELD,
            "accommodates 8 new fixed points",
            JANG("section 7.1"),
            exactly(16),
        ),
    )
    presets: Mapping[str, Preset] = {
        "smoke": Preset(
            "Three bits from two, a small reservoir, short training; checks only that the code runs.",
            Recipe(bits=3, units=300, steps=3000, every=4, test_steps=200).settings() | {"left_alone": 50},
        ),
        "cpu": Preset("N = 1000 as published, eight seeds.", PUBLISHED, tuple(range(8))),
        "paper": Preset("The same with twenty seeds.", PUBLISHED, tuple(range(20))),
    }
    cites = ("jang", "sussillo2009")
    caption = (
        "Above: the memory states of one reservoir in the first principal components of its currents, with the edges "
        "between memories that differ in one bit. The edges of the last bit, which the transferred network learned "
        "later, have another colour. The second projection is rotated or mirrored to align with the first. Below, "
        "left: distance between memories by the number of bits in which they differ, in units of the mean edge; bars: "
        "standard deviation over pairs, averaged over reservoirs; dotted: a regular tesseract, the square root. Below, "
        "right: distance between the two readouts during training, relative to the norm of the fresh one; one line "
        "per reservoir."
    )

    def trials(self, settings: Mapping[str, Any], seeds: Iterable[int]) -> list[Trial]:
        subject = about("", f"{settings['bits']} bits")
        return [Trial(subject.name, dict(settings), seed, subject) for seed in seeds]

    def as_published(self, trial: Trial) -> bool:
        return Recipe.from_settings(trial.settings).as_published(BITS)

    def run(self, trial: Trial, folder: Path, progress: bool) -> dict[str, Any]:
        recipe, seed, alone = Recipe.from_settings(trial.settings), trial.seed, trial.settings["left_alone"]
        keep = [recipe.steps // part for part in PARTS]
        fresh = reservoirs.train_reservoir(recipe, seed, folder / "fresh.safetensors", keep=keep, progress=progress)
        before, after = reservoirs.train_transferred(recipe, seed, folder, keep=keep, progress=progress)
        trained, states = {"fresh": fresh, "transferred": after}, {}
        found: dict[str, Any] = {}
        for name, reservoir in trained.items():
            memories = reservoirs.measure_memories(reservoir.cell, recipe, alone)
            scores = reservoirs.score_reservoir(reservoir.cell, recipe, recipe.test(seed))
            states[name] = memories.states.double()
            found[name] = {
                "held": int(memories.held.sum()),
                "mse": scores["mse"],
                "accuracy": scores["accuracy"],
                "moving": _moving(reservoir, memories.states),
                "early_error": float(reservoir.errors[: len(reservoir.errors) // 30].mean()),
                "held_after": [
                    int(reservoirs.measure_memories(reservoir.at(step), recipe, alone).held.sum()) for step in keep
                ],
            }
            if memories.held.all():  # a shape needs a memory at each of its corners
                rates = reservoir.cell.output(memories.states).detach()
                found[name] |= {
                    "currents": _geometry_record(geometry(states[name])),
                    "rates": _geometry_record(geometry(rates)),
                }
        smaller = replace(recipe, bits=recipe.bits - 1)
        found["before_held"] = int(reservoirs.measure_memories(before.cell, smaller, alone).held.sum())
        found["steps"] = keep
        found["readouts_apart"] = [
            float((after.snapshots[step] - fresh.snapshots[step]).norm() / fresh.snapshots[step].norm())
            for step in keep
        ]
        if all("currents" in found[name] for name in trained):
            moved = (states["fresh"] - states["transferred"]).norm(dim=1).mean()
            views = [torch.tensor(found[name]["currents"]["direction"]).double() for name in trained]
            cosine = torch.nn.functional.cosine_similarity(*views, dim=0).abs().clamp_max(1)
            found["moved"] = float(moved) / fmean(found["fresh"]["currents"]["edges"])
            found["views_apart"] = float(cosine.acos().rad2deg())
        return found

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        bits = results[0].trial.settings["bits"]
        fresh, equidistant, transferred, _ = self.claims
        compared, rest = [], []
        for name, claim in zip(INITIAL_READOUTS, (fresh, transferred), strict=True):
            rest.append(self._held(results, name, bits))
            trials = [finished for finished in results if "currents" in finished.result[name]]
            if not trials:
                continue
            compared.append(self._view(results, name, claim, bits))
            if name == "fresh":
                compared.append(self._edges(results, equidistant))
            rest += _geometry_rows(trials, name, bits)
        pairs = [finished for finished in results if "moved" in finished.result]
        return [*compared, *_difference_rows(pairs), *rest]

    def _view(self, trials: Sequence[Finished], name: str, claim: Claim, bits: int) -> Row:
        along, in_rates = (_shape_numbers(trials, name, kind, "along") for kind in ("currents", "rates"))
        counts = ((along.count(count), shape) for count, shape in enumerate(SHAPES[bits], 1))
        shapes = ", ".join(f"{count} nearest to a {shape}" for count, shape in counts if count)
        row = self.compare(trials, claim, along, listed(along), f"{shapes}; in rates {listed(in_rates)}; {NO_SHAPE}")
        pairs = [finished.result["views_apart"] for finished in trials if "views_apart" in finished.result]
        if row.verdict in (Verdict.MATCHES, Verdict.NOT_COMPARED) or not pairs:
            return row
        return with_reason(
            row,
            f"the view follows the reservoir, not the initial readout: both networks of a reservoir are seen "
            f"{fmean(pairs):.0f} degrees apart; the released code compares different reservoirs",
        )

    def _edges(self, trials: Sequence[Finished], claim: Claim) -> Row:
        spreads, in_rates = (_shape_numbers(trials, "fresh", kind, "edge_spread") for kind in ("currents", "rates"))
        known, rates = (mean_and_deviation(list(filter(isfinite, each)), ".2f") for each in (spreads, in_rates))
        remark = f"standard deviation of the edges divided by their mean; in rates {rates}; {NO_SHAPE}"
        row = self.compare(trials, claim, spreads, known, remark)
        held = [spread for spread in spreads if isfinite(spread)]
        assert claim.agreement is not None
        if row.verdict is not Verdict.IN_PART or any(spread not in claim.agreement for spread in held):
            return row
        return with_reason(row, f"{len(spreads) - len(held)} hold fewer memories than there are corners; {NO_SHAPE}")

    def _held(self, results: Sequence[Finished], name: str, bits: int) -> Row:
        outcomes = [finished.result[name] for finished in results]
        accuracy, error = _mean(outcomes, "accuracy", ".4f"), _mean(outcomes, "mse", ".2g")
        moving = max(outcome["moving"] for outcome in outcomes)
        remark = (
            f"of {2**bits}; accuracy {accuracy}, MSE {error}; currents still change by at most {moving:.0e} per step"
        )
        counts = _counts(outcomes, "held")
        if name == "fresh" or bits != BITS:
            return unpublished(f"{name}: {HELD}", counts, remark)
        return self.compare(
            results, self.claim(HELD, about(name)), [outcome["held"] for outcome in outcomes], counts, remark
        )

    def figure(self, results: Sequence[Finished]) -> Figure:
        figure = new_figure(9.0, 8.0)
        bits = results[0].trial.settings["bits"]
        parts: Any = figure.subfigures(2, 1, height_ratios=(1.5, 1))
        above, below = parts
        drawn = next((finished for finished in results if "moved" in finished.result), None)
        first: Tensor | None = None
        for place, name in enumerate(INITIAL_READOUTS):
            shape = None if drawn is None else drawn.result[name]["currents"]
            first = _draw_shape(above, place, name, bits, shape, first)
        left, right = below.subplots(1, 2)
        numbers = range(1, bits + 1)
        for place, (name, colour) in enumerate(INITIAL_READOUTS.items()):
            outcomes = [finished.result[name] for finished in results]
            shapes = [outcome["currents"] for outcome in outcomes if "currents" in outcome]
            if shapes:
                means, bars = (
                    [fmean(shape[key][at] / shape["distances"][0] for shape in shapes) for at in range(bits)]
                    for key in ("distances", "deviations")
                )
                beside = [at + 0.12 * place - 0.06 for at in numbers]
                left.errorbar(beside, means, bars, color=COLOUR[colour], fmt="o", capsize=4, label=name)
        left.plot(numbers, [at**0.5 for at in numbers], color=COLOUR["muted"], linestyle="dotted")
        left.set(xlabel="bits that differ", ylabel="distance", ylim=(0, None))
        left.set_xticks(list(numbers))
        for finished in results:
            outcome = finished.result
            right.plot(outcome["steps"], outcome["readouts_apart"], color=COLOUR["path"], marker="o", markersize=4)
        right.set(xlabel="training step", ylabel="distance between readouts", xscale="log", ylim=(0, None))
        right.set_xticks(results[0].result["steps"], [f"{step:,}" for step in results[0].result["steps"]])
        right.set_xticks([], minor=True)
        for axes in (left, right):
            style_page_axes(axes)
        add_legend(left, "lower right")
        return figure


def _shape_numbers(results: Sequence[Finished], name: str, kind: str, number: str) -> list[float]:
    """Return a number of the shape of each network's memories; NaN for a network that has lost some of them."""
    outcomes = [finished.result[name] for finished in results]
    return [outcome[kind][number] if kind in outcome else nan for outcome in outcomes]


def _moving(trained: TrainedReservoir, states: Tensor) -> float:
    """Return the largest change of a current in one more step, as a measure of the distance from rest."""
    with torch.no_grad():
        silence = torch.zeros(len(states), trained.cell.output_size)  # as many inputs as outputs
        return float((trained.cell(silence, states) - states).abs().max())


def _geometry_record(shape: Geometry) -> dict[str, Any]:
    """Return the stored part of a geometry, for JSON."""
    lists = ("edges", "distances", "deviations", "angles", "variances", "direction", "likeness")
    numbers = ("edge_spread", "additive", "closest", "last_edge", "last_variance")
    scale = float(shape.projected.abs().max())
    return {
        **{name: reservoirs.rounded_lists(getattr(shape, name), 4) for name in lists},
        **{name: round(getattr(shape, name), 4) for name in numbers},
        "along": shape.along,
        "shape": shape.shape,
        "hull": shape.hull,
        "projected": reservoirs.rounded_lists(shape.projected / scale, 3),
    }


def _geometry_rows(trials: Sequence[Finished], name: str, bits: int) -> list[Row]:
    """Return the rows about currents for which nothing was published."""
    shapes = [finished.result[name]["currents"] for finished in trials]
    angles = [angle for shape in shapes for angle in shape["angles"]]
    likeness = "; ".join(
        f"{ideal} {mean_and_deviation([shape['likeness'][place] for shape in shapes], '.2f')}"
        for place, ideal in enumerate(SHAPES[bits])
    )
    shares = zip(SHAPES[bits], random_view_shares(bits), strict=True)
    chances = ", ".join(f"{shape} {share:.0%}" for shape, share in shares)
    views = f"cosine between directions of view; shares of random views: {chances}"
    hull = f"of the projection; closest pair {_mean(shapes, 'closest')} of the mean distance, 0 in prism and cuboid"
    additive = f"c + E s explains {_mean(shapes, 'additive')} of the variance"
    chance = f"of principal component {bits}; at 1, chance determines the view"
    published_hull = "12 of a prism, 8 of a cuboid" if bits == BITS else "not published"
    return [
        unpublished(f"{name}: likeness to", likeness, views),
        Row(f"{name}: corners of the hull", published_hull, _counts(shapes, "hull"), remark=hull),
        unpublished(f"{name}: last edge / others", _mean(shapes, "last_edge", ".3g")),
        unpublished(f"{name}: angles of edges", f"{min(angles):.0f} to {max(angles):.0f} degrees", additive),
        unpublished(f"{name}: variance left out / others", _mean(shapes, "last_variance"), chance),
    ]


def _difference_rows(trials: Sequence[Finished]) -> list[Row]:
    """Return the rows that compare the two reservoirs of each seed."""
    if not trials:
        return []
    outcomes = [finished.result for finished in trials]
    early, late = (
        mean_and_deviation([outcome["readouts_apart"][place] for outcome in outcomes], ".2f") for place in (0, -1)
    )
    errors = [_mean([outcome[name] for outcome in outcomes], "early_error", ".2g") for name in INITIAL_READOUTS]
    moved = "mean distance between the currents of the same memory, in units of the edge"
    views = f"random views: {degrees(RANDOM_VIEWS[trials[0].trial.settings['bits']]):.0f} on average"
    readouts = f"relative to the norm of W_o; after a thirtieth of the training {early}"
    updates = "fresh against transferred; first thirtieth of the training"
    return [
        unpublished("between both: memories apart", _mean(outcomes, "moved"), moved),
        unpublished("between both: views apart", f"{_mean(outcomes, 'views_apart', '.0f')} degrees", views),
        unpublished("between both: readouts apart", late, readouts),
        unpublished("both: error before the early updates", " against ".join(errors), updates),
    ]


def _mean(outcomes: Sequence[Mapping[str, Any]], key: str, form: str = ".2f") -> str:
    return mean_and_deviation([outcome[key] for outcome in outcomes], form)


def _counts(outcomes: Sequence[Mapping[str, Any]], key: str) -> str:
    """Return the counts as text; a single number if all are equal."""
    counts = [outcome[key] for outcome in outcomes]
    return str(counts[0]) if len(set(counts)) == 1 else listed(counts)


def _draw_shape(
    figure: Any, place: int, name: str, bits: int, shape: Mapping[str, Any] | None, like: Tensor | None
) -> Tensor | None:
    """Draw a projection, rotated to align with `like`, and return the points as drawn."""
    deep = bits > 3
    axes: Any = figure.add_subplot(1, 2, place + 1, projection="3d" if deep else "rectilinear")
    axes.set_axis_off()
    title = f"{name}: not all memories are held" if shape is None else f"{name}: nearest to a {shape['shape']}"
    axes.set_title(title, color=COLOUR["ink"], size=PAGE_FONT_SIZE)
    if shape is None:
        return None
    points = torch.tensor(shape["projected"])
    if like is not None:
        U, _, V_T = torch.linalg.svd(points.mT @ like)
        points = points @ U @ V_T
    for start, end, bit in tesseract_edges(bits):
        colour = COLOUR["saddle-1" if bit == bits - 1 else "path"]
        axes.plot(*points[[start, end]].T.tolist(), color=colour, linewidth=1.6)
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
