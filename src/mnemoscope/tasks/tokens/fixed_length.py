"""The base class of tasks on tokens whose sequences all have the same length."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, TypeVar

from mnemoscope.tasks.tokens.task import TokenTask

_FixedLength = TypeVar("_FixedLength", bound="FixedLengthTask")


class FixedLengthTask(TokenTask):
    """Base class of tasks with `length` steps and a vocabulary of `vocabulary` tokens, both fields of the subclass.

    It has no fields, so that every task has its options in its own order, with its own defaults.
    """

    vocabulary: int
    length: int

    span_label: ClassVar[str] = "length"

    @property
    def input_size(self) -> int:
        return self.vocabulary

    @property
    def longest_span(self) -> int:
        return self.length

    def at(self: _FixedLength, length: int, /) -> _FixedLength:
        return replace(self, length=length)
