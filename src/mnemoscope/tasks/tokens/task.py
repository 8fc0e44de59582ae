"""The base class of tasks on tokens: integer inputs, which a model looks up in an embedding."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.tasks.padding import padded_lengths
from mnemoscope.tasks.splits import Split
from mnemoscope.tasks.task import Batch, GeneratedTask

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOTHING_DUE = "·"
"""Sign for a step that does not count, in examples."""


@dataclass(frozen=True)
class TokenTask(GeneratedTask):
    """Base class of tasks whose inputs are token numbers (time, batch), from 0 to `input_size` - 1.

    `build_model` puts an `nn.Embedding` before the cell, so that a large vocabulary costs no more than a small one.
    Outputs are logits of the whole vocabulary, and targets are tokens at the counted steps.
    """

    pointwise: ClassVar[bool] = True

    @property
    def output_size(self) -> int:
        return self.input_size

    @abstractmethod
    def chance(self) -> float: ...

    def label(self, token: int, /) -> str:
        """Return the name of a token, for examples, figures and pages."""
        return str(token)

    @property
    def rest(self) -> int:
        """The token at which a page searches for fixed points: one that says nothing, if the task has one."""
        return 0

    @property
    def padding(self) -> int | None:
        """The token that fills a batch after the end of shorter sequences; None if all sequences are equally long.

        Padding before the first token of a task is an input like others: a network reads it.
        """
        return None

    def lengths_of(self, batch: Batch) -> Int[Tensor, " batch"] | None:
        return None if self.padding is None else padded_lengths(batch.inputs != self.padding)

    def scores(self, outputs: Float[Tensor, "time batch tokens"], batch: Batch) -> dict[str, float]:
        """Return `accuracy`, the fraction of the counted steps whose token is right."""
        return {"accuracy": (outputs.argmax(-1) == batch.targets)[batch.mask].double().mean().item()}

    def example(self, seed: int = 0, split: Split = "train") -> str:
        """Return one sequence as text: the inputs above, and below them the targets at the steps that count.

        >>> from mnemoscope.tasks import Parity
        >>> print(Parity(longest=8).example(seed=3))
        input   1 1 1 1 0 0 1
        target  · · · · · · 1
        """
        batch = self.batch(1, seed, 0, split)
        inputs, due = self.labelled(batch, 0)
        targets = [NOTHING_DUE if word is None else word for word in due]
        width = max(map(len, (*inputs, *targets)))
        rows = (("input", inputs), ("target", targets))
        return "\n".join(f"{name:7} " + " ".join(word.rjust(width) for word in words) for name, words in rows)

    def labelled(self, batch: Batch, sequence: int) -> tuple[list[str], list[str | None]]:
        """Return the names of inputs and targets of a sequence, up to its last counted step; None where none is due."""
        counted = batch.mask[:, sequence]
        stop = int(counted.nonzero()[-1]) + 1
        inputs = [self.label(token) for token in batch.inputs[:stop, sequence].tolist()]
        targets = zip(batch.targets[:stop, sequence].tolist(), counted[:stop].tolist(), strict=True)
        return inputs, [self.label(token) if due else None for token, due in targets]

    def figure(self, seed: int = 0, split: Split = "train") -> Figure:
        """Draw one sequence: every input in a box, and below it the target where one is due."""
        from mnemoscope.tasks.tokens.figure import draw_sequence

        return draw_sequence(*self.labelled(self.batch(1, seed, 0, split), 0))
