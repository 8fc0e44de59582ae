"""Affine recurrences in chunks: the chunks in parallel, then a loop over their states.

Inside a chunk that starts from the state S_0, the rows `u_i = b_i^T S_{i-1}` solve a triangular system, and states and
outputs are linear in S_0. With the decayed products of `affine_decays`, such as `(BA)_ij`,

    (I - BA) [W, Z] = [B_in, BK V],     U   = W S_0 + Z
    O   = Q_in S_0 + QK V + QA U,       S_C = (diag(e^G) + A_out^T W) S_0 + K_out^T V + A_out^T Z

where `in` means decayed from the chunk's start, `out` decayed to its end, and G is the decay over the chunk.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.kernels.affine_decays import decayed_products


def chunked(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, erase: tuple[Tensor, Tensor] | None, state: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the outputs (heads, chunks, steps, values) and the final state (heads, keys, values).

    All sequences are (heads, chunks, steps, features), and the steps of a chunk are a power of 2.
    """
    heads, chunks = q.shape[:2]
    q, k, v, g = (x.flatten(0, 1) for x in (q, k, v, g))
    reads, writes = q.unsqueeze(2), k.unsqueeze(2)
    if erase is not None:
        reads, writes = (
            torch.cat([x, y.flatten(0, 1).unsqueeze(2)], 2) for x, y in ((reads, erase[1]), (writes, erase[0]))
        )
    products, decays = decayed_products(reads, writes, g)
    reads_in, writes_out = reads * decays.to_read.exp(), writes * decays.from_write.exp()
    keep = decays.total.exp().unsqueeze(-1)  # (heads chunks, keys or 1, 1)
    added = writes_out[:, :, 0].mT @ v
    if erase is None:
        starts, state = _carried(keep.unflatten(0, (heads, chunks)), added.unflatten(0, (heads, chunks)), state)
        outputs = reads_in[:, :, 0] @ starts + products[:, :, 0, :, 0] @ v
        return outputs.unflatten(0, (heads, chunks)), state
    right = torch.cat([reads_in[:, :, 1], products[:, :, 1, :, 0] @ v], -1)
    triangle = -products[:, :, 1, :, 1]  # its diagonal counts as 1
    W, Z = torch.linalg.solve_triangular(triangle, right, upper=False, unitriangular=True).split(
        [q.shape[-1], v.shape[-1]], -1
    )
    A_out = writes_out[:, :, 1].mT
    moved = torch.diag_embed(keep.squeeze(-1).expand(-1, q.shape[-1])) + A_out @ W
    added = added + A_out @ Z
    starts, state = _carried(moved.unflatten(0, (heads, chunks)), added.unflatten(0, (heads, chunks)), state)
    outputs = reads_in[:, :, 0] @ starts + products[:, :, 0, :, 0] @ v + products[:, :, 0, :, 1] @ (W @ starts + Z)
    return outputs.unflatten(0, (heads, chunks)), state


def _carried(moved: Tensor, added: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first state of every chunk, (heads chunks, keys, values), and the last state."""
    dense = moved.shape[-1] > 1
    starts = []
    for factor, term in zip(moved.unbind(1), added.unbind(1), strict=True):
        starts.append(state)
        state = (factor @ state if dense else factor * state) + term
    return torch.stack(starts, 1).flatten(0, 1), state
