"""Train many networks of the study binding-table at once, then measure each as the study does.

`python tools/train_binding_table.py --root runs "T2, 128 units, L2 0,"` trains the networks of this cell and writes
their trials; `mnemoscope study binding-table --preset paper --root runs --resume` then summarises all that are there.
Without names, it trains all cells one after another.
"""

from __future__ import annotations

import argparse
from itertools import groupby
from pathlib import Path

from mnemoscope.config.run_config import RunConfig
from mnemoscope.replication.runner import run_trial
from mnemoscope.replication.study import Trial
from mnemoscope.replication.trial_files import study_folder, trial_file
from mnemoscope.studies.karuvally2023.binding_table import STUDY
from mnemoscope.studies.karuvally2023.stacked_training import train_stacked


def main() -> None:
    """Read the command line, train and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=[""], help='beginnings of names of trials, such as "T2, 64 units"')
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--seeds", nargs="*", type=int, help="default: those of the preset")
    parser.add_argument("--root", default="runs")
    arguments = parser.parse_args()
    preset = STUDY.presets[arguments.preset]
    folder = study_folder(STUDY, arguments.preset, arguments.root)
    grid = STUDY.trials(preset.settings, preset.seeds if arguments.seeds is None else arguments.seeds)
    chosen = [trial for trial in grid if trial.name.startswith(tuple(arguments.names))]
    missing = [trial for trial in chosen if not trial_file(folder, trial).exists()]
    for cell, trials in groupby(sorted(missing, key=_cell), key=_cell):
        group = [*trials]
        print(f"{cell}: {len(group)} networks", flush=True)
        configs, roots = [RunConfig(**trial.settings) for trial in group], [folder / trial.hash for trial in group]
        results = train_stacked(configs, roots)
        print(f"{sum(result.seconds for result in results):.0f} s", flush=True)
        for trial in group:
            run_trial(STUDY.name, arguments.preset, trial.seed, trial.hash, str(Path(arguments.root)))


def _cell(trial: Trial) -> str:
    """Return the task, the size and the device: such networks are trained at once, whatever their L2."""
    return f"{', '.join(trial.name.split(', ')[:2])}, {trial.settings['device']}"


if __name__ == "__main__":
    main()
