"""Accuracy on shapes that were trained with, and on others, over how many were held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mnemoscope.base.validation import check_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Trained:
    """What one trained network answers right."""

    network: str
    held_out: int
    """m: shapes that were not trained with."""
    seen: float
    """Accuracy on fresh problems of shapes that were trained with."""
    unseen: float
    """Accuracy on shapes that were held out."""

    def __post_init__(self) -> None:
        check_whole(0, held_out=self.held_out)
        if not (0 <= self.seen <= 1 and 0 <= self.unseen <= 1):
            raise ValueError(f"Accuracies are between 0 and 1, but are {self.seen} and {self.unseen}.")


@dataclass(frozen=True)
class Generalisation:
    """In-distribution against unseen accuracy, by networks and by m (as Kerg, C.8 Fig 6 to 11, has unseen accuracy).

    >>> runs = [Trained("esbn", 0, 1.0, 1.0), Trained("esbn", 95, 1.0, 0.9), Trained("esbn", 95, 1.0, 1.0)]
    >>> Generalisation(tuple(runs)).curves()["esbn"]
    [(0, 1.0, 1.0), (95, 1.0, 0.95)]
    """

    runs: tuple[Trained, ...]
    chance: float | None = None
    """Accuracy of a guess."""

    def __post_init__(self) -> None:
        if not self.runs:
            raise ValueError("There must be at least one trained network.")

    def curves(self) -> dict[str, list[tuple[int, float, float]]]:
        """For each network (m, seen accuracy, unseen accuracy), means over its runs, in the order of m."""
        found = {}
        for network in dict.fromkeys(run.network for run in self.runs):
            own = [run for run in self.runs if run.network == network]
            found[network] = [
                (m, _mean([run.seen for run in own if run.held_out == m]),
                 _mean([run.unseen for run in own if run.held_out == m]))
                for m in sorted({run.held_out for run in own})
            ]  # fmt: skip
        return found

    def summary(self) -> str:
        """The result in words: where each network falls most."""
        told = []
        for network, curve in self.curves().items():
            m, seen, unseen = max(curve, key=lambda point: point[1] - point[2])
            tested = "unseen" if m else "tested"
            told.append(f"{network} {unseen:.1%} of {tested} and {seen:.1%} of seen shapes at m = {m}")
        return f"Answered right where the two are furthest apart: {'; '.join(told)}."

    def __repr__(self) -> str:
        return f"Generalisation({self.summary()})"

    def figure(self) -> Figure:
        """Both accuracies over m (needs the `report` extra)."""
        from mnemoscope.lenses.relations.figure import draw_generalisation

        return draw_generalisation(self)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
