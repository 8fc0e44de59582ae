"""Variable binding: continue a sequence of vectors by a signed selection of the last s of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.validation import check_whole
from mnemoscope.connectivity.signed_selection import SignedSelection, parse_selection
from mnemoscope.tasks.task import Batch, GeneratedTask


@dataclass(frozen=True)
class VariableBinding(GeneratedTask):
    """Input vectors x(1), ..., x(s), then zeros while x(t) = F [x(t-s); ...; x(t-1)] is due.

    There are `variables` input vectors of `size` bits, each 1 or -1. `horizon` steps are due (in tests,
    `test_horizon`), and only these count. `rule` gives F (see `connectivity.parse_selection`). `curriculum` is a list
    of shorter horizons for the first stages, such as "10 20 40 60"; a stage ends when the accuracy on a training batch
    reaches `curriculum_score` of the run. Karuvally et al. 2023, sections 6 to 10.

    >>> task = VariableBinding(variables=2, size=2, rule="repeat", horizon=4)
    >>> batch = task.batch(1, seed=0, number=0)
    >>> batch.inputs.shape, bool((batch.targets[2:4] == batch.inputs[:2]).all())
    (torch.Size([6, 1, 2]), True)
    """

    variables: int = 8
    size: int = 8
    rule: str = "repeat"
    horizon: int = 100
    test_horizon: int = 200
    curriculum: str = ""

    span_label: ClassVar[str] = "horizon"

    def __post_init__(self) -> None:
        check_whole(1, variables=self.variables, size=self.size, horizon=self.horizon, test_horizon=self.test_horizon)
        parse_selection(self.rule, self.variables, self.size)  # raises for a wrong rule
        self.stages()  # raises for a wrong curriculum

    @cached_property
    def F(self) -> SignedSelection:
        """The boundary map F."""
        return parse_selection(self.rule, self.variables, self.size)

    @property
    def input_size(self) -> int:
        return self.size

    @property
    def output_size(self) -> int:
        return self.size

    def stages(self) -> Sequence[VariableBinding]:
        return self._stages_by("horizon")

    @property
    def longest_span(self) -> int:
        return self.horizon

    def at(self, horizon: int, /) -> VariableBinding:
        return replace(self, horizon=horizon, test_horizon=horizon, curriculum="")

    def held_out(self) -> VariableBinding:
        return self.at(self.test_horizon)

    def sample(self, batch: int, generator: torch.Generator) -> Batch:
        shape = (self.variables, batch, self.size)
        first = 2.0 * torch.randint(0, 2, shape, generator=generator) - 1
        targets = self.F.simulate(first, self.horizon)
        inputs = torch.cat([first, torch.zeros_like(targets[self.variables :])])
        mask = torch.ones(targets.shape[:2], dtype=torch.bool)
        mask[: self.variables] = False
        return Batch(inputs, targets, mask)

    def scores(self, outputs: Float[Tensor, "time batch size"], batch: Batch) -> dict[str, float]:
        """Return `accuracy`, the fraction of counted bits with the right sign."""
        right = (outputs > 0) == (batch.targets > 0)
        return {"accuracy": right[batch.mask].float().mean().item() if batch.mask.any() else 1.0}

    def baseline(self) -> float:
        """Return 1: each bit is 1 or -1 with equal chance at any time, so the best guess is 0."""
        return 1.0

    def chance(self) -> float:
        """Return 1/2, the chance of the sign of a bit."""
        return 0.5


@dataclass(frozen=True)
class RepeatCopy(VariableBinding):
    """Repeat the input vectors in a cycle (Karuvally et al. 2023, section 9)."""

    variables: int = 5
    size: int = 4
    rule: str = "repeat"


@dataclass(frozen=True)
class ComposeCopy(VariableBinding):
    """Compose each new vector from one element of each of the last vectors (Karuvally et al. 2023, section 10)."""

    variables: int = 5
    size: int = 5
    rule: str = "compose"
