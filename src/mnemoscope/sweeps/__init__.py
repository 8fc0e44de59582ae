"""Sweeps over any fields of a run: grid search, random search or samplers of Optuna, on any engine.

sweep = Sweep(PRESETS["flipflop"], parse_space(["learning_rate=log:1e-4:1e-2"]), "random", trials=20)
print(run_sweep(sweep, engine=build_engine("local")).best)
"""

from mnemoscope.sweeps.methods import METHODS
from mnemoscope.sweeps.results import PointResult, SweepResult
from mnemoscope.sweeps.runner import run_sweep
from mnemoscope.sweeps.search_space import Choices, Integers, Uniform, parse_distribution, parse_space, read_space
from mnemoscope.sweeps.sweep import Point, Sweep

__all__ = [
    "METHODS",
    "Choices",
    "Integers",
    "Point",
    "PointResult",
    "Sweep",
    "SweepResult",
    "Uniform",
    "parse_distribution",
    "parse_space",
    "read_space",
    "run_sweep",
]
