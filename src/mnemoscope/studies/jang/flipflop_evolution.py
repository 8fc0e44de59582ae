"""How the memories of a reservoir come to be: its fixed points followed through the lesson that teaches it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.files import read_json, write_json
from mnemoscope.cells import run_with_cache
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.palette import PALETTE
from mnemoscope.drawing.svg import COLOUR, style_page_axes
from mnemoscope.lenses import (
    BifurcationDiagram,
    Dynamics,
    FromOutputs,
    FromTrajectories,
    Several,
    interpolate_weights,
    track_fixed_points,
)
from mnemoscope.registry.citations import Source
from mnemoscope.replication.claims import EVERYTHING, Claim, Row, about
from mnemoscope.replication.computing import legend_above
from mnemoscope.replication.learning import by_name
from mnemoscope.replication.study import Finished, Preset, Study, Trial
from mnemoscope.report.bifurcations import bifurcations_section
from mnemoscope.report.document import render_document
from mnemoscope.report.provenance import citation_section, provenance_section
from mnemoscope.studies.jang.reservoirs import Lesson, Recipe, lesson, tried, written
from mnemoscope.training.run_folder import environment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PUBLISHED_GAIN = 1.5
TRACE = 600
"""Steps of the test that the page shows at each snapshot."""
STARTS = 24
"""Starts of either kind at each snapshot."""
OUTPUTS = (-1.5, 1.5)
"""Between which outputs are drawn that a reservoir hears at its starts."""
WITHIN = 1.0
"""Events are located to this many steps of the lesson."""
KINDS = ("stable", "saddle-1", "saddle-2", "saddle-3")


class FlipFlopEvolution(Study):
    """Follow the fixed points of a 3-bit reservoir across snapshots of W_o."""

    name = "flipflop-evolution"
    title = "How a reservoir comes to hold three bits"
    question = "By which bifurcations do the memories of a reservoir appear while it is taught?"
    claims = (
        Claim(
            EVERYTHING,
            "stable fixed points before the lesson",
            1,
            Source("jang", "Fig 7a: a single fixed point at the origin"),
            tolerance=(1, 1),
        ),
        Claim(EVERYTHING, "fixed points before the lesson", 1, Source("jang", "Fig 7a"), tolerance=(1, 1)),
        Claim(
            EVERYTHING, "the origin is no longer stable at step", "200", Source("jang", "Fig 7b"), tolerance=(0, 200)
        ),
        Claim(
            EVERYTHING, "how the origin loses its stability", "transcritical bifurcation", Source("jang", "section 9")
        ),
        Claim(
            EVERYTHING,
            "stable fixed points after the lesson",
            8,
            Source("jang", "section 6 and Fig 6"),
            tolerance=(8, 8),
        ),
    )
    presets: Mapping[str, Preset] = {
        "smoke": Preset(
            "A small reservoir and four snapshots: it shows that the machinery works, no more.",
            {
                "cases": {
                    "small": {
                        **Recipe(bits=1, units=30, gain=0.9, steps=400, test_steps=300).settings(),
                        "at": [0, 60, 150, 400],
                    }
                }
            },
        ),
        "cpu": Preset(
            "A reservoir of 300 units that is at rest before the lesson (g = 0.9), ten snapshots.",
            {
                "cases": {
                    "300 units, g = 0.9": {
                        **Recipe(units=300, gain=0.9, steps=10_000).settings(),
                        "at": [0, 50, 100, 200, 400, 700, 1000, 2000, 5000, 10_000],
                    }
                }
            },
        ),
        "paper": Preset(
            "Reservoirs of 1000 units, g = 0.9, over the published 30,000 steps: hours.",
            {
                "cases": {
                    "1000 units, g = 0.9": {
                        **Recipe(gain=0.9).settings(),
                        "at": [0, 50, 100, 200, 400, 700, 1000, 2000, 5000, 10_000, 20_000, 30_000],
                    }
                }
            },
            (0, 1, 2),
        ),
    }
    cites = ("jang", "sussillo2009", "sussillo2013")
    lenses = ("bifurcations",)
    caption = (
        "Fixed points by unstable directions at the snapshots of the lesson, and the bifurcations between them: marks "
        "above the line are births, below it deaths."
    )

    def trials(self, settings: Mapping[str, Any], seeds: Iterable[int]) -> list[Trial]:
        return [
            Trial(name, dict(case), seed, about(name)) for name, case in settings["cases"].items() for seed in seeds
        ]

    def as_published(self, trial: Trial) -> bool:
        recipe = Recipe.of(dict(trial.settings))
        return recipe.as_published and recipe.bits == 3

    def run(self, trial: Trial, folder: Path, progress: bool) -> dict[str, Any]:
        recipe, at = Recipe.of(dict(trial.settings)), trial.settings["at"]
        taught = lesson(recipe, trial.seed, folder / "lesson.safetensors", keep=at, progress=progress)
        test = recipe.test(trial.seed)
        seen = _followed(folder, recipe, trial, taught, progress)
        _write_page(folder, recipe, trial, taught, seen, test.inputs)
        return {
            "accuracy": tried(taught.cell, recipe, test)["accuracy"],
            "held": int(written(taught.cell, recipe).held.sum()),
            "at": list(at),
            "points": [seen.count(place) for place in range(len(at))],
            "unstable": [_kinds(seen, place) for place in range(len(at))],
            "index_sum": seen.index_sum.tolist(),
            "events": [
                {"change": event.change, "name": event.name, "at": round(event.at, 1), "branches": list(event.branches)}
                for event in seen.events
            ],
            "missing": list(seen.missing),
            "notes": list(seen.notes),
            "origin": _origin(recipe, trial.seed, recipe.gain),
            "origin_at_published_gain": _origin(recipe, trial.seed, PUBLISHED_GAIN),
            "origin_loses_stability": _origin_leaves(seen),
        }

    def environment(self, trial: Trial, folder: Path) -> dict[str, Any]:
        """Where the points were followed, which need not be where they are looked at."""
        return read_json(folder / "environment.json")

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        rows = []
        for name, trials in by_name(results).items():
            all_of = [one.result for one in trials]
            first = [one["unstable"][0].get("stable", 0) for one in all_of]
            last = [one["unstable"][-1].get("stable", 0) for one in all_of]
            lost = [one["origin_loses_stability"] for one in all_of if one["origin_loses_stability"] is not None]
            points = [one["points"][0] for one in all_of]
            told = [
                ("stable fixed points before the lesson", first, _listed(first), ""),
                ("fixed points before the lesson", points, _listed(points), ""),
                ("the origin is no longer stable at step", [at for at, _ in lost], _listed([at for at, _ in lost]), ""),
                (
                    "stable fixed points after the lesson",
                    last,
                    _listed(last),
                    f"of {_listed([one['points'][-1] for one in all_of])} points",
                ),
            ]
            rows += [
                self.compare(trials, self.claim(quantity), f"{name}: {quantity}", measured, ours, remark)
                for quantity, measured, ours, remark in told
            ]
            whole = sum(all(one == 1 for one in each["index_sum"]) for each in all_of)
            events = [Counter(event["name"] for event in one["events"]) for one in all_of]
            rows += [
                self.claim("how the origin loses its stability").not_compared(
                    f"{name}: how the origin loses its stability",
                    _listed([kind for _, kind in lost]),
                    "",
                    "the network is odd, F(-x) = -F(x)",
                ),
                Row(
                    f"{name}: unstable directions of the untaught origin, g = {PUBLISHED_GAIN:g}",
                    "0 (Fig 7a)",
                    _listed([one["origin_at_published_gain"] for one in all_of]),
                    remark="at the published gain the untaught reservoir is not at rest",
                ),
                Row(f"{name}: index sum 1 at all snapshots", "not checked", f"{whole} of {len(trials)}"),
                Row(
                    f"{name}: bifurcations",
                    "",
                    "; ".join(", ".join(f"{count} {kind}" for kind, count in one.items()) for one in events),
                ),
                Row(
                    f"{name}: corners held after the lesson",
                    "",
                    _listed([one["held"] for one in all_of]),
                    remark=f"sign accuracy {min(one['accuracy'] for one in all_of):.4f} or better",
                ),
            ]
        return rows

    def figure(self, results: Sequence[Finished]) -> Figure:
        first = results[0].result
        figure = new_figure(7.2, 4.6)
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
        for kind in KINDS:
            label = "stable" if kind == "stable" else f"{kind[-1]}{' or more' if kind[-1] == '3' else ''} unstable"
            heights = [one.get(kind, 0) for one in first["unstable"]]
            upper.plot(first["at"], heights, color=COLOUR[kind], marker="o", markersize=4, label=label)
        upper.set(ylabel="fixed points", ylim=(-0.5, None))
        upper.locator_params(axis="y", integer=True)
        for height, change in ((1, "appeared"), (-1, "vanished"), (0, "changed stability")):
            places = [event["at"] for event in first["events"] if event["change"] == change]
            lower.scatter(places, [height] * len(places), marker="|", s=90, color=COLOUR["ink"])
        lower.set(
            yticks=[1, 0, -1], yticklabels=["born", "changed", "died"], ylim=(-1.7, 1.7), xlabel="steps of the lesson"
        )
        lower.set_xscale("symlog", linthresh=50)
        lower.set_xlim(-4, 1.15 * first["at"][-1])
        lower.set_xticks(
            [at for at in first["at"] if at in _ROUND], labels=[f"{at:,}" for at in first["at"] if at in _ROUND]
        )
        lower.minorticks_off()
        for axes in (upper, lower):
            style_page_axes(axes)
        legend_above(figure, 4)
        return figure


def _followed(folder: Path, recipe: Recipe, trial: Trial, taught: Lesson, progress: bool) -> BifurcationDiagram:
    """The evolution, read from its file where that was made in the same way, and followed anew otherwise."""
    saved, at = folder / "evolution.safetensors", list(trial.settings["at"])
    starts = Several([FromTrajectories(recipe.test(trial.seed).inputs, STARTS), FromOutputs(STARTS, *OUTPUTS)])
    made = {
        "recipe": recipe.settings(),
        "seed": trial.seed,
        "at": at,
        "starts": STARTS,
        "outputs": OUTPUTS,
        "within": WITHIN,
    }
    about = json.dumps(made, sort_keys=True)
    if saved.exists() and (kept := BifurcationDiagram.load(saved)).about == about:
        return kept
    family = interpolate_weights([taught.at(step) for step in at], at)
    seen = track_fixed_points(family, at, starts=starts, tolerance=WITHIN, seed=trial.seed, progress=progress)
    write_json(folder / "environment.json", environment())
    seen = replace(seen, about=about)
    seen.save(saved)
    return seen


_ROUND = (0, 50, 200, 1000, 5000, 30_000)


def _kinds(seen: BifurcationDiagram, snapshot: int) -> dict[str, int]:
    """Points of a snapshot by kind, as in `PALETTE`."""
    counted = Counter(seen.kind[place] for place in seen.points(snapshot).tolist())
    return {kind: counted[kind] for kind in PALETTE if counted[kind]}


@torch.no_grad()
def _origin(recipe: Recipe, seed: int, gain: float) -> int:
    """Unstable directions of the origin of the untaught reservoir, with its W_r scaled to another gain."""
    cell = recipe.reservoir(seed).double()
    leak = cell.leak
    slope = cell.phi.derivative(torch.zeros(1, dtype=torch.float64)).item()
    values = torch.linalg.eigvals(cell.recurrent * (gain / recipe.gain)) * slope
    return int(((1 - leak + leak * values).abs() > 1).sum())


def _origin_leaves(seen: BifurcationDiagram) -> tuple[float, str] | None:
    """When and how the point that is stable before the lesson ceases to be."""
    first = seen.branch[seen.points(0)].tolist()
    stable = [branch for branch, place in zip(first, seen.points(0).tolist(), strict=True) if seen.unstable[place] == 0]
    for event in seen.events:
        if set(stable) & set(event.branches):
            return round(event.at, 1), event.name
    return None


def _listed(values: Sequence[Any]) -> str:
    return ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values) or "none"


def _write_page(
    folder: Path, recipe: Recipe, trial: Trial, taught: Lesson, seen: BifurcationDiagram, inputs: Tensor
) -> None:
    traces = [_trace(Dynamics(taught.at(int(step))), inputs[:TRACE]) for step in seen.snapshots.tolist()]
    section = bifurcations_section(seen, trajectories=traces, parameter="step")
    lead = (
        f"A reservoir of {recipe.units} units (g = {recipe.gain:g}, seed {trial.seed}) is taught a {recipe.bits}-bit "
        f"flip-flop by FORCE. Its fixed points are followed through the lesson, between the snapshots too, where W_o "
        f"is taken to change evenly."
    )
    html = render_document(
        "Evolution of a reservoir's memories",
        f"<p>{escape(lead)}</p>",
        [section, citation_section(FlipFlopEvolution.cites), provenance_section("")],
    )
    (folder / "page.html").write_text(html, encoding="utf-8")


@torch.no_grad()
def _trace(dynamics: Dynamics, inputs: Tensor) -> Float[Tensor, "time batch size"]:
    return run_with_cache(dynamics.cell, inputs.to(dynamics.input))[1].flat()


STUDY = FlipFlopEvolution()
