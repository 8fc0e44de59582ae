"""Reservoirs that hold three and four bits: are there memories at the corners of the cube, and what lies between?"""

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
from mnemoscope.replication.computing import legend_above, spread
from mnemoscope.replication.learning import by_name
from mnemoscope.replication.study import Finished, Preset, Study, Trial
from mnemoscope.report import NetworkPage, write_page
from mnemoscope.report.document import Section
from mnemoscope.report.markup import table_markup
from mnemoscope.studies.jang.reservoirs import Recipe, corners, hearing, lesson, released, table, tried, written
from mnemoscope.studies.jang.saddles import NEAR, Way, neighbours, ways_down

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN, EVERY = 1200, 3
"""Steps of the test that the figure shows, and how many of them are left out between two."""
THROWS = 200
"""Random outputs, inside the cube of memories and outside, from which a reservoir is released."""
RELEASED = 200
"""Steps for which the page shows how random states go."""


class FlipFlopReservoir(Study):
    """Teach reservoirs by FORCE, find their fixed points, and see where random states go."""

    cites = ("jang", "sussillo2009", "sussillo2013")
    lenses = ("fixed-points", "attractors")
    caption = (
        "Above: targets (grey) and outputs of the first network once learning has stopped. Below: outputs at its fixed "
        "points."
    )

    def __init__(self, bits: int, title: str, claims: Sequence[Claim]) -> None:
        self.bits = bits
        self.name = f"flipflop-{bits}"
        self.title = title
        self.question = f"Does a reservoir that learned to hold {bits} bits rest at the corners of a cube?"
        self.claims = claims
        small = Recipe(bits=2, units=60, steps=1000, test_steps=300)
        whole, calm = Recipe(bits=bits), Recipe(bits=bits, gain=0.9)
        logistic = Recipe(bits=bits, nonlinearity="logistic")
        self.presets: Mapping[str, Preset] = {
            "smoke": Preset(
                "One small reservoir, a short lesson: it shows that the machinery works, no more.",
                {"recipes": {"small": small.settings()}, "starts": 40},
            ),
            "cpu": Preset(
                "Table 1's reservoirs of 1000 units, and one that is at rest before its lesson (g = 0.9), "
                "two seeds, some minutes each.",
                {"recipes": {"g = 1.5": whole.settings(), "g = 0.9": calm.settings()}, "starts": 400},
                (0, 1),
            ),
            "paper": Preset(
                "The same and the logistic function, five seeds, a longer search.",
                {
                    "recipes": {
                        "g = 1.5": whole.settings(),
                        "g = 0.9": calm.settings(),
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
        recipe = Recipe.of(dict(trial.settings))
        return recipe.as_published and recipe.bits == self.bits and recipe.nonlinearity == "tanh"

    def run(self, trial: Trial, folder: Path, progress: bool) -> dict[str, Any]:
        recipe = Recipe.of(dict(trial.settings))
        taught = lesson(recipe, trial.seed, folder / "lesson.safetensors", progress=progress)
        cell = taught.cell
        test = recipe.test(trial.seed)
        trial_run = tried(cell, recipe, test)
        memories = written(cell, recipe)
        dynamics = Dynamics(cell)
        begin = process_time()
        fp = _search(cell, test.inputs, memories.states, trial.settings["starts"], trial.seed, progress)
        searched = process_time() - begin
        z = cell.read(cell.output(fp.states.to(cell.recurrent)))
        ways = ways_down(dynamics, fp, cell)
        thrown = _throws(recipe.bits, trial.seed)
        seen = find_attractors(dynamics, hearing(cell, torch.cat([one[:16] for one in thrown.values()])).double())
        result = {
            "accuracy": trial_run["accuracy"],
            "mse": trial_run["mse"],
            "held": int(memories.held.sum()),
            "corner_error": memories.error,
            "points": len(fp),
            "unstable": {str(up): count for up, count in sorted(Counter(fp.unstable.tolist()).items())},
            "stable_corners": _stable_corners(fp, z),
            "index_sum": fp.index_sum,
            "completeness": fp.completeness,
            "starts": 0 if fp.starts is None else len(fp.starts),
            "search_cpu_seconds": round(searched, 2),
            "edges": _edges(ways),
            "ways": dict(sorted(Counter(way.words for way in ways).items())),
            "thrown": {name: _where(cell, begin) for name, begin in thrown.items()},
            "verdict": seen.verdict,
            "lesson_seconds": round(taught.seconds, 2),
            "curve": taught.curve(),
            "outputs": table(z),
            "ups": fp.unstable.tolist(),
            "test": {
                "targets": table(test.targets[:SHOWN:EVERY, 0], 0),
                "outputs": table(trial_run["outputs"][:SHOWN:EVERY, 0], 2),
            },
        }
        begin = hearing(cell, torch.cat([one[:24] for one in thrown.values()]))
        _write_page(folder, recipe, trial, fp, dynamics, begin, result, ways)
        return result

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        rows = []
        for name, trials in by_name(results).items():
            all_of, bits = [one.result for one in trials], trials[0].trial.settings["bits"]
            seeds = f"{len(trials)} seed{'s' if len(trials) > 1 else ''}"

            def told(key: str, form: str = ".3g", all_of: Sequence[Mapping[str, Any]] = all_of) -> str:
                return ", ".join(f"{one[key]:{form}}" for one in all_of)

            pairs = [
                (
                    "stable fixed points at the corners",
                    [one["stable_corners"] for one in all_of],
                    "stable_corners",
                    f"of {2**bits}; {seeds}",
                ),
                (
                    "fixed points",
                    [one["points"] for one in all_of],
                    "points",
                    "index sums " + ", ".join(str(one["index_sum"]) for one in all_of),
                ),
            ]
            for quantity, measured, key, remark in pairs:
                claim = self.find_claim(quantity)
                label = f"{name}: {quantity}"
                if claim is None:
                    rows.append(Row(label, "", told(key), remark=remark))
                else:
                    rows.append(self.compare(trials, claim, label, measured, told(key), remark))
            rows += [
                Row(f"{name}: sign accuracy", "outputs follow", told("accuracy", ".5f"), remark="frozen, on the test"),
                Row(f"{name}: mean squared error", "", told("mse"), remark="on the test"),
                Row(f"{name}: corners held when left alone", "", told("held"), remark=f"of {2**bits}"),
                Row(
                    f"{name}: edges with a saddle",
                    "",
                    told("edges"),
                    remark=f"of {bits * 2 ** (bits - 1)} pairs of corners one bit apart",
                ),
                Row(
                    f"{name}: random outputs inside the cube that go to a corner",
                    "",
                    ", ".join(f"{one['thrown']['inside']['corner']:.0%}" for one in all_of),
                    remark=f"of {THROWS}",
                ),
                Row(
                    f"{name}: random outputs outside the cube that go to a corner",
                    "",
                    ", ".join(f"{one['thrown']['outside']['corner']:.0%}" for one in all_of),
                    remark=f"of {THROWS}",
                ),
                Row(
                    f"{name}: CPU seconds of the search per start",
                    "",
                    ", ".join(f"{one['search_cpu_seconds'] / max(one['starts'], 1):.3f}" for one in all_of),
                ),
                Row(f"{name}: seconds of the lesson", "", spread([one["lesson_seconds"] for one in all_of])),
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
    """From the memories, the middles of the cube's edges, faces and so on, trajectories with noise and without, and
    random outputs; then from mid-points of what was found.
    """
    each, dynamics = max(8, starts // 10), Dynamics(cell)
    middles = torch.cartesian_prod(*[torch.tensor([-1.0, 0.0, 1.0])] * cell.output_size)
    first = Several(
        [
            dynamics.origin,
            memories.double(),
            hearing(cell, middles).double(),
            FromTrajectories(inputs, each, rest=25),
            FromTrajectories(inputs, each, noise=0.3, rest=25),
            FromOutputs(each, -1.0, 1.0),
            FromOutputs(each, -2.0, 2.0),
        ]
    )
    return find_fixed_points(dynamics, Adaptive(first, max_starts=starts), seed=seed, progress=progress)


def _stable_corners(fp: FixedPoints, z: Float[Tensor, "points bits"]) -> int:
    """How many corners have a stable fixed point of their own."""
    stable = z[torch.tensor([kind == "stable" for kind in fp.kind], dtype=torch.bool)]
    apart = (stable.unsqueeze(1) - corners(z.shape[1])).abs().amax(2)
    return int((apart < NEAR).any(0).sum())


def _throws(bits: int, seed: int) -> dict[str, Float[Tensor, "throws bits"]]:
    """Random outputs inside the cube of memories and outside it, where one number or more lies beyond +-1."""
    generator = torch.Generator().manual_seed(seed)
    unit = 2 * torch.rand(THROWS, bits, generator=generator) - 1
    reach = 1 + torch.rand(THROWS, 1, generator=generator)
    return {"inside": unit, "outside": unit / unit.abs().amax(1, keepdim=True) * reach}


def _where(cell: EchoState, begin: Float[Tensor, "throws bits"]) -> dict[str, float]:
    """Of random outputs: which share goes to a corner, and which to that of its own signs."""
    end = released(cell, hearing(cell, begin))
    at_corner = ((end - end.sign()).abs() < NEAR).all(1)
    own = at_corner & (end.sign() == begin.sign()).all(1)
    return {"corner": at_corner.double().mean().item(), "own": own.double().mean().item()}


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
            axes.set_xlabel("steps of the test")
        style_page_axes(axes)


def _draw_points(figure: Any, grid: Any, result: Mapping[str, Any], bits: int) -> None:
    """Outputs at the fixed points, in pairs of bits, by unstable directions."""
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
            own = [z for z, up in zip(result["outputs"], ups, strict=True) if min(up, 3) == least]
            axes.scatter(
                [z[a] for z in own],
                [z[b] for z in own],
                s=22,
                color=COLOUR[colour],
                label=label if place == 0 and own else None,
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
    begin: Float[Tensor, "throws hidden"],
    result: Mapping[str, Any],
    ways: Sequence[Way],
) -> None:
    silence = dynamics.input.expand(RELEASED, len(begin), -1)
    with torch.no_grad():
        paths = run_with_cache(dynamics.cell, silence, begin.to(dynamics.input))[1].flat()
    facts = [
        (
            "Cell",
            f"echo state network, {recipe.units} units, {recipe.nonlinearity}, g = {recipe.gain:g}, tau = "
            f"{recipe.tau:g}",
        ),
        ("Task", f"{recipe.bits}-bit flip-flop"),
        ("Lesson", f"FORCE, {recipe.steps:,} steps, an update every {recipe.every}, {result['lesson_seconds']:.1f} s"),
        ("Test", f"sign accuracy {result['accuracy']:.4f}, mean squared error {result['mse']:.2g}"),
        ("Left alone", result["verdict"]),
        ("Seed", str(trial.seed)),
    ]
    content = NetworkPage(
        title=f"{recipe.bits}-bit flip-flop in a reservoir of {recipe.units} units",
        fixed_points=fp,
        facts=facts,
        trajectories=paths,
        cites=FlipFlopReservoir.cites,
        sections=[_between(ways, recipe.bits), _released_section(result["thrown"]), _lesson_section(result["curve"])],
    )
    write_page(folder / "page.html", content)


def _edges(ways: Sequence[Way]) -> int:
    """Pairs of corners one bit apart that have a saddle between them."""
    return len({way.corners for way in ways if way.bits == 1 and way.arrived})


def _between(ways: Sequence[Way], bits: int) -> Section:
    counted = Counter((way.bits, way.words) for way in ways)
    rows = [(words, str(count)) for (_, words), count in sorted(counted.items())]
    edges = _edges(ways)
    lead = (
        f"From every saddle with one unstable direction two ways lead down. {edges} of the {len(neighbours(bits))} "
        f"pairs of corners one bit apart have such a saddle between them."
    )
    return Section("Saddles between memories", lead, table_markup("Saddles", ("It lies between", "Saddles"), rows))


def _released_section(thrown: Mapping[str, Mapping[str, float]]) -> Section:
    rows = [(f"{name} the cube", f"{one['corner']:.0%}", f"{one['own']:.0%}") for name, one in thrown.items()]
    headings = ("Random outputs", "go to a corner", "go to the corner of their signs")
    lead = f"{THROWS} random outputs each are fed back in place of the network's own, until it is released."
    return Section("Released from random outputs", lead, table_markup("Where they go", headings, rows))


def _lesson_section(curve: Mapping[str, Sequence[float]]) -> Section:
    figure = new_figure(7.2, 2.6)
    axes = figure.add_subplot()
    axes.semilogy(curve["step"], curve["error"], color=COLOUR["stable"])
    axes.set(xlabel="steps of the lesson", ylabel="|z - f| before updates")
    style_page_axes(axes)
    svg = inline_svg(figure, "lesson", alt="Error before each update over the lesson.")
    drawn = f'<figure class="drawn">{svg}</figure>'
    return Section(
        "Lesson", escape("The error before each update stays small from the beginning: that is FORCE."), drawn
    )


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
