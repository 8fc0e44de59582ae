"""The Elman cell: `h' = phi(V h + U x + b)`."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import chain
from math import inf

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Complex, Float, Inexact
from mnemoscope.base.validation import check_whole
from mnemoscope.cells.cell import Box, Cell, Step
from mnemoscope.cells.enclosure import Enclosure
from mnemoscope.cells.fast_path import FastPath, NoFastPath
from mnemoscope.cells.intervals import function_range
from mnemoscope.cells.nonlinearities import FusableNonlinearity, Nonlinearity, make_nonlinearity
from mnemoscope.cells.state import State
from mnemoscope.connectivity import Connectivity, Dense
from mnemoscope.kernels import elementwise_limit, elementwise_scan, linear_scan, linear_scan_pays, no_elementwise_scan


class Elman(Cell):
    """`h' = phi(V h + U x + b)` (Elman 1990); `V` comes from any module whose `forward()` yields a matrix.

    Args:
        input_size: number of input features.
        hidden_size: number of units N.
        nonlinearity: "tanh", "relu", "modrelu", "logistic", "linear", or any elementwise function.
        connectivity: the module that yields `V` (N, N); an unconstrained matrix by default. If it is complex, so are
            the states, U and b; inputs are always real.
        bias: whether to add `b`.
        input_scale: U is initially uniform in [-input_scale, input_scale]; None: 1 / sqrt(input_size), as in
            `torch.nn.Linear`. `torch.nn.RNN` begins with 1 / sqrt(hidden_size).

    >>> cell = Elman(10, 128, nonlinearity="tanh")
    >>> cell(torch.zeros(4, 10), cell.initial_state(4)).shape
    torch.Size([4, 128])

    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        nonlinearity: str | Nonlinearity | Callable[[Tensor], Tensor] = "tanh",
        connectivity: nn.Module | None = None,
        bias: bool = True,
        input_scale: float | None = None,
    ) -> None:
        super().__init__()
        check_whole(1, input_size=input_size, hidden_size=hidden_size)
        if input_scale is not None and not 0 < input_scale < inf:
            raise ValueError(f"input_scale must be positive and finite, but is {input_scale}.")
        connectivity = Dense(hidden_size) if connectivity is None else connectivity
        size = getattr(connectivity, "size", hidden_size)
        if size != hidden_size:
            raise ValueError(f"The connectivity yields a {size} x {size} matrix, but hidden_size is {hidden_size}.")
        is_complex = getattr(connectivity, "complex", False)
        phi = make_nonlinearity(nonlinearity, hidden_size)
        activation = phi.description()
        if is_complex and activation is not None and not activation.takes_complex:
            raise ValueError(f"{activation.name} is not defined for complex states; choose modrelu, tanh or linear.")
        drive = (ComplexLinear if is_complex else nn.Linear)(input_size, hidden_size, bias=bias)
        if input_scale is not None:
            weights = drive.pairs.weight if isinstance(drive, ComplexLinear) else drive.weight
            nn.init.uniform_(weights, -input_scale, input_scale)
        self._set(drive, connectivity, phi, input_size, hidden_size)

    @classmethod
    def from_parts(
        cls, drive: nn.Module, connectivity: nn.Module, phi: Nonlinearity, input_size: int, size: int
    ) -> Elman:
        """Return an Elman cell around existing modules, which are not copied."""
        cell = cls.__new__(cls)
        nn.Module.__init__(cell)
        cell._set(drive, connectivity, phi, input_size, size)
        return cell

    def _set(self, drive: nn.Module, connectivity: nn.Module, phi: Nonlinearity, input_size: int, size: int) -> None:
        self.drive, self.connectivity, self.phi = drive, connectivity, phi
        self.input_size, self.hidden_size = input_size, size

    def initial_state(self, batch: int) -> Inexact[Tensor, "batch hidden"]:
        V = self.connectivity
        V = V if isinstance(V, Connectivity) else next(chain(V.parameters(), V.buffers()))
        return torch.zeros(batch, self.hidden_size, dtype=V.dtype, device=V.device)

    def output(self, state: Inexact[Tensor, "*batch hidden"]) -> Float[Tensor, "*batch features"]:
        """Return the state; for complex numbers, real and imaginary parts alternate."""
        return torch.view_as_real(state).flatten(-2) if state.is_complex() else state

    def prepare(self, xs: Inexact[Tensor, " ..."]) -> tuple[Tensor, Step]:
        V_T = self.connectivity().mT
        return self.drive(xs), lambda u, h: self.phi(h @ V_T + u)

    def fast_path(self, xs: Tensor, state: State, mask: Tensor | None) -> FastPath | NoFastPath:
        phi = self.phi.description() if isinstance(self.phi, FusableNonlinearity) else None
        if phi is None:
            return NoFastPath("its nonlinearity has no description in mnemoscope.kernels, so each step must call it")
        if xs.dim() != 3 or state.shape != (xs.shape[1], self.hidden_size):
            return NoFastPath(f"inputs {tuple(xs.shape)} and state {tuple(state.shape)} are of unusual shapes")
        dtype = self._dtype(state, mask)
        reason = no_elementwise_scan(state.device, dtype, phi.name)
        parallel = phi.name == "linear" and mask is None and not torch.compiler.is_compiling()
        pays = reason is not None or (state.device.type == "cpu" and linear_scan_pays(len(xs), *state.shape))
        if parallel and pays:
            return FastPath("parallel linear scan", lambda: self._fused(None, dtype, xs, state, mask))
        if reason is None:
            limit = elementwise_limit((len(xs), *state.shape), dtype, state.device)
            name = f"elementwise scan ({phi.name}, {state.device.type}{limit})"
            return FastPath(name, lambda: self._fused(phi.name, dtype, xs, state, mask))
        return NoFastPath(reason)

    def _dtype(self, state: Tensor, mask: Tensor | None) -> torch.dtype:
        """Return the dtype of the loop's states: autocast rounds products, and a bias or a mask promotes them again."""
        device = state.device.type
        if state.dtype.is_complex or state.dtype == torch.float64 or not torch.is_autocast_enabled(device):
            return state.dtype
        dtypes = [torch.get_autocast_dtype(device)]
        dtypes += [] if mask is None else [state.dtype]
        bias = getattr(self.phi, "bias", None)
        dtypes += [] if bias is None else [bias.dtype]
        return reduce(torch.promote_types, dtypes)

    def _fused(
        self, phi: str | None, dtype: torch.dtype, xs: Tensor, state: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        V, bias = self.connectivity(), getattr(self.phi, "bias", None)
        us = self.drive(xs)
        if dtype != state.dtype:  # autocast
            state, V = state.to(dtype), V.to(dtype)
        if torch.promote_types(us.dtype, dtype) == dtype:
            us = us.to(dtype)
        hs = linear_scan(V, us, state) if phi is None else elementwise_scan(us, state, V, phi, bias, mask)
        last = hs[-1].clone()  # a copy: writing into the state must not change the outputs
        return Elman.output(self, hs), last  # a subclass that overrides output has no fast path

    def jacobian(self, x: Tensor, state: Tensor) -> Tensor | None:
        """Return `diag(phi'(V h + U x + b)) V`."""
        V = self.connectivity()
        if V.is_complex():
            return None  # modReLU is not holomorphic; torch.func computes its real Jacobian
        slope = self.phi.derivative(state @ V.mT + self.drive(x))
        return slope.unsqueeze(-1) * V

    def bounds(self, low: Tensor, high: Tensor) -> Box | None:
        state = self.initial_state(1)[0]
        return None if state.is_complex() else function_range(self.phi, state)

    def enclose(self, x: Enclosure, state: Enclosure) -> Enclosure | None:
        V, weight = self.connectivity(), getattr(self.drive, "weight", None)
        if weight is None or V.is_complex():
            return None
        biases = [getattr(self.drive, name, None) for name in ("bias", "bias_ih", "bias_hh")]
        return self.phi.enclose(state.linear(V) + x.linear(weight, *biases))

    def intermediates(self, x: Tensor, state: Tensor) -> dict[str, Tensor]:
        return {"pre": state @ self.connectivity().mT + self.drive(x)}

    def frozen(self, dtype: torch.dtype | None = None, device: torch.device | None = None) -> Elman:
        """Return a constant copy, as every cell does; `V` is formed here, once."""
        with torch.no_grad():
            V = self.connectivity().detach().clone()
        cell = super().frozen(dtype, device)
        assert isinstance(cell, Elman)
        if V.is_complex() and dtype is not None:
            dtype = torch.promote_types(dtype, torch.complex32)
        cell.connectivity = Dense.from_matrix(V.to(dtype=dtype, device=device)).requires_grad_(False)
        return cell


class ComplexLinear(nn.Module):
    """`W x + b` with complex W (out, in) and b, for real x."""

    def __init__(self, input_size: int, output_size: int, bias: bool = True) -> None:
        super().__init__()
        self.pairs = nn.Linear(input_size, 2 * output_size, bias=bias)
        """Projection to the real and the imaginary part of each output, in turn."""

    def forward(self, x: Float[Tensor, "*batch features"]) -> Complex[Tensor, "*batch outputs"]:
        return torch.view_as_complex(self.pairs(x).unflatten(-1, (-1, 2)))
