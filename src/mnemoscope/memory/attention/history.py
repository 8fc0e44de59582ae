"""A history that all steps of a scan read: every state is stored once, and no step stores a copy of what it read.

Autograd would store the rows that each step attends to: T times the number of slots. Here all rows are in one tensor; a
step stores its query and the positions it read, and adds its gradient to one tensor of the shape of the rows. An empty
token that passes from step to step makes autograd run these gradients in reverse order of time.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.kernels.batched_gradients import is_batched
from mnemoscope.memory.attention.alignment import Alignment, Features, HeadWeights, Query, Rows, Valid

Positions = Int[Tensor, "slots batch"]


class History:
    """Rows (length, batch, width), written in order; `row` (batch, width) gives their shape, dtype and device."""

    def __init__(self, length: int, row: Float[Tensor, "batch width"]) -> None:
        self.rows = row.new_zeros(length, *row.shape)
        self.grad: Tensor | None = None
        self.token = row.new_zeros(0)
        self._column = torch.arange(row.shape[0], device=row.device)

    def write(self, position: int | slice, row: Float[Tensor, "*rows batch width"]) -> None:
        """Store one or several rows, with their gradient."""
        self.token = _Write.apply(self.token, row, self, position)

    def attend(
        self, alignment: Alignment, query: Query, positions: Positions | int, valid: Valid | None
    ) -> tuple[Features, HeadWeights]:
        """Attend to the rows at `positions`, or to the first n; the weights have no gradient."""
        return _Attend.apply(self.token, query, self, alignment, positions, valid, *alignment.score_parameters())

    def read(self, positions: Positions) -> Rows:
        """Return the rows at `positions`, with their gradient."""
        return _Read.apply(self.token, self, positions)

    def close(self, *results: Tensor) -> tuple[Tensor, ...]:
        """Return the results; their gradients enter the backward pass here, before those of all steps."""
        closed = _Close.apply(self, self.token, *results)
        # the graph refers to the history: a reference back would be a cycle, and neither would be freed
        self.token = self.token.detach()
        return closed

    def flat(self, positions: Positions) -> Int[Tensor, " rows"]:
        """Return the indices into the flat list of all rows."""
        return (positions * self.rows.shape[1] + self._column).flatten()

    def gather(self, positions: Positions | int) -> Rows:
        """Return the rows without a gradient; the first n rows are a view."""
        if isinstance(positions, int):
            return self.rows[:positions]
        return self.rows.flatten(0, 1).index_select(0, self.flat(positions)).unflatten(0, positions.shape)

    def add_gradient(self, positions: Positions | int, grad: Rows) -> None:
        """Add to the gradient of the rows at `positions`."""
        assert self.grad is not None
        if isinstance(positions, int):
            self.grad[:positions] += grad
        else:
            self.grad.flatten(0, 1).index_add_(0, self.flat(positions), grad.flatten(0, 1))


class _Write(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, token: Tensor, row: Tensor, history: History, position: int | slice) -> Tensor:
        history.rows[position] = row
        ctx.history, ctx.position = history, position
        return token.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (grad,) = grads
        return grad, ctx.history.grad[ctx.position], None, None


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, token: Tensor, query: Tensor, history: History, alignment: Alignment, *given: Any
    ) -> tuple[Tensor, Tensor]:
        positions, valid, *parameters = given
        context, weights = alignment.attend(query, history.gather(positions), valid)
        ctx.mark_non_differentiable(weights)
        ctx.save_for_backward(query, *parameters)  # the present parameters, so that autograd detects a later change
        ctx.history, ctx.alignment, ctx.positions, ctx.valid = history, alignment, positions, valid
        return context, weights

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        grad = grads[0]
        query, *parameters = ctx.saved_tensors
        gradients = ctx.alignment.backward(grad, query, ctx.history.gather(ctx.positions), ctx.valid, tuple(parameters))
        ctx.history.add_gradient(ctx.positions, gradients.rows)
        return grad.new_zeros(0), gradients.query, None, None, None, None, *gradients.weights


class _Read(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, token: Tensor, history: History, positions: Tensor) -> Tensor:
        ctx.history, ctx.positions = history, positions
        return history.gather(positions)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (grad,) = grads
        ctx.history.add_gradient(ctx.positions, grad)
        return grad.new_zeros(0), None, None


class _Close(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, history: History, token: Tensor, *results: Tensor) -> tuple[Tensor, ...]:
        ctx.history = history
        return tuple(result.view_as(result) for result in results)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "Second derivatives through a shared history of attention are not implemented. Run the steps with "
                "scan(..., backend='loop')."
            )
        if is_batched(*grads):
            raise RuntimeError(
                "A shared history of attention takes one gradient at a time. Call torch.autograd.grad once for each, "
                "or run the steps with scan(..., backend='loop')."
            )
        ctx.history.grad = torch.zeros_like(ctx.history.rows)
        return None, grads[0].new_zeros(0), *grads
