"""A history that many steps read: every state is stored once, and no step keeps what it read.

Autograd would keep the rows that each step attends to, T times as many as there are slots. Here the rows lie in one
tensor, a step keeps its query and which rows it read, and its gradient goes into one tensor beside the rows. An empty
token handed from step to step makes autograd run these gradients in the order of time.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.kernels.batched_gradients import is_batched
from mnemoscope.memory.attention.alignment import Alignment


class History:
    """Rows (time, batch, width), written one after the other.

    Args:
        length: how many rows of each member of the batch there will be.
        row: of the shape, kind and device of one row, (batch, width).

    """

    def __init__(self, length: int, row: Float[Tensor, "batch width"]) -> None:
        self.rows = row.new_zeros(length, *row.shape)
        self.grad: Tensor | None = None
        self.token = row.new_zeros(0)
        self._column = torch.arange(row.shape[0], device=row.device)

    def write(self, place: int | slice, row: Float[Tensor, "*rows batch width"]) -> None:
        """Store a row, or several; what is stored carries its gradient."""
        self.token = _Write.apply(self.token, row, self, place)

    def attend(
        self,
        alignment: Alignment,
        query: Float[Tensor, "batch asked"],
        places: Int[Tensor, "slots batch"] | int,
        valid: Bool[Tensor, "slots batch"] | None,
    ) -> tuple[Float[Tensor, "batch features"], Float[Tensor, "slots batch heads"]]:
        """Attention to the rows at `places`, or to the first so many; the weights carry no gradient."""
        return _Attend.apply(self.token, query, self, alignment, places, valid, *alignment.shared())

    def read(self, places: Int[Tensor, "slots batch"]) -> Float[Tensor, "slots batch width"]:
        """The rows at `places`, with their gradient."""
        return _Read.apply(self.token, self, places)

    def close(self, *results: Tensor) -> tuple[Tensor, ...]:
        """Hand out what came of the history: every gradient enters here, before any other of its parts."""
        handed = _Close.apply(self, self.token, *results)
        # every part of the graph holds the history: were it to hold the graph, neither would ever be given back
        self.token = self.token.detach()
        return handed

    def flat(self, places: Int[Tensor, "slots batch"]) -> Int[Tensor, " rows"]:
        """Places in the list of all rows."""
        return (places * self.rows.shape[1] + self._column).flatten()

    def gathered(self, places: Tensor | int) -> Float[Tensor, "slots batch width"]:
        """The rows themselves, without a gradient; a view where they are the first so many."""
        if isinstance(places, int):
            return self.rows[:places]
        return self.rows.flatten(0, 1).index_select(0, self.flat(places)).unflatten(0, places.shape)

    def pulled(self, places: Tensor | int, grad: Float[Tensor, "slots batch width"]) -> None:
        """Add a gradient to those of the rows at `places`."""
        assert self.grad is not None
        if isinstance(places, int):
            self.grad[:places] += grad
        else:
            self.grad.flatten(0, 1).index_add_(0, self.flat(places), grad.flatten(0, 1))


class _Write(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, token: Tensor, row: Tensor, history: History, place: int | slice) -> Tensor:
        history.rows[place] = row
        ctx.history, ctx.place = history, place
        return token.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (grad,) = grads
        return grad, ctx.history.grad[ctx.place], None, None


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        token: Tensor,
        query: Tensor,
        history: History,
        alignment: Alignment,
        places: Any,
        valid: Any,
        *shared: Tensor,
    ) -> tuple[Tensor, Tensor]:
        context, weights = alignment.attend(query, history.gathered(places), valid)
        ctx.mark_non_differentiable(weights)
        ctx.save_for_backward(query, *shared)  # the parameters of now: a change in between is noticed
        ctx.history, ctx.alignment, ctx.places, ctx.valid = history, alignment, places, valid
        return context, weights

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        grad = grads[0]
        query, *shared = ctx.saved_tensors
        pull = ctx.alignment.pull(grad, query, ctx.history.gathered(ctx.places), ctx.valid, tuple(shared))
        ctx.history.pulled(ctx.places, pull.rows)
        return grad.new_zeros(0), pull.query, None, None, None, None, *pull.weights


class _Read(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, token: Tensor, history: History, places: Tensor) -> Tensor:
        ctx.history, ctx.places = history, places
        return history.gathered(places)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (grad,) = grads
        ctx.history.pulled(ctx.places, grad)
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
                "Second derivatives through a shared history of attention are not computed. Ask scan for the steps "
                "themselves: backend='loop'."
            )
        if is_batched(*grads):
            raise RuntimeError(
                "A shared history of attention takes one gradient at a time. Call torch.autograd.grad once for each, "
                "or ask scan for the steps themselves: backend='loop'."
            )
        ctx.history.grad = torch.zeros_like(ctx.history.rows)
        return None, grads[0].new_zeros(0), *grads
