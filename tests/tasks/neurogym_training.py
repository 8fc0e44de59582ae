"""Train for some steps on two environments of neurogym; `test_neurogym.py` runs it where neurogym is installed.

    python neurogym_training.py FOLDER

Prints the loss, the baseline and the names of conditions and epochs of each, as JSON.
"""

import json
import sys

import mnemoscope as ms
from mnemoscope.tasks import EnvironmentTask

IDS = {"dots": "neurogym:PerceptualDecisionMaking-v0", "match": "neurogym:DelayMatchSample-v0"}


def main() -> None:
    """Train on both tasks, and print the results."""
    found = {}
    for name, environment in IDS.items():
        config = ms.RunConfig(
            name,
            task="environment",
            task_options={"environment": environment},
            cell="gru",
            hidden_size=16,
            steps=60,
            batch_size=16,
            learning_rate=0.01,
            evaluate_every=30,
        )
        run = ms.train(config, root=sys.argv[1], progress=False)
        table = EnvironmentTask(environment).trials(4, seed=0, number=0).table
        epochs = [epoch.name for epoch in table.epochs]
        found[name] = {"loss": run.loss, "baseline": run.baseline, "conditions": table.names, "epochs": epochs}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
