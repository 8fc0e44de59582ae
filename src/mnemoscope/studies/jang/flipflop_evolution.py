"""Fixed points of a reservoir, tracked through its training (Jang, section 6.1 and Fig 7)."""

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
from mnemoscope.replication.computed_study import legend_above
from mnemoscope.replication.learning_study import by_name
from mnemoscope.replication.study import Finished, Preset, Study, Trial
from mnemoscope.report.bifurcations import bifurcations_section
from mnemoscope.report.document import render_document
from mnemoscope.report.provenance import citation_section, provenance_section
from mnemoscope.studies.jang.reservoirs import (
    Recipe,
    TrainedReservoir,
    measure_memories,
    score_reservoir,
    train_reservoir,
)
from mnemoscope.training.run_folder import environment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PUBLISHED_GAIN = 1.5
"""Gain g of W_r in Table 1."""
TRACE = 600
"""Steps of the test whose trajectory the page shows at each snapshot."""
STARTS = 24
"""Starts of the search at each snapshot, from trajectories and as many from random outputs."""
OUTPUTS = (-1.5, 1.5)
"""Lowest and highest random output that is fed back at a start."""
EVENT_TOLERANCE = 1.0
"""Precision to which events are located, in training steps."""
KINDS = ("stable", "saddle-1", "saddle-2", "saddle-3")


