"""The lengths of sequences that a batch pads at their ends."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Int


def padded_lengths(present: Bool[Tensor, "time batch"]) -> Int[Tensor, " batch"] | None:
    """Return the number of steps up to the last one that is present; None if this is the last step in all sequences.

    >>> padded_lengths(torch.tensor([[True, True], [False, True], [True, False]])).tolist()
    [3, 2]
    """
    steps = torch.arange(1, 1 + len(present), device=present.device).unsqueeze(1)
    lengths = torch.where(present, steps, 0).amax(0)
    return None if bool((lengths == len(present)).all()) else lengths
