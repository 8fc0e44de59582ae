"""Reservoirs that hold three and four bits: memories at the corners of a cube, and the saddles between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells import EchoState, run_with_cache
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, inline_svg, style_page_axes
from mnemoscope.lenses import (
    Adaptive,
    Dynamics,
    FixedPoints,
    FromOutputs,
    FromTrajectories,
    Several,
    find_attractors,
    find_fixed_points,
)
from mnemoscope.registry.citations import Source
from mnemoscope.replication.claims import EVERYTHING, Claim, Row, about
from mnemoscope.replication.computed_study import legend_above, spread
from mnemoscope.replication.learning_study import by_name
from mnemoscope.replication.study import Finished, Preset, Study, Trial
from mnemoscope.report import NetworkPage, write_page
from mnemoscope.report.document import Section
from mnemoscope.report.markup import table_markup
from mnemoscope.studies.jang.reservoirs import (
    Recipe,
    clamped_states,
    corners,
    final_outputs,
    measure_memories,
    rounded_lists,
    score_reservoir,
    train_reservoir,
)
from mnemoscope.studies.jang.saddles import NEAR, SaddleConnection, neighbours, saddle_connections

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN, EVERY = 1200, 3
"""Steps of the test that the figure covers, and the interval between the steps that it shows."""
RANDOM_OUTPUTS = 200
"""Random outputs inside the cube of memories, and as many outside, from which a reservoir is released."""
RELEASED_STEPS = 200
"""Steps after the release that the page shows."""


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
        small = Recipe(bits=2, units=60, steps=1000, test_steps=300)
        published, resting = Recipe(bits=bits), Recipe(bits=bits, gain=0.9)
        logistic = Recipe(bits=bits, nonlinearity="logistic")
        self.presets: Mapping[str, Preset] = {
            "smoke": Preset(
                "A small reservoir, short training; checks only that the code runs.",
                {"recipes": {"small": small.settings()}, "starts": 40},
            ),
            "cpu": Preset(
                "Reservoirs with 1000 units as in Table 1, and at rest before training (g = 0.9), two seeds; "
                "minutes each.",
                {"recipes": {"g = 1.5": published.settings(), "g = 0.9": resting.settings()}, "starts": 400},
                (0, 1),
            ),
            "paper": Preset(
                "The same and the logistic nonlinearity, five seeds, a longer search.",
                {
                    "recipes": {
                        "g = 1.5": published.settings(),
                        "g = 0.9": resting.settings(),
                        "g = 1.5, logistic": logistic.settings(),
                    },
                    "starts": 1000,
                },
                (0, 1, 2, 3, 4),
            ),
        }

    def trials(self, settings: Mapping[str, Any], seeds: Iterable[int]) -> list[Trial]:
        return [
            Trial(name, {**recipe, "starts": settings["starts"]}, seed, about(name))
            for name, recipe in settings["recipes"].items()
            for seed in seeds
        ]

    def as_published(self, trial: Trial) -> bool:
        recipe = Recipe.from_settings(dict(trial.settings))
        return recipe.as_published and recipe.bits == self.bits and recipe.nonlinearity == "tanh"

    def run(self, trial: Trial, folder: Path, progress: bool) -> dict[str, Any]:
        recipe = Recipe.from_settings(dict(trial.settings))
        trained = train_reservoir(recipe, trial.seed, folder / "lesson.safetensors", progress=progress)
        cell = trained.cell
        test = recipe.test(trial.seed)
        scores = score_reservoir(cell, recipe, test)
        memories = measure_memories(cell, recipe)
        dynamics = Dynamics(cell)
        began = process_time()
        fp = _search(cell, test.inputs, memories.states, trial.settings["starts"], trial.seed, progress)
        searched = process_time() - began
        z = cell.read(cell.output(fp.states.to(cell.recurrent)))
        connections = saddle_connections(dynamics, fp, cell)
        random = _random_outputs(recipe.bits, trial.seed)
        attractors = find_attractors(
            dynamics, clamped_states(cell, torch.cat([outputs[:16] for outputs in random.values()])).double()
        )
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
            "ways": dict(sorted(Counter(connection.description for connection in connections).items())),
            "thrown": {name: _destinations(cell, outputs) for name, outputs in random.items()},
            "verdict": attractors.verdict,
            "lesson_seconds": round(trained.seconds, 2),
            "curve": trained.curve(),
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
        rows = []
        for name, trials in by_name(results).items():
            outcomes, bits = [finished.result for finished in trials], trials[0].trial.settings["bits"]
            seeds = f"{len(trials)} seed{'s' if len(trials) > 1 else ''}"

            def listed(key: str, form: str = ".3g", outcomes: Sequence[Mapping[str, Any]] = outcomes) -> str:
                return ", ".join(f"{outcome[key]:{form}}" for outcome in outcomes)

            pairs = [
                (
                    "stable fixed points at the corners",
                    [outcome["stable_corners"] for outcome in outcomes],
                    "stable_corners",
                    f"of {2**bits}; {seeds}",
                ),
                (
                    "fixed points",
                    [outcome["points"] for outcome in outcomes],
                    "points",
                    "index sums " + ", ".join(str(outcome["index_sum"]) for outcome in outcomes),
                ),
            ]
            for quantity, measured, key, remark in pairs:
                claim = self.find_claim(quantity)
                label = f"{name}: {quantity}"
                if claim is None:
                    rows.append(Row(label, "", listed(key), remark=remark))
                else:
                    rows.append(self.compare(trials, claim, measured, listed(key), remark, label))
            rows += [
                Row(
                    f"{name}: sign accuracy",
                    "outputs follow",
                    listed("accuracy", ".5f"),
                    remark="on the test, with fixed weights",
                ),
                Row(f"{name}: mean squared error", "", listed("mse"), remark="on the test"),
                Row(f"{name}: corners held when left alone", "", listed("held"), remark=f"of {2**bits}"),
                Row(
                    f"{name}: edges with a saddle",
                    "",
                    listed("edges"),
                    remark=f"of {bits * 2 ** (bits - 1)} pairs of corners that differ in one bit",
                ),
                Row(
                    f"{name}: random outputs inside the cube that go to a corner",
                    "",
                    ", ".join(f"{outcome['thrown']['inside']['corner']:.0%}" for outcome in outcomes),
                    remark=f"of {RANDOM_OUTPUTS}",
                ),
                Row(
                    f"{name}: random outputs outside the cube that go to a corner",
                    "",
                    ", ".join(f"{outcome['thrown']['outside']['corner']:.0%}" for outcome in outcomes),
                    remark=f"of {RANDOM_OUTPUTS}",
                ),
                Row(
                    f"{name}: CPU seconds of the search per start",
                    "",
                    ", ".join(
                        f"{outcome['search_cpu_seconds'] / max(outcome['starts'], 1):.3f}" for outcome in outcomes
                    ),
                ),
                Row(f"{name}: seconds of the lesson", "", spread([outcome["lesson_seconds"] for outcome in outcomes])),
            ]
        return rows

    def figure(self, results: Sequence[Finished]) -> Figure:
        first = results[0].result
        bits = len(first["test"]["outputs"][0])
        figure = new_figure(7.2, 1.1 * bits + 3.2)
        grid = figure.add_gridspec(bits + 1, bits, height_ratios=[1] * bits + [2.6])
        _draw_test(figure, grid, first["test"], bits)
        _draw_points(figure, grid, first, bits)
        legend_above(figure, 4)
        return figure


def _search(cell: EchoState, inputs: Tensor, memories: Tensor, starts: int, seed: int, progress: bool) -> FixedPoints:
    """Search for fixed points from memories, trajectories and random outputs.

    The starts are the memories, the midpoints of the cube's edges, faces and so on, states of trajectories with and
    without noise, and random outputs; then midpoints between the points found.
    """
    share, dynamics = max(8, starts // 10), Dynamics(cell)
    midpoints = torch.cartesian_prod(*[torch.tensor([-1.0, 0.0, 1.0])] * cell.output_size)
    first = Several(
        [
            dynamics.origin,
            memories.double(),
            clamped_states(cell, midpoints).double(),
            FromTrajectories(inputs, share, rest=25),
            FromTrajectories(inputs, share, noise=0.3, rest=25),
            FromOutputs(share, -1.0, 1.0),
            FromOutputs(share, -2.0, 2.0),
        ]
    )
    return find_fixed_points(dynamics, Adaptive(first, max_starts=starts), seed=seed, progress=progress)


def _stable_corners(fp: FixedPoints, z: Float[Tensor, "points bits"]) -> int:
    """Count the corners that have a stable fixed point."""
    stable = z[torch.tensor([kind == "stable" for kind in fp.kind], dtype=torch.bool)]
    apart = (stable.unsqueeze(1) - corners(z.shape[1])).abs().amax(2)
    return int((apart < NEAR).any(0).sum())


def _random_outputs(bits: int, seed: int) -> dict[str, Float[Tensor, "starts bits"]]:
    """Return random outputs inside the cube of memories and outside it, where a component lies beyond +-1."""
    generator = torch.Generator().manual_seed(seed)
    unit = 2 * torch.rand(RANDOM_OUTPUTS, bits, generator=generator) - 1
    reach = 1 + torch.rand(RANDOM_OUTPUTS, 1, generator=generator)
    return {"inside": unit, "outside": unit / unit.abs().amax(1, keepdim=True) * reach}


def _destinations(cell: EchoState, outputs: Float[Tensor, "starts bits"]) -> dict[str, float]:
    """Return the share of random outputs that go to a corner, and the share that go to the corner of their signs."""
    end = final_outputs(cell, clamped_states(cell, outputs))
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
    """Draw the outputs at the fixed points, for pairs of bits, coloured by number of unstable directions."""
    pairs = [(0, bit) for bit in range(1, bits)]
    ups = result["ups"]
    names = (
        (0, "stable", "stable"),
        (1, "saddle-1", "1 unstable direction"),
        (2, "saddle-2", "2"),
        (3, "saddle-3", "3+"),
    )
    for place, (a, b) in enumerate(pairs):
        axes = figure.add_subplot(grid[bits, place])
        for least, colour, label in reversed(names):
            points = [z for z, up in zip(result["outputs"], ups, strict=True) if min(up, 3) == least]
            axes.scatter(
                [z[a] for z in points],
                [z[b] for z in points],
                s=22,
                color=COLOUR[colour],
                label=label if place == 0 and points else None,
                zorder=4 - least,
            )
        axes.set(xlabel=f"output {a + 1}", ylabel=f"output {b + 1}")
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
    facts = [
        (
            "Cell",
            f"echo state network, {recipe.units} units, {recipe.nonlinearity}, g = {recipe.gain:g}, tau = "
            f"{recipe.tau:g}",
        ),
        ("Task", f"{recipe.bits}-bit flip-flop"),
        (
            "Training",
            f"FORCE, {recipe.steps:,} steps, an update every {recipe.every}, {result['lesson_seconds']:.1f} s",
        ),
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
    edges = _edges(connections)
    lead = (
        f"Two trajectories leave every saddle with one unstable direction. {edges} of the {len(neighbours(bits))} "
        f"pairs of corners that differ in one bit have such a saddle between them."
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


_CUBE = (
    Claim(EVERYTHING, "stable fixed points at the corners", 8, Source("jang", "section 6 and Fig 6"), tolerance=(8, 8)),
    Claim(
        EVERYTHING, "fixed points", "9-26", Source("jang", "section 6: depending on the tolerance"), tolerance=(9, 26)
    ),
    Claim(EVERYTHING, "minutes for 20 points", 3, Source("jang", "section 10.3")),
)
_TESSERACT = (
    Claim(
        EVERYTHING,
        "stable fixed points at the corners",
        16,
        Source("jang", "section 7: a tesseract"),
        tolerance=(16, 16),
    ),
)

THREE = FlipFlopReservoir(3, "The cube of a 3-bit reservoir", _CUBE)
FOUR = FlipFlopReservoir(4, "The tesseract of a 4-bit reservoir", _TESSERACT)
