"""Backward passes of several vectors at once, for operators that write in place and so cannot be batched by torch.

`torch.autograd.grad(..., is_grads_batched=True)` and `torch.func.vmap` around a backward pass hand over gradients with
a hidden dimension; here they are taken one after the other, at the cost of as many backward passes. Torch hides it in
two ways: for that of `torch.func` an operator may have a rule; that of `is_grads_batched` is older and knows of none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Pull = Callable[..., tuple[Tensor | None, ...]]
_OLDER = torch._C._parse_dispatch_key("Batched")
_OUTERMOST = 1
"""Level of a hidden dimension; those of `is_grads_batched` do not lie in each other."""


def loop_over_batch(pull: Pull, *given: Tensor | None) -> tuple[Tensor | None, ...]:
    """`pull(*given)`, also where some of what is given are several tensors at once.

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
    """Whether some are several tensors at once, for operators that have to refuse them."""
    return torch._C._are_functorch_transforms_active() or any(map(_is_hidden, given))


class _BatchLoop(torch.autograd.Function):
    @staticmethod
    def forward(pull: Pull, *given: Tensor | None) -> tuple[Tensor | None, ...]:
        return pull(*given)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        """Nothing is kept: those who use this have no second derivative, and say so."""

    @staticmethod
    def vmap(info: Any, in_dims: tuple, pull: Pull, *given: Tensor | None) -> tuple:  # pyright: ignore[reportIncompatibleMethodOverride]
        results = _each(pull, list(given), list(in_dims[1:]))
        return results, tuple(None if part is None else 0 for part in results)


def _each(pull: Pull, given: list[Tensor | None], dims: list[int | None]) -> tuple[Tensor | None, ...]:
    """What `pull` gives for each of several, stacked; `dims` says along which dimension they lie, if at all."""
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
    """Whether it has a hidden dimension of the older kind."""
    return part is not None and torch._C._dispatch_keys(part).has(_OLDER)  # pyright: ignore[reportArgumentType]


def _shown(part: Tensor | None) -> Tensor:
    """With its hidden dimension first."""
    assert part is not None
    whole = torch._remove_batch_dim(part, _OUTERMOST, 1, 0)  # pyright: ignore[reportPrivateImportUsage]
    if _is_hidden(whole):
        raise RuntimeError(
            "Batches of gradients in each other are not taken apart; pass backend='loop', or torch.func.vmap."
        )
    return whole
