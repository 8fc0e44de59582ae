"""Why a RelRNN with modReLU diverges, and whether an orthogonal recurrent matrix cures it.

    python benchmarks/screened_divergence.py --device cuda --seeds 11 12 13 14 15 16 17 18 19 20 --processes 8 --keep

Each network learns to copy after a delay of 100 by the recipe of the study transfer-copy, and is tested at delays up to
5,000 without further training. Its recurrent matrix is unconstrained ("dense") or stays orthogonal (the recipe of the
study). At every evaluation the norm and the spectral radius of the matrix are recorded: with modReLU, which has no
upper limit, a norm above 1 lets states grow from step to step. A network succeeds if it recalls 99% at every delay.

`--one VARIANT SEED` trains a single network and prints its row; `--rows FILE ...` takes the last line of each file for
such a row, instead of training.
"""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import Namespace
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from common import folder, option_parser, write_json
from mnemoscope.config.run_config import changed
from mnemoscope.connectivity import Connectivity
from mnemoscope.studies.kerg2022 import transfer_copy
from mnemoscope.training import NonFiniteLoss, train
from mnemoscope.training.callbacks import StepInfo
from mnemoscope.training.run_folder import environment

VARIANTS: dict[str, dict[str, Any]] = {
    "dense": {"cell_options": {"orthogonal": False}, "orthogonal_learning_rate": None},
    "orthogonal": {"cell_options": {"orthogonal": True}, "orthogonal_learning_rate": 1e-4},
}
STEPS = 10_000
"""Most iterations, as in the study: an orthogonal matrix takes two to three times as many as an unconstrained one."""


def run_one(variant: str, seed: int, device: str, steps: int) -> dict[str, Any]:
    """Train and test one network."""
    recipe: dict[str, Any] = dict(transfer_copy.NETWORKS["relrnn"])
    changes = VARIANTS[variant]
    options = {**recipe["cell_options"], **changes.get("cell_options", {})}
    settings = {**recipe, **changes, "cell_options": options, "seed": seed, "device": device, "steps": steps}
    config = changed(transfer_copy.STUDY.base, settings | {"evaluate_batches": 4})
    norms: list[tuple[int, float, float]] = []

    def watch(info: StepInfo) -> None:
        if info.evaluation is None:
            return
        V = next(module for module in info.model.modules() if isinstance(module, Connectivity))().detach()
        norm, radius = torch.linalg.matrix_norm(V, 2), torch.linalg.eigvals(V).abs().max()
        norms.append((info.step, round(norm.item(), 3), round(radius.item(), 3)))

    row: dict[str, Any] = {"variant": variant, "seed": seed}
    with TemporaryDirectory() as root:
        try:
            result = train(config, root, progress=False, callbacks=[watch])
            row |= {"steps": result.steps, **transfer_copy.STUDY.measure(result.folder)}
        except NonFiniteLoss as error:
            row["diverged"] = str(error).split(";")[0]
    return row | {"step, norm, spectral radius": norms[:: max(1, len(norms) // 20)] + norms[-1:]}


def succeeded(row: dict[str, Any]) -> bool:
    """Whether a network recalls 99% of the symbols at every delay."""
    return all(accuracy >= 0.99 for _, accuracy in row.get("tested", [(0, 0.0)]))


def main() -> None:
    """Train all networks or read their rows, and count those that succeed."""
    parser = option_parser(__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(11, 21)))
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--processes", type=int, default=4, help="trainings side by side on one device")
    parser.add_argument("--rows", type=Path, nargs="+", metavar="FILE", help="files with rows of --one")
    parser.add_argument("--commit", default="unknown", help="commit with which the rows of --rows were made")
    parser.add_argument("--one", nargs=2, metavar=("VARIANT", "SEED"), help="train one network, and print its row")
    options = parser.parse_args()
    if options.one:
        row = run_one(options.one[0], int(options.one[1]), options.device, options.steps)
        print(json.dumps(row | {"environment": environment()}))
        return
    rows = _read(options.rows) if options.rows else _train(options)
    environments = [row.pop("environment") for row in rows]
    found = [each for n, each in enumerate(environments) if each not in environments[:n]]
    for variant in VARIANTS:
        of_variant = [row for row in rows if row["variant"] == variant]
        diverged = sum("diverged" in row for row in of_variant)
        print(f"{variant}: {sum(map(succeeded, of_variant))} of {len(of_variant)} succeed, {diverged} diverge")
    made_by = {"environment": found[0] if len(found) == 1 else found}
    if options.rows:
        one = f"python benchmarks/screened_divergence.py --device {options.device} --steps {options.steps} --one"
        made_by |= {"command": f"{one} VARIANT SEED, for each row", "commit": options.commit}
    write_json(folder(options.keep) / "screened_divergence.json", **made_by, rows=rows)


def _read(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Return the rows that `--one` printed into these files, in the order of seeds and variants."""
    rows = [json.loads(path.read_text().splitlines()[-1]) for path in paths]
    return sorted(rows, key=lambda row: (row["seed"], list(VARIANTS).index(row["variant"])))


def _train(options: Namespace) -> list[dict[str, Any]]:
    """Train all networks in separate processes."""
    one = [sys.executable, __file__, "--device", options.device, "--steps", str(options.steps), "--one"]

    def run(job: tuple[str, int]) -> dict[str, Any]:
        done = subprocess.run([*one, job[0], str(job[1])], check=True, stdout=subprocess.PIPE, text=True)
        row = json.loads(done.stdout.splitlines()[-1])
        print(row["variant"], row["seed"], row.get("tested") or row["diverged"], flush=True)
        return row

    with ThreadPoolExecutor(options.processes) as pool:
        return list(pool.map(run, [(variant, seed) for seed in options.seeds for variant in VARIANTS]))


if __name__ == "__main__":
    main()
