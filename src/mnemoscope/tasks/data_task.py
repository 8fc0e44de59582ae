"""Tasks whose batches are taken from a data set."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from mnemoscope.tasks.data import DataSet, Place
from mnemoscope.tasks.task import Split, Task


class DataTask(Task):
    """A task on files: a new one names its `data_set`, reads it in `load`, and defines `batch` and `batches`.

    Training stops where the validation split says, and the test split is measured once, with the weights that did best
    in validation. Nothing is read before the first batch, or `prepare`.
    """

    finite: ClassVar[bool] = True
    beside_the_result: ClassVar[tuple[str, ...]] = ("data",)
    data_set: ClassVar[DataSet]
    data: str | None
    """Folder of the files; None: the one that MNEMOSCOPE_DATA names, or else ~/.cache/mnemoscope, into which they are
    downloaded."""

    @abstractmethod
    def load(self) -> Any:
        """What the files hold, read once per process."""

    @abstractmethod
    def batches(self, size: int, split: Split) -> int: ...

    def prepare(self, progress: bool = True) -> None:
        self.data_set.fetch(self.place, progress)
        self.load()

    @property
    def place(self) -> Place:
        """Where the files are looked for."""
        return Place.find(self.data)