class FlipFlopEvolution(Study):
    """Track the fixed points of a 3-bit reservoir across snapshots of W_o."""

    name = "flipflop-evolution"
    title = "How a reservoir learns to hold three bits"
    question = "Through which bifurcations do the memories of a reservoir appear during training?"
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
            "A small reservoir and four snapshots; checks only that the code runs.",
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
            "A reservoir with 300 units that is at rest before training (g = 0.9), ten snapshots.",
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
            "Reservoirs with 1000 units, g = 0.9, trained for the published 30,000 steps; hours.",
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
        "Fixed points by number of unstable directions at snapshots of the training, and the bifurcations between "
        "them: points appear (top row), change stability (middle) or vanish (bottom)."
    )

    def trials(self, settings: Mapping[str, Any], seeds: Iterable[int]) -> list[Trial]:
        return [
            Trial(name, dict(case), seed, about(name)) for name, case in settings["cases"].items() for seed in seeds
        ]

    def as_published(self, trial: Trial) -> bool:
        recipe = Recipe.from_settings(dict(trial.settings))
        return recipe.as_published and recipe.bits == 3

    def run(self, trial: Trial, folder: Path, progress: bool) -> dict[str, Any]:
        recipe, at = Recipe.from_settings(dict(trial.settings)), trial.settings["at"]
        trained = train_reservoir(recipe, trial.seed, folder / "lesson.safetensors", keep=at, progress=progress)
        test = recipe.test(trial.seed)
        diagram = _track(folder, recipe, trial, trained, progress)
        _write_page(folder, recipe, trial, trained, diagram, test.inputs)
        return {
            "accuracy": score_reservoir(trained.cell, recipe, test)["accuracy"],
            "held": int(measure_memories(trained.cell, recipe).held.sum()),
            "at": list(at),
            "points": [diagram.count(place) for place in range(len(at))],
            "unstable": [_kinds(diagram, place) for place in range(len(at))],
            "index_sum": diagram.index_sum.tolist(),
            "events": [
                {"change": event.change, "name": event.name, "at": round(event.at, 1), "branches": list(event.branches)}
                for event in diagram.events
            ],
            "missing": list(diagram.missing),
            "notes": list(diagram.notes),
            "origin": _origin(recipe, trial.seed, recipe.gain),
            "origin_at_published_gain": _origin(recipe, trial.seed, PUBLISHED_GAIN),
            "origin_loses_stability": _stability_loss(diagram),
        }

    def environment(self, trial: Trial, folder: Path) -> dict[str, Any]:
        """Return the environment in which the points were tracked, which may differ from the current one."""
        return read_json(folder / "environment.json")

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        rows = []
        for name, trials in by_name(results).items():
            outcomes = [finished.result for finished in trials]
            first = [outcome["unstable"][0].get("stable", 0) for outcome in outcomes]
            last = [outcome["unstable"][-1].get("stable", 0) for outcome in outcomes]
            losses = [outcome["origin_loses_stability"] for outcome in outcomes]
            losses = [loss for loss in losses if loss is not None]  # (step, bifurcation)
            steps, points = [step for step, _ in losses], [outcome["points"][0] for outcome in outcomes]
            compared = [
                ("stable fixed points before the lesson", first, _listed(first), ""),
                ("fixed points before the lesson", points, _listed(points), ""),
                ("the origin is no longer stable at step", steps, _listed(steps), ""),
                (
                    "stable fixed points after the lesson",
                    last,
                    _listed(last),
                    f"of {_listed([outcome['points'][-1] for outcome in outcomes])} points",
                ),
            ]
            rows += [
                self.compare(trials, self.claim(quantity), measured, ours, remark, f"{name}: {quantity}")
                for quantity, measured, ours, remark in compared
            ]
            complete = sum(all(index == 1 for index in outcome["index_sum"]) for outcome in outcomes)
            events = [Counter(event["name"] for event in outcome["events"]) for outcome in outcomes]
            rows += [
                self.claim("how the origin loses its stability").not_compared(
                    f"{name}: how the origin loses its stability",
                    _listed([kind for _, kind in losses]),
                    "",
                    "the network is odd, F(-x) = -F(x)",
                ),
                Row(
                    f"{name}: unstable directions of the untaught origin, g = {PUBLISHED_GAIN:g}",
                    "0 (Fig 7a)",
                    _listed([outcome["origin_at_published_gain"] for outcome in outcomes]),
                    remark="at the published gain the untrained reservoir is not at rest",
                ),
                Row(f"{name}: index sum 1 at all snapshots", "not checked", f"{complete} of {len(trials)}"),
                Row(
                    f"{name}: bifurcations",
                    "",
                    "; ".join(", ".join(f"{count} {kind}" for kind, count in counts.items()) for counts in events),
                ),
                Row(
                    f"{name}: corners held after the lesson",
                    "",
                    _listed([outcome["held"] for outcome in outcomes]),
                    remark=f"sign accuracy {min(outcome['accuracy'] for outcome in outcomes):.4f} or better",
                ),
            ]
        return rows

    def figure(self, results: Sequence[Finished]) -> Figure:
        first = results[0].result
        figure = new_figure(7.2, 4.6)
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
        for kind in KINDS:
            label = "stable" if kind == "stable" else f"{kind[-1]}{' or more' if kind[-1] == '3' else ''} unstable"
            heights = [counts.get(kind, 0) for counts in first["unstable"]]
            upper.plot(first["at"], heights, color=COLOUR[kind], marker="o", markersize=4, label=label)
        upper.set(ylabel="fixed points", ylim=(-0.5, None))
        upper.locator_params(axis="y", integer=True)
        for height, change in ((1, "appeared"), (-1, "vanished"), (0, "changed stability")):
            places = [event["at"] for event in first["events"] if event["change"] == change]
            lower.scatter(places, [height] * len(places), marker="|", s=90, color=COLOUR["ink"])
        lower.set(
            yticks=[1, 0, -1], yticklabels=["appear", "change", "vanish"], ylim=(-1.7, 1.7), xlabel="training step"
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


def _track(folder: Path, recipe: Recipe, trial: Trial, trained: TrainedReservoir, progress: bool) -> BifurcationDiagram:
    """Return the bifurcation diagram of the training, read from its file if the settings there are the same."""
    saved, at = folder / "evolution.safetensors", list(trial.settings["at"])
    starts = Several([FromTrajectories(recipe.test(trial.seed).inputs, STARTS), FromOutputs(STARTS, *OUTPUTS)])
    settings = {
        "recipe": recipe.settings(),
        "seed": trial.seed,
        "at": at,
        "starts": STARTS,
        "outputs": OUTPUTS,
        "within": EVENT_TOLERANCE,
    }
    about = json.dumps(settings, sort_keys=True)
    if saved.exists() and (kept := BifurcationDiagram.load(saved)).about == about:
        return kept
    family = interpolate_weights([trained.at(step) for step in at], at)
    diagram = track_fixed_points(
        family, at, starts=starts, tolerance=EVENT_TOLERANCE, seed=trial.seed, progress=progress
    )
    write_json(folder / "environment.json", environment())
    diagram = replace(diagram, about=about)
    diagram.save(saved)
    return diagram


_ROUND = (0, 50, 200, 1000, 5000, 30_000)


def _kinds(diagram: BifurcationDiagram, snapshot: int) -> dict[str, int]:
    """Count the points of a snapshot by kind, as in `PALETTE`."""
    counted = Counter(diagram.kind[place] for place in diagram.points(snapshot).tolist())
    return {kind: counted[kind] for kind in PALETTE if counted[kind]}


@torch.no_grad()
def _origin(recipe: Recipe, seed: int, gain: float) -> int:
    """Count the unstable directions of the untrained reservoir's origin, with its W_r scaled to another gain."""
    cell = recipe.reservoir(seed).double()
    leak = cell.leak
    slope = cell.phi.derivative(torch.zeros(1, dtype=torch.float64)).item()
    values = torch.linalg.eigvals(cell.recurrent * (gain / recipe.gain)) * slope
    return int(((1 - leak + leak * values).abs() > 1).sum())


def _stability_loss(diagram: BifurcationDiagram) -> tuple[float, str] | None:
    """Return at which step and by which bifurcation the initially stable point loses its stability, or None."""
    first = diagram.branch[diagram.points(0)].tolist()
    stable = [
        branch for branch, place in zip(first, diagram.points(0).tolist(), strict=True) if diagram.unstable[place] == 0
    ]
    for event in diagram.events:
        if set(stable) & set(event.branches):
            return round(event.at, 1), event.name
    return None


def _listed(values: Sequence[Any]) -> str:
    return ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values) or "none"


def _write_page(
    folder: Path, recipe: Recipe, trial: Trial, trained: TrainedReservoir, diagram: BifurcationDiagram, inputs: Tensor
) -> None:
    traces = [_trace(Dynamics(trained.at(int(step))), inputs[:TRACE]) for step in diagram.snapshots.tolist()]
    section = bifurcations_section(diagram, trajectories=traces, parameter="step")
    lead = (
        f"A reservoir with {recipe.units} units (g = {recipe.gain:g}, seed {trial.seed}) is trained on a "
        f"{recipe.bits}-bit flip-flop by FORCE. Its fixed points are tracked through the training; between the "
        f"snapshots, W_o is interpolated linearly."
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
