"""Studies that compute instead of training: named cases, each a table of numbers that determine it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE
from mnemoscope.replication.study import Finished, Row, Study, Trial


class ComputedStudy(Study):
    """The settings of a preset: `cases`, a table from names to what `compute` takes.

    A verdict stands only under the published conditions, which a study tells by `as_published`.
    """

    def trials(self, settings: Mapping[str, Any], seeds: Iterable[int]) -> list[Trial]:
        return [Trial(name, dict(case), seed) for name, case in settings["cases"].items() for seed in seeds]

    def run(self, trial: Trial, folder: Path, progress: bool) -> dict[str, Any]:
        return self.compute(torch.Generator().manual_seed(trial.seed), **trial.settings)

    @abstractmethod
    def compute(self, generator: torch.Generator, **case: Any) -> dict[str, Any]:
        """What is measured of a case; the generator is the seed's."""

    def row(
        self, own: Sequence[Finished], quantity: str, measured: Sequence[float], ours: str, remark: str = ""
    ) -> Row:
        """What was measured, and `ours`, its words, beside what was published of that quantity."""
        return self.compared(own, self.stated(quantity), quantity, measured, ours, remark)


def kept(values: Float[Tensor, " values"]) -> list[float]:
    """Six digits of each, for JSON."""
    return [float(f"{value:.6g}") for value in values.tolist()]


def plain_powers(axis: Any) -> None:
    """Labels of a logarithmic axis as numbers, at its full powers alone."""
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_formatter(lambda *_: "")


def above(figure: Any, columns: int) -> None:
    """The legend of all axes above them, where it covers nothing."""
    figure.legend(loc="outside upper center", ncols=columns, frameon=False, labelcolor=COLOUR["ink"],
                  fontsize=PAGE_FONT_SIZE)  # fmt: skip


def spread(values: Sequence[float], form: str = ".3g") -> str:
    """Lowest and highest, or the one value where they look the same.

    >>> spread([0.5, 0.25, 0.75]), spread([1.0, 1.0001])
    ('0.25 to 0.75', '1')
    """
    low, high = f"{min(values):{form}}", f"{max(values):{form}}"
    return low if low == high else f"{low} to {high}"
