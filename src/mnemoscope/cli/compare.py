"""The command compare: distances between trained runs. Importing it does not import torch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mnemoscope.base.terminal import printable
from mnemoscope.cli.tyro_types import Positional


@dataclass(frozen=True)
class CompareRuns:
    """Measure whether trained networks compute in the same way.

    All networks run the same trials of their task. The command prints the distance of each pair, and whether it shows
    that the two are the same, related or unrelated. Runs of the same cell and size form a group.

        mnemoscope compare runs/flipflop/0123456789 runs/flipflop/abcdef0123
        mnemoscope compare runs/flipflop/* --method input-dsa --figure comparison.png --out comparison.html
        mnemoscope compare runs/copy/* runs/flipflop/* --inputs own
        mnemoscope compare runs/context-decision/* --method topology --condition context --epoch delay

    dsa compares dynamics; input-dsa dynamics and the effect of inputs; procrustes and cka the states in the same
    trials; topology the fixed points at constant inputs. docs/compare.md explains what each can and cannot see.
    """

    runs: Positional[tuple[Path, ...]]
    """Folders of two or more runs."""
    method: Literal["dsa", "input-dsa", "procrustes", "cka", "topology"] = "dsa"
    """Method of comparison."""
    inputs: Literal["trials", "grid", "own"] = "trials"
    """"trials": random trials of the task, the same for all networks. "grid": each condition of a trial-based task
    once, without noise. "own": every network runs trials of the task it was trained on (dsa and input-dsa)."""
    trials: int = 40
    """Number of random trials."""
    condition: tuple[str, ...] = ()
    """Topology: conditions of the task, such as context. Fixed points belong to the mean input of each of their values.
    By default those that the page of a run analyses; 0 for a task without conditions."""
    epoch: str | None = None
    """Topology: epoch of the trials over which inputs are averaged, such as delay."""
    score: Literal["angular", "euclidean", "wasserstein"] | None = None
    """Score of a pair; wasserstein compares the eigenvalues of dsa. By default angular."""
    delays: int | None = None
    """Delays of dsa, and past steps of input-dsa. By default 10, or a third of the shortest trial."""
    rank: int | None = None
    """Coordinates of dsa and input-dsa. By default as many as lie above noise, 10 at most."""
    draws: int = 20
    """Number of surrogates and of random halves with which distances are compared; 0 for distances alone."""
    seed: int = 0
    """Seed of trials, surrogates and searches."""
    figure: Path | None = None
    """File of the figure, such as comparison.png."""
    out: Path | None = None
    """File of a page with the figure, all pairs and the sources, such as comparison.html."""
    json: bool = False
    """Print the result as JSON."""

    def run(self) -> int:
        from mnemoscope.cli.run_inputs import draw_trials, mean_inputs
        from mnemoscope.lenses import compare
        from mnemoscope.training import load_model

        if len(self.runs) < 2:
            raise ValueError(f"A comparison needs two runs or more, but {len(self.runs)} was given.")
        topology = self.method == "topology"
        self._check_options(topology)
        loaded = [load_model(folder) for folder in self.runs]
        if topology:
            given = mean_inputs(self.runs, loaded, self.condition, self.epoch)
        else:
            given = draw_trials(self.runs, loaded, self.inputs, self.trials, self.seed)
        result = compare(
            [model.cell if topology else model for model, _, _ in loaded],
            given.inputs,
            method=self.method,
            names=self._names(),
            groups=[f"{config.cell} {config.hidden_size}" for _, _, config in loaded],
            score=self.score,
            delays=self.delays,
            rank=self.rank,
            lengths=given.lengths,
            draws=self.draws,
            seed=self.seed,
        )
        if self.figure is not None:
            result.figure().savefig(self.figure)
        if self.out is not None:
            from mnemoscope.report.comparison import write_comparison_page

            write_comparison_page(result, self.out, self._command())
        if self.json:
            print(json.dumps({"summary": result.summary(), **result.to_dict()}, indent=2))
            return 0
        if given.names:
            print(printable(f"Fixed points at the mean input of: {', '.join(given.names)}."))
        for (first, second), verdict in result.verdicts.items():
            distance = float(result.distances[result.names.index(first), result.names.index(second)])
            print(printable(f"{first:12} {second:12} {distance:8.3f}  {verdict}"))
        print(printable(result.summary()))
        return 0

    def _check_options(self, topology: bool) -> None:
        if not topology and (self.condition or self.epoch is not None):
            raise ValueError("--condition and --epoch belong to --method topology; omit them.")
        if self.inputs == "own" and self.method not in ("dsa", "input-dsa"):
            raise ValueError(f"--inputs own suits dsa and input-dsa only, but the method is {self.method}.")

    def _names(self) -> list[str]:
        """Return the names of the folders, with their paths where names repeat."""
        names = [folder.name for folder in self.runs]
        return names if len(set(names)) == len(names) else [str(folder) for folder in self.runs]

    def _command(self) -> str:
        """Return the command line that makes the page again."""
        given: dict[str, Any] = {"method": self.method, "inputs": self.inputs, "trials": self.trials}
        given |= {
            "draws": self.draws,
            "condition": " ".join(self.condition) or None,
            "epoch": self.epoch,
            "score": self.score,
        }
        given |= {"delays": self.delays, "rank": self.rank, "seed": self.seed, "out": self.out}
        options = " ".join(f"--{name} {value}" for name, value in given.items() if value is not None)
        return f"mnemoscope compare {' '.join(map(str, self.runs))} {options}"
