"""The cells of an arena's table, and the runs in them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import mean, stdev

from mnemoscope.replication.means import mean_interval

CONFIDENCE = "95% confidence interval by Student's t, for three seeds or more"
"""Name of the intervals of the table."""


@dataclass(frozen=True)
class TrainedRun:
    """One finished run of an arena."""

    network: str
    task: str
    seed: int
    learning_rate: float
    hidden_size: int
    parameters: int
    """Trainable numbers of the whole model, with embedding and readout."""
    state: int
    """Numbers in the state at the end of a training sequence; a complex number counts as two."""
    hash: str
    """Name of the run's folder."""
    environment: int
    """Position among the environments of the table."""
    accuracy: float | None = None
    """Accuracy on held-out sequences after training; None if the run did not stay finite."""
    loss: float | None = None
    steps: int | None = None
    seconds: float | None = None
    """Time of the training, without interruptions."""
    joules: float | None = None
    """This run's share of the energy that the GPU reports; None if it reports none."""
    longer: tuple[float, ...] = ()
    """Accuracy at each of the task's longer spans."""
    curve: tuple[float, ...] = ()
    """Accuracy at every evaluation during training; the last one is `accuracy`. Runs of the tuning have none here."""


@dataclass(frozen=True)
class ArenaCell:
    """A cell of the table: one network on one task."""

    network: str
    task: str
    runs: tuple[TrainedRun, ...]
    """Runs with the seeds of the table, also those that did not stay finite."""
    expected: int
    """Number of seeds of the table."""
    chance: float | None
    """Accuracy of the best predictor without memory; None if the task does not give it."""
    spans: tuple[int, ...] = ()
    """Longer spans at which the runs were evaluated."""
    reason: str = ""
    """Why the cell is empty; "" if it is not."""
    untrainable: bool = False
    """Whether the cell is empty because no learning rate of the tuning stayed finite."""

    @property
    def accuracies(self) -> list[float]:
        """Accuracy of each seed. A run that did not stay finite counts at chance, or at 0 if chance is not known.

        Leaving such runs out would flatter networks that often diverge.
        """
        return [(self.chance or 0.0) if run.accuracy is None else run.accuracy for run in self.runs]

    @property
    def accuracy(self) -> float | None:
        """Mean of `accuracies`; None without any run."""
        return mean(self.accuracies) if self.accuracies else None

    @property
    def spread(self) -> float | None:
        """Standard deviation over the seeds; None for fewer than two."""
        return stdev(self.accuracies) if len(self.accuracies) > 1 else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Interval of the mean (`CONFIDENCE`); None for fewer than three seeds, which give no useful one."""
        return mean_interval(self.accuracies, (0.0, 1.0)) if len(self.accuracies) > 2 else None

    @property
    def reach(self) -> float | None:
        """Half-width of the interval of the mean before it is cut off; None for fewer than three seeds."""
        if self.accuracy is None or len(self.accuracies) < 3:
            return None
        return mean_interval(self.accuracies)[1] - self.accuracy

    @property
    def skill(self) -> float | None:
        """Accuracy on a scale on which chance is 0 and no error is 1; None without accuracy, or a chance below 1.

        It is 0 if no learning rate of the tuning stayed finite.
        """
        if self.chance is None or self.chance == 1:
            return None
        if self.accuracy is None:
            return 0.0 if self.untrainable else None
        return (self.accuracy - self.chance) / (1 - self.chance)

    @property
    def skills(self) -> list[float]:
        """Skill of each seed; empty where `skill` is None."""
        if self.chance is None or self.chance == 1:
            return []
        return [(value - self.chance) / (1 - self.chance) for value in self.accuracies]

    @property
    def diverged(self) -> int:
        """Number of runs that did not stay finite."""
        return sum(run.accuracy is None for run in self.runs)

    @property
    def parameters(self) -> int | None:
        return self.runs[0].parameters if self.runs else None

    @property
    def state(self) -> int | None:
        return self.runs[0].state if self.runs else None

    @property
    def learning_rate(self) -> float | None:
        return self.runs[0].learning_rate if self.runs else None

    @property
    def seconds(self) -> float | None:
        """Mean training time of a run."""
        return mean_of_known(run.seconds for run in self.runs)

    @property
    def joules(self) -> float | None:
        """Mean energy of a run; None unless all runs have one."""
        values = [run.joules for run in self.runs if run.accuracy is not None]
        return None if not values or None in values else mean_of_known(values)

    @property
    def longer(self) -> dict[int, float]:
        """Mean accuracy at each longer span; empty if a run did not stay finite, as it has none."""
        evaluated = [] if self.diverged else [run.longer for run in self.runs if run.longer]
        return {span: mean(values) for span, values in zip(self.spans, zip(*evaluated, strict=True), strict=False)}

    def remarks(self) -> list[str]:
        """Return what a reader must know about the cell besides its numbers."""
        missing = self.expected - len(self.runs)
        verb = "count" if self.diverged > 1 else "counts"
        counts = f"{verb} at 0" if self.chance is None else f"{verb} at chance"
        return [
            *([self.reason] if self.reason else []),
            *([f"{self.diverged} of {len(self.runs)} runs did not stay finite and {counts}"] if self.diverged else []),
            *([f"{len(self.runs)} of {self.expected} seeds"] if self.runs and missing else []),
        ]


def mean_of_known(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are not None; None without any."""
    known = [value for value in values if value is not None]
    return mean(known) if known else None
