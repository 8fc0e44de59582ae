"""Batched backward passes for operators that write in place, which torch cannot batch.

`torch.autograd.grad(..., is_grads_batched=True)` and `torch.func.vmap` around a backward pass pass gradients with a
hidden batch dimension. Here the backward pass runs once for each element of that dimension. Torch has two
implementations: that of `torch.func` accepts a rule per operator; the older one of `is_grads_batched` does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Pull = Callable[..., tuple[Tensor | None, ...]]
_OLDER = torch._C._parse_dispatch_key("Batched")
_OUTERMOST = 1
"""Level of the hidden dimension; those of `is_grads_batched` are never nested."""


def loop_over_batch(pull: Pull, *given: Tensor | None) -> tuple[Tensor | None, ...]:
    """Return `pull(*given)`, where some of the tensors may have a hidden batch dimension.

    >>> into = torch.ones(2)
    >>> torch.func.vmap(lambda g: loop_over_batch(lambda g: (into.clone().mul_(g),), g)[0])(torch.tensor([1.0, 3.0]))
    tensor([[1., 1.],
            [3., 3.]])
    """
    if torch._C._are_functorch_transforms_active():
        return _BatchLoop.apply(pull, *given)  # pyright: ignore[reportReturnType]
    several = [_is_hidden(part) for part in given]
    if not any(several):
        return pull(*given)
    shown = [_shown(part) if hidden else part for part, hidden in zip(given, several, strict=True)]
    results = _each(pull, shown, [0 if hidden else None for hidden in several])
    return tuple(None if part is None else torch._add_batch_dim(part, 0, _OUTERMOST) for part in results)  # pyright: ignore[reportPrivateImportUsage]


def is_batched(*given: Tensor | None) -> bool:
    """Whether some tensor has a hidden batch dimension, for operators that must refuse it."""
    return torch._C._are_functorch_transforms_active() or any(map(_is_hidden, given))


class _BatchLoop(torch.autograd.Function):
    @staticmethod
    def forward(pull: Pull, *given: Tensor | None) -> tuple[Tensor | None, ...]:
        return pull(*given)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        """Save nothing: the operators that use this raise for second derivatives."""

    @staticmethod
    def vmap(info: Any, in_dims: tuple, pull: Pull, *given: Tensor | None) -> tuple:  # type: ignore
        results = _each(pull, list(given), list(in_dims[1:]))
        return results, tuple(None if part is None else 0 for part in results)


def _each(pull: Pull, given: list[Tensor | None], dims: list[int | None]) -> tuple[Tensor | None, ...]:
    """Return the stacked results of `pull` for each element; `dims` are the batch dimensions of the tensors or None."""
    count = next(part.shape[dim] for part, dim in zip(given, dims, strict=True) if part is not None and dim is not None)
    found = [
        loop_over_batch(
            pull,
            *(
                part if part is None or dim is None else part.select(dim, number)
                for part, dim in zip(given, dims, strict=True)
            ),
        )
        for number in range(count)
    ]
    return tuple(None if parts[0] is None else torch.stack(parts) for parts in zip(*found, strict=True))  # pyright: ignore[reportArgumentType]


def _is_hidden(part: Tensor | None) -> bool:
    """Whether the tensor has a hidden dimension of the older kind."""
    return part is not None and torch._C._dispatch_keys(part).has(_OLDER)  # type: ignore


def _shown(part: Tensor | None) -> Tensor:
    """Return the tensor with its hidden dimension first."""
    assert part is not None
    whole = torch._remove_batch_dim(part, _OUTERMOST, 1, 0)  # pyright: ignore[reportPrivateImportUsage]
    if _is_hidden(whole):
        raise RuntimeError("Nested batches of gradients are not supported; pass backend='loop', or torch.func.vmap.")
    return whole
