"""Overlap: how near the state of an episodic memory is to each stored memory, the one measure of all these lenses.

The overlap of V_f with a memory xi is a cosine: 1 if the memory is recalled, and -1 if it is recalled reversed, with
every sign flipped. The firing rates sigma_f(V_f) are not always suited to it: a logistic function that recalls a
balanced pattern p of +-1 has the rates (1 + p) / 2, whose cosine with p is sqrt(1/2). So the overlap is
`cos(read(V_f), directions(xi))`:

- `read` is `sigma_f(V_f) - sigma_f(0)`, the rates relative to those of a silent network. These are the rates themselves
  for tanh, polynomial and linear sigma_f, and tanh(beta V_f / 2) / 2 for the logistic function.
- If the rates of a silent network are the lowest possible, as with relu, rates do not distinguish features below 0, and
  `read` is V_f itself.
- Softmax ignores a shift that all features share: V_f + c has the same rates, and as they add up to 1, the drive of a
  memory xi + c differs from that of xi by the same c for every state. So `directions` subtracts the mean of each memory
  for softmax; for other sigma_f it is the memory itself.

If xi is a pattern of +-1, V_f = c xi has the overlap 1 for every sigma_f and every c > 0, and -1 for every c < 0. For
other memories this holds for linear sigma_f and relu, and for tanh, logistic and softmax in the limit of small c.
"""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.cells import EpisodicMemory
from mnemoscope.cells.lagrangians import Lagrangian, Softmax

NEARER_THAN_ALL_OTHERS = sqrt(0.5) * (1 + 1e-9)
"""Overlap above which V_f is nearer to one memory than to all others together. The squared cosines with orthogonal
memories add up to at most 1, so two of them cannot both be above. An equal mixture of two is just below, whatever its
rounding, and one of three further below."""
SILENT = 1e-9
"""States whose largest |read| is below this count as silent."""


def overlap_with(memory: EpisodicMemory, read: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch memories"]:
    """Return the cosine of `read` with each memory; 0 if either is zero.

    >>> p = torch.tensor([1.0, 1, -1, -1])
    >>> memory = EpisodicMemory(p.unsqueeze(1), sigma_f="logistic")
    >>> overlap_with(memory, read_features(memory, torch.stack([3 * p, -p]))).round(decimals=6).tolist()
    [[1.0], [-1.0]]
    """
    Xi = directions(memory)
    tiny = torch.finfo(read.dtype).tiny
    scaled = read / read.abs().amax(-1, keepdim=True).clamp_min(tiny)  # prevents overflow of the squares
    lengths = scaled.norm(dim=-1, keepdim=True) * Xi.norm(dim=0)
    return (scaled @ Xi / lengths.clamp_min(tiny)).masked_fill(is_silent(read).unsqueeze(-1), 0)


def read_features(memory: EpisodicMemory, V_f: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch features"]:
    """Return `read` of V_f (see above); raise if it is not finite."""
    sigma = memory.sigma_f
    read = V_f if _is_one_sided(sigma, V_f) else sigma(V_f) - _silent_rates(sigma, V_f)
    if not torch.isfinite(read).all():
        raise ValueError(
            f"The features have grown to infinity and have no overlap: neither sigma_f ({sigma.extra_repr()}) nor "
            f"sigma_h ({memory.sigma_h.extra_repr()}) bounds them. Take one that does, such as tanh, or weaker "
            f"memories (alpha_s), or fewer steps."
        )
    return read


def read_rates(memory: EpisodicMemory, rates: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch features"]:
    """Return `read` from the rates alone; raise if they do not determine it."""
    if _is_one_sided(memory.sigma_f, rates):
        raise ValueError(
            f"The rates of {memory.sigma_f.name} features do not distinguish a feature at 0 from one far below, which "
            f"the overlap with a memory needs. Use the fixed points of memory.discrete(), whose states are V_f."
        )
    return rates - _silent_rates(memory.sigma_f, rates)


def directions(memory: EpisodicMemory) -> Float[Tensor, "features memories"]:
    """Return the vectors with which the overlap is taken, one memory per column."""
    Xi = memory.Xi.detach()
    if not isinstance(memory.sigma_f, Softmax):
        return Xi
    centred = Xi - Xi.mean(0)
    rounding = memory.features * torch.finfo(Xi.dtype).eps * Xi.abs().amax(0)
    return centred.masked_fill(centred.abs().amax(0) <= rounding, 0)  # a constant memory becomes exactly 0


def is_silent(read: Float[Tensor, "*batch features"]) -> Bool[Tensor, "*batch"]:
    """Return which states are silent: the direction of their `read` is rounding."""
    return read.abs().amax(-1) < SILENT


def _silent_rates(sigma: Lagrangian, like: Tensor) -> Float[Tensor, " features"]:
    return sigma(like.new_zeros(like.shape[-1]))


def _is_one_sided(sigma: Lagrangian, like: Tensor) -> bool:
    """Whether the rates of a silent network are the lowest possible."""
    return bool((_silent_rates(sigma, like) <= sigma.low).all())
