"""Attack Mnemoscope, and print for each kind of attack how many were tried, survived and failed.

    make soak                                            all attacks, and the table in docs/reliability.md
    python -m tools.soak --scale 0.1                     a tenth of the cases
    python -m tools.soak --only kills-of-training        one kind
    python -m tools.soak --only threads --seed 7 --case 3    one case again

The folder of a failed case is kept in build/reliability, with its traceback and the command that repeats it.
"""

from __future__ import annotations

import os
import sys

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported: a process with threads cannot be forked safely

import torch
from tools.reliability import Check, main
from tools.soak.commands import fuzz_command_line, fuzz_configuration
from tools.soak.faults import SEARCHES, THREADS, fill_disk, read_only, search_often, train_in_threads
from tools.soak.files import damage_artefact, hostile_pickle
from tools.soak.kills import kill_study, kill_sweep, kill_training, start_twice
from tools.soak.pages import inject_markup

ATTACKS = (
    Check("kills-of-training", "a training is killed at random moments and resumed", kill_training, 60),
    Check("kills-of-study", "a study is killed at random moments and resumed", kill_study, 20),
    Check("kills-of-sweep", "a sweep is killed at random moments and resumed", kill_sweep, 30),
    Check("starters", "two or three processes start the same training, study or sweep", start_twice, 30),
    Check("full-disk", "the disk becomes full during a training, which is then resumed", fill_disk, 20),
    Check("read-only", "every command on a read-only disk", read_only, 4),
    Check("threads", "eight trainings in threads of one process", train_in_threads, 63, THREADS),
    Check("command-lines", "random words, options and values on the command line", fuzz_command_line, 2000),
    Check("configurations", "random settings in a .toml file", fuzz_configuration, 500),
    Check("artefacts", "a damaged file of a run, a study, a sweep or a result is read", damage_artefact, 500),
    Check("pickles", "a file of weights that would execute code", hostile_pickle, 60),
    Check("markup", "names and texts with markup in a page, opened in a browser", inject_markup, 16),
    Check("memory", "searches for fixed points in one process", search_often, 1, SEARCHES),
)
"""One line for each kind of attack."""

if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main("tools.soak", ATTACKS, __doc__, None))
