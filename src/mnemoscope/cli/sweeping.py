"""The command that sweeps. No torch at import."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from mnemoscope.cli.commands import engine_named
from mnemoscope.cli.tables import print_table
from mnemoscope.config.options import Option
from mnemoscope.config.run_config import RunConfig

if TYPE_CHECKING:
    from tyro.conf import Suppress
else:
    try:
        from tyro.conf import Suppress
    except ImportError:  # main says what to install
        Suppress = dict[TypeVar("T"), str]


@dataclass(frozen=True)
class RunSweep:
    """Train a network for every choice of values of some settings, and show which choice is best.

    `mnemoscope sweep [PRESET | FILE.toml] --over FIELD=VALUES ... [options]`. A field is any option below, with
    underscores, or an option of the task or the cell: hidden_size, cell_options.nonlinearity. Values are a list, or a
    range for the methods that choose themselves:

        0.001,0.003      these; also words (gru,lstm), true, false, none
        uniform:0:0.5    any number between
        log:1e-4:1e-2    the same, evenly in the logarithm
        integers:16:128  any whole number; log-integers:16:1024

    grid runs every combination, random draws --trials of them; tpe, gp, cma-es and qmc are Optuna's (extra `sweep`).

        mnemoscope sweep flipflop --over learning_rate=0.001,0.003 hidden_size=32,64 --seeds 0 1
        mnemoscope sweep copy --steps 500 --over learning_rate=log:1e-4:1e-2 cell=gru,lstm --method random --trials 20
        mnemoscope sweep copy --over-file space.toml --method tpe --trials 50 --objective accuracy --name copy-tpe

    space.toml looks like the configuration of a run, with lists or ranges in place of values:

        learning_rate = "log:1e-4:1e-2"
        [cell_options]
        nonlinearity = ["tanh", "relu"]

    Runs live in <root>/sweeps/<name>/<hash of the configuration>, with a table (summary.json) and a page of all of
    them; `mnemoscope runs --root <root>/sweeps/<name>` and `mnemoscope inspect` read them. What was killed goes on with
    --resume, also with more --trials: nothing finished is run twice.
    """

    run_config: RunConfig
    over: tuple[str, ...] = ()
    """What varies: FIELD=VALUES, as many as wanted."""
    over_file: Path | None = None
    """More of the same, in a TOML file."""
    method: Literal["grid", "random", "tpe", "gp", "cma-es", "qmc"] = "grid"
    """How values are chosen."""
    trials: int | None = None
    """Choices of values to try; a grid has its own number."""
    seeds: tuple[int, ...] = ()
    """Seeds with which each choice is run, and over which the objective is averaged; --seed by default."""
    objective: str = "loss"
    """What counts: loss, a score of the task such as accuracy, steps, seconds."""
    direction: Literal["minimise", "maximise"] | None = None
    """Which way is better; by default an accuracy is maximised, everything else minimised."""
    sampling_seed: int = 0
    """Seed of the choice of values."""
    at_a_time: int = 4
    """Choices that Optuna makes before it is told how they went: as many as can run at the same time."""
    storage: str | None = None
    """Database for Optuna, such as sqlite:///sweeps.db; by default a journal in the folder of the sweep."""
    resume: bool = False
    """Keep the runs that have ended, run the rest."""
    engine: Literal["local", "ray", "slurm", "here"] = "local"
    """Where runs are done, as of `mnemoscope study`."""
    engine_options: dict[str, Option] = field(default_factory=dict)
    """Of the engine, such as max_jobs 4 (local), address auto (ray), or partition gpu minutes 90 (slurm)."""
    root: Path = Path("runs")
    """Folder of all runs."""
    json: bool = False
    """Print everything as JSON."""
    command: Suppress[str] = ""

    def run(self) -> int:
        from mnemoscope.sweeps import Sweep, parse_space, read_space, run_sweep

        over = parse_space(self.over)
        for name, values in (read_space(self.over_file) if self.over_file is not None else {}).items():
            if name in over:
                raise ValueError(f"{name} is given by --over and in {self.over_file}.")
            over[name] = values
        sweep = Sweep(
            self.run_config, over, self.method, self.trials, self.seeds or (self.run_config.seed,), self.objective,
            self.direction, self.sampling_seed, self.at_a_time,
        )  # fmt: skip
        chosen = engine_named(self.engine, self.engine_options)
        result = run_sweep(
            sweep, self.root, resume=self.resume, storage=self.storage, progress=not self.json, engine=chosen,
            command=self.command,
        )  # fmt: skip
        if self.json:
            print(json.dumps(result.as_json(), indent=2))
        else:
            print_table(result.table())
            known = f", {result.reused} of them from before" if result.reused else ""
            print(f"{result.runs - len(result.failed)} of {result.runs} runs{known}.")
            best = result.as_json()["best"]
            if best is not None:
                print(f"Look at the best: mnemoscope inspect {best['folder']}")
            print(f"Page: {result.page}")
        for words in (*(f"Failed: {one}" for one in result.failed), *result.problems):
            print(words, file=sys.stderr)
        return 1 if result.failed else 0
