"""The Penn Treebank by characters: predict the next one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import ceil, log
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.tasks.data_files import DataFile, DataFolder, DataSet
from mnemoscope.tasks.splits import Split, check_batch_request
from mnemoscope.tasks.task import Batch, DataTask

VOCABULARY = "\n#$&'*-./0123456789<>N\\_abcdefghijklmnopqrstuvwxyz"
"""The 50 symbols: the end of a sentence, and 49 characters; `_` is the space between words."""
BIGRAM_ENTROPY = 2.351577
"""`H(next symbol | symbol)` of the training text, in nats (3.39 bits)."""
BIGRAM_ACCURACY = 0.291123
"""Share of the symbols of the test text that are the most frequent one after their predecessor in the training text."""
_ARCHIVE = "https://www.fit.vutbr.cz/~imikolov/rnnlm/simple-examples.tgz"
PTB = DataSet(
    "ptb",
    "The Penn Treebank",
    tuple(
        DataFile(name, checksum, _ARCHIVE, f"simple-examples/data/{name}")
        for name, checksum in (
            ("ptb.char.train.txt", "e313d91425e06c4f0a8fb6e881dcce0c291f2a0e9f4dda54833069b122f91da9"),
            ("ptb.char.valid.txt", "21661f63ec355085879458b6524644d4add5573541b4be14fb52ab2e2e995eb8"),
            ("ptb.char.test.txt", "1ef5607ac3c463b16e38bfe7900dd3bfc91de5a96e0f21e7eab5188b465b8ebe"),
        )
    ),
)


@dataclass(frozen=True)
class PennTreebank(DataTask):
    """Characters of the Wall Street Journal, one-hot; the target is the next character, and every step counts.

    Mikolov's split and preprocessing (Mikolov et al. 2012): 5,017,482 training, 393,042 validation and 442,423 test
    symbols. A batch of `size` divides the text into that many streams, and batch n holds the next `length` steps of
    each. The state is carried from batch to batch and is reset at each epoch. The last batch of an epoch may be
    shorter. The rest of the text, fewer than `size` symbols, is left out. The batches do not depend on the seed.

    >>> task = PennTreebank(length=300)
    >>> task.input_size, task.output_size, task.finite
    (50, 50, True)
    """

    length: int = 150
    data: str | None = None

    data_set: ClassVar[DataSet] = PTB
    characters: ClassVar[str] = VOCABULARY

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ValueError(f"A window of the text needs at least one step, but length is {self.length}.")

    @property
    def input_size(self) -> int:
        return len(VOCABULARY)

    @property
    def output_size(self) -> int:
        return len(VOCABULARY)

    def load(self) -> dict[Split, Tensor]:
        return _load(self.data_set, self.folder)

    def batches(self, size: int, split: Split) -> int:
        """Return the number of batches of an epoch."""
        return ceil(self._steps(size, split) / self.length)

    def continues(self, size: int, number: int, split: Split = "train") -> bool:
        return number % self.batches(size, split) != 0

    def batch(self, size: int, seed: int, number: int, split: Split = "train") -> Batch:
        check_batch_request(size, number, split)
        steps, start = self._steps(size, split), number % self.batches(size, split) * self.length
        text = self.load()[split]
        inputs, targets = (
            text[shift : shift + steps * size].view(size, steps)[:, start : start + self.length].T.long()
            for shift in (0, 1)
        )
        mask = torch.ones(inputs.shape, dtype=torch.bool)
        return Batch(torch.eye(self.input_size)[inputs], targets.contiguous(), mask)

    def scores(self, outputs: Float[Tensor, "time batch 50"], batch: Batch) -> dict[str, float]:
        """Return `bpc`, bits per character, and `accuracy`, the fraction of characters that are right."""
        right = outputs.argmax(-1) == batch.targets
        return {"bpc": self.loss(outputs, batch).item() / log(2), "accuracy": right.float().mean().item()}

    def baseline(self) -> float:
        """Return `H(next symbol | symbol)`, the loss of the best predictor that sees the current symbol alone."""
        return BIGRAM_ENTROPY

    def chance(self) -> float:
        """Return the accuracy of the most frequent symbol after the current one, on the test text.

        The most frequent symbol of all, the space, has an accuracy of 0.169.
        """
        return BIGRAM_ACCURACY

    def _steps(self, size: int, split: Split) -> int:
        """Return the steps of each of `size` streams; the last symbol of the text has no successor."""
        symbols = len(self.load()[split])
        if not 1 <= size < symbols:
            raise ValueError(f"The {split} text of {symbols:,} symbols cannot be cut into {size:,} streams.")
        return (symbols - 1) // size


def read_text(content: bytes, name: str) -> Tensor:
    """Return the symbols of a file as indices into the vocabulary, (symbols,) of uint8, without separators."""
    table = np.full(256, 255, np.uint8)
    table[np.frombuffer(VOCABULARY.encode(), np.uint8)] = np.arange(len(VOCABULARY))
    symbols = np.frombuffer(content, np.uint8)
    symbols = symbols[symbols != ord(" ")]
    numbers = table[symbols]
    if 255 in numbers or len(numbers) < 2:
        unknown = ", ".join(repr(chr(code)) for code in np.unique(symbols[numbers == 255])[:5])
        raise ValueError(
            f"{name} should hold characters of {VOCABULARY[1:]} with spaces between them, but it holds "
            f"{unknown or 'fewer than two'}."
        )
    return torch.from_numpy(numbers)


@cache
def _load(data_set: DataSet, folder: DataFolder) -> dict[Split, Tensor]:
    data_set.fetch(folder)
    splits: tuple[Split, ...] = ("train", "validation", "test")
    texts = zip(splits, data_set.files, data_set.read(folder), strict=True)
    return {split: read_text(content, file.name) for split, file, content in texts}
