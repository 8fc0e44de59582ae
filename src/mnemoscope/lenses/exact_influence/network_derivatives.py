"""The influence of inputs through a whole network: derivatives of its outputs by its inputs.

The influences of layers do not multiply, so the network is differentiated as a whole, by one backward pass for each
output and direction; a readout with more outputs than features is first turned into one with as many, which has the
same squared derivatives. Nothing after an output matters for it, so that the network runs up to this output. Of a small
network, copies of the sequences in one batch take many passes at a time; a large one runs forward once for all
directions of an output.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from math import sqrt
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Bool, Float, Int, Num
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.cells import Cell, Model, scan
from mnemoscope.cells.pretrained.module_cell import ModuleCell
from mnemoscope.cells.sequence import without_masked
from mnemoscope.cells.state import State, map_state
from mnemoscope.lenses.exact_influence.device_limits import of_device
from mnemoscope.lenses.wide_readouts import narrow_readout

WORK = {"cpu": 200_000_000_000, "cuda": 3_000_000_000_000}
"""Multiplications and additions up to which every output is differentiated in every direction, some seconds."""
OVERHEAD = 100_000
"""Multiplications and additions that take as long as the overhead of one step."""
DIRECTIONS = 4
"""Random directions of each output otherwise, for as many outputs as fit."""
ROOM = {"cpu": 4_000_000, "cuda": 1_000_000_000}
"""Numbers of inputs and weights of activations that are in memory at a time, roughly."""


class ModelPath(NamedTuple):
    """Squared derivatives of outputs by inputs."""

    energies: Float[Tensor, "batch rows time"]
    """`|d y_t / d x_s|^2`, the sum over all features of outputs and inputs."""
    rows: Int[Tensor, " rows"]
    """The outputs t."""
    directions: int
    """Number of random directions of each output; 0 if the numbers are exact."""

    @property
    def standard_error(self) -> float:
        """Largest standard error of a number, relative to it: `var |J^T z|^2 <= 2 |J|^4` for random signs z."""
        return sqrt(2 / self.directions) if self.directions else 0.0


def model_path(
    network: Cell | Model,
    xs: Num[Tensor, "time batch ..."],
    mask: Bool[Tensor, "time batch"] | None = None,
    state: State | None = None,
    *,
    rows: int | None = None,
    directions: int | None = None,
    seed: int = 0,
) -> ModelPath:
    """Return the squared derivatives of the outputs of a network by its encoded inputs.

    Args:
        network: a model or a cell, for sequences that are time first.
        xs: its inputs.
        mask: False after the end of a sequence.
        state: the state before the first input.
        rows: number of outputs, evenly spaced and with the last one; 0 for all. By default all, unless that takes long.
        directions: number of random directions of each output; 0 for all directions, which is exact. By default exact,
            unless that takes long.
        seed: seed of the random directions.

    """
    runner = _Runner(network, state)
    xs = without_masked(xs, mask)
    time, batch = xs.shape[:2]
    size = runner.output_size(xs)
    passes = runner.passes(xs)
    if directions is None:
        directions = 0 if size * (rows or time) <= passes or size <= DIRECTIONS else DIRECTIONS
    number = directions or size
    if rows is None:
        rows = 0 if time * number <= passes else max(2, passes // number)
    chosen = torch.linspace(time - 1, 0, min(rows or time, time)).round().long().unique()
    generator = seeded_generator(seed)
    energies = torch.zeros(batch, len(chosen), time, dtype=torch.float64)
    copies = max(1, of_device(ROOM, xs) // (time * runner.width(xs)))
    for sequences, outputs, which in _passes(batch, len(chosen), number, copies):
        if directions:
            seeds = 2.0 * torch.randint(2, (*which.shape, size), generator=generator) - 1
        else:
            seeds = nn.functional.one_hot(which, size).double()
        squares = runner.squared_gradients(xs, sequences, chosen[outputs], seeds).double().cpu()
        places = (sequences, outputs)
        energies[..., : squares.shape[-1]].index_put_(places, squares, accumulate=True)
    energies /= max(directions, 1)
    later = chosen.unsqueeze(-1) < torch.arange(time)
    energies.masked_fill_(later, 0.0)
    if mask is not None:
        energies.masked_fill_(~mask.T[:, chosen].cpu().unsqueeze(-1), 0.0)
    return ModelPath(energies, chosen, directions)


def _passes(batch: int, rows: int, number: int, copies: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield sequences and outputs, (copies,), to run together, and the directions of each, (passes, copies)."""
    sequences, outputs = torch.cartesian_prod(torch.arange(rows), torch.arange(batch)).unbind(1)[::-1]
    if copies < number:  # the passes of an output share its forward pass
        directions = torch.arange(number).unsqueeze(1)
        for row in range(rows):
            for some in torch.arange(batch).split(copies):
                yield some, torch.full_like(some, row), directions.expand(-1, len(some))
        return
    sequences, outputs = (x.repeat_interleave(number) for x in (sequences, outputs))
    directions = torch.arange(number).repeat(rows * batch)
    parts = (x.split(copies) for x in (sequences, outputs, directions))
    for some, rows_of, which in zip(*parts, strict=True):
        yield some, rows_of, which.unsqueeze(0)


