"""The base class of cells whose step is affine in the state."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Bool, Float, Inexact
from mnemoscope.base.validation import check_whole
from mnemoscope.cells.affine.layer import AffineLayer, LayerInputs
from mnemoscope.cells.affine.parts import (
    AffineState,
    Parts,
    ScaledState,
    read_state,
    scale_sequence,
    scale_step,
    scan_parts,
    step_state,
    transition,
)
from mnemoscope.cells.cell import Step
from mnemoscope.cells.fast_path import FastPath, NoFastPath
from mnemoscope.cells.recurrence import Recurrence
from mnemoscope.kernels.affine_gradients import no_triton_affine_scan


class AffineCell(Recurrence):
    """A cell with `S' = A(x) S + B(x)`: `heads` matrices S of keys and values, read by queries.

    A family defines one method, `parts`, which turns the features of an input into queries, keys, values, decays and
    erasures (`Parts`); the features are `project(x)`, a linear map. The step, the whole sequence by one kernel, the
    Jacobian, which is `A(x)` for every column of S, and the intermediates follow from it. No gate depends on the
    state, and the output, a function of S and x, is not stored in the state.

    Optional are `finish`, for whatever comes between the reads `q^T S` and the output, `denominators`, if it divides
    them by a normaliser, `complex_state`, and `scaled`, for gates that may overflow (`Parts.log_writes`).

    >>> class Decaying(AffineCell):
    ...     def __init__(self, input_size: int, hidden_size: int) -> None:
    ...         super().__init__(input_size, hidden_size, heads=1, keys=4)
    ...         self.project = nn.Linear(input_size, 8 + hidden_size)
    ...
    ...     def parts(self, features: Tensor) -> Parts:
    ...         q, k, v = features.unsqueeze(-2).split([4, 4, self.hidden_size], dim=-1)
    ...         return Parts(q, k, v, log_decays=torch.full_like(k[..., :1], -0.1))
    >>> cell = Decaying(3, 16)
    >>> output, state = cell.step(torch.zeros(5, 3), cell.initial_state(5))
    >>> output.shape, state.S.shape
    (torch.Size([5, 16]), torch.Size([5, 1, 4, 16]))
    """

    reads_input = True
    whole_sequences = True
    called_by_fast_path = frozenset(
        {"parts", "finish", "denominators", "complex_state", "scaled", "convolved", "surroundings", "groups"}
        | {"for_blocks", "message"}
    )
    """Members that the fast path uses, so that a subclass may define them and keep it."""
    complex_state = False
    """Whether S is complex."""
    scaled = False
    """Whether S is stored divided by exp(m), where m is a part of the state."""

    def __init__(
        self, input_size: int, hidden_size: int, heads: int, keys: int | None = None, values: int | None = None
    ) -> None:
        """Set the sizes.

        Args:
            input_size: number of input features.
            hidden_size: number of output features.
            heads: number of matrices.
            keys: number of keys of a matrix; by default that of the values.
            values: number of values of a matrix; by default hidden_size / heads.

        """
        super().__init__()
        check_whole(1, input_size=input_size, hidden_size=hidden_size, heads=heads)
        if values is None and hidden_size % heads:
            raise ValueError(f"hidden_size must be a multiple of heads = {heads}, but is {hidden_size}.")
        self.input_size, self.hidden_size, self.heads = input_size, hidden_size, heads
        self.values = hidden_size // heads if values is None else values
        self.keys = self.values if keys is None else keys
        check_whole(1, keys=self.keys, values=self.values)
        self.norm = nn.Identity()

    def parts(self, features: Float[Tensor, "*batch features"]) -> Parts:
        """Return the parts of the recurrence from the projected inputs, for any leading dimensions."""
        raise NotImplementedError(f"{type(self).__name__} must define parts(features).")

    def finish(
        self,
        reads: Inexact[Tensor, "*batch heads values"],
        features: Float[Tensor, "*batch features"],
        scale: Float[Tensor, "*batch heads"] | None,
    ) -> Float[Tensor, "*batch outputs"]:
        """Return the output from the reads and the features; `scale` is m if the state is scaled, else None."""
        return self.norm(reads.real if reads.is_complex() else reads).flatten(-2)

    def denominators(
        self, reads: Inexact[Tensor, "*batch heads values"], scale: Float[Tensor, "*batch heads"] | None
    ) -> Float[Tensor, "*batch heads"] | None:
        """Return the numbers by which `finish` divides the reads; None if it does not.

        The last value of a core that divides them is that of its normaliser.
        """
        return None

    @property
    def output_features(self) -> int:
        return self.hidden_size

    @property
    def memory_size(self) -> int:
        """Number of real numbers in a state."""
        numbers = self.heads * self.keys * self.values
        return 2 * numbers if self.complex_state else numbers + self.heads * self.scaled

    def initial_state(self, batch: int) -> Any:
        zeros = next(self.parameters()).new_zeros(batch, self.heads, self.keys, self.values)
        if self.scaled:
            return ScaledState(zeros, zeros[..., 0, 0].clone())
        if self.complex_state and zeros.dtype == torch.bfloat16:
            raise TypeError(f"torch has no complex bfloat16, which {type(self).__name__} needs: use float32 weights.")
        return AffineState(zeros.to(zeros.dtype.to_complex()) if self.complex_state else zeros)

    def prepare(self, xs: Float[Tensor, "*batch inputs"]) -> tuple[Tensor, Step]:
        return self.project(xs), self.advance

    def output_at(self, x: Float[Tensor, "*batch inputs"], state: Any) -> Float[Tensor, "*batch outputs"]:
        return self.read(self.project(x), state)

    def advance(self, features: Float[Tensor, "batch features"], state: Any) -> Any:
        """Return the next state."""
        parts = self.parts(features)
        if not self.scaled:
            return AffineState(step_state(parts, state.S))
        parts, m = scale_step(parts, state.m)
        return ScaledState(step_state(parts, state.S), m)

    def read(self, features: Float[Tensor, "*batch features"], state: Any) -> Float[Tensor, "*batch outputs"]:
        """Return the output in `state`, reached by a step with these features."""
        return self.finish(read_state(self.parts(features), state.S), features, state.m if self.scaled else None)

    def fast_path(self, xs: Tensor, state: Any, mask: Tensor | None) -> FastPath | NoFastPath:
        return FastPath(self.kernel_name(xs.device, xs.dtype), lambda: self.run(self.project(xs), state, mask))

    def kernel_name(self, device: torch.device, dtype: torch.dtype) -> str:
        """Return the name of the operation; on a GPU, also whether there is a Triton kernel for it, or why not."""
        if device.type != "cuda":
            return f"affine scan ({device.type})"
        keys = 1 if self.values == 1 else self.keys * (2 if self.complex_state else 1)
        reason = no_triton_affine_scan(device, dtype, keys)
        return f"affine scan (cuda, {'Triton' if reason is None else f'operations of torch: {reason}'})"

    def run(
        self, features: Float[Tensor, "time batch features"], state: Any, mask: Bool[Tensor, "time batch"] | None
    ) -> tuple[Float[Tensor, "time batch outputs"], Any]:
        """Return the outputs of a whole sequence and the last state, by one kernel."""
        parts = self.parts(features)
        if mask is not None:
            parts = parts.held(mask)
        if not self.scaled:
            reads, S = scan_parts(parts, state.S)
            return self.finish(reads, features, None), AffineState(S)
        parts, scales = scale_sequence(parts, state.m)
        reads, S = scan_parts(parts, state.S)
        return self.finish(reads, features, scales), ScaledState(S, scales[-1])

    def affine_layers(self, xs: Float[Tensor, "time batch inputs"], state: Any) -> list[AffineLayer]:
        return [AffineLayer.of(self, self.project(xs), state, LayerInputs(xs, self.project))]

    def jacobian(self, x: Float[Tensor, "batch inputs"], state: Any) -> Float[Tensor, "batch size size"]:
        """Return the matrix of the step: A of each head, for each of its columns."""
        return self.state_jacobian(self.project(x), state)

    def state_jacobian(self, features: Float[Tensor, "batch features"], state: Any) -> Float[Tensor, "batch size size"]:
        """Return the derivative of the next flat state with respect to the flat state."""
        parts = self.parts(features)
        if not self.scaled:
            return _real_blocks(transition(parts), self.values)
        relative, m = scale_step(parts, state.m)
        J_S = _real_blocks(transition(relative), self.values)
        # where the old scale is kept, only the write depends on it; elsewhere only the decay
        kept = (parts.log_decays.squeeze(-1) + state.m >= m)[..., None, None]
        decayed = torch.exp(relative.log_decays).unsqueeze(-1) * state.S
        by_scale = torch.where(kept, decayed - step_state(relative, state.S), decayed)
        heads = torch.eye(self.heads).to(J_S)
        J_m = torch.einsum("bhde,hj->bhdej", by_scale, heads).flatten(1, 3)  # dS'/dm
        lower = torch.cat(
            [J_m.new_zeros(len(J_m), self.heads, J_m.shape[1]), torch.diag_embed(kept[..., 0, 0].to(J_S))], 2
        )
        return torch.cat([torch.cat([J_S, J_m], 2), lower], 1)

    def intermediates(self, x: Float[Tensor, "batch inputs"], state: Any) -> dict[str, Tensor]:
        """Return q, k, v and g of the step; a and b if it erases, and log_i if the writes have exponential gates.

        The decay is `exp(g)`, or `1 - beta_max (1 - exp(g))` if the cell has a `beta_max` for its decays.
        """
        return self.named_parts(self.project(x))

    def named_parts(self, features: Float[Tensor, "batch features"]) -> dict[str, Tensor]:
        """Return the parts by their letters."""
        parts = self.parts(features)
        names = {"q": parts.queries, "k": parts.keys, "v": parts.values, "g": parts.log_decays}
        if parts.erase is not None:
            names |= {"a": parts.erase[0], "b": parts.erase[1]}
        return names if parts.log_writes is None else {**names, "log_i": parts.log_writes}

    def extra_repr(self) -> str:
        return f"heads={self.heads}, keys={self.keys}, values={self.values}"


def _real_blocks(A: Inexact[Tensor, "batch heads keys keys"], values: int) -> Float[Tensor, "batch size size"]:
    """Return A of each head, for each value, as one matrix on flat states; a complex number takes two rows."""
    if A.is_complex():
        rows = [torch.stack([A.real, -A.imag], -1), torch.stack([A.imag, A.real], -1)]
        turned = torch.stack(rows, -3)  # (batch, heads, keys, 2, keys, 2)
    else:
        turned = A[..., None, :, None]
    batch, heads, keys, parts = turned.shape[:4]
    J = A.real.new_zeros(batch, heads, keys, values, parts, heads, keys, values, parts)
    for head in range(heads):
        for value in range(values):
            J[:, head, :, value, :, head, :, value, :] = turned[:, head]
    size = heads * keys * values * parts
    return J.reshape(batch, size, size)
