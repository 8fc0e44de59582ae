"""Train for some steps on two environments of neurogym; `test_neurogym.py` runs it where neurogym is installed.

    python neurogym_training.py FOLDER

Prints the loss, the baseline and the names of conditions and epochs of each, as JSON.
"""

import json
import sys
from dataclasses import dataclass
from typing import Any

import mnemoscope as ms
from mnemoscope.registry import Entry, tasks
from mnemoscope.tasks import EnvironmentTask


@dataclass(frozen=True)
class Dots(EnvironmentTask):
    """Random dots of neurogym."""

    environment: Any = "neurogym:PerceptualDecisionMaking-v0"


@dataclass(frozen=True)
class Match(EnvironmentTask):
    """Delayed match to sample of neurogym."""

    environment: Any = "neurogym:DelayMatchSample-v0"


def main() -> None:
    """Train on both tasks, and print the results."""
    found = {}
    for task in (Dots, Match):
        name = task.__name__.lower()
        tasks.add(
            Entry(name, task.__doc__ or "", "neurogym", f"neurogym_training:{task.__name__}", (), ("mnemoscope",))
        )
        config = ms.RunConfig(
            name, task=name, cell="gru", hidden_size=16, steps=60, batch_size=16, learning_rate=0.01, evaluate_every=30
        )
        run = ms.train(config, root=sys.argv[1], progress=False)
        table = task().trials(4, seed=0, number=0).table
        epochs = [epoch.name for epoch in table.epochs]
        found[name] = {"loss": run.loss, "baseline": run.baseline, "conditions": table.names, "epochs": epochs}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
