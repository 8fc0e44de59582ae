"""The result of the lens on task variance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.base.plurals import pluralise
from mnemoscope.lenses.result import Result
from mnemoscope.lenses.unit_clusters.reference import normalised


@dataclass(frozen=True, repr=False)
class TaskVariance(Result):
    """The variance of units in tasks, and clusters of units with similar profiles."""

    noun: ClassVar[str] = "the task variance of units"
    drawn_by: ClassVar[str] = "draw_task_variance"

    tasks: tuple[str, ...]
    variance: Float[Tensor, "units tasks"]
    """Variance of each unit between the trials or conditions of each task, averaged over time."""
    active: Bool[Tensor, " units"]
    """Units that are clustered; the others are silent, or missing in a task."""
    corrected: bool
    """Whether the noise of single trials was subtracted."""
    clusters: Int[Tensor, " units"] | None = None
    """Cluster of each unit, 0 the largest, -1 for those that are not clustered; None with too few units or tasks."""
    scores: Float[Tensor, " numbers"] | None = None
    """Silhouette of 2, 3, ... clusters."""
    null: Float[Tensor, " references"] | None = None
    """Best silhouettes of data without clusters."""
    noiseless: bool = False
    """Whether the trials have no noise that could have been subtracted."""

    @property
    def normalised(self) -> Float[Tensor, "active tasks"]:
        """Variance of the active units, divided by the largest of each unit."""
        return normalised(self.variance[self.active])

    @property
    def number(self) -> int:
        """Number of clusters with the largest silhouette; 0 if none was computed."""
        return 0 if self.scores is None else int(self.scores.argmax()) + 2

    @property
    def probability(self) -> float | None:
        """Share of references without clusters whose silhouette is as large, the data counted as one."""
        if self.null is None or self.scores is None:
            return None
        return (1 + int((self.null >= self.scores.max()).sum())) / (1 + len(self.null))

    @property
    def order(self) -> Int[Tensor, " active"]:
        """The active units ordered by cluster, then by the task in which they vary most."""
        units = self.active.nonzero().flatten()
        clusters = torch.zeros(len(units), dtype=torch.int64) if self.clusters is None else self.clusters[units]
        best = self.normalised.argmax(1)
        return units[(clusters * len(self.tasks) + best).argsort(stable=True)]

    def summary(self) -> str:
        units, active = len(self.active), int(self.active.sum())
        noise = "" if self.corrected or self.noiseless else ", with the noise of trials if they have any"
        verb = "varies" if active == units == 1 else "vary"
        text = f"{active} of {pluralise(units, 'unit')} {verb} in {pluralise(len(self.tasks), 'task')}{noise}."
        if self.scores is None or self.clusters is None:
            return f"{text} Clusters need at least 4 such units and 2 tasks."
        sizes = ", ".join(str(int(size)) for size in torch.bincount(self.clusters[self.active]))
        text += f" The best of 2 to {len(self.scores) + 1} clusters are {self.number}, of {sizes} units "
        text += f"(silhouette {float(self.scores.max()):.2f})."
        if self.null is None:
            return f"{text} Whether data without clusters would do as well was not tested."
        beside = f"{float(self.null.median()):.2f} in data without clusters, p = {self.probability:.2g}"
        if (self.probability or 0) < 0.05:
            return f"{text} They are better than chance ({beside})."
        return f"{text} They are not better than chance ({beside}): read them as a summary, not as groups."
