"""Labels of the steps of sequences, such as the tokens of a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

Labels = Any
"""One string for each step; a list of such lists, one for each sequence; or a tokenizer with
`convert_ids_to_tokens`, as in transformers, for inputs that are token numbers."""


def first_labels(labels: Labels | None, number: int) -> Labels | None:
    """Return the labels of the first sequences only.

    >>> first_labels([["to", "be"], ["or", "not"]], 1)
    [['to', 'be']]
    """
    if labels is None or hasattr(labels, "convert_ids_to_tokens") or all(isinstance(each, str) for each in labels):
        return labels  # all sequences share them
    return list(labels)[:number]


def read_labels(labels: Labels | None, xs: Tensor, lengths: Sequence[int]) -> tuple[tuple[str, ...], ...]:
    """Return the labels of each sequence, as many as it has steps; no sequences if there are no labels.

    Args:
        labels: see `Labels`.
        xs: the inputs, time first.
        lengths: number of steps of each sequence.

    >>> import torch
    >>> read_labels(["to", "be"], torch.zeros(2, 1, 3), [2])
    (('to', 'be'),)

    """
    if labels is None:
        return ()
    if hasattr(labels, "convert_ids_to_tokens"):
        if xs.dim() != 2 or xs.is_floating_point():
            raise ValueError(
                f"A tokenizer labels token numbers (time, batch), but the inputs have the shape {tuple(xs.shape)} and "
                f"the dtype {xs.dtype}: pass a list of strings as labels."
            )
        columns = [labels.convert_ids_to_tokens(column.tolist()) for column in xs.unbind(1)]
    else:
        columns = list(labels)
        if all(isinstance(label, str) for label in columns):
            columns = [columns] * xs.shape[1]
    wrong = len(columns) != xs.shape[1] or any(
        len(column) < length for column, length in zip(columns, lengths, strict=False)
    )
    if wrong:
        raise ValueError(
            f"labels must be one string for each of {len(xs)} steps, or a list of such lists for {xs.shape[1]} "
            f"sequences, but there are {len(columns)} lists of {sorted({len(column) for column in columns})} labels."
        )
    return tuple(tuple(map(str, column[:length])) for column, length in zip(columns, lengths, strict=True))
