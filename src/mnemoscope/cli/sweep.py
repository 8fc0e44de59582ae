"""The command `sweep`. Importing it does not import torch."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from mnemoscope.base.terminal import shows_progress
from mnemoscope.cli.commands import engine_named
from mnemoscope.cli.tables import print_error, print_table
from mnemoscope.cli.tyro_types import Suppress
from mnemoscope.config.options import Option
from mnemoscope.config.run_config import RunConfig


@dataclass(frozen=True)
class RunSweep:
    """Train networks with different settings, and find the best settings.

    `mnemoscope sweep [PRESET | FILE.toml] --over FIELD=VALUES ... [options]`. A field is any setting below, with
    underscores, or an option of the task or the cell: hidden_size, cell_options.nonlinearity. The values are a list,
    or a range for methods other than grid:

        0.001,0.003      a list; also text (gru,lstm), true, false, none
        uniform:0:0.5    numbers, uniformly distributed
        log:1e-4:1e-2    numbers, uniform in the logarithm
        integers:16:128  integers; log-integers:16:1024 is uniform in the logarithm

    Method grid runs every combination; random draws --trials of them; tpe, gp, cma-es and qmc are samplers of Optuna
    (extra `sweep`).

        mnemoscope sweep flipflop --over learning_rate=0.001,0.003 hidden_size=32,64 --seeds 0 1
        mnemoscope sweep copy --steps 500 --over learning_rate=log:1e-4:1e-2 cell=gru,lstm --method random --trials 20
        mnemoscope sweep copy --over-file space.toml --method tpe --trials 50 --objective accuracy --name copy-tpe

    space.toml has the form of a configuration of a run, with lists or ranges in place of values:

        learning_rate = "log:1e-4:1e-2"
        [cell_options]
        nonlinearity = ["tanh", "relu"]

    The folder <root>/sweeps/<name> gets one folder per run, a table (summary.json) and a page. `mnemoscope runs --root
    <root>/sweeps/<name>` lists the runs. An interrupted sweep continues with --resume, also with more --trials; no
    finished run is repeated.
    """

    run_config: RunConfig
    over: tuple[str, ...] = ()
    """Fields that vary, each as FIELD=VALUES."""
    over_file: Path | None = None
    """TOML file with more fields that vary."""
    method: Literal["grid", "random", "tpe", "gp", "cma-es", "qmc"] = "grid"
    """Search method."""
    trials: int | None = None
    """Number of points to try; a grid tries all combinations."""
    seeds: tuple[int, ...] = ()
    """Seeds of the runs of each point, over which the objective is averaged; --seed by default."""
    objective: str = "loss"
    """Number to optimise: loss, a score of the task such as accuracy, steps, seconds."""
    direction: Literal["minimise", "maximise"] | None = None
    """Direction of the objective; by default an accuracy is maximised, everything else is minimised."""
    sampling_seed: int = 0
    """Seed of the search."""
    at_a_time: int = 4
    """Number of points that Optuna proposes before it receives their results: as many as can run in parallel."""
    storage: str | None = None
    """Database for the state of Optuna, such as sqlite:///sweeps.db; by default a journal in the sweep's folder."""
    resume: bool = False
    """Keep the runs that have ended, and run the rest."""
    engine: Literal["local", "ray", "slurm", "here"] = "local"
    """Where to run, as in `mnemoscope study`."""
    engine_options: dict[str, Option] = field(default_factory=dict)
    """Options of the engine in pairs of name and value, such as max_jobs 4 (local), address auto (ray), or partition
    gpu minutes 90 (slurm)."""
    root: Path = Path("runs")
    """Folder of all runs."""
    json: bool = False
    """Print the result as JSON."""
    command: Suppress[str] = ""

    def run(self) -> int:
        from mnemoscope.sweeps import Sweep, parse_space, read_space, run_sweep

        over = parse_space(self.over)
        for name, values in (read_space(self.over_file) if self.over_file is not None else {}).items():
            if name in over:
                raise ValueError(f"{name} is given both by --over and in {self.over_file}.")
            over[name] = values
        sweep = Sweep(
            self.run_config,
            over,
            self.method,
            self.trials,
            self.seeds or (self.run_config.seed,),
            self.objective,
            self.direction,
            self.sampling_seed,
            self.at_a_time,
        )
        chosen = engine_named(self.engine, self.engine_options)
        result = run_sweep(
            sweep,
            self.root,
            resume=self.resume,
            storage=self.storage,
            progress=shows_progress(self.json),
            engine=chosen,
            command=self.command,
        )
        if self.json:
            print(json.dumps(result.as_json(), indent=2))
        else:
            print_table(result.table())
            reused = f", {result.reused} of them from before" if result.reused else ""
            print(f"{result.runs - len(result.failed)} of {result.runs} runs{reused}.")
            if result.best_folder is not None:
                print(f"Inspect the best run: mnemoscope inspect {result.best_folder}")
            print(f"Page: {result.page}")
        for message in (*(f"Failed: {failure}" for failure in result.failed), *result.problems):
            print_error(message)
        return 1 if result.failed else 0
