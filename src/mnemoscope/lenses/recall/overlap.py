"""How near what an episodic memory fires is to each of its memories: the one measure of all its lenses.

The overlap of V_f with a memory xi is a cosine, 1 where the memory is recalled, and -1 where it is recalled reversed,
with every sign turned. What is fired is not always fit for it: a logistic function that recalls a balanced pattern p of
+-1 fires (1 + p) / 2, whose cosine with p is sqrt(1/2). So the overlap is `cos(read(V_f), directions(xi))`, where

- `read` is `sigma_f(V_f) - sigma_f(0)`, what is fired less what a silent network fires. Of tanh, polynomial and linear
  sigma_f this is what is fired, of the logistic function tanh(beta V_f / 2) / 2;
- where a silent network fires the least there is, as with relu, firing says nothing of features that are below 0, and
  `read` is V_f itself;
- softmax is blind to what all features have in common: with V_f + c it fires the same, and where sum s = 1 a memory
  xi + c is called for by a drive that differs by the same c for every state. So `directions` leaves the mean of each
  memory out; of other sigma_f it is the memory itself.

With xi of +-1, V_f = c xi has the overlap 1 for every sigma_f and every c > 0, and -1 for every c < 0. For a memory of
other values this is so for linear sigma_f and relu, and for tanh, logistic and softmax ones in the limit of small c.
"""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.cells import EpisodicMemory
from mnemoscope.cells.lagrangians import Lagrangian, Softmax

NEARER_THAN_ALL_OTHERS = sqrt(0.5) * (1 + 1e-9)
"""Overlap above which V_f is nearer to one memory than to all others together: squares of the cosines with orthogonal
memories add up to 1 at most, so that two cannot both be above. An equal mixture of two lies just below, whatever its
rounding, and one of three further down."""

SILENT = 1e-9
"""Largest part of what is read, below which it is nothing."""


def overlap_with(memory: EpisodicMemory, read: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch memories"]:
    """Cosine of what is read with each memory; 0 where it is nothing, or the memory is.

    >>> p = torch.tensor([1.0, 1, -1, -1])
    >>> memory = EpisodicMemory(p.unsqueeze(1), sigma_f="logistic")
    >>> overlap_with(memory, read_of(memory, torch.stack([3 * p, -p]))).round(decimals=6).tolist()
    [[1.0], [-1.0]]
    """
    Xi = directions(memory)
    tiny = torch.finfo(read.dtype).tiny
    scaled = read / read.abs().amax(-1, keepdim=True).clamp_min(tiny)  # squares of what grows without bound overflow
    lengths = scaled.norm(dim=-1, keepdim=True) * Xi.norm(dim=0)
    return (scaled @ Xi / lengths.clamp_min(tiny)).masked_fill(is_silent(read).unsqueeze(-1), 0)


def read_of(memory: EpisodicMemory, V_f: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch features"]:
    """What is read of V_f (see above); refused where it has grown beyond all numbers."""
    sigma = memory.sigma_f
    read = V_f if _one_sided(sigma, V_f) else sigma(V_f) - _silent(sigma, V_f)
    if not torch.isfinite(read).all():
        raise ValueError(
            f"What the features fire has grown beyond all numbers, and overlaps with nothing: neither sigma_f "
            f"({sigma.extra_repr()}) nor sigma_h ({memory.sigma_h.extra_repr()}) keeps it in bounds. Take one that "
            f"does, as tanh, or weaker memories (alpha_s), or fewer steps."
        )
    return read


def read_of_firing(memory: EpisodicMemory, fired: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch features"]:
    """What is read of V_f where only what it fires is known; refused where that does not say it."""
    if _one_sided(memory.sigma_f, fired):
        raise ValueError(
            f"Of {memory.sigma_f.name} features, what is fired does not tell a feature at 0 from one far below, which "
            f"the overlap with a memory needs. Look at the fixed points of memory.discrete(), whose states are V_f."
        )
    return fired - _silent(memory.sigma_f, fired)


def directions(memory: EpisodicMemory) -> Float[Tensor, "features memories"]:
    """What the overlap is taken with, one memory per column."""
    Xi = memory.Xi.detach()
    if not isinstance(memory.sigma_f, Softmax):
        return Xi
    centred = Xi - Xi.mean(0)
    rounding = memory.features * torch.finfo(Xi.dtype).eps * Xi.abs().amax(0)
    return centred.masked_fill(centred.abs().amax(0) <= rounding, 0)  # the same in all features: nothing is left


def is_silent(read: Float[Tensor, "*batch features"]) -> Bool[Tensor, "*batch"]:
    """Whether nothing is read; the direction of what is left is one of rounding."""
    return read.abs().amax(-1) < SILENT


def _silent(sigma: Lagrangian, like: Tensor) -> Float[Tensor, " features"]:
    return sigma(like.new_zeros(like.shape[-1]))


def _one_sided(sigma: Lagrangian, like: Tensor) -> bool:
    """Whether a silent network fires the least there is."""
    return bool((_silent(sigma, like) <= sigma.low).all())
