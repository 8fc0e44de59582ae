"""Accuracy on shapes seen in training, and on unseen ones, over the number of shapes held out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from mnemoscope.base.validation import check_whole
from mnemoscope.lenses.result import Flags, Result


@dataclass(frozen=True)
class TrainedNetwork:
    """Accuracies of one trained network."""

    network: str
    held_out: int
    """m: number of shapes held out from training."""
    seen: float
    """Accuracy on new problems with shapes seen in training."""
    unseen: float
    """Accuracy on shapes that were held out."""

    def __post_init__(self) -> None:
        check_whole(0, held_out=self.held_out)
        if not (0 <= self.seen <= 1 and 0 <= self.unseen <= 1):
            raise ValueError(f"Accuracies are between 0 and 1, but are {self.seen} and {self.unseen}.")


@dataclass(frozen=True, repr=False)
class Generalisation(Result):
    """Accuracy on seen and on unseen shapes, by network and by m (Kerg, C.8 Fig 6 to 11, shows unseen accuracy).

    >>> networks = [TrainedNetwork("esbn", m, 1.0, unseen) for m, unseen in ((0, 1.0), (95, 0.9), (95, 1.0))]
    >>> Generalisation(tuple(networks)).curves()["esbn"]
    [(0, 1.0, 1.0), (95, 1.0, 0.95)]
    """

    noun: ClassVar[str] = "a generalisation"
    drawn_by: ClassVar[str] = "draw_generalisation"

    runs: tuple[TrainedNetwork, ...]
    chance: float | None = None
    """Accuracy of guessing."""

    def __post_init__(self) -> None:
        if not self.runs:
            raise ValueError("There must be at least one trained network.")

    def curves(self) -> dict[str, list[tuple[int, float, float]]]:
        """Return (m, seen accuracy, unseen accuracy) for each network, averaged over its runs, in the order of m."""
        curves = {}
        for network in dict.fromkeys(run.network for run in self.runs):
            runs = [run for run in self.runs if run.network == network]
            curves[network] = []
            for m in sorted({run.held_out for run in runs}):
                accuracies = [(run.seen, run.unseen) for run in runs if run.held_out == m]
                seen, unseen = (sum(column) / len(column) for column in zip(*accuracies, strict=True))
                curves[network].append((m, seen, unseen))
        return curves

    def summary(self) -> str:
        """Return the accuracies where seen and unseen shapes differ most, for each network."""
        parts = []
        for network, curve in self.curves().items():
            m, seen, unseen = max(curve, key=lambda point: point[1] - point[2])
            tested = "unseen" if m else "tested"
            parts.append(f"{network} {unseen:.1%} on {tested} and {seen:.1%} on seen shapes at m = {m}")
        return f"Accuracy where the two differ most: {'; '.join(parts)}."

    def pack(self) -> tuple[dict[str, Tensor], Flags]:
        """Return the runs as columns."""
        columns = {name: [getattr(run, name) for run in self.runs] for name in TrainedNetwork.__dataclass_fields__}
        return {}, columns | ({} if self.chance is None else {"chance": self.chance})

    @classmethod
    def unpack(cls, tensors: dict[str, Tensor], flags: Flags) -> Generalisation:
        """Make a result from what `pack` returned."""
        rows = zip(*(flags[name] for name in TrainedNetwork.__dataclass_fields__), strict=True)
        return cls(tuple(TrainedNetwork(*row) for row in rows), flags.get("chance"))
