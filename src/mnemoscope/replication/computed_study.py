"""Studies that compute instead of training: cases, each a table of numbers that determine it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from math import nan
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE
from mnemoscope.replication.study import Study, Trial


class ComputedStudy(Study):
    """A study whose trials are cases to compute.

    The settings of a preset are `cases`, a table from subjects (or names) to the arguments of `compute`.
    """

    seeded = False

    def run(self, trial: Trial, folder: Path, progress: bool) -> dict[str, Any]:
        return self.compute(torch.Generator().manual_seed(trial.seed), **trial.settings)

    @abstractmethod
    def compute(self, generator: torch.Generator, **case: Any) -> dict[str, Any]:
        """Measure a case; the generator has the seed of the trial."""


def rounded(values: Float[Tensor, " values"]) -> list[float]:
    """Return the values with six digits, for JSON."""
    return [float(f"{value:.6g}") for value in values.tolist()]


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Spearman's correlation of the ranks of two quantities; NaN if one of them has a single value.

    >>> rank_correlation([1, 2, 3], [10.0, 30.0, 20.0])
    0.5
    """
    from scipy.stats import spearmanr  # takes a third of a second

    if min(len({*first}), len({*second})) < 2:
        return nan
    return float(spearmanr(first, second).statistic)  # pyright: ignore[reportAttributeAccessIssue]: made at run time


def plain_powers(axis: Any) -> None:
    """Label a logarithmic axis with plain numbers, at full powers only."""
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_formatter(lambda *_: "")


def legend_above(figure: Any, columns: int, handles: Mapping[str, Any] | None = None) -> None:
    """Draw one legend above all axes, of `handles` by label; by default, of all labelled lines."""
    entries = () if handles is None else (handles.values(), handles.keys())
    style = {"frameon": False, "labelcolor": COLOUR["ink"], "fontsize": PAGE_FONT_SIZE}
    figure.legend(*entries, loc="outside upper center", ncols=columns, **style)


def spread(values: Sequence[float], form: str = ".3g") -> str:
    """Return the lowest and the highest value as text, or one value where both read the same; "none" without values.

    >>> spread([0.5, 0.25, 0.75]), spread([1.0, 1.0001])
    ('0.25 to 0.75', '1')
    """
    if not values:
        return "none"
    low, high = f"{min(values):{form}}", f"{max(values):{form}}"
    return low if low == high else f"{low} to {high}"
