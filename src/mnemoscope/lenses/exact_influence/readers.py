"""The readers of a layer: what every read sees of the state after every earlier step.

The state after step u is only carried and read later, so that its part of the read t is `r^T S_u` with the reader

    r_{t,u} = A_{u+1}^T ... A_t^T q_t.

Steps are taken in chunks. The readers inside of all chunks are carried back together, step by step. Those of earlier
chunks are carried by the operators of whole chunks, and read sources that were carried to the end of their chunk: all
pairs of reads and sources then cost one matrix product for each pair of chunks. Nothing is divided by a decay, so that
strong decays only round to 0.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import pad

from mnemoscope.base.array_types import Inexact
from mnemoscope.cells.affine.parts import Parts, carry_back

CHUNK = 64
"""Steps of a chunk."""


class Readers:
    """The readers of all steps of some heads. `within` is iterated to its end before `across`.

    Steps without effect fill up the last chunk.
    """

    def __init__(self, parts: Parts, dtype: torch.dtype, size: int | None = None) -> None:
        self.time = len(parts.queries)
        self.size = min(size or CHUNK, self.time)
        """Steps of a chunk."""
        self.chunks = -(-self.time // self.size)
        """Number of chunks."""
        self._parts = parts
        self._dtype = dtype
        self._first: Tensor | None = None
        self._operators: Tensor | None = None

    def in_chunks(self, x: Inexact[Tensor, "time ..."]) -> Inexact[Tensor, "chunks steps ..."]:
        """Return a sequence in chunks, with zeros after its end."""
        missing = self.chunks * self.size - self.time
        x = pad(x, (0, 0) * (x.dim() - 1) + (0, missing)) if missing else x
        return x.unflatten(0, (self.chunks, self.size))

    def within(self) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Yield each step of a chunk from the last to the first, with readers and an operator of every chunk.

        The readers (chunks, batch, heads, reads, keys) are those of the state after the step, by it and by the later
        reads of the chunk. The operator carries this state to the end of the chunk: (chunks, batch, heads, keys, keys),
        or (chunks, batch, heads, keys, 1) if it is diagonal.
        """
        steps = [self.in_chunks(x) for x in self._parts.tensors()]
        readers = steps[0].permute(0, 2, 3, 1, 4).to(self._dtype).clone()  # (chunks, batch, heads, steps, keys)
        diagonal, keys = self._parts.erase is None, readers.shape[-1]
        rows = readers.new_ones(1, keys) if diagonal else torch.eye(keys, dtype=self._dtype, device=readers.device)
        operator = rows.expand(*readers.shape[:3], -1, -1)
        for j in range(self.size - 1, -1, -1):
            yield j, readers[..., j:, :], operator.mT if diagonal else operator
            step = self._step([x[:, j] for x in steps])
            readers[..., j:, :] = carry_back(step, readers[..., j:, :])
            operator = carry_back(step, operator)
        self._first, self._operators = readers, operator

    def across(self) -> Iterator[tuple[int, Tensor]]:
        """Yield each chunk but the last, from the last to the first, and the readers of its last state.

        They are those of all reads after the chunk, (batch, heads, reads, keys).
        """
        assert self._first is not None
        assert self._operators is not None
        later = self._first[-1, ..., :0, :]
        for chunk in range(self.chunks - 2, -1, -1):
            operator = self._operators[chunk + 1]
            carried = later * operator if self._parts.erase is None else later @ operator
            later = torch.cat([self._first[chunk + 1], carried], -2)
            yield chunk, later

    def _step(self, tensors: list[Tensor]) -> Parts:
        erase = None if self._parts.erase is None else (tensors[4], tensors[5])
        q, k, v, g = tensors[:4]
        return self._parts._replace(queries=q, keys=k, values=v, log_decays=g, erase=erase)


def carried_to_end(operator: Tensor, X: Tensor) -> Tensor:
    """Return sources that an operator of `Readers.within` carries to the end of their chunk."""
    return operator * X if operator.shape[-1] == 1 else operator @ X
