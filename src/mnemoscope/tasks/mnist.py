"""Sequential MNIST: handwritten digits pixel by pixel, in order or permuted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from math import ceil, log, prod
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.tasks.data_files import DataFile, DataFolder, DataSet
from mnemoscope.tasks.splits import Split, check_batch_request, generator_seed
from mnemoscope.tasks.task import Batch, DataTask

PIXELS = 784
DIGITS = 10
MOST_FREQUENT = 0.1135
"""Share of the most frequent digit in the test images."""
_MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist"
MNIST = DataSet(
    "mnist",
    "MNIST",
    tuple(
        DataFile(name, checksum, f"{_MIRROR}/{name}.gz")
        for name, checksum in (
            ("train-images-idx3-ubyte", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
            ("train-labels-idx1-ubyte", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
            ("t10k-images-idx3-ubyte", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
            ("t10k-labels-idx1-ubyte", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
        )
    ),
)


class Digits(NamedTuple):
    """Images, (number, 784) of uint8, flattened by rows, and their digits, (number,) of uint8."""

    images: Tensor
    labels: Tensor


@dataclass(frozen=True)
class SequentialMNIST(DataTask):
    """The pixels of a digit in [0, 1], `group` pixels per step; the digit is due at the last step.

    Le et al. 2015. The last 10,000 of the 60,000 training images are the validation split; the 10,000 test images are
    the test split. Every training epoch is another permutation of the training images, without those that do not fill
    a batch. Validation and test keep the order, with a smaller batch at the end.

    >>> task = SequentialMNIST(group=28)
    >>> task.input_size, task.length, round(task.baseline(), 4)
    (28, 28, 2.3026)
    """

    group: int = 1
    data: str | None = None

    data_set: ClassVar[DataSet] = MNIST
    baseline_label: ClassVar[str] = "by guessing"

    def __post_init__(self) -> None:
        if self.group < 1 or PIXELS % self.group:
            divisors = ", ".join(str(n) for n in range(1, PIXELS + 1) if PIXELS % n == 0)
            raise ValueError(
                f"group must divide the {PIXELS} pixels of an image, but is {self.group}. Choose among {divisors}."
            )

    @property
    def input_size(self) -> int:
        return self.group

    @property
    def output_size(self) -> int:
        return DIGITS

    @property
    def length(self) -> int:
        """Steps of a sequence."""
        return PIXELS // self.group

    @property
    def order(self) -> Int[Tensor, " 784"]:
        """Order in which the pixels are shown."""
        return torch.arange(PIXELS)

    def load(self) -> dict[Split, Digits]:
        return _load(self.data_set, self.folder)

    def batches(self, size: int, split: Split) -> int:
        """Return the number of batches: full ones of a training epoch, and all of the other splits."""
        number = len(self.load()[split].labels)
        if split != "train":
            return ceil(number / size)
        if size > number:
            raise ValueError(f"There are {number:,} images to train with, but a batch of {size:,} was asked for.")
        return number // size

    def batch(self, size: int, seed: int, number: int, split: Split = "train") -> Batch:
        check_batch_request(size, number, split)
        digits = self.load()[split]
        epoch, index = divmod(number, self.batches(size, split))
        rows = slice(index * size, (index + 1) * size)
        if split == "train":
            rows = _permutation(len(digits.labels), generator_seed(seed, epoch, split))[rows]
        pixels = digits.images[rows][:, self.order].to(torch.float32) / 255  # (batch, 784)
        inputs = pixels.view(-1, self.length, self.group).transpose(0, 1).contiguous()
        targets = digits.labels[rows].long().repeat(self.length, 1)
        mask = torch.zeros(targets.shape, dtype=torch.bool)
        mask[-1] = True
        return Batch(inputs, targets, mask)

    def scores(self, outputs: Float[Tensor, "time batch 10"], batch: Batch) -> dict[str, float]:
        """Return `accuracy`, the fraction of digits that are right at the last step."""
        return {"accuracy": (outputs[-1].argmax(-1) == batch.targets[-1]).float().mean().item()}

    def baseline(self) -> float:
        """Return `log 10`, the loss of guessing among ten digits.

        For single pixels in order, this is the memoryless optimum up to the digits' frequencies (entropy 2.301), since
        the last pixel is blank in every image. Where the last step shows part of the image, less is lost: the last
        pixel of the default permutation carries 0.18 nats about the digit, a group of pixels more.
        """
        return log(DIGITS)

    def chance(self) -> float:
        """Return the share of the digit 1, the most frequent one, in the test images.

        As for the baseline, a last step that shows a part of the image makes more possible: the last pixel of the
        default permutation alone has an accuracy of 0.205.
        """
        return MOST_FREQUENT


@dataclass(frozen=True)
class PermutedMNIST(SequentialMNIST):
    """`SequentialMNIST` with the pixels of every image in the same random order (Le et al. 2015).

    The order is numpy's `RandomState(permutation_seed).permutation(784)`. The default seed gives the order of the
    published code of scoRNN and of many later papers, so that their numbers can be compared.

    >>> PermutedMNIST().order[:5].tolist()
    [319, 576, 323, 107, 355]
    """

    permutation_seed: int = 92916

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.permutation_seed < 2**32:
            raise ValueError(f"permutation_seed must be from 0 to 2^32 - 1, but is {self.permutation_seed}.")

    @property
    def order(self) -> Int[Tensor, " 784"]:
        return _order(self.permutation_seed)


def read_idx(content: bytes, name: str) -> Tensor:
    """Return the array of an idx file of bytes, as uint8: magic number, number of dimensions, sizes, entries."""
    dimensions = content[3] if len(content) >= 4 and content[:3] == b"\x00\x00\x08" else 0
    shape = tuple(int.from_bytes(content[at : at + 4]) for at in range(4, 4 + 4 * dimensions, 4))
    expected = 4 + 4 * dimensions + prod(shape)
    if not dimensions or len(content) != expected:
        raise ValueError(
            f"{name} is not an idx file of bytes: it begins with {content[:4].hex(' ')}, where 00 00 08 and the number "
            f"of dimensions were expected, or its {len(content):,} bytes do not fit its header."
        )
    return torch.from_numpy(np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions).reshape(shape).copy())


@cache
def _load(data_set: DataSet, folder: DataFolder) -> dict[Split, Digits]:
    data_set.fetch(folder)
    names = [file.name for file in data_set.files]
    parts = [read_idx(content, name) for content, name in zip(data_set.read(folder), names, strict=True)]
    pairs = []
    for images, labels, name in zip(parts[::2], parts[1::2], names[::2], strict=True):
        if images.shape[1:] != (28, 28) or labels.shape != images.shape[:1] or not len(labels) or labels.max() > 9:
            raise ValueError(
                f"{name} and its labels should hold n images of 28 x 28 and n digits, but they hold arrays of the "
                f"shapes {tuple(images.shape)} and {tuple(labels.shape)}."
            )
        pairs.append(Digits(images.flatten(1), labels))
    train, test = pairs
    kept = len(train.labels) - len(train.labels) // 6  # 50,000 of 60,000
    return {
        "train": Digits(*(part[:kept] for part in train)),
        "validation": Digits(*(part[kept:] for part in train)),
        "test": test,
    }


@lru_cache(maxsize=4)
def _permutation(number: int, seed: int) -> Int[Tensor, " number"]:
    return torch.randperm(number, generator=torch.Generator().manual_seed(seed))


@cache
def _order(seed: int) -> Int[Tensor, " 784"]:
    return torch.from_numpy(np.random.RandomState(seed).permutation(PIXELS))
