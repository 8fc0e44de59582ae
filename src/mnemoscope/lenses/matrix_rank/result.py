"""The result of the lens on the rank of a trained matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.result import Result
from mnemoscope.lenses.trial_scores import kept_share

SMALL = 0.1
"""Share of a score below which a difference says little."""


@dataclass(frozen=True, repr=False)
class RankScores(Result):
    """Scores of a network whose recurrent matrix, or its change in training, is truncated to several ranks."""

    noun: ClassVar[str] = "scores of ranks"
    drawn_by: ClassVar[str] = "draw_rank_scores"

    ranks: tuple[int, ...]
    """Ranks that were measured."""
    scores: Float[Tensor, " ranks"]
    """Score with the leading terms of each rank."""
    control_scores: Float[Tensor, "ranks controls"]
    """Scores with as many terms chosen at random."""
    without: float
    """Score without any of the terms."""
    full: float
    """Score of the network itself."""
    sizes: Float[Tensor, " terms"]
    """Share of each term in the squared matrix, or in the squared recurrent input."""
    by: str
    """"weights" or "inputs": how terms are ordered."""
    change: bool
    """Whether the change in training was truncated instead of the matrix."""
    score_name: str
    """How the score is called."""
    retrained: Float[Tensor, " ranks"] | None = None
    """Score at each rank after the truncated network was trained again; None if it was not."""

    @property
    def kept(self) -> Float[Tensor, " ranks"]:
        """Share of the difference between the scores without recurrence and of the network itself, at each rank."""
        return kept_share(self.scores, self.without, self.full)

    @property
    def control_kept(self) -> Float[Tensor, "ranks controls"]:
        """The same for terms chosen at random."""
        return kept_share(self.control_scores, self.without, self.full)

    @property
    def retrained_kept(self) -> Float[Tensor, " ranks"] | None:
        """The same after training again; more than 1 is better than the network itself."""
        return None if self.retrained is None else kept_share(self.retrained, self.without, self.full)

    def needed(self, share: float = 0.95, retrained: bool = False) -> int | None:
        """Return the smallest measured rank that keeps this share, as all larger ones do; None if no rank does."""
        kept = self.retrained_kept if retrained else self.kept
        if kept is None:
            raise ValueError("The truncated networks were not trained again; pass retrain to measure_rank.")
        ordered = sorted(zip(self.ranks, (kept >= share).tolist(), strict=True), reverse=True)
        found = None
        for rank, keeps in ordered:
            if not keeps:
                break
            found = rank
        return found

    @property
    def _what(self) -> str:
        return "change in training" if self.change else "recurrent matrix"

    def summary(self) -> str:
        what = self._what
        scores = f"The {self.score_name} is {self.full:.3g}, and {self.without:.3g} without the {what}."
        if self.full == self.without:
            return f"{scores} These trials do not depend on the {what}, so that no rank can be read from them."
        if abs(self.full - self.without) < SMALL * max(abs(self.full), abs(self.without)):
            scores += " This difference is small, so that ranks that keep it say little about the task."
        return f"{scores} {self._truncated_summary()} {self._retrained_summary()}"

    def _truncated_summary(self) -> str:
        rank = self.needed()
        if rank is None:
            return f"None of the ranks {', '.join(map(str, self.ranks))} keeps 95% of the difference."
        of = "recurrent input" if self.by == "inputs" else self._what
        place = self.ranks.index(rank)
        control = self.control_kept[place]
        compared = f"; with random terms instead, {float(control.mean()):.0%}" if control.numel() else ""
        tested = "" if self.ranks == tuple(range(len(self.ranks))) else " of those measured"
        return (
            f"Rank {rank} is the smallest{tested} that keeps 95% of the difference, as all larger ones do "
            f"({float(self.kept[place]):.0%} at that rank, with {float(self.sizes[:rank].sum()):.0%} of the squared "
            f"{of}{compared})."
        )

    def _retrained_summary(self) -> str:
        if self.retrained is None or self.retrained_kept is None:
            return "Truncated networks were not trained again: one trained at a lower rank may still solve the task."
        rank = self.needed(retrained=True)
        if rank is None:
            return "After further training of the truncated networks, no measured rank keeps it."
        kept = float(self.retrained_kept[self.ranks.index(rank)])
        return f"After further training of the truncated networks, rank {rank} is enough ({kept:.0%})."
