"""Fixed points of trained 3-bit flip-flops: corners, edges, faces and centre of a cube."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from math import comb
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from mnemoscope.base.files import write_atomically
from mnemoscope.config import PRESETS, RunConfig
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, add_legend, style_page_axes
from mnemoscope.inspection import InspectionOptions, inspect_run
from mnemoscope.replication.agreement import exactly
from mnemoscope.replication.claims import EVERYTHING, Claim, Row, about
from mnemoscope.replication.learning_study import by_name
from mnemoscope.replication.study import Finished, Preset, Study, Trial
from mnemoscope.studies.jang.reservoir_claims import FIXED_POINTS
from mnemoscope.studies.jang.reservoirs import JANG
from mnemoscope.training import build_task, train

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BITS = 3
"""Number of bits of the published flip-flop."""


def cube(bits: int) -> dict[int, int]:
    """Return how many of the 3^bits fixed points of independent bistable bits have 0, 1, ... unstable directions.

    >>> cube(3)  # corners, edges, faces, centre
    {0: 8, 1: 12, 2: 6, 3: 1}
    """
    return {up: comb(bits, up) * 2 ** (bits - up) for up in range(bits + 1)}


class FlipFlopCube(Study):
    """Train networks on the 3-bit flip-flop and count their fixed points by unstable directions."""

    name = "flipflop-cube"
    resumes = True
    title = "The cube of a 3-bit flip-flop"
    question = "How many fixed points does a network that holds three bits have, and is the set complete?"
    claims = (
        Claim(EVERYTHING, "stable fixed points", 8, JANG("section 6 and Fig 6"), exactly(8)),
        replace(FIXED_POINTS, reason="a cube has 27"),
    )
    presets: Mapping[str, Preset] = {
        "smoke": Preset(
            "A small tanh network and seconds of training; checks only that the code runs.",
            {"networks": {"elman": 12}, "changes": {"steps": 60}},
        ),
        "cpu": Preset(
            "tanh and GRU networks with 64 units, three seeds each; minutes on two cores.",
            {"networks": {"elman": 64, "gru": 64}, "changes": {}},
            (0, 1, 2),
        ),
        "paper": Preset(
            "tanh, GRU and LSTM networks with 64 and 128 units, five seeds each, trained by gradient descent; the "
            "published network is a reservoir with 1000 units trained by FORCE.",
            {"networks": {"elman": 128, "gru": 128, "lstm": 64}, "changes": {}},
            (0, 1, 2, 3, 4),
        ),
    }
    cites = ("jang", "sussillo2013")
    lenses = ("fixed-points", "spectra", "fisher")
    caption = (
        "Fixed points by number of unstable directions, one bar per network; dotted: corners, edges, faces and centre "
        "of a cube."
    )

    def trials(self, settings: Mapping[str, Any], seeds: Iterable[int]) -> list[Trial]:
        base = PRESETS["flipflop"]
        return [
            Trial(
                f"{cell} {size}",
                asdict(replace(base, cell=cell, hidden_size=size, seed=seed, **settings["changes"])),
                seed,
                about(cell, units=size),
            )
            for cell, size in settings["networks"].items()
            for seed in seeds
        ]

    def as_published(self, trial: Trial) -> bool:
        """Return False: the published network is a reservoir of 1,000 units, trained by FORCE (`flipflop-3`)."""
        return False

    def run(self, trial: Trial, folder: Path, progress: bool) -> dict[str, Any]:
        trained = train(RunConfig(**trial.settings), folder, resume=True, progress=progress)
        inspection = inspect_run(trained.folder, options=InspectionOptions(progress=progress))
        # the page of the study links to this file
        write_atomically(folder / "page.html", inspection.save().read_bytes())
        fp = inspection.fixed_points
        assert fp is not None  # only networks that attend to their past have none
        return {
            "loss": trained.loss,
            "accuracy": trained.scores["accuracy"],
            "points": len(fp),
            "unstable": {str(up): count for up, count in sorted(Counter(fp.unstable.tolist()).items())},
            "index_sum": fp.index_sum,
            "largest_q": float(fp.q.max()) if len(fp) else None,
            "slow": 0 if fp.slow is None else len(fp.slow),
            "starts": 0 if fp.starts is None else len(fp.starts),
        }

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        rows = []
        for name, trials in by_name(results).items():
            outcomes, bits = [finished.result for finished in trials], _bits(trials[0].trial)
            expected = cube(bits)
            terms = " + ".join(map(str, expected.values()))
            cubes = sum({int(up): n for up, n in outcome["unstable"].items()} == expected for outcome in outcomes)
            complete = f"{sum(outcome['index_sum'] == 1 for outcome in outcomes)} of {len(outcomes)}"
            accuracy = median(outcome["accuracy"] for outcome in outcomes)
            networks = f"of {len(outcomes)} network{'s' if len(outcomes) > 1 else ''}"
            stable = [outcome["unstable"].get("0", 0) for outcome in outcomes]
            found = [outcome["points"] for outcome in outcomes]
            rows += [
                self._row(name, "stable fixed points", bits, stable, f"accuracy {accuracy:.4f}"),
                self._row(name, "fixed points", bits, found, f"{terms} = {3**bits} in {cubes} {networks}"),
                Row(f"{name}: index sum 1", "not checked", complete, remark="necessary for a complete set"),
            ]
        return rows

    def _row(self, name: str, quantity: str, bits: int, measured: Sequence[int], remark: str) -> Row:
        ours = ", ".join(map(str, measured))
        if bits != BITS:
            return Row(f"{name}: {quantity}", f"for {BITS} bits only", ours, remark=remark)
        row = self.claim(quantity).compare(f"{name}: {quantity}", measured, ours, remark)
        return replace(row, recipe=f"{name} units trained by gradient descent, not a reservoir by FORCE")

    def figure(self, results: Sequence[Finished]) -> Figure:
        figure = new_figure(7.2, 3.1)
        axes = figure.add_subplot()
        expected = cube(_bits(results[0].trial))
        ups = range(1 + max([*expected, *(int(up) for finished in results for up in finished.result["unstable"])]))
        names = list(dict.fromkeys(finished.trial.name for finished in results))
        colours = dict(zip(names, ("stable", "saddle-1", "saddle-2", "path"), strict=False))
        width = 0.8 / len(results)
        for place, finished in enumerate(results):
            heights = [finished.result["unstable"].get(str(up), 0) for up in ups]
            name = finished.trial.name
            colour = COLOUR[colours.get(name, "path")]
            label = name if finished is next(other for other in results if other.trial.name == name) else None
            axes.bar([up - 0.4 + (place + 0.5) * width for up in ups], heights, 0.9 * width, color=colour, label=label)
        for up in ups:
            axes.hlines(expected.get(up, 0), up - 0.45, up + 0.45, colors=COLOUR["ink"], linestyles="dotted")
        axes.set_xticks(list(ups))
        axes.locator_params(axis="y", integer=True)
        axes.set(xlabel="unstable directions", ylabel="fixed points")
        add_legend(axes, "upper right")
        axes.set_axisbelow(True)
        style_page_axes(axes)
        return figure


def _bits(trial: Trial) -> int:
    return build_task(RunConfig(**trial.settings)).input_size


STUDY = FlipFlopCube()
