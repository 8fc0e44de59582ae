"""What every recurrent matrix is: a module that yields it, and says what it knows of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Complex, Float, Inexact


class KnownSpectrum(NamedTuple):
    """What the construction of a matrix promises of its spectrum; None where it promises nothing."""

    eigenvalues: Complex[Tensor, " size"] | None = None
    """In no order."""
    singular_values: Float[Tensor, " size"] | None = None
    """In no order."""


class Connectivity(nn.Module):
    """A module whose `forward()` yields the recurrent matrix `V` of shape (size, size), formed once per sequence."""

    free = False
    """Whether its numbers are parameters, or products of them, and it promises nothing that rounding could break."""
    complex = False
    """Whether the matrix is complex. Its parameters are real in any case, so that `.double()` and optimisers take them
    as they take all others."""

    def __init__(self, size: int) -> None:
        super().__init__()
        if size < 1:
            raise ValueError(f"A recurrent matrix needs at least one row, but size is {size}.")
        self.size = size
        self.register_load_state_dict_pre_hook(_refuse_non_finite)

    def forward(self) -> Inexact[Tensor, "size size"]:
        raise NotImplementedError(f"{type(self).__name__} must define forward().")

    def __call__(self) -> Inexact[Tensor, "size size"]:
        """The matrix, formed at full accuracy also under autocast: rounded, it would not be what it claims to be."""
        held = next(self._tensors()).dtype
        if held in (torch.bfloat16, torch.float16) and not self.free:
            raise TypeError(
                f"{type(self).__name__} is formed in float32 or float64, but its parameters are {held}. Keep them in "
                f"float32, and compute in half precision by torch.autocast."
            )
        if not torch.is_autocast_enabled(self.device.type):
            return super().__call__()
        with torch.autocast(self.device.type, enabled=False):
            return super().__call__()

    @property
    def dtype(self) -> torch.dtype:
        """Of the matrix."""
        real = next(self._tensors()).dtype
        return real.to_complex() if self.complex and not real.is_complex else real

    @property
    def device(self) -> torch.device:
        """Of the matrix."""
        return next(self._tensors()).device

    def spectrum(self) -> KnownSpectrum:
        """What is known of the spectrum in closed form."""
        return KnownSpectrum()

    def penalty(self) -> Float[Tensor, ""] | None:
        """What training adds to the loss, or None."""
        return None

    def orthogonal_parameters(self) -> Iterator[nn.Parameter]:
        """Parameters of orthogonal or unitary matrices, which learn at a rate of their own
        (`RunConfig.orthogonal_learning_rate`).
        """
        return iter(())

    def after_step(self) -> None:
        """What is to be done after every step of an optimiser; the training loop calls it."""

    def follow(self, optimiser: torch.optim.Optimizer) -> None:
        """Call `after_step`, also of the matrices that this one is made of, whenever this optimiser has made a step;
        for loops of one's own, since `train` does it.
        """
        for matrix in self.modules():
            if isinstance(matrix, Connectivity):
                optimiser.register_step_post_hook(lambda *_, matrix=matrix: matrix.after_step())

    def _tensors(self) -> Iterator[Tensor]:
        yield from self.parameters()
        yield from self.buffers()


def _refuse_non_finite(module: nn.Module, state_dict: dict[str, Any], prefix: str, *_: object) -> None:
    """Before anything is loaded."""
    for name, tensor in state_dict.items():
        if name.startswith(prefix) and isinstance(tensor, Tensor) and not tensor.isfinite().all():
            raise ValueError(
                f"{name} of {type(module).__name__} has infinite or NaN entries: these weights come from a run that "
                f"diverged. Load an earlier checkpoint, or train with a lower learning rate or a clipped gradient."
            )
