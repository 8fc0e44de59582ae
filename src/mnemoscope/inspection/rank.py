"""The page sections on the rank of a trained matrix, and on the populations of a low-rank network."""

from __future__ import annotations

from dataclasses import dataclass

from mnemoscope.cells import Elman, LeakyRNN
from mnemoscope.connectivity import LowRank
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE
from mnemoscope.inspection.cost import HOW_TO_MEASURE, is_quick
from mnemoscope.inspection.page import LoadedRun
from mnemoscope.lenses import RankScores, Reduction, Resampling, measure_rank, measure_reduction, measure_resampling
from mnemoscope.lenses.loading_populations.figure import draw_resampling
from mnemoscope.lenses.low_rank.figure import draw_reduction
from mnemoscope.lenses.matrix_rank.figure import draw_rank_scores
from mnemoscope.lenses.matrix_rank.lens import default_ranks
from mnemoscope.lenses.result import Result
from mnemoscope.report import Section
from mnemoscope.report.markup import figure_markup

BATCH = 64
"""Test trials on which variants of the network are scored."""
DRAWS = 5
"""Networks drawn from each mixture of populations."""
POPULATIONS = (1, 2, 3)
"""Numbers of Gaussian populations."""


@dataclass(frozen=True)
class RankFindings:
    """How much of a recurrent matrix the task needs; for a low-rank one, its reduced dynamics and populations."""

    rank: RankScores | None = None
    reduction: Reduction | None = None
    """Latent variables of the network, of its exact reduction and of its mean field, along test trials."""
    resampling: Resampling | None = None
    note: str = ""
    """Why nothing was measured."""

    @property
    def results(self) -> dict[str, Result | None]:
        """The results by name."""
        return {"rank": self.rank, "reduction": self.reduction, "resampling": self.resampling}

    def lenses(self) -> list[str]:
        """Return the names of the lenses that were applied."""
        return [name for name, result in self.results.items() if result is not None]

    def sections(self) -> list[Section]:
        """Return the sections of the page."""
        found = [Section("Rank of the matrix", self.note, "")] if self.note else []
        if self.rank is not None:
            figure = draw_rank_scores(self.rank, COLOUR, figure=new_figure(10, 3.8), font_size=PAGE_FONT_SIZE)
            alt = "Score of the network against the rank to which its recurrent matrix is truncated."
            found.append(Section("Rank of the matrix", self.rank.summary(), figure_markup(figure, "rank", alt=alt)))
        if self.reduction is not None:
            figure = draw_reduction(self.reduction, None, COLOUR, figure=new_figure(11, 4.4), font_size=PAGE_FONT_SIZE)
            alt = "Latent variables of the network along test trials, beside those of its mean field."
            markup = figure_markup(figure, "reduced-trials", alt=alt)
            found.append(Section("Reduced dynamics on trials", self._reduction_lead(self.reduction), markup))
        if self.resampling is not None:
            figure = draw_resampling(self.resampling, COLOUR, figure=new_figure(5.4, 3.8), font_size=PAGE_FONT_SIZE)
            alt = "Scores of networks drawn from Gaussian populations, of both controls and of the trained one."
            markup = figure_markup(figure, "resampling", alt=alt)
            found.append(Section("Populations of the loadings", self.resampling.summary(), markup))
        return found

    def _reduction_lead(self, reduction: Reduction) -> str:
        return (
            f"Along {reduction.latents.shape[1]} test trials, the latent variables of the network and those of the "
            f"exact reduction to {reduction.rank} differ by {reduction.error:.1g} of their size, and those of the mean "
            f"field of {reduction.populations} Gaussian population{'s' * (reduction.populations > 1)} by "
            f"{reduction.mean_field_error:.2g}."
        )


def inspect_rank(run: LoadedRun) -> RankFindings | None:
    """Return the rank that the task of a run needs; None for a network without a real recurrent matrix.

    A low-rank network without a random part is also compared with its reduced dynamics, and resampled.
    """
    model, cell = run.model, run.model.cell
    if not isinstance(cell, Elman | LeakyRNN) or cell.initial_state(1).is_complex():
        return None
    batch = run.task.batch(BATCH, run.config.seed, 0, "test")
    connectivity = cell.connectivity if isinstance(cell, LeakyRNN) else None
    low_rank = connectivity if isinstance(connectivity, LowRank) and connectivity.random is None else None
    reducible = low_rank is not None
    ranks = default_ranks(cell.hidden_size) if low_rank is None else tuple(range(low_rank.rank + 1))
    variants = 2 * len(ranks) + (DRAWS * (len(POPULATIONS) + 2) if reducible else 0)
    if not is_quick(cell, len(batch.mask), BATCH, run.options, passes=variants):
        return RankFindings(note=f"Not measured, since {variants} variants of the network take long. {HOW_TO_MEASURE}")
    xs, targets, tested, seed = batch.inputs, batch.targets, run.task.recalled(batch), run.options.seed
    rank = measure_rank(model, xs, targets, mask=tested, ranks=ranks, controls=1, seed=seed)
    if not reducible:
        return RankFindings(rank)
    reduction = measure_reduction(model, xs, seed=seed)
    resampling = measure_resampling(model, xs, targets, mask=tested, populations=POPULATIONS, draws=DRAWS, seed=seed)
    return RankFindings(rank, reduction, resampling)
