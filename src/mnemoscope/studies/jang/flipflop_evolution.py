"""Fixed points of a reservoir, tracked through its training (Jang, section 6.1 and Fig 7)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.files import write_atomically, write_json
from mnemoscope.base.reading import read_json
from mnemoscope.cells import run_with_cache
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.palette import PALETTE
from mnemoscope.drawing.svg import COLOUR, style_page_axes
from mnemoscope.inspection.bifurcations import bifurcations_section
from mnemoscope.lenses import BifurcationDiagram, Dynamics, interpolate_weights, track_fixed_points
from mnemoscope.lenses.fixed_points.composite_starts import Several
from mnemoscope.lenses.fixed_points.starts import FromOutputs, FromTrajectories
from mnemoscope.replication.agreement import chosen, exactly
from mnemoscope.replication.claims import EVERYTHING, Claim, Row, about
from mnemoscope.replication.computed_study import legend_above
from mnemoscope.replication.learning_study import by_name
from mnemoscope.replication.study import Finished, Preset, Study, Trial, listed
from mnemoscope.report.document import render_document
from mnemoscope.report.provenance import citation_section, provenance_section
from mnemoscope.studies.jang import reservoirs
from mnemoscope.studies.jang.published_gain import measure_ends
from mnemoscope.studies.jang.reservoirs import JANG, Recipe, TrainedReservoir
from mnemoscope.training.run_folder import environment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PUBLISHED_GAIN = about("1000 units, g = 1.5")
"""Reservoirs with the gain of Table 1. They are chaotic before training, so that their points are not tracked."""
CHAOTIC = "at this gain the untrained origin is a saddle"
TRACE = 600
"""Steps of the test whose trajectory the page shows at each snapshot."""
STARTS = 24
"""Starts of the search at each snapshot, from trajectories and as many from random outputs."""
OUTPUTS = (-1.5, 1.5)
"""Lowest and highest random output that is fed back at a start."""
EVENT_TOLERANCE = 1.0
"""Precision to which events are located, in training steps."""
KINDS = ("stable", "saddle-1", "saddle-2", "saddle-3")
LINEAR_UNTIL = 50
"""Step up to which the axis of the figure is linear; it is logarithmic after that."""
SNAPSHOTS = (0, 50, 100, 200, 400, 700, 1000, 2000, 5000, 10_000)
"""Steps of the training after which the fixed points are searched."""
STABLE_BEFORE, POINTS_BEFORE = "stable fixed points before the lesson", "fixed points before the lesson"
UNSTABLE_FROM, STABILITY_LOSS = "the origin is no longer stable at step", "how the origin loses its stability"
STABLE_AFTER, HELD_AFTER = "stable fixed points after the lesson", "corners held after the lesson"


def _case(name: str, recipe: Recipe, *at: int) -> dict[str, Any]:
    return {"cases": {name: {**recipe.settings(), "at": [*at]}}}


class FlipFlopEvolution(Study):
    """Track the fixed points of a 3-bit reservoir across snapshots of W_o."""

    name = "flipflop-evolution"
    title = "How a reservoir learns to hold three bits"
    question = "Through which bifurcations do the memories of a reservoir appear during training?"
    claims = (
        Claim(
            PUBLISHED_GAIN,
            STABLE_BEFORE,
            1,
            JANG("Fig 7a: a single fixed point at the origin"),
            exactly(1),
            reason=CHAOTIC,
        ),
        Claim(
            PUBLISHED_GAIN,
            POINTS_BEFORE,
            1,
            JANG("Fig 7a"),
            exactly(1),
            reason="indices of all points sum to 1; where those found do not, more points exist",
        ),
        Claim(
            PUBLISHED_GAIN,
            UNSTABLE_FROM,
            "200",
            JANG("Fig 7b"),
            chosen(1, 200, "stable at first, unstable in the figure of this step"),
            reason=CHAOTIC,
        ),
        Claim(
            EVERYTHING,
            STABILITY_LOSS,
            "transcritical bifurcation",
            JANG("section 9"),
            exactly(1, "1 for a transcritical bifurcation, 0 for another"),
            reason="the network is odd, F(-x) = -F(x): branches leave the origin in pairs, by a pitchfork",
        ),
        Claim(PUBLISHED_GAIN, STABLE_AFTER, 8, JANG("section 6 and Fig 6"), exactly(8)),
    )
    presets: Mapping[str, Preset] = {
        "smoke": Preset(
            "A small reservoir and four snapshots; checks only that the code runs.",
            _case("small", Recipe(bits=1, units=30, gain=0.9, steps=400, test_steps=300), 0, 60, 150, 400),
        ),
        "cpu": Preset(
            "A reservoir with 300 units that is at rest before training (g = 0.9), ten snapshots.",
            _case("300 units, g = 0.9", Recipe(units=300, gain=0.9, steps=10_000), *SNAPSHOTS),
        ),
        "paper": Preset(
            "Reservoirs with 1000 units, g = 0.9, trained for the published 30,000 steps; hours.",
            _case("1000 units, g = 0.9", Recipe(gain=0.9), *SNAPSHOTS, 20_000, 30_000),
            (0, 1, 2),
        ),
        "published": Preset(
            "Reservoirs with 1000 units at the gain of Table 1, g = 1.5, searched before and after the training; five "
            "seeds, two minutes each.",
            _case(PUBLISHED_GAIN.name, Recipe(), 0, 200, Recipe.steps),
            (0, 1, 2, 3, 4),
        ),
    }
    cites = ("jang", "sussillo2009", "sussillo2013")
    lenses = ("bifurcations",)
    caption = (
        f"The first trial. Upper panel: fixed points by their number of unstable directions, counted at the snapshots "
        f"of the training (dots; dotted lines only guide the eye). Lower panel: the steps of the bifurcations, in "
        f"which points appear, change stability or vanish. The axis is linear up to step {LINEAR_UNTIL}, then "
        f"logarithmic."
    )

    def as_published(self, trial: Trial) -> bool:
        return Recipe.from_settings(trial.settings).as_published(bits=3)

    def run(self, trial: Trial, folder: Path, progress: bool) -> dict[str, Any]:
        recipe, at = Recipe.from_settings(trial.settings), trial.settings["at"]
        trained = reservoirs.train_reservoir(
            recipe, trial.seed, folder / "lesson.safetensors", keep=at, progress=progress
        )
        if recipe.gain > 1:
            return measure_ends(trained, recipe, trial.seed, progress)
        test = recipe.test(trial.seed)
        diagram = _track(folder, recipe, trial, trained, progress)
        _write_page(folder, recipe, trial, trained, diagram, test.inputs)
        return {
            "accuracy": reservoirs.score_reservoir(trained.cell, recipe, test)["accuracy"],
            "held": int(reservoirs.measure_memories(trained.cell, recipe).held.sum()),
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
            "origin_loses_stability": _stability_loss(diagram),
        }

    def environment(self, trial: Trial, folder: Path) -> dict[str, Any]:
        """Return the environment in which the points were tracked, which may differ from the current one."""
        tracked = folder / "environment.json"
        return read_json(tracked) if tracked.exists() else super().environment(trial, folder)

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        rows: list[Row] = []
        for trials in by_name(results).values():
            searched = "points_before" in trials[0].result
            rows += self._searched_rows(trials) if searched else self._rows(trials)
        return rows

    def _searched_rows(self, trials: Sequence[Finished]) -> list[Row]:
        """Return the rows about networks that were searched before and after their training."""
        outcomes = [finished.result for finished in trials]
        fewest = [outcome["points_before"] + outcome["missing_before"] for outcome in outcomes]
        unstable = [{int(step): count for step, count in outcome["origin"].items() if count} for outcome in outcomes]
        directions = listed(outcome["origin"]["0"] for outcome in outcomes)
        stable = [outcome["stable_before"] for outcome in outcomes]
        after = listed(outcome["points_after"] for outcome in outcomes)
        return [
            self.row(
                trials, STABLE_BEFORE, stable, remark=f"unstable directions of the flow at the origin: {directions}"
            ),
            self.row(trials, POINTS_BEFORE, fewest, remark="found, and at least missing by the sum of their indices"),
            self.row(trials, UNSTABLE_FROM, [min(steps) for steps in unstable if steps], "g"),
            self.row(
                trials, STABLE_AFTER, [outcome["stable_after"] for outcome in outcomes], remark=f"of {after} points"
            ),
            self.row(trials, HELD_AFTER, [outcome["held"] for outcome in outcomes]),
        ]

    def _rows(self, trials: Sequence[Finished]) -> list[Row]:
        """Return the rows about the networks of one recipe."""
        name, outcomes = trials[0].trial.name, [finished.result for finished in trials]
        first, last = ([outcome["unstable"][place].get("stable", 0) for outcome in outcomes] for place in (0, -1))
        before, after = ([outcome["points"][place] for outcome in outcomes] for place in (0, -1))
        losses = [outcome["origin_loses_stability"] for outcome in outcomes]
        losses = [loss for loss in losses if loss is not None]  # (step, bifurcation)
        bifurcations = listed(kind for _, kind in losses) or "none"
        complete = sum(all(index == 1 for index in outcome["index_sum"]) for outcome in outcomes)
        events = [Counter(event["name"] for event in outcome["events"]) for outcome in outcomes]
        held, accuracy = [outcome["held"] for outcome in outcomes], min(outcome["accuracy"] for outcome in outcomes)
        return [
            self.row(trials, STABLE_BEFORE, first),
            self.row(trials, POINTS_BEFORE, before),
            self.row(trials, UNSTABLE_FROM, [step for step, _ in losses], "g"),
            self.row(trials, STABLE_AFTER, last, remark=f"of {listed(after)} points"),
            self.claim(STABILITY_LOSS).compare(  # the symmetry holds for every gain
                f"{name}: {STABILITY_LOSS}", [float(kind == "transcritical") for _, kind in losses], bifurcations
            ),
            Row(f"{name}: index sum 1 at all snapshots", "not checked", f"{complete} of {len(trials)}"),
            Row(f"{name}: bifurcations", "", "; ".join(_counted(counts) for counts in events)),
            self.row(trials, HELD_AFTER, held, remark=f"sign accuracy {accuracy:.4f} or better"),
        ]

    def figure(self, results: Sequence[Finished]) -> Figure | None:
        first = results[0].result
        if "points_before" in first:
            return None
        figure = new_figure(7.2, 4.6)
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
        for kind in KINDS:
            label = "stable" if kind == "stable" else f"{kind[-1]}{' or more' if kind[-1] == '3' else ''} unstable"
            heights = [counts.get(kind, 0) for counts in first["unstable"]]
            style = {"color": COLOUR[kind], "marker": "o", "markersize": 4, "linewidth": 0.8, "linestyle": (0, (1, 2))}
            upper.plot(first["at"], heights, label=label, **style)
        upper.set(ylabel="fixed points", ylim=(-0.5, None))
        upper.locator_params(axis="y", integer=True)
        for height, change in ((1, "appeared"), (-1, "vanished"), (0, "changed stability")):
            places = [event["at"] for event in first["events"] if event["change"] == change]
            lower.scatter(places, [height] * len(places), marker="|", s=90, color=COLOUR["ink"])
        lower.set(
            yticks=[1, 0, -1], yticklabels=["appear", "change", "vanish"], ylim=(-1.7, 1.7), xlabel="training step"
        )
        lower.set_xscale("symlog", linthresh=LINEAR_UNTIL)
        lower.set_xlim(-4, 1.15 * first["at"][-1])
        ticks = _spaced(first["at"])
        lower.set_xticks(ticks, labels=[f"{at:,}" for at in ticks])
        lower.minorticks_off()
        for axes in (upper, lower):
            style_page_axes(axes)
        legend_above(figure, 4)
        return figure


def _spaced(snapshots: Sequence[int]) -> list[int]:
    """Return the snapshots that can be labelled on the axis of the figure without overlap, the last one always."""
    kept = [snapshots[-1]]
    for at in reversed(snapshots[:-1]):
        if kept[-1] >= max(2.5 * at, at + 0.6 * LINEAR_UNTIL):
            kept.append(at)
    return kept[::-1]


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
    family, tolerance = interpolate_weights([trained.at(step) for step in at], at), EVENT_TOLERANCE
    diagram = track_fixed_points(family, at, starts=starts, tolerance=tolerance, seed=trial.seed, progress=progress)
    write_json(folder / "environment.json", environment())
    diagram = replace(diagram, about=about)
    diagram.save(saved)
    return diagram


def _kinds(diagram: BifurcationDiagram, snapshot: int) -> dict[str, int]:
    """Count the points of a snapshot by kind, as in `PALETTE`."""
    counted = Counter(diagram.kind[place] for place in diagram.points(snapshot).tolist())
    return {kind: counted[kind] for kind in PALETTE if counted[kind]}


def _stability_loss(diagram: BifurcationDiagram) -> tuple[float, str] | None:
    """Return at which step and by which bifurcation the initially stable point loses its stability, or None."""
    first = diagram.points(0)
    stable = {*diagram.branch[first][diagram.unstable[first] == 0].tolist()}
    events = (event for event in diagram.events if stable & {*event.branches})
    return next(((round(event.at, 1), event.name) for event in events), None)


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _write_page(
    folder: Path, recipe: Recipe, trial: Trial, trained: TrainedReservoir, diagram: BifurcationDiagram, inputs: Tensor
) -> None:
    traces = [_trace(Dynamics(trained.at(int(step))), inputs[:TRACE]) for step in diagram.snapshots.tolist()]
    section = bifurcations_section(replace(diagram, parameter="training step"), trajectories=traces)
    lead = (
        f"A reservoir with {recipe.units} units (g = {recipe.gain:g}, seed {trial.seed}) is trained on a "
        f"{recipe.bits}-bit flip-flop by FORCE. Its fixed points are tracked through the training; between the "
        f"snapshots, W_o is interpolated linearly."
    )
    sections = [section, citation_section(FlipFlopEvolution.cites), provenance_section("")]
    html = render_document("Evolution of a reservoir's memories", f"<p>{escape(lead)}</p>", sections)
    write_atomically(folder / "page.html", html.encode())


@torch.no_grad()
def _trace(dynamics: Dynamics, inputs: Tensor) -> Float[Tensor, "time batch size"]:
    return run_with_cache(dynamics.cell, inputs.to(dynamics.input))[1].flat()


STUDY = FlipFlopEvolution()
