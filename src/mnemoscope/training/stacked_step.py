"""A training step of stacked networks, which a GPU replays as one CUDA graph with its batch and the optimiser."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.config.run_config import RunConfig
from mnemoscope.training.checkpoint import Counters
from mnemoscope.training.graphed_pass import warn_without_graphs
from mnemoscope.training.optimiser import build_optimiser, set_learning_rate
from mnemoscope.training.stacked_batches import Block, StackedProblems, TrainingStream

WARM_UP = 3
"""Steps of a new shape that run without a CUDA graph, before it is recorded."""
Outcomes = Callable[[StackedProblems], tuple[Tensor, Tensor, Tensor]]
"""Function that returns cost, loss and accuracy of each network."""


class StackedStep:
    """Callable that trains all networks on their next batch, and returns the learning rate.

    A graph fixes the shapes of a block and the number of images in the table. Both soon stay the same: a new graph is
    recorded if they change.

    Args:
        config: the configuration that the networks share.
        learned: stacked weights.
        outcomes: cost, loss and accuracy of each network on a batch.
        stream: source of the batches.

    """

    def __init__(
        self, config: RunConfig, learned: nn.ParameterDict, outcomes: Outcomes, stream: TrainingStream
    ) -> None:
        self._config, self._outcomes, self._stream = config, outcomes, stream
        self._optimiser = build_optimiser(config, learned)
        self._learned = [*learned.values()]
        self._counters = Counters()
        self._graphed = config.device == "cuda" and config.cuda_graphs is not False
        self._rate: Tensor | None = None
        """Learning rate that a graph reads."""
        if self._graphed:
            self._rate = torch.tensor(config.learning_rate, device=config.device)
            (group,) = self._optimiser.param_groups
            group["capturable"] = True
            group["fused"] = "fused" in group  # one kernel instead of some per weight
        self._place = torch.zeros(1, dtype=torch.int64, device=config.device)
        """Place of the next batch in the block."""
        self._sums = torch.zeros(2, len(self._learned[0]), device=config.device)
        self._following = stream.block(0)
        self._block, self._table = self._following, stream.table
        self._graph: torch.cuda.CUDAGraph | None = None
        self._seen = 0

    def __call__(self) -> float:
        number, place = divmod(self._counters.step, self._stream.at_once)
        if place == 0:
            self._start(self._following)
        rate = set_learning_rate(self._optimiser, self._config, self._counters)
        if self._rate is not None:
            self._rate.fill_(rate)
            self._optimiser.param_groups[0]["lr"] = self._rate
        self._counters.step += 1
        self._advance()
        if place == self._stream.at_once - 1 and self._counters.step < self._config.steps:
            self._following = self._stream.block(number + 1)  # while a GPU is still at work
        return rate

    def take_sums(self) -> Float[Tensor, "2 networks"]:
        """Return the losses and gradient norms of each network, summed since the last call."""
        sums = self._sums.clone()
        self._sums.zero_()
        return sums

    def _start(self, block: Block) -> None:
        """Begin with the first batch of a block."""
        self._place.zero_()
        if self._table.shape != self._stream.table.shape or self._block.rows.shape != block.rows.shape:
            self._graph, self._seen, self._table = None, 0, self._stream.table
        if self._graph is None:
            self._block = block
            return
        for into, part in zip(self._block, block, strict=True):
            into.copy_(part)

    def _advance(self) -> None:
        if self._graph is not None:
            self._graph.replay()
            return
        for weight in self._learned:
            weight.grad = None
        self._seen += 1
        if not self._graphed or self._seen <= WARM_UP:
            self._run()
            return
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=torch.cuda.current_stream(), capture_error_mode="thread_local"):
                self._run()
        except RuntimeError as error:
            self._graphed = False
            warn_without_graphs(f"recording failed: {str(error).splitlines()[0]}")
            self._advance()
            return
        self._graph = graph
        graph.replay()

    def _run(self) -> None:
        """Train on the batch at the present place of the block, and move on to the next place."""
        rows, objects, labels = (part.index_select(1, self._place).squeeze(1) for part in self._block)
        cost, loss, _ = self._outcomes(StackedProblems(self._table[rows], objects, labels))
        cost.sum().backward()
        gradients = [weight.grad.flatten(1) for weight in self._learned if weight.grad is not None]
        self._sums += torch.stack([loss.detach(), torch.linalg.vector_norm(torch.cat(gradients, 1), dim=1)])
        self._optimiser.step()
        self._place += 1
