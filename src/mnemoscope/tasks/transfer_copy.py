"""The transfer copy task: train with one delay, test with another."""

from __future__ import annotations

from dataclasses import dataclass

from mnemoscope.tasks.copy import Copy
from mnemoscope.tasks.task import Batch, Split


@dataclass(frozen=True)
class TransferCopy(Copy):
    """`Copy` with `delay` in training and `test_delay` in validation and test.

    Hochreiter & Schmidhuber 1997; as in Kerg et al. 2020, Table 1, which trains at 100 and tests at 100 to 5,000.

    >>> task = TransferCopy(delay=3, test_delay=30, symbols=2)
    >>> [len(task.batch(1, seed=0, number=0, split=split).inputs) for split in ("train", "validation", "test")]
    [7, 34, 34]
    """

    delay: int = 100
    test_delay: int = 200

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.test_delay < 1:
            raise ValueError(
                f"The delay between the symbols and their recall is at least 1, but test_delay is {self.test_delay}."
            )

    @property
    def test_task(self) -> Copy:
        """The copy task of the validation and test splits."""
        return Copy(self.test_delay, self.symbols, self.alphabet)

    def batch(self, size: int, seed: int, number: int, split: Split = "train") -> Batch:
        if split == "train":
            return super().batch(size, seed, number, split)
        return self.test_task.batch(size, seed, number, split)

    def baseline(self) -> float:
        """Return the baseline of `Copy` with `test_delay`, at which the network is evaluated."""
        return self.test_task.baseline()
