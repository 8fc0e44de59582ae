"""Task variance of units, and clusters of units that are active in the same tasks (Yang et al. 2019)."""

from mnemoscope.lenses.unit_clusters.lens import task_variance as task_variance
from mnemoscope.lenses.unit_clusters.result import TaskVariance as TaskVariance
