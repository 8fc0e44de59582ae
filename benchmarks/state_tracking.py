"""The length at which a network fails to track a state: predicted without drawing a word, against measured.

    python benchmarks/state_tracking_networks.py --folder runs/tracking --device cuda  train and measure first
    python benchmarks/state_tracking.py --folder runs/tracking                         predict, and print the table
    python benchmarks/state_tracking.py --folder runs/tracking --keep                  the same, to benchmarks/results

Each network was measured on 8,192 words. `half` is the length at which the accuracy is half way to chance, `ninety`
that at 90%. Errors are |predicted / measured - 1|. Networks whose measured accuracy does not fall that low within the
measured words are counted, but have no error. Several processes may share the work: each writes `--rows` of some
recipes, and `--from-rows` makes the table of all.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Container, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch

import mnemoscope as ms
from common import folder as results_folder, option_parser, write_json
from mnemoscope.lenses.tracking.lens import Method
from mnemoscope.lenses.tracking.result import measured_crossing
from state_tracking_networks import BASIC, BEYOND, RECIPES, Recipe, load

METHODS: dict[str, Method] = {"two layers": "closure", "two layers, convolution": "words", "tanh": "words"}
"""Method of the lens for kinds of networks that are not affine."""


@dataclass(frozen=True)
class Row:
    """One network: predicted and measured lengths."""

    recipe: str
    length: int
    """Letters of the words in training."""
    seed: int
    method: str
    components: int
    half: float
    half_measured: float
    ninety: float
    ninety_measured: float
    gaussian_half: float
    """The prediction with one Gaussian for each element; NaN if it was not computed."""
    gaussian_ninety: float
    decay: float
    modulus_error: float
    relation_error: float
    closure_error: float
    representation: str
    displacement: float
    """Share of a displacement that is left after 24 letters."""
    attractors: str
    """Stable fixed points of a tanh network while the identity is repeated, and the elements that they stand for."""
    seconds: float


def predict(
    recipe: Recipe, folder: Path, every: int, samples: int, gaussian: bool, done: Container[tuple[str, int, int]] = ()
) -> Iterator[Row]:
    """Yield the row of every n-th network of a recipe, but for those that are done."""
    group, chances = recipe.task.build_group(), recipe.task.letter_probabilities()
    for number, ((length, seed), model, measured) in enumerate(load(recipe, folder)):
        if number % every or (recipe.name, length, seed) in done:
            continue
        began = time.monotonic()
        method = METHODS.get(recipe.kind, "moments")
        lens = partial(
            ms.state_tracking, model, group, probabilities=chances, length=len(measured), method=method, samples=samples
        )
        found = lens(words=1000 * (method == "words"), seed=5)
        plain = lens(components=1) if gaussian and method == "moments" else None
        half = (1 + found.chance) / 2
        yield Row(
            recipe.name,
            length,
            seed,
            method,
            found.components,
            found.half_time,
            measured_crossing(measured, found.period, half),
            found.ninety_time,
            measured_crossing(measured, found.period, 0.9),
            math.nan if plain is None else plain.half_time,
            math.nan if plain is None else plain.ninety_time,
            found.decay,
            found.modulus_error,
            float(found.relations.max()) if found.relations.numel() else math.nan,
            float(found.closure.max()) if found.closure.numel() else math.nan,
            found.representation(),
            float(found.displacement[-1]),
            attractors(recipe, model) if recipe.kind == "tanh" and 0 in group.letters else "",
            round(time.monotonic() - began, 1),
        )


@torch.no_grad()
def attractors(recipe: Recipe, model: ms.Model) -> str:
    """Return the stable fixed points with the letter of the identity held, from states that words visit."""
    identity = torch.eye(recipe.task.input_size, dtype=torch.float64)[recipe.task.build_group().letters.index(0)]
    inputs = recipe.task.at(20).batch(50, seed=0, number=0).inputs.double()
    visited = ms.run_with_cache(model.cell, inputs)[1].flat()[-8:].flatten(0, 1)
    points = ms.find_fixed_points(ms.Dynamics(model.cell, identity), visited, progress=False)
    stable = torch.tensor([str(kind) == "stable" for kind in points.kind])
    elements = model.readout(points.states[stable]).argmax(-1).tolist()
    return f"{len(elements)} stable of {len(points)}: elements {sorted(elements)}"


def errors(rows: Sequence[Row], predicted: str, measured: str) -> list[float]:
    """Return the relative errors, where both lengths are known."""
    pairs = [(getattr(row, predicted), getattr(row, measured)) for row in rows]
    return [abs(guess / truth - 1) for guess, truth in pairs if math.isfinite(guess) and math.isfinite(truth)]


def correlation(rows: Sequence[Row], predicted: str, measured: str) -> float:
    """Return the correlation of the logarithms of predicted and measured lengths."""
    pairs = [(getattr(row, predicted), getattr(row, measured)) for row in rows]
    pairs = [(math.log(a), math.log(b)) for a, b in pairs if math.isfinite(a) and math.isfinite(b)]
    return statistics.correlation(*zip(*pairs, strict=True)) if len(pairs) > 2 else math.nan


COLUMNS = ("networks", "number", "measured half way at", "half: r, median, worst error", "90%: r, median, worst error",
           "median error with one Gaussian: half, 90%")  # fmt: skip


def table(rows: Sequence[Row]) -> str:
    """Return one line for each recipe, and one for each set of recipes."""
    lines = [f"| {' | '.join(COLUMNS)} |", "|" + "---|" * len(COLUMNS)]
    for recipes in (BASIC, BEYOND):
        names = [recipe.name for recipe in recipes if recipe.kind != "tanh"]
        for name in names:
            lines += [_line(name, [row for row in rows if row.recipe == name])]
        lines += [_line("all of these", [row for row in rows if row.recipe in names])]
    return "\n".join(line for line in lines if line) + "\n"


def _line(name: str, rows: Sequence[Row]) -> str:
    times = [row.half_measured for row in rows if math.isfinite(row.half_measured)]
    if not times:
        return ""
    cells = [name, str(len(rows)), f"{min(times):.0f} to {max(times):.0f}"]
    for kind in ("half", "ninety"):
        found = errors(rows, kind, f"{kind}_measured")
        r = correlation(rows, kind, f"{kind}_measured")
        known = "" if math.isnan(r) else f"{r:.4f}, "
        cells.append(f"{known}{statistics.median(found):.1%}, {max(found):.1%}" if found else "none known")
    plain = [errors(rows, f"gaussian_{kind}", f"{kind}_measured") for kind in ("half", "ninety")]
    cells.append(", ".join(f"{statistics.median(each):.1%}" if each else "none known" for each in plain))
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Predict, and write the table."""
    parser = option_parser(__doc__)
    parser.add_argument("--folder", type=Path, default=Path("runs") / "tracking")
    parser.add_argument("--only", nargs="*", default=list(RECIPES), metavar="RECIPE")
    parser.add_argument("--every", type=int, default=1, help="take every n-th network of a recipe")
    parser.add_argument("--samples", type=int, default=6000)
    parser.add_argument("--gaussian", action="store_true", help="also predict with one Gaussian for each element")
    parser.add_argument("--rows", type=Path, help="append rows to this file, but for those in it, and write no table")
    parser.add_argument(
        "--from-rows", nargs="*", type=Path, help="make the table from such files; of equal rows, the first"
    )
    parser.add_argument("--note", default="", help="text to write with the results")
    parser.add_argument("--seconds", type=float, default=math.inf)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.from_rows:
        lines = [line for file in given.from_rows for line in file.read_text().splitlines()]
        rows = [Row(**json.loads(line)) for line in lines]
        first = {(row.recipe, row.length, row.seed): row for row in reversed(rows)}
        names = list(RECIPES)
        rows = sorted(first.values(), key=lambda row: (names.index(row.recipe), row.length, row.seed))
    else:
        rows = list(_predict_all(given))
    if given.rows is None:
        results = results_folder(given.keep)
        write_json(results / "state_tracking.json", note=given.note, rows=[_rounded(asdict(row)) for row in rows])
        (results / "state_tracking.md").write_text(table(rows))
        print(table(rows))


def _rounded(row: dict[str, object]) -> dict[str, object]:
    """Return the values with floats to five digits; NaN becomes None, as JSON has none."""
    return {
        name: (float(f"{value:.5g}") if math.isfinite(value) else None) if isinstance(value, float) else value
        for name, value in row.items()
    }


def _predict_all(given: argparse.Namespace) -> Iterator[Row]:
    end = time.monotonic() + given.seconds
    lines = given.rows.read_text().splitlines() if given.rows is not None and given.rows.exists() else []
    done = {(row["recipe"], row["length"], row["seed"]) for row in map(json.loads, lines)}
    for name in given.only:
        if not (given.folder / f"{RECIPES[name].stem}.safetensors").exists():
            continue
        for row in predict(RECIPES[name], given.folder, given.every, given.samples, given.gaussian, done):
            if given.rows is not None:
                with given.rows.open("a") as file:
                    file.write(json.dumps(asdict(row)) + "\n")
            yield row
            if time.monotonic() > end:
                return


if __name__ == "__main__":
    main()
