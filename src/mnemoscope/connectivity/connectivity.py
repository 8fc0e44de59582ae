"""The base class of recurrent matrices."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Complex, Float, Inexact


class KnownSpectrum(NamedTuple):
    """The part of a matrix's spectrum that its parametrisation gives in closed form; None where it gives nothing."""

    eigenvalues: Complex[Tensor, " size"] | None = None
    """Eigenvalues, in no particular order."""
    singular_values: Float[Tensor, " size"] | None = None
    """Singular values, in no particular order."""


class Connectivity(nn.Module):
    """A module whose `forward()` yields the recurrent matrix `V` of shape (size, size), formed once per sequence."""

    unconstrained = False
    """Whether the matrix has no property, such as orthogonality, that rounding to half precision would break."""
    complex = False
    """Whether the matrix is complex. The parameters are always real, so that `.double()` and all optimisers work."""

    def __init__(self, size: int) -> None:
        super().__init__()
        if size < 1:
            raise ValueError(f"A recurrent matrix needs at least one row, but size is {size}.")
        self.size = size
        self.register_load_state_dict_pre_hook(_refuse_non_finite)

    def forward(self) -> Inexact[Tensor, "size size"]:
        raise NotImplementedError(f"{type(self).__name__} must define forward().")

    def __call__(self) -> Inexact[Tensor, "size size"]:
        """Return the matrix, formed at full precision even under autocast: rounding would break its constraint."""
        dtype = next(self._tensors()).dtype
        if dtype in (torch.bfloat16, torch.float16) and not self.unconstrained:
            raise TypeError(
                f"{type(self).__name__} is formed in float32 or float64, but its parameters are {dtype}. Keep them in "
                f"float32, and compute in half precision by torch.autocast."
            )
        if not torch.is_autocast_enabled(self.device.type):
            return super().__call__()
        with torch.autocast(self.device.type, enabled=False):
            return super().__call__()

    @property
    def dtype(self) -> torch.dtype:
        real = next(self._tensors()).dtype
        # real.to_complex() does the same, but torch.compile cannot trace it
        return torch.promote_types(real, torch.complex32) if self.complex else real

    @property
    def device(self) -> torch.device:
        return next(self._tensors()).device

    def transposed_product(self) -> Callable[[Tensor], Tensor]:
        """Return the function `h -> h V^T` of states (..., size); a matrix in factors need not be formed for it."""
        V_T = self().mT
        return lambda h: h @ V_T

    def spectrum(self) -> KnownSpectrum:
        """Return the eigenvalues and singular values that are known in closed form."""
        return KnownSpectrum()

    def penalty(self) -> Float[Tensor, ""] | None:
        """Return the penalty that training adds to the loss, or None."""
        return None

    def orthogonal_parameters(self) -> Iterator[nn.Parameter]:
        """Yield the parameters of orthogonal or unitary matrices.

        They have a separate learning rate, `RunConfig.orthogonal_learning_rate`.
        """
        return iter(())

    def after_step(self) -> None:
        """Update buffers after an optimiser step; the training loop calls this."""

    def attach_to(self, optimiser: torch.optim.Optimizer) -> None:
        """Call `after_step` of this matrix and of its parts after every step of the optimiser.

        Only custom training loops need this: the trainings of this library do so for all matrices of a model.
        """
        attach_matrices(self, optimiser)

    def _tensors(self) -> Iterator[Tensor]:
        return chain(self.parameters(), self.buffers())


def _refuse_non_finite(module: nn.Module, state_dict: dict[str, Any], prefix: str, *_: object) -> None:
    """Raise before anything is loaded if a weight is infinite or NaN."""
    for name, tensor in state_dict.items():
        if name.startswith(prefix) and isinstance(tensor, Tensor) and not tensor.isfinite().all():
            raise ValueError(
                f"{name} of {type(module).__name__} has infinite or NaN entries: these weights come from a run that "
                f"diverged. Load an earlier checkpoint, or train with a lower learning rate or a clipped gradient."
            )


def attach_matrices(module: nn.Module, optimiser: torch.optim.Optimizer) -> None:
    """Call `after_step` of all matrices of a module after every step of the optimiser."""
    for matrix in module.modules():
        if isinstance(matrix, Connectivity):
            optimiser.register_step_post_hook(lambda *_, matrix=matrix: matrix.after_step())


@contextmanager
def formed_once(module: nn.Module) -> Generator[None]:
    """Form each recurrent matrix of a module at most once, without a graph, while the context lasts.

    Single steps then cost what they cost where the matrix is stored. The weights must not change meanwhile.
    """
    found = (each for each in module.modules() if isinstance(each, Connectivity))
    matrices = [each for each in found if "forward" not in vars(each)]  # an outer context keeps its own
    for matrix in matrices:
        matrix.forward = cache(torch.no_grad()(matrix.forward))
    try:
        yield
    finally:
        for matrix in matrices:
            delattr(matrix, "forward")