class _Runner:
    """Runs a network and differentiates it by its encoded inputs, or by the embeddings that a module looks up."""

    def __init__(self, network: Cell | Model, state: State | None = None) -> None:
        self.state = state
        self.model = network if isinstance(network, Model) else None
        self.cell = network.cell if isinstance(network, Model) else network
        self.readout = nn.Identity() if self.model is None else narrow_readout(self.model.step_readout)

    def passes(self, xs: Tensor) -> int:
        """Return how many backward passes of each sequence take some seconds."""
        weights = sum(weight.numel() for weight in self.cell.parameters())
        each = xs.shape[0] * xs.shape[1] * (6 * weights + OVERHEAD)
        return of_device(WORK, xs) // each

    def width(self, xs: Tensor) -> int:
        """Return roughly how many numbers a step keeps for the backward pass."""
        return max(1, sum(weight.numel() for weight in self.cell.parameters()) // 64 + xs[0, 0].numel())

    @torch.no_grad()
    def output_size(self, xs: Tensor) -> int:
        """Return the number of features of an output."""
        encoded = xs[:1, :1] if self.model is None else self.model.encode(xs[:1, :1])
        return self._run(encoded, torch.zeros(1, dtype=torch.long, device=xs.device)).shape[-1]

    def squared_gradients(
        self, xs: Tensor, sequences: Tensor, steps: Tensor, seeds: Float[Tensor, "passes copies outputs"]
    ) -> Float[Tensor, "copies time"]:
        """Return the squared norms of the gradients of `seeds . y_step` by all inputs, the sums over the passes.

        Each copy is one of the sequences, and has one step. On a CPU, inputs after the last of these steps are left
        out; kernels of a GPU would be compiled for many lengths.
        """
        copies, sequences, steps = (x.to(xs.device) for x in (torch.arange(len(steps)), sequences, steps))
        xs = xs[: len(xs) if xs.is_cuda else int(steps.max()) + 1, sequences]
        encoded = xs if self.model is None else self.model.encode(xs)
        with torch.enable_grad(), _embeddings(self.cell) as embedded:
            leaves: list[Tensor] = embedded
            if encoded.is_floating_point() or encoded.is_complex():
                encoded = encoded.detach().clone().requires_grad_()
                leaves = [encoded]
            outputs = self._run(encoded, sequences)
            if not leaves:
                raise TypeError(
                    f"The inputs of {type(self.cell).__name__} are token numbers, and it has no torch.nn.Embedding "
                    f"that turns them into vectors, by which to differentiate; pass model=False."
                )
            chosen = outputs[steps, copies]
            total: Tensor | None = None
            for number, seed in enumerate(seeds.to(chosen), 1):
                gradients = torch.autograd.grad(chosen, leaves, seed, retain_graph=number < len(seeds))
                squares = self._squares(gradients, leaves[0] is encoded)
                total = squares if total is None else total + squares
        assert total is not None
        return total

    def _squares(self, gradients: Sequence[Tensor], by_inputs: bool) -> Float[Tensor, "copies time"]:
        if by_inputs:
            return gradients[0].abs().square().flatten(2).sum(-1).T
        # a module looks up whole sequences (batch, time, features), or one token of each, (batch, 1, features)
        return torch.cat([part.square().sum(-1).reshape(len(part), -1) for part in gradients], dim=1)

    def _run(self, encoded: Tensor, sequences: Tensor) -> Tensor:
        if isinstance(self.cell, ModuleCell) and self.state is None:  # in one call instead of steps
            outputs = self.cell.whole(encoded.transpose(0, 1)).transpose(0, 1)
        else:
            state = None if self.state is None else map_state(lambda leaf: leaf[sequences], self.state)
            outputs = scan(self.cell, encoded, state)[0]
        return self.readout(outputs)


@contextmanager
def _embeddings(cell: Cell) -> Generator[list[Tensor]]:
    """Collect the vectors that a module of another library looks up for its tokens, as leaves of the derivative."""
    found: list[Tensor] = []

    def detach(_: nn.Module, __: Any, output: Tensor) -> Tensor:
        leaf = output.detach().requires_grad_()
        found.append(leaf)
        return leaf

    tables = [part for part in cell.modules() if isinstance(part, nn.Embedding)][:1]
    handles = [table.register_forward_hook(detach) for table in tables]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()
