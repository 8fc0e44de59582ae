"""One network on the twenty tasks of Yang et al. 2019: accuracy by task, task variance and clusters of units.

    python benchmarks/multi_task.py --keep                                    the preset, minutes on one core
    python benchmarks/multi_task.py --keep --network relu --device cuda       leaky units without negative rates
    python benchmarks/multi_task.py --keep --network relu --run FOLDER        the same of a run that exists

Accuracies are those on fresh test trials with noise. The task variance is measured on noiseless trials: every stimulus
angle and choice of every task, with the durations of epochs at their means.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

import mnemoscope as ms
from common import figures, folder, option_parser, write_json
from mnemoscope.config import PRESETS, RunConfig
from mnemoscope.config.run_config import changed
from mnemoscope.lenses import TaskVariance
from mnemoscope.tasks.cognitive import MultiTask
from mnemoscope.tasks.cognitive.yang_rules import RULES
from mnemoscope.training import RunFolder, load_model

TRIALS = 500
"""Test trials of each task."""
RELU = {
    "name": "multi-task-relu",
    "cell": "leaky-rnn",
    "hidden_size": 256,
    "cell_options": {"nonlinearity": "relu", "form": "rate", "leak": 0.5, "input_scale": 0.3},
    "batch_size": 256,
    "learning_rate": 0.002,
    "steps": 3100,
    "evaluate_every": 500,
}
"""Settings of the network of leaky units that differ from the preset."""


def configuration(network: str, steps: int | None, device: str) -> RunConfig:
    """Return the training of one of the networks."""
    changes = {"device": device, **(RELU if network == "relu" else {}), **({} if steps is None else {"steps": steps})}
    return changed(PRESETS["multi-task"], changes)


@torch.no_grad()
def accuracies(model: ms.Model, task: MultiTask) -> dict[str, float]:
    """Return the share of right trials of each task."""
    found = {}
    for rule in RULES:
        alone = MultiTask(step=task.step, rules=rule.name)
        batch = alone.batch(TRIALS, 0, 0, "test")
        found[rule.name] = round(alone.scores(model(batch.inputs)[0], batch)["accuracy"], 3)
    return found


def variances(model: ms.Model, task: MultiTask) -> TaskVariance:
    """Return the task variance of the units that the readout sees."""
    trials = task.grid()
    recording = ms.record_activity(model, trials.batch.inputs, trials.table, units="output", lengths=trials.lengths)
    return ms.task_variance(recording, by="rule", most_clusters=30, noiseless=True)


def main() -> None:
    """Train one of the networks and measure it."""
    parser = option_parser(__doc__)
    parser.add_argument("--network", choices=["preset", "relu"], default="preset", help="which network to train")
    parser.add_argument("--steps", type=int, help="training steps, if not those of the preset")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="device of the training")
    parser.add_argument("--run", type=Path, help="folder of a finished run, which is measured instead of a new one")
    options = parser.parse_args()
    with TemporaryDirectory() as root:
        trained = options.run
        if trained is None:
            trained = ms.train(
                configuration(options.network, options.steps, options.device), root, progress=False
            ).folder
        model, task, config = load_model(trained)
        result, machine = RunFolder(trained).read_result(), json.loads((trained / "env.json").read_text())
    assert isinstance(task, MultiTask)
    minutes = result.seconds / 60
    accuracy, found = accuracies(model, task), variances(model, task)
    print(f"{minutes:.1f} minutes, mean accuracy {sum(accuracy.values()) / len(accuracy):.3f}")
    print(accuracy)
    print(found.summary())
    name = folder(options.keep) / f"multi_task_{options.network}"
    figure = figures(options.keep) / f"multi-task-{options.network}.png"
    found.figure().savefig(figure, dpi=110, bbox_inches="tight")
    assert found.scores is not None
    assert found.null is not None
    write_json(
        name.with_suffix(".json"),
        configuration={key: value for key, value in vars(config).items() if value not in (None, ())},
        trained_on=machine,
        minutes=round(minutes, 2),
        loss=round(result.loss, 5),
        baseline=round(result.baseline, 5),
        accuracy=accuracy,
        summary=found.summary(),
        units=int(found.active.sum()),
        silhouettes={number: round(float(score), 3) for number, score in enumerate(found.scores, start=2)},
        without_clusters=[
            round(float(each), 3) for each in found.null.quantile(torch.tensor([0.025, 0.5, 0.975]).double())
        ],
        probability=found.probability,
    )


if __name__ == "__main__":
    main()
