"""Trained low-rank networks: which rank a task needs, and how well the reduced dynamics describe the trained ones.

    python benchmarks/low_rank.py --keep --part decision    rank one on the perceptual decision; --seed for others
    python benchmarks/low_rank.py --keep --part context     rank one on the decision by context; --seed for others
    python benchmarks/low_rank.py --keep --part memory      rank two on parametric working memory; --seed for others
    python benchmarks/low_rank.py --keep --part recipes     which training leads to populations; --seed, --recipe
    python benchmarks/low_rank.py --keep --part start       how long training stays at the baseline, by overlap and rate
    python benchmarks/low_rank.py --keep --part rank        truncation of a network of full rank, with further training

Each part takes some minutes on one core. Accuracies are those on 256 fresh trials, in the part on ranks on 1024.
"fixed points agree" compares those of the whole network, searched among all units, with those of the exact reduction to
the latent variables. Networks drawn from fitted populations have 2048 units, so that the scatter of a small sample
counts little.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

import mnemoscope as ms
from common import figures, folder, option_parser, write_json
from mnemoscope.cells import LeakyRNN
from mnemoscope.config import PRESETS, RunConfig
from mnemoscope.config.run_config import changed
from mnemoscope.lenses import Reduction
from mnemoscope.tasks.cognitive import TrialTask
from mnemoscope.training import load_model

TRIALS, TRIALS_OF_RANKS = 256, 1024
"""Fresh trials that score a network: in general, and in the part on ranks."""
DRAWN, DRAWS, POPULATIONS = 2048, 4, (1, 2, 4)
"""Units of a drawn network, networks drawn from each mixture, and numbers of populations."""
OVERLAPS, RATES = (0.0, 1.0), (0.001, 0.005)
"""Initial overlaps and learning rates whose first steps are compared."""
LEARNED = 0.8
"""Accuracy from which a network counts as having left the baseline."""
VARIANTS = {
    "low-rank-memory": {
        "rank 1": {"cell_options": {"rank": 1}},
        "difference of 4 Hz": {"task_options": {"difference": 4.0}},
        "rank 1, difference of 4 Hz": {"cell_options": {"rank": 1}, "task_options": {"difference": 4.0}},
    }
}
"""Changes of a preset whose accuracy is measured as well, by preset and label."""
RECIPES: dict[str, dict[str, Any]] = {
    "preset": {},
    "trained readout": {"fixed_readout": None},
    "trained readout, 2048 units": {"fixed_readout": None, "hidden_size": 2048},
    "input scale 0.3": {"cell_options": {"input_scale": 0.3}},
    "learning rate 0.005": {"learning_rate": 0.005},
    "overlap 1": {"cell_options": {"overlap": 1.0}},
    "2 populations at the start": {"cell_options": {"populations": 2}},
    "all of an earlier preset": {
        "fixed_readout": None,
        "hidden_size": 256,
        "learning_rate": 0.005,
        "steps": 600,
        "cell_options": {"input_scale": 0.3, "overlap": 1.0},
    },
}
"""Changes of the preset low-rank-context, by what they change."""
RECIPE_POPULATIONS, RECIPE_DRAWS = (1, 2, 3, 4), 5
RANKS = (0, 1, 2, 3, 4, 6, 8, 16, 64)


def trained(config: RunConfig) -> tuple[ms.Model, TrialTask, float, float]:
    """Return the model, its task, the seconds of training and the baseline of the loss."""
    with TemporaryDirectory() as root:
        start = time.perf_counter()
        run = ms.train(config, Path(root), progress=False)
        seconds = time.perf_counter() - start
        model, task, _ = load_model(run.folder)
    assert isinstance(task, TrialTask)
    return model, task, seconds, run.baseline


def scorer(task: TrialTask, trials: int = TRIALS) -> Any:
    """Return the function from a model to its accuracy on fresh trials."""
    batch = task.batch(trials, 0, 0, "test")

    @torch.no_grad()
    def accuracy(model: ms.Model) -> float:
        return task.scores(model(batch.inputs)[0], batch)["accuracy"]

    return accuracy


def contexts(task: TrialTask, model: ms.Model) -> dict[str, Tensor]:
    """Return the mean input of the delay, by context if the task has contexts."""
    assert task.analysis is not None
    trials = task.grid()
    recording = ms.record_activity(model, trials.batch.inputs, trials.table, lengths=trials.lengths)
    by = () if task.analysis.context is None else (task.analysis.context,)
    return {name: x.float() for name, x in recording.mean_inputs(*by, epoch=task.analysis.epoch).items()}


def compared(model: ms.Model, constant: Tensor, mixture: Any) -> tuple[Reduction, dict[str, Any]]:
    """Return the reduction at a constant input, and how far its fixed points are from those of the whole network."""
    dynamics = ms.Dynamics(model.cell, constant)
    reduced = ms.measure_reduction(dynamics, mixture=mixture)
    whole = ms.find_fixed_points(dynamics)
    exact = reduced.project(whole.states).sort(0)[0] if reduced.rank == 1 else reduced.project(whole.states)
    same = len(whole) == len(reduced.fixed_points)
    apart = float(torch.cdist(exact, reduced.fixed_points.states).amin(1).max()) if len(whole) else 0.0
    return reduced, {
        "fixed points of the network": sorted(whole.kind),
        "fixed points of the reduction": sorted(reduced.fixed_points.kind),
        "fixed points agree": bool(same and apart < 1e-6),
        "largest distance in kappa": float(f"{apart:.1e}"),
        "fixed points of the mean field": sorted(reduced.mean_field_points.kind),
        "error of the mean-field flow": round(reduced.flow_error, 3),
    }


def _overlaps(n: Tensor, others: Tensor) -> list[float] | list[list[float]]:
    """Return the mean products of n with other vectors, one row for each n; for a single n, the row itself."""
    rows = [[round(value, 3) for value in row] for row in (n.mT @ others / len(n)).tolist()]
    return rows[0] if len(rows) == 1 else rows


def low_rank_network(name: str, seed: int, keep: bool) -> None:
    """Measure a preset of low rank with one seed, and add it to the file with the others; draw the first."""
    base = changed(PRESETS[name], {"seed": seed})
    model, task, seconds, _ = trained(base)
    cell, accuracy, batch = model.cell, scorer(task), task.batch(64, 0, 1, "test")
    assert isinstance(cell, LeakyRNN)
    resampled = ms.measure_resampling(model, score=accuracy, populations=POPULATIONS, draws=DRAWS, size=DRAWN)
    loadings, place = cell.loadings(), folder(keep)
    mixture = ms.fit_mixture(loadings, resampled.needed or POPULATIONS[-1])[0]
    along = ms.measure_reduction(model, batch.inputs, mixture=mixture)
    found = {key: compared(model, x, mixture) for key, x in contexts(task, model).items()}
    row = {
        "seed": seed,
        "seconds of training": round(seconds, 1),
        "accuracy": round(accuracy(model), 3),
        "units": cell.hidden_size,
        "overlap of m and n": _overlaps(loadings.right, loadings.left),
        "overlaps of n with inputs": _overlaps(loadings.right, loadings.inputs),
        "populations of the mean field": along.populations,
        "error of the exact reduction on trials": float(f"{along.error:.1e}"),
        "error of the mean field on trials": round(along.mean_field_error, 3),
        "by context": {key: rest for key, (_, rest) in found.items()},
        "accuracy of resampled networks": {
            number: [round(float(q), 3) for q in each.quantile(torch.tensor([0.0, 0.5, 1.0]).double())]
            for number, each in zip(resampled.populations, resampled.scores, strict=True)
        },
        "accuracy of shuffled networks": [round(float(each), 3) for each in resampled.shuffled.sort()[0][[0, -1]]],
        "accuracy of redrawn units": [round(float(each), 3) for each in resampled.redrawn.sort()[0]],
        "populations needed": resampled.needed,
        "summary": resampled.summary(),
        "variants": {label: _accuracy(changed(base, changes)) for label, changes in VARIANTS.get(name, {}).items()},
    }
    print(row, flush=True)
    path = place / f"low_rank_{name.removeprefix('low-rank-')}.json"
    others = json.loads(path.read_text())["rows"] if path.exists() else []
    by_seed = {**{each["seed"]: each for each in others}, seed: row}
    rows = [by_seed[each] for each in sorted(by_seed)]
    write_json(path, rows=rows)
    if not seed:
        for key, (reduced, _) in found.items():
            ending = "" if key == "all trials" else f"-{key.split()[-1]}"
            reduced.figure().savefig(figures(keep) / f"{name}{ending}.png", dpi=110, bbox_inches="tight")
        resampled.figure().savefig(figures(keep) / f"{name}-resampled.png", dpi=110, bbox_inches="tight")


def _accuracy(config: RunConfig) -> float:
    """Return the accuracy of a network trained with this configuration, on fresh trials."""
    model, task, _, _ = trained(config)
    return round(scorer(task)(model), 3)


def recipes(chosen: str | None, seed: int, device: str, keep: bool) -> None:
    """Train the decision by context in several ways, resample each network, and add it to the file with the others."""
    path = folder(keep) / "low_rank_recipes.json"
    for name, changes in RECIPES.items():
        if chosen not in (None, name):
            continue
        config = changed(PRESETS["low-rank-context"], {"seed": seed, "device": device, **changes})
        model, task, seconds, _ = trained(config)
        found = ms.measure_resampling(
            model, score=scorer(task), populations=RECIPE_POPULATIONS, draws=RECIPE_DRAWS, size=DRAWN
        )
        medians = dict(zip(found.populations, found.scores.quantile(0.5, 1).tolist(), strict=True))
        row: dict[str, Any] = {
            "recipe": name,
            "seed": seed,
            "seconds of training": round(seconds, 1),
            "accuracy": round(found.trained, 3),
            "redrawn units": round(float(found.redrawn.quantile(0.5)), 3),
            "shuffled": round(float(found.shuffled.quantile(0.5)), 3),
            "populations": {number: round(median, 3) for number, median in medians.items()},
        }
        print(row, flush=True)
        others = json.loads(path.read_text())["rows"] if path.exists() else []
        rows = [each for each in others if (each["recipe"], each["seed"]) != (name, seed)]
        write_json(path, rows=sorted([*rows, row], key=lambda each: ([*RECIPES].index(each["recipe"]), each["seed"])))


def start(keep: bool) -> None:
    """Measure after how many steps the training of a rank-one network leaves the baseline."""
    rows = []
    for overlap in OVERLAPS:
        for rate in RATES:
            changes = {"cell_options": {"overlap": overlap}, "learning_rate": rate, "evaluate_every": 25, "steps": 1000}
            config = changed(PRESETS["low-rank-decision"], {**changes, "schedule": "constant", "target_score": LEARNED})
            with TemporaryDirectory() as root:
                run = ms.train(config, Path(root), progress=False)
            reached = run.steps if run.stopped == "target" else None
            rows.append({"overlap": overlap, "learning rate": rate, f"steps to accuracy {LEARNED}": reached})
            print(rows[-1], flush=True)
    write_json(folder(keep) / "low_rank_start.json", rows=rows)


def rank_of_a_full_network(keep: bool) -> None:
    """Truncate a network of full rank, and train the truncated ones further."""
    model, task, seconds, _ = trained(PRESETS["perceptual-decision"])
    accuracy = scorer(task, TRIALS_OF_RANKS)
    found = ms.measure_rank(
        model, score=accuracy, ranks=RANKS, retrain=lambda each: ms.fine_tune(each, task, steps=100)
    )
    print(found.summary())
    assert found.retrained is not None
    found.figure().savefig(figures(keep) / "low-rank-truncated.png", dpi=110, bbox_inches="tight")
    table = zip(found.ranks, found.scores, found.control_scores.mean(1), found.retrained, strict=True)
    names = ("rank", "leading terms", "random terms", "after 100 further steps")
    rows = [dict(zip(names, [row[0], *(round(float(each), 3) for each in row[1:])], strict=True)) for row in table]
    write_json(
        folder(keep) / "low_rank_truncated.json",
        seconds_of_training=round(seconds, 1),
        accuracy=round(found.full, 3),
        without_recurrence=round(found.without, 3),
        rows=rows,
        summary=found.summary(),
    )


def main() -> None:
    """Run one part."""
    parser = option_parser(__doc__)
    parser.add_argument(
        "--part",
        choices=["decision", "context", "memory", "recipes", "start", "rank"],
        required=True,
        help="what to measure",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of a low-rank network")
    parser.add_argument("--recipe", choices=[*RECIPES], help="the only training of the part recipes")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="where the part recipes trains")
    options = parser.parse_args()
    if options.part == "start":
        start(options.keep)
    elif options.part == "rank":
        rank_of_a_full_network(options.keep)
    elif options.part == "recipes":
        recipes(options.recipe, options.seed, options.device, options.keep)
    else:
        low_rank_network(f"low-rank-{options.part}", options.seed, options.keep)


if __name__ == "__main__":
    main()
