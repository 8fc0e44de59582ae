"""The base class of tasks with a data set."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from mnemoscope.tasks.data_files import DataFolder, DataSet
from mnemoscope.tasks.task import Split, Task


class DataTask(Task):
    """A task on files. A subclass sets `data_set`, reads it in `load`, and defines `batch` and `batches`.

    The validation split decides when training stops. The test split is evaluated once, with the weights that did best
    in validation. The files are read at the first batch, or by `prepare`.
    """

    finite: ClassVar[bool] = True
    unhashed_options: ClassVar[tuple[str, ...]] = ("data",)
    data_set: ClassVar[DataSet]
    data: str | None
    """Folder of the files. None: the folder in MNEMOSCOPE_DATA, or else ~/.cache/mnemoscope, with download."""

    @abstractmethod
    def load(self) -> Any:
        """Return the content of the files, which are read once per process."""

    @abstractmethod
    def batches(self, size: int, split: Split) -> int: ...

    def prepare(self, progress: bool = True) -> None:
        self.data_set.fetch(self.folder, progress)
        self.load()

    @property
    def folder(self) -> DataFolder:
        """Folder that is searched for the files."""
        return DataFolder.find(self.data)
