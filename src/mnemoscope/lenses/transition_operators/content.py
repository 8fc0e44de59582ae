"""How much of the state each input keeps, and how much it adds."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells.affine.layer import AffineLayer
from mnemoscope.cells.affine.parts import carry_state, step_state


def kept_and_written(
    layer: AffineLayer,
) -> tuple[Float[Tensor, "time batch heads"], Float[Tensor, "time batch heads"]]:
    """Return `|A S| / |S|` and `|W| / (|A S| + |W|)`, where S is the state before an input, and W what it adds.

    W is `k v^T`, or the sum over the micro-steps, each carried by those after it. The first share is NaN where the
    state is 0, the second where nothing is kept and nothing added.
    """
    S, kept, written = layer.start, [], []
    for step in range(len(layer.features)):
        parts = layer.at(step)
        carried, added = carry_state(parts, S), step_state(parts, torch.zeros_like(S))
        before, old, new = (torch.linalg.matrix_norm(x) for x in (S, carried, added))
        kept.append(old / before)
        written.append(new / (old + new))
        S = carried + added
    return torch.stack(kept), torch.stack(written)
