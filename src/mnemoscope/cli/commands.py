"""The commands demo, train and study. Importing them does not import torch.

A command is a dataclass of its arguments; tyro shows the docstrings as help.
"""

from __future__ import annotations

import gc
import json
import shlex
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mnemoscope import registry
from mnemoscope.base.distributed import process_rank
from mnemoscope.base.terminal import printable, shows_progress
from mnemoscope.cli.inspections import print_inspection, program
from mnemoscope.cli.lists import after
from mnemoscope.cli.tyro_types import Positional
from mnemoscope.config import PRESETS, RunConfig
from mnemoscope.config.options import Option

if TYPE_CHECKING:
    from mnemoscope.engines import Engine


@contextmanager
def _without_collection() -> Generator[None]:
    """Pause the search for reference cycles: in a short command it takes a tenth of the time and frees little."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


@dataclass(frozen=True)
class Demo:
    """Train a 3-bit flip-flop network, find its fixed points, and write a page about it.

    A good start: it takes less than half a minute on two cores, and prints the result and the path of the page.
    """

    cell: Literal["elman", "gru", "lstm"] = "elman"
    """Recurrent cell."""
    hidden_size: int = 64
    """Number of units."""
    seed: int = 0
    """Seed of the initial weights and of the batches."""
    root: Path = Path("runs")
    """Folder of all runs. A demo that has finished is not trained again."""
    json: bool = False
    """Print the result as JSON."""

    def run(self) -> int:
        with _without_collection():
            return self._run()

    def _run(self) -> int:
        from mnemoscope.inspection import InspectionOptions, inspect_run
        from mnemoscope.report.markup import check_report_extra
        from mnemoscope.training import train

        check_report_extra()  # the page comes last, after the training
        base = PRESETS["flipflop"]
        config = replace(base, name="demo", cell=self.cell, hidden_size=self.hidden_size, seed=self.seed)
        shown = shows_progress(self.json)
        trained = train(config, self.root, resume=True, progress=shown)
        inspection = inspect_run(trained.folder, options=InspectionOptions(progress=shown))
        facts = {"folder": str(trained.folder), "loss": trained.loss, "seconds": trained.seconds, **trained.scores}
        print_inspection(inspection, inspection.save(), facts, self.json)
        return 0


@dataclass(frozen=True)
class Train:
    """Train a recurrent network on a memory task, or a relational network on a relational task.

    `mnemoscope train [PRESET | FILE.toml] [options]`, in any order. An option that is not given has the value of the
    preset or of the file. Without either, the preset is flipflop, or rmts for a relational task. The folder of the run
    is <root>/<name>/<hash>; a finished run is not repeated.

        mnemoscope train flipflop --cell gru --hidden-size 128
        mnemoscope train copy --task-options delay 100 --seed 1
        mnemoscope train low-rank-context --cell-options rank 1 populations 2
        mnemoscope train --task environment --task-options environment neurogym:PerceptualDecisionMaking-v0
        mnemoscope train runs/flipflop/0123456789/config.toml --resume

    Options of a cell are the arguments of its factory, as `help(mnemoscope.networks.low_rank)` shows them: the vectors
    of the cell low-rank start from one Gaussian population, or from a mixture of as many as `populations` says.

    Several GPUs or machines can train one model; each processes a part of every batch:

        torchrun --nproc-per-node 4 -m mnemoscope train copy --device cuda --batch-size 256

    A relational task holds some shapes out of training (task option m) and tests the network on them; `mnemoscope list
    networks` shows the networks. The preset rmts is the published recipe of four tasks: Adam with a learning rate
    of 5e-4 and 5,000 batches of 96 problems. Other tasks were published with other batches: rmts3 with 192 problems,
    same-different-6 with 384, identity-rules-4 with 224, relational-game with 2,500 batches of 32.

        mnemoscope train --task identity-rules --cell esbn --task-options m 50
        mnemoscope train --task rmts3 --batch-size 192
        mnemoscope train --task relational-game --task-options rule between --steps 2500 --batch-size 32
    """

    run_config: RunConfig
    root: Path = Path("runs")
    """Folder of all runs."""
    resume: bool = False
    """Continue an interrupted run. With the same --threads, the final weights are those of an uninterrupted run."""
    overwrite: bool = False
    """Delete what an earlier run left, and start again."""
    json: bool = False
    """Print the result as JSON."""

    def run(self) -> int:
        from mnemoscope.training import build_task, train

        shown = shows_progress(self.json)
        result = train(self.run_config, self.root, resume=self.resume, overwrite=self.overwrite, progress=shown)
        if process_rank().rank:
            return 0  # rank 0 prints the result
        task = build_task(self.run_config)
        if self.json:
            content = {"folder": str(result.folder), **result.as_json(), "chance": task.chance()}
            content["trivial"] = task.uninformed_scores()
            print(json.dumps(content, indent=2))
            return 0
        scores = ", ".join(f"{name} {value:.4f}" for name, value in result.scores.items())
        chance = task.chance()
        scores += after(f"; accuracy {task.baseline_label} ", "" if chance is None else f"{chance:.4f}")
        scores += after("; ", task.uninformed_summary())
        duration = " (finished before)" if result.cached else f" in {result.seconds:.0f} s"
        guess = f"{task.baseline_label} {result.baseline:.3e}"
        print(printable(f"{result.steps} steps{duration}: loss {result.loss:.3e}, {guess}; {scores}."))
        print(f"Inspect it: {shlex.join([*program(), 'inspect', str(result.folder)])}")
        return 0


@dataclass(frozen=True)
class RunStudy:
    """Run a study: measure a published table or figure again, and compare.

    Every trial has a folder, so that an interrupted study can be resumed.

        mnemoscope study flipflop-cube --preset smoke
        mnemoscope study flipflop-cube --preset cpu --seeds 0 1 2 --resume
        mnemoscope study comparison --preset paper --seeds 0 --device cpu
        mnemoscope study fisher-table --engine-options max_jobs 4
        mnemoscope study fisher-table --engine ray --engine-options address auto
    """

    name: Positional[str]
    """Name of the study; `mnemoscope studies` lists them."""
    preset: str = "cpu"
    """Size of the study. smoke takes seconds; cpu takes minutes on two cores; paper comes as close to the publication
    as possible, often on a GPU. Some studies have other presets, such as published, the exact published recipe, or
    reduced, a smaller one where the published one exceeds our means; the error about an unknown name lists all of
    them."""
    seeds: tuple[int, ...] = ()
    """Seeds to run instead of those of the preset."""
    resume: bool = False
    """Keep the trials that have finished, and run the rest."""
    finished_only: bool = False
    """Run nothing; write the table and the page of the trials that have finished."""
    engine: Literal["local", "ray", "slurm", "here"] = "local"
    """Where to run the trials. local: one process per trial, which share the cores, so that a crash ends only one
    trial. ray, slurm: on a cluster. here: one after the other in this process."""
    engine_options: dict[str, Option] = field(default_factory=dict)
    """Options of the engine in pairs of name and value, such as max_jobs 4 (local), address auto (ray), or partition
    gpu minutes 90 (slurm)."""
    device: Literal["cpu", "cuda"] | None = None
    """Device to train networks on instead of the preset's; the results record it."""
    root: Path = Path("runs")
    """Folder of all runs; the folder of the study is <root>/studies/<name>/<preset>."""
    json: bool = False
    """Print the table as JSON."""

    def run(self) -> int:
        registry.studies[self.name]  # raises on an unknown name before torch is imported
        from mnemoscope.replication import run_study

        result = run_study(
            self.name,
            self.preset,
            self.seeds or None,
            self.root,
            resume=self.resume,
            finished_only=self.finished_only,
            progress=shows_progress(self.json),
            engine=engine_named(self.engine, self.engine_options),
            device=self.device,
        )
        if self.json:
            content = {**asdict(result), "folder": str(result.folder), "page": str(result.page)}
            print(json.dumps(content, indent=2))
            return 1 if result.failed else 0
        for row in result.rows:
            compared = f"published {row.published:14} here {row.ours:14} {row.judgement!s:16} {row.remark}"
            print(printable(f"{row.quantity:40} {compared}"))
        print(f"Page: {result.page}")
        for failed in result.failed:
            print(printable(f"Failed: {failed}"), file=sys.stderr)
        return 1 if result.failed else 0


def engine_named(name: str, options: dict[str, Option]) -> Engine | None:
    """Return the engine of a name with its options; None for "here"."""
    from mnemoscope.engines import build_engine

    if name == "here" and options:
        raise ValueError("--engine here has no options: it runs one trial after the other.")
    return None if name == "here" else build_engine(name, options)
