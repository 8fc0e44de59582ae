"""The command compare: distances between trained runs. Importing it does not import torch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mnemoscope.base.terminal import printable
from mnemoscope.cli.tyro_types import Positional


@dataclass(frozen=True)
class CompareRuns:
    """Measure whether trained networks compute in the same way.

    All networks run the same trials, those of the first run's task. The command prints the distance of each pair, and
    whether it shows that the two are the same, related or unrelated. Runs of the same cell and size form a group.

        mnemoscope compare runs/flipflop/0123456789 runs/flipflop/abcdef0123
        mnemoscope compare runs/flipflop/* --method topology
        mnemoscope compare runs/flipflop/* --figure comparison.png --out comparison.html

    dsa compares dynamics; input-dsa dynamics and the effect of inputs; procrustes and cka the states in the same
    trials; topology the fixed points without input. docs/compare.md explains what each of them can and cannot see.
    """

    runs: Positional[tuple[Path, ...]]
    """Folders of two or more runs."""
    method: Literal["dsa", "input-dsa", "procrustes", "cka", "topology"] = "dsa"
    """Method of comparison."""
    trials: int = 40
    """Number of trials of the task."""
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
        from mnemoscope.lenses import compare
        from mnemoscope.training import load_model

        loaded = [load_model(folder) for folder in self.runs]
        batch = loaded[0][1].batch(self.trials, self.seed, 0, "test") if loaded else None
        topology = self.method == "topology"
        result = compare(
            [model.cell if topology else model for model, _, _ in loaded],
            None if topology or batch is None else batch.inputs,
            method=self.method,
            names=[folder.name for folder in self.runs],
            groups=[f"{config.cell} {config.hidden_size}" for _, _, config in loaded],
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
        for (first, second), verdict in result.verdicts.items():
            distance = float(result.distances[result.names.index(first), result.names.index(second)])
            print(printable(f"{first:12} {second:12} {distance:8.3f}  {verdict}"))
        print(printable(result.summary()))
        return 0

    def _command(self) -> str:
        """Return the command line that makes the page again."""
        options = f"--method {self.method} --trials {self.trials} --draws {self.draws} --seed {self.seed}"
        return f"mnemoscope compare {' '.join(map(str, self.runs))} {options} --out {self.out}"
