"""Sweeps over any fields of a run: grid search, random search or samplers of Optuna, on any engine.

sweep = Sweep(PRESETS["flipflop"], parse_space(["learning_rate=log:1e-4:1e-2"]), "random", trials=20)
print(run_sweep(sweep, engine=build_engine("local")).best)
"""

from mnemoscope.sweeps.methods import METHODS as METHODS
from mnemoscope.sweeps.results import PointResult as PointResult, SweepResult as SweepResult
from mnemoscope.sweeps.runner import run_sweep as run_sweep
from mnemoscope.sweeps.search_space import (
    Choices as Choices,
    Integers as Integers,
    Uniform as Uniform,
    parse_distribution as parse_distribution,
    parse_space as parse_space,
    read_space as read_space,
)
from mnemoscope.sweeps.sweep import Point as Point, Sweep as Sweep
