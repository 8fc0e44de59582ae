"""Make the step of a module pure: without changes in place, and in float64 where float32 is written into its code."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention, softplus
from torch.overrides import TorchFunctionMode

_GROUPED_MATMUL = getattr(torch, "_grouped_mm")  # noqa: B009 (it has no public name that is seen here)


class PureStep(TorchFunctionMode):
    """Redirect what a module's code does to its state and to the precision of its numbers.

    - `Tensor.copy_` into a tensor of the state does not change that tensor; `new_value` returns the copied values. The
      old state is still needed: by derivatives, and by other runs that start from it.
    - With `double`, casts to float32 become casts to float64. Many modules compute in float32 whatever the dtype of
      their weights, so that a model in float64 would be exact only to 1e-7.
    - Attention and mixtures of experts use operations that have derivatives in forward and backward mode.
    - With `time_steps`, results of softplus are limited to that range. Mamba-2 limits its time steps so, but
      transformers does it in whole sequences only, not in single steps.
    """

    def __init__(
        self, state: Iterable[Tensor] = (), *, double: bool, time_steps: tuple[float, float] | None = None
    ) -> None:
        super().__init__()
        self.state = {id(tensor): tensor for tensor in state}  # holds the tensors, so that their ids stay theirs
        self.copied: dict[int, Tensor] = {}
        self.double, self.time_steps = double, time_steps

    def new_value(self, old: Tensor) -> Tensor:
        """Return the tensor that was copied into a tensor of the state, or that tensor if there was none."""
        return self.copied.get(id(old), old)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.Tensor.copy_ and id(args[0]) in self.state:
            self.copied[id(args[0])] = args[1].to(args[0].dtype).expand(args[0].shape)
            return self.copied[id(args[0])]
        if self.double:
            func = torch.Tensor.double if func is torch.Tensor.float else func
            args = tuple(map(_as_double, args))
            kwargs = {name: _as_double(value) for name, value in kwargs.items()}
        if func is scaled_dot_product_attention:
            with sdpa_kernel(SDPBackend.MATH):
                return func(*args, **kwargs)
        if func is _GROUPED_MATMUL:
            return _grouped_matmul(*args, **kwargs)
        if func is softplus and self.time_steps is not None:
            return func(*args, **kwargs).clamp(*self.time_steps)
        return func(*args, **kwargs)


def _grouped_matmul(rows: Tensor, matrices: Tensor, *, offs: Tensor, bias: Tensor | None = None, **_: Any) -> Tensor:
    """Return the product of each row with the matrix of its group; group g ends before row `offs[g]`.

    Rows after the last group belong to none, and are not read.
    """
    ends = [*map(int, offs), len(rows)]
    sizes = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    groups = zip(rows.split(sizes), [*matrices, matrices[-1]], strict=True)
    products = torch.cat([group @ matrix for group, matrix in groups])
    return products if bias is None else products + bias


def _as_double(value: Any) -> Any:
    return torch.float64 if value is torch.float32 else value
