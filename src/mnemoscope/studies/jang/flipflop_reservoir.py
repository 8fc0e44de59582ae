"""Reservoirs that hold three and four bits: memories at the corners of a cube, and the saddles between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from statistics import fmean
from time import process_time
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells import EchoState, run_with_cache
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, inline_svg, style_page_axes
from mnemoscope.lenses import Dynamics, FixedPoints, find_attractors
from mnemoscope.replication.claims import Claim, Row, Subject, about
from mnemoscope.replication.computed_study import legend_above, spread
from mnemoscope.replication.learning_study import by_name, count_seeds
from mnemoscope.replication.study import Finished, Preset, Study, Trial, listed
from mnemoscope.report import NetworkPage, write_page
from mnemoscope.report.document import Section
from mnemoscope.report.markup import table_markup
from mnemoscope.studies.jang import reservoirs
from mnemoscope.studies.jang.reservoir_claims import (
    ACCURACY,
    CENTRE,
    CUBE,
    EDGES,
    ERROR,
    INSIDE,
    LATTICE,
    MINUTES,
    OUTSIDE,
    PUBLISHED_GAIN,
    SETTLED,
    SPREAD,
    TESSERACT,
)
from mnemoscope.studies.jang.reservoirs import Recipe, clamped_states, rounded_lists
from mnemoscope.studies.jang.saddles import NEAR, SaddleConnection, saddle_connections
from mnemoscope.studies.jang.search import search_reservoir
from mnemoscope.studies.jang.tesseract import edge_spread, variance_shares

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN, EVERY = 1200, 3
"""Steps of the test that the figure covers, and the interval between the steps that it shows."""
RANDOM_OUTPUTS = 200
"""Random outputs inside the cube of memories, and as many outside, from which a reservoir is released."""
PARTS = 10
"""Equal parts of the training after which the mean weight of the readout is measured."""
RELEASED_STEPS = 200
"""Steps after the release that the page shows."""


def _cases(starts: int, recipes: Mapping[Subject, Recipe]) -> dict[str, Any]:
    return {"cases": {subject: {**recipe.settings(), "starts": starts} for subject, recipe in recipes.items()}}


class FlipFlopReservoir(Study):
    """Train reservoirs by FORCE, find their fixed points, and test where random states lead."""

    cites = ("jang", "sussillo2009", "sussillo2013")
    lenses = ("fixed-points", "attractors")
    caption = (
        "Above: targets (grey) and outputs of the first network after training. Below: outputs at its fixed points."
    )

    def __init__(self, bits: int, title: str, claims: Sequence[Claim]) -> None:
        self.bits = bits
        self.name = f"flipflop-{bits}"
        self.title = title
        self.question = f"Does a reservoir trained to hold {bits} bits rest at the corners of a cube?"
        self.claims = claims
        small = {about("small"): Recipe(bits=2, units=60, steps=1000, test_steps=300)}
        tanh = {PUBLISHED_GAIN: Recipe(bits), about("g = 0.9"): Recipe(bits, gain=0.9)}
        logistic = {about("g = 1.5, logistic"): Recipe(bits, nonlinearity="logistic")}
        self.presets: Mapping[str, Preset] = {
            "smoke": Preset("A small reservoir, short training; checks only that the code runs.", _cases(40, small)),
            "cpu": Preset(
                "Reservoirs with 1000 units as in Table 1, and at rest before training (g = 0.9), five seeds; "
                "minutes each.",
                _cases(400, tanh),
                tuple(range(5)),
            ),
            "paper": Preset(
                "The same and the logistic nonlinearity, five seeds, a longer search.",
                _cases(1000, tanh | logistic),
                (0, 1, 2, 3, 4),
            ),
        }

    def as_published(self, trial: Trial) -> bool:
        recipe = Recipe.from_settings(trial.settings)
        return recipe.as_published(self.bits) and recipe.nonlinearity == "tanh"

    def run(self, trial: Trial, folder: Path, progress: bool) -> dict[str, Any]:
        recipe = Recipe.from_settings(trial.settings)
        keep, file = [recipe.steps * part // PARTS for part in range(PARTS + 1)], folder / "lesson.safetensors"
        trained = reservoirs.train_reservoir(recipe, trial.seed, file, keep=keep, progress=progress)
        cell = trained.cell
        test = recipe.test(trial.seed)
        scores = reservoirs.score_reservoir(cell, recipe, test)
        memories = reservoirs.measure_memories(cell, recipe)
        dynamics = Dynamics(cell)
        began = process_time()
        fp = search_reservoir(cell, test.inputs, memories.states, trial.settings["starts"], trial.seed, progress)
        searched = process_time() - began
        z = cell.read(cell.output(fp.states.to(cell.recurrent)))
        connections = saddle_connections(dynamics, fp, cell)
        random = _random_outputs(recipe.bits, trial.seed)
        starts = clamped_states(cell, torch.cat([outputs[:16] for outputs in random.values()])).double()
        attractors = find_attractors(dynamics, starts, progress=progress)
        result = {
            "accuracy": scores["accuracy"],
            "mse": scores["mse"],
            "held": int(memories.held.sum()),
            "corner_error": memories.error,
            "points": len(fp),
            "unstable": {str(up): count for up, count in sorted(Counter(fp.unstable.tolist()).items())},
            "stable_corners": _stable_corners(fp, z),
            "index_sum": fp.index_sum,
            "completeness": fp.completeness,
            "starts": 0 if fp.starts is None else len(fp.starts),
            "search_cpu_seconds": round(searched, 2),
            "edges": _edges(connections),
            "edge_spread": edge_spread(memories.states),
            "variance_in_three": float(variance_shares(memories.states)[:3].sum()),
            "ways": dict(sorted(Counter(connection.description for connection in connections).items())),
            "thrown": {name: _destinations(cell, outputs) for name, outputs in random.items()},
            "verdict": attractors.verdict,
            "lesson_seconds": round(trained.seconds, 2),
            "curve": trained.curve(),
            "mean_weight": [float(f"{trained.snapshots[step].abs().mean():.4g}") for step in keep],
            "outputs": rounded_lists(z),
            "ups": fp.unstable.tolist(),
            "test": {
                "targets": rounded_lists(test.targets[:SHOWN:EVERY, 0], 0),
                "outputs": rounded_lists(scores["outputs"][:SHOWN:EVERY, 0], 2),
            },
        }
        states = clamped_states(cell, torch.cat([outputs[:24] for outputs in random.values()]))
        _write_page(folder, recipe, trial, fp, dynamics, states, result, connections)
        return result

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        return [row for trials in by_name(results).values() for row in self._rows(trials)]

    def _rows(self, trials: Sequence[Finished]) -> list[Row]:
        """Return the rows about the networks of one recipe."""
        name, bits = trials[0].trial.name, trials[0].trial.settings["bits"]
        outcomes = [finished.result for finished in trials]

        def row(quantity: str, key: str, remark: str) -> Row:
            return self.row(trials, quantity, [outcome[key] for outcome in outcomes], ".3g", remark)

        def corners_reached(where: str) -> Row:
            shares = [outcome["thrown"][where]["corner"] for outcome in outcomes]
            return self.row(trials, INSIDE if where == "inside" else OUTSIDE, shares, ".0%", f"of {RANDOM_OUTPUTS}")

        index_sums = listed(outcome["index_sum"] for outcome in outcomes)
        errors = [fmean(outcome["curve"]["error"]) for outcome in outcomes]
        centres = [_centre(outcome) for outcome in outcomes]
        per_start = [outcome["search_cpu_seconds"] / max(outcome["starts"], 1) for outcome in outcomes]
        minutes = [outcome["search_cpu_seconds"] / 60 * 20 / outcome["points"] for outcome in outcomes]
        settled = [_last_change(outcome["mean_weight"]) for outcome in outcomes if "mean_weight" in outcome]
        lesson = spread([outcome["lesson_seconds"] for outcome in outcomes])
        pairs = f"of {bits * 2 ** (bits - 1)} pairs of corners that differ in one bit"
        return [
            row("stable fixed points at the corners", "stable_corners", f"of {2**bits}; {count_seeds(trials)}"),
            row("fixed points", "points", f"index sums {index_sums}"),
            self.row(
                trials,
                ACCURACY,
                [outcome["accuracy"] for outcome in outcomes],
                ".5f",
                "on the test, with fixed weights",
            ),
            self.row(trials, ERROR, errors, ".2g", "mean |z - f| before the updates"),
            self.row(trials, CENTRE, [centre for centre in centres if centre is not None], "d"),
            self.row(trials, MINUTES, minutes, ".2g", "CPU time of the search, by the points that it found"),
            self.row(trials, SETTLED, settled, ".2g"),
            row("mean squared error", "mse", "on the test"),
            row("corners held when left alone", "held", f"of {2**bits}"),
            row(EDGES, "edges", pairs),
            row(SPREAD, "edge_spread", "standard deviation of the edges divided by their mean"),
            row(LATTICE, "variance_in_three", f"share of the variance of the {2**bits} memories"),
            corners_reached("inside"),
            corners_reached("outside"),
            self.row(trials, "CPU seconds of the search per start", per_start, ".3f"),
            Row(f"{name}: seconds of the lesson", "", lesson),
        ]

    def figure(self, results: Sequence[Finished]) -> Figure:
        first = results[0].result
        bits = len(first["test"]["outputs"][0])
        figure = new_figure(7.2, 1.1 * bits + 3.2)
        grid = figure.add_gridspec(bits + 1, bits, height_ratios=[1] * bits + [2.6])
        _draw_test(figure, grid, first["test"], bits)
        _draw_points(figure, grid, first, bits)
        legend_above(figure, 4)
        return figure


def _last_change(mean_weights: Sequence[float]) -> float:
    """Return how much the mean weight changes in the last part of the training, as a share of its last value.

    >>> _last_change([0.0, 0.5, 1.0])
    0.5
    """
    before, last = mean_weights[-2:]
    return abs(last - before) / last


def _centre(outcome: Mapping[str, Any]) -> int | None:
    """Return the number of unstable directions of the fixed point whose outputs are nearest to 0, if one is near."""
    points = zip(outcome["outputs"], outcome["ups"], strict=True)
    distance, unstable = min((max(map(abs, z)), ups) for z, ups in points)
    return unstable if distance < NEAR else None


def _stable_corners(fp: FixedPoints, z: Float[Tensor, "points bits"]) -> int:
    """Count the corners that have a stable fixed point."""
    stable = z[torch.tensor([kind == "stable" for kind in fp.kind], dtype=torch.bool)]
    apart = (stable.unsqueeze(1) - reservoirs.corners(z.shape[1])).abs().amax(2)
    return int((apart < NEAR).any(0).sum())


def _random_outputs(bits: int, seed: int) -> dict[str, Float[Tensor, "starts bits"]]:
    """Return random outputs inside the cube of memories and outside it, where a component lies beyond +-1."""
    generator = torch.Generator().manual_seed(seed)
    unit = 2 * torch.rand(RANDOM_OUTPUTS, bits, generator=generator) - 1
    reach = 1 + torch.rand(RANDOM_OUTPUTS, 1, generator=generator)
    return {"inside": unit, "outside": unit / unit.abs().amax(1, keepdim=True) * reach}


def _destinations(cell: EchoState, outputs: Float[Tensor, "starts bits"]) -> dict[str, float]:
    """Return the share of random outputs that go to a corner, and the share that go to the corner of their signs."""
    end = reservoirs.final_outputs(cell, clamped_states(cell, outputs))
    at_corner = ((end - end.sign()).abs() < NEAR).all(1)
    same_signs = at_corner & (end.sign() == outputs.sign()).all(1)
    return {"corner": at_corner.double().mean().item(), "own": same_signs.double().mean().item()}


def _draw_test(figure: Any, grid: Any, test: Mapping[str, Any], bits: int) -> None:
    for bit in range(bits):
        axes = figure.add_subplot(grid[bit, :])
        labels = ("target", "output") if bit == 0 else (None, None)
        steps = [EVERY * row for row in range(len(test["targets"]))]
        axes.plot(steps, [row[bit] for row in test["targets"]], color=COLOUR["path"], linewidth=2.4, label=labels[0])
        axes.plot(steps, [row[bit] for row in test["outputs"]], color=COLOUR["stable"], linewidth=1, label=labels[1])
        axes.set(ylim=(-1.5, 1.5), yticks=[-1, 1], ylabel=f"bit {bit + 1}")
        if bit < bits - 1:
            axes.set_xticklabels([])
        else:
            axes.set_xlabel("test step")
        style_page_axes(axes)


def _draw_points(figure: Any, grid: Any, result: Mapping[str, Any], bits: int) -> None:
    """Draw the outputs at the fixed points, for the first and every other bit, coloured by unstable directions."""
    labels = {"stable": "stable", "saddle-1": "1 unstable direction", "saddle-2": "2", "saddle-3": "3+"}
    for bit in range(1, bits):
        axes = figure.add_subplot(grid[bits, bit - 1])
        for up, (kind, label) in reversed([*enumerate(labels.items())]):
            points = [z for z, ups in zip(result["outputs"], result["ups"], strict=True) if min(ups, 3) == up]
            style = {"color": COLOUR[kind], "label": label if bit == 1 and points else None}
            axes.scatter([z[0] for z in points], [z[bit] for z in points], s=22, zorder=4 - up, **style)
        axes.set(xlabel="output 1", ylabel=f"output {bit + 1}")
        style_page_axes(axes)


def _write_page(
    folder: Path,
    recipe: Recipe,
    trial: Trial,
    fp: FixedPoints,
    dynamics: Dynamics,
    states: Float[Tensor, "starts hidden"],
    result: Mapping[str, Any],
    connections: Sequence[SaddleConnection],
) -> None:
    silence = dynamics.input.expand(RELEASED_STEPS, len(states), -1)
    with torch.no_grad():
        paths = run_with_cache(dynamics.cell, silence, states.to(dynamics.input))[1].flat()
    reservoir = f"{recipe.units} units, {recipe.nonlinearity}, g = {recipe.gain:g}, tau = {recipe.tau:g}"
    updates = f"{recipe.steps:,} steps, an update every {recipe.every}"
    facts = [
        ("Cell", f"echo state network, {reservoir}"),
        ("Task", f"{recipe.bits}-bit flip-flop"),
        ("Training", f"FORCE, {updates}, {result['lesson_seconds']:.1f} s"),
        ("Test", f"sign accuracy {result['accuracy']:.4f}, mean squared error {result['mse']:.2g}"),
        ("Without input", result["verdict"]),
        ("Seed", str(trial.seed)),
    ]
    content = NetworkPage(
        title=f"{recipe.bits}-bit flip-flop in a reservoir with {recipe.units} units",
        fixed_points=fp,
        facts=facts,
        trajectories=paths,
        cites=FlipFlopReservoir.cites,
        sections=[
            _saddle_section(connections, recipe.bits),
            _released_section(result["thrown"]),
            _training_section(result["curve"]),
        ],
    )
    write_page(folder / "page.html", content)


def _edges(connections: Sequence[SaddleConnection]) -> int:
    """Count the pairs of corners that differ in one bit and have a saddle between them."""
    return len({connection.corners for connection in connections if connection.bits == 1 and connection.arrived})


def _saddle_section(connections: Sequence[SaddleConnection], bits: int) -> Section:
    counted = Counter((connection.bits, connection.description) for connection in connections)
    rows = [(description, str(count)) for (_, description), count in sorted(counted.items())]
    lead = (
        f"Two trajectories leave every saddle with one unstable direction. {_edges(connections)} of the "
        f"{bits * 2 ** (bits - 1)} pairs of corners that differ in one bit have such a saddle between them."
    )
    return Section("Saddles between memories", lead, table_markup("Saddles", ("It lies between", "Saddles"), rows))


def _released_section(destinations: Mapping[str, Mapping[str, float]]) -> Section:
    rows = [
        (f"{name} the cube", f"{shares['corner']:.0%}", f"{shares['own']:.0%}") for name, shares in destinations.items()
    ]
    headings = ("Random outputs", "go to a corner", "go to the corner of their signs")
    lead = (
        f"In each row {RANDOM_OUTPUTS} random outputs replace the feedback for 100 steps; then the network runs freely."
    )
    return Section("Released from random outputs", lead, table_markup("Destinations", headings, rows))


def _training_section(curve: Mapping[str, Sequence[float]]) -> Section:
    figure = new_figure(7.2, 2.6)
    axes = figure.add_subplot()
    axes.semilogy(curve["step"], curve["error"], color=COLOUR["stable"])
    axes.set(xlabel="training step", ylabel="|z - f| before updates")
    style_page_axes(axes)
    svg = inline_svg(figure, "training", alt="Error before each update during training.")
    drawn = f'<figure class="drawn">{svg}</figure>'
    return Section("Training", escape("FORCE keeps the error before each update small from the beginning."), drawn)


THREE = FlipFlopReservoir(3, "The cube of a 3-bit reservoir", CUBE)
FOUR = FlipFlopReservoir(4, "The tesseract of a 4-bit reservoir", TESSERACT)
