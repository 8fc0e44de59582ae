"""Sweeps over any fields of a run: a grid, a random choice, or Optuna's samplers, by any engine.

sweep = Sweep(PRESETS["flipflop"], space(["learning_rate=log:1e-4:1e-2"]), "random", trials=20)
print(run_sweep(sweep, engine=engine("local")).best)
"""

from mnemoscope.sweeps.methods import METHODS
from mnemoscope.sweeps.results import PointResult, SweepResult
from mnemoscope.sweeps.running import run_sweep
from mnemoscope.sweeps.search_space import Choices, Integers, Uniform, distribution, space, space_of_file
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
    "distribution",
    "run_sweep",
    "space",
    "space_of_file",
]
