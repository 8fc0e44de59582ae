"""Several reservoirs stepped together without gradients, as sparse matrices where that is faster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells.cell import check_input
from mnemoscope.cells.leaky_reservoir import LeakyReservoir
from mnemoscope.cells.nonlinearities import Elementwise, Nonlinearity
from mnemoscope.kernels.sparse_products import SparseMatrix, block_diagonal
from mnemoscope.kernels.stepping import as_array, leaky_mix

Inputs = Float[Tensor, "time ... features"]
"""Inputs (time, batch, features), shared by all reservoirs, or (time, reservoirs, batch, features)."""
States = Float[Tensor, "reservoirs batch hidden"]
SPARSE = 0.3
"""Density below which a product with a sparse matrix is faster than with a dense one (N = 1000, CPU)."""
GROUP = 4
"""Sparse reservoirs per thread: enough to hide the overhead of Python, few enough for the thread's cache."""
CHUNK = 256
"""Steps whose inputs are projected together: a few MB, whatever the length of the sequence."""
SMALL = 500_000
"""Entries of a sparse matrix below which one thread finishes a product before a second one has started."""
_THREADS = Lock()
"""Held while the number of torch's threads, a setting of the whole process, is changed."""


class Reservoirs:
    """Reservoirs of one size and form, stepped together without gradients; states are (reservoirs, batch, hidden).

    On the CPU, sparse W_r are stored as one sparse block-diagonal matrix, and the feedback as a low-rank product.

    >>> from mnemoscope.cells import EchoState
    >>> cells = [EchoState(3, 100) for _ in range(16)]
    >>> rates, state = Reservoirs(cells).run(torch.zeros(20, 1, 3))
    >>> rates.shape
    torch.Size([20, 16, 1, 100])
    """

    def __init__(self, cells: Sequence[LeakyReservoir]) -> None:
        self.cells = tuple(cells)
        _check_alike(self.cells)
        first = self.cells[0]
        self.size, self.outputs = first.hidden_size, first.output_size
        self.form, self.leak, self.phi = first.form, first.leak, first.phi
        with torch.no_grad():
            self._drive = torch.stack([cell.drive for cell in self.cells])
            self._bias = torch.stack([cell.bias for cell in self.cells])
            matrices = [cell.recurrent for cell in self.cells]
            self._blocks = _sparse(matrices)
            """All W_r as one sparse matrix; None unless they are sparse enough."""
            self._W_T = None if self._blocks is not None else torch.stack([W.mT for W in matrices])
            self._groups = [slice(first, first + GROUP) for first in range(0, len(matrices), GROUP)]
            """Reservoirs that one thread steps together."""
            self._group_blocks = [self._blocks] if self._blocks is not None else []
            if self._blocks is not None and len(self._groups) > 1:
                self._group_blocks = [block_diagonal(matrices[group]) for group in self._groups]
            self.feedback = _stacked([cell.feedback for cell in self.cells])
            self.readout = _stacked([cell.readout for cell in self.cells])
            """A copy of every W_o (reservoirs, output, hidden), or None."""

    def initial_state(self, batch: int) -> States:
        return self._bias.new_zeros(len(self.cells), batch, self.size)

    def driven(self, xs: Inputs) -> Iterator[States]:
        """Yield `B u + b` of each step."""
        for part in self._driven_parts(xs, slice(None)):
            yield from part.unbind()

    def _driven_parts(self, xs: Tensor, group: slice) -> Iterator[Tensor]:
        """Yield `B u + b` (time, reservoirs, batch, hidden) for a group of reservoirs, a chunk of steps at a time."""
        drive, bias = self._drive[group], self._bias[group]
        for part in xs.split(CHUNK):
            if part.dim() == 3:  # shared inputs: one product for all reservoirs
                us = (part @ drive.flatten(0, 1).mT).unflatten(-1, (-1, self.size)).transpose(1, 2)
            else:
                us = part[:, group] @ drive.mT
            yield (us + bias.unsqueeze(1)).contiguous()

    def rates(self, x: States) -> States:
        return self.phi(x) if self.form == "current" else x

    def read(self, rates: States) -> Float[Tensor, "reservoirs batch output"]:
        """Return the outputs z = W_o r."""
        assert self.readout is not None
        return rates @ self.readout.mT

    def step(self, u: Tensor, x: Tensor, rates: Tensor, z: Tensor | None) -> States:
        """Return the next states from states x with their `rates`; z is fed back (W_o r, or a teacher's signal)."""
        pre = self._recurred(rates).add_(u)
        if self.feedback is not None and z is not None:
            pre = pre.add_(z @ self.feedback.mT)
        pre = pre if self.form == "current" else self.phi(pre)
        return torch.lerp(x, pre, self.leak)

    @torch.no_grad()
    def run(
        self, xs: Inputs, state: States | None = None
    ) -> tuple[Float[Tensor, "time reservoirs batch hidden"], States]:
        """Return the rates at every step, and the last states."""
        check_input(self.cells[0], xs)
        last = self.initial_state(xs.shape[-2]) if state is None else state
        kept = last.new_empty(xs.shape[0], *last.shape)
        if self._blocks is None or last.shape[1] != 1:
            steps = self._steps(xs, last)
            for row in kept.unbind():
                last, rates = next(steps)
                row.copy_(rates)
            return kept, last
        groups = list(zip(self._groups, self._group_blocks, strict=True))

        def run_group(number: int) -> Tensor:
            group, blocks = groups[number]
            return self._run_group(group, blocks, kept[:, group], xs, last[group])

        return kept, torch.cat(_in_threads(run_group, len(groups), self._blocks.entries // len(groups)))

    @torch.no_grad()  # needed here again: it applies to one thread only
    def _run_group(self, group: slice, blocks: SparseMatrix, kept: Tensor, xs: Tensor, state: Tensor) -> Tensor:
        """Write the rates of a group of sparse reservoirs (batch 1) into `kept`; return their last states.

        Elementwise functions run in numpy, where they take a third of the time on vectors of 1,000 units.
        """
        pre = torch.empty_like(state, memory_format=torch.contiguous_format)
        x, r, z = as_array(state.flatten().clone()), as_array(self.rates(state).flatten()), as_array(pre.flatten())
        squash, mix = self._squash_in_place(z, state.shape), leaky_mix(self.leak, z)
        W_o_T = None if self.readout is None else self.readout[group].mT
        W_fb_T = None if self.feedback is None else self.feedback[group].mT
        current = self.form == "current"
        us = (u for part in self._driven_parts(xs, group) for u in as_array(part.flatten(1)))
        with np.errstate(all="ignore"):
            for row, u in zip(as_array(kept.flatten(1)), us, strict=True):
                blocks.add_times_vector(u, r, out=z)
                if W_fb_T is not None and W_o_T is not None:
                    pre.add_(torch.from_numpy(r).view_as(state) @ W_o_T @ W_fb_T)
                if current:
                    mix(x, z, out=x)
                    row[...] = x
                    squash(row)
                else:
                    squash(z)
                    mix(r, z, out=row)
                r = row
        return torch.from_numpy(x if current else r.copy()).view_as(state)

    def _squash_in_place(self, like: np.ndarray, shape: torch.Size) -> Callable[[np.ndarray], Any]:
        """Return a function that computes `z <- phi(z)` for arrays like this one, the units of states of that shape."""
        activation = self.phi.description()
        if activation is None or activation.takes_bias:
            return lambda z: _squash(self.phi, shape, torch.from_numpy(z))
        if activation.runs_in_numpy:
            return activation.on_arrays(like, None)
        squash = activation.in_place(torch.from_numpy(like), None)
        return lambda z: squash(torch.from_numpy(z))

    @torch.no_grad()
    def run_outputs(
        self, xs: Inputs, state: States | None = None
    ) -> tuple[Float[Tensor, "time reservoirs batch output"], States]:
        """Return the outputs z at every step, and the last states.

        No rates are kept, so that long runs of many reservoirs fit in memory.
        """
        check_input(self.cells[0], xs)
        if self.readout is None:
            raise ValueError("These reservoirs have no readout; give them an output_size.")
        last = self.initial_state(xs.shape[-2]) if state is None else state
        kept = last.new_empty(xs.shape[0], *last.shape[:2], self.outputs)
        steps = self._steps(xs, last)
        for row in kept.unbind():
            last, rates = next(steps)
            row.copy_(self.read(rates))
        return kept, last

    def scan(
        self, xs: Float[Tensor, "time batch features"], state: Float[Tensor, "batch hidden"]
    ) -> tuple[Float[Tensor, "time batch hidden"], Float[Tensor, "batch hidden"]]:
        """Return what `mnemoscope.scan` returns for the first reservoir."""
        rates, last = self.run(xs, state.unsqueeze(0))
        return rates[:, 0], last[0].clone()

    def _recurred(self, r: Tensor) -> Tensor:
        """Return `W_r r` of each reservoir as a new tensor."""
        if self._W_T is not None:
            return torch.bmm(r, self._W_T)
        assert self._blocks is not None
        if r.shape[1] == 1:
            return self._blocks.times_vector(r.view(-1)).view_as(r)
        product = self._blocks.times_matrix(r.mT.flatten(0, 1))
        return product.view(r.shape[0], r.shape[2], r.shape[1]).mT.contiguous()

    def _steps(self, xs: Tensor, x: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        rates = self.rates(x)
        for u in self.driven(xs):
            z = None if self.feedback is None else self.read(rates)
            x = self.step(u, x, rates, z)
            rates = self.rates(x)
            yield x, rates


def _in_threads(job: Callable[[int], Tensor], jobs: int, entries: int) -> list[Tensor]:
    """Run each job in one thread, as many at a time as torch has threads: a small matrix stays in the thread's cache.

    Large matrices (`entries` of each) run in sequence, with all of torch's threads.
    """
    if entries >= SMALL:
        return [job(number) for number in range(jobs)]

    def single_threaded(number: int) -> Tensor:
        torch.set_num_threads(1)
        return job(number)

    with _THREADS:
        threads = torch.get_num_threads()
        try:
            if jobs == 1 or threads == 1:
                return [single_threaded(number) for number in range(jobs)]
            with ThreadPoolExecutor(threads) as pool:
                return list(pool.map(single_threaded, range(jobs)))
        finally:
            torch.set_num_threads(threads)


def _sparse(matrices: Sequence[Tensor]) -> SparseMatrix | None:
    """Return a block-diagonal sparse matrix of these, or None where dense products are faster."""
    first = matrices[0]
    entries = sum(int(torch.count_nonzero(W)) for W in matrices)
    few = entries < SPARSE * len(matrices) * first.numel()
    precise = first.dtype in (torch.float32, torch.float64)
    return block_diagonal(matrices) if few and precise and first.device.type == "cpu" else None


def _squash(phi: Nonlinearity, shape: torch.Size, z: Tensor) -> None:
    z.copy_(phi(z.view(shape)).flatten())


def _same(a: Nonlinearity, b: Nonlinearity) -> bool:
    """Whether two nonlinearities are known to be the same function."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, Elementwise) and isinstance(b, Elementwise):
        return a.function is b.function
    parameters = dict(b.named_parameters())
    equal = all(torch.equal(value, parameters[name]) for name, value in a.named_parameters())
    return equal and a.description() is not None and type(a.description()) is type(b.description())


def _stacked(matrices: Sequence[Tensor | None]) -> Tensor | None:
    present = [matrix for matrix in matrices if matrix is not None]
    return torch.stack(present).detach().clone() if present else None


def _check_alike(cells: Sequence[LeakyReservoir]) -> None:
    if not cells:
        raise ValueError("There is no reservoir to run: the list is empty.")
    kinds = {
        (
            *(cell.input_size, cell.hidden_size, cell.output_size, cell.feedback is None),
            *(cell.form, cell.leak, cell.recurrent.dtype, cell.recurrent.device),
        )
        for cell in cells
    }
    if len(kinds) > 1 or not all(_same(cells[0].phi, cell.phi) for cell in cells):
        raise ValueError(
            "Reservoirs that run together must agree in sizes, form, leak, nonlinearity, dtype and device, but these "
            f"differ: {'; '.join(sorted(map(repr, cells)))}"
        )
