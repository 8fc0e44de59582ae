"""The trainable network of leaky units, with any recurrent matrix."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import get_args

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.base.validation import check_whole
from mnemoscope.cells.fast_path import FastPath, NoFastPath
from mnemoscope.cells.fused_leaky import fused_leaky_path
from mnemoscope.cells.leaky_units import Form, LeakyUnits, check_leak
from mnemoscope.cells.nonlinearities import Nonlinearity, make_nonlinearity
from mnemoscope.connectivity import Connectivity, Dense, Loadings, LowRank


class LeakyRNN(LeakyUnits):
    """A network of leaky units whose weights are all trained, in Euler steps of dt = leak tau.

    - "current": `x' = (1 - leak) x + leak (W phi(x) + B u + b)`; the readout sees the rates phi(x) (Song et al. 2016);
    - "rate": `r' = (1 - leak) r + leak phi(W r + B u + b)`; the readout sees the state (Yang et al. 2019).

    Args:
        input_size: number of input features.
        hidden_size: number of units N.
        nonlinearity: "tanh", "relu", "logistic", or any elementwise function.
        connectivity: the module that yields the real matrix `W` (N, N); by default an unconstrained one with entries
            ~ N(0, gain^2 / N).
        leak: dt / tau, in (0, 1]; 0.2 is a step of 20 ms for a time constant of 100 ms.
        form: "current" or "rate", as above.
        bias: whether there is a bias `b`, which starts at 0.
        input_scale: standard deviation of the initial entries of B. 1 is that of the code of Dubreuil et al. 2022; many
            inputs that are active together need less.
        gain: spectral radius with which the default W starts, about. Networks that start with small weights find
            solutions with few slow modes; a given connectivity has its own start.
        noise: standard deviation of independent noise in each unit, 0 for none. Its current W r + B u + b gets noise of
            deviation `noise sqrt(2 / leak)` in each step (Song et al. 2016): a unit of the form "current" without
            recurrence has the deviation `noise / sqrt(1 - leak / 2)`, which is about `noise` for a small leak. There is
            noise in training mode only.

    >>> cell = LeakyRNN(2, 100)
    >>> cell(torch.zeros(4, 2), cell.initial_state(4)).shape
    torch.Size([4, 100])

    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        nonlinearity: str | Nonlinearity | Callable[[Tensor], Tensor] = "tanh",
        connectivity: Connectivity | None = None,
        leak: float = 0.2,
        form: Form = "current",
        bias: bool = True,
        input_scale: float = 1.0,
        gain: float = 1.0,
        noise: float = 0.0,
    ) -> None:
        super().__init__()
        if not 0 < input_scale < inf:
            raise ValueError(f"input_scale must be positive and finite, but is {input_scale}.")
        check_whole(1, input_size=input_size, hidden_size=hidden_size)
        if not 0 < gain < inf:
            raise ValueError(f"gain must be positive and finite, but is {gain}.")
        if not 0 <= noise < inf:
            raise ValueError(f"noise is a standard deviation, 0 or more and finite, but is {noise}.")
        if connectivity is None:
            connectivity = Dense(hidden_size, "glorot")
            with torch.no_grad():
                connectivity.matrix.mul_(gain)
        elif gain != 1:
            raise ValueError("gain scales the default matrix: omit it, and scale the connectivity that you pass.")
        if connectivity.size != hidden_size:
            size = connectivity.size
            raise ValueError(f"The connectivity yields a {size} x {size} matrix, but hidden_size is {hidden_size}.")
        if connectivity.complex:
            raise ValueError("Rates are real numbers, but the connectivity is complex; choose a real matrix.")
        if form not in get_args(Form):
            raise ValueError(f'form must be "current" or "rate", but is {form!r}.')
        self.input_size, self.hidden_size = input_size, hidden_size
        self.leak, self.form, self.noise = check_leak(leak), form, noise
        self.phi = make_nonlinearity(nonlinearity, hidden_size)
        self.connectivity = connectivity
        self.drive = nn.Parameter(input_scale * torch.randn(hidden_size, input_size))
        self.register_parameter("bias", nn.Parameter(torch.zeros(hidden_size)) if bias else None)

    @classmethod
    def from_loadings(
        cls,
        loadings: Loadings,
        nonlinearity: str | Nonlinearity | Callable[[Tensor], Tensor] = "tanh",
        leak: float = 0.2,
        form: Form = "current",
    ) -> LeakyRNN:
        """Return the low-rank network with copies of given loadings; its readouts are not part of the cell.

        Without input vectors the network has one input feature, which has no effect.

        >>> from mnemoscope.connectivity import LoadingMixture
        >>> mixture = LoadingMixture.from_overlaps(torch.tensor([[1.5]]))
        >>> LeakyRNN.from_loadings(mixture.sample(200, seed=0)).connectivity.rank
        1
        """
        size, inputs = loadings.inputs.shape
        matrix = LowRank.from_factors(loadings.left, loadings.right)
        cell = cls(max(inputs, 1), size, nonlinearity, matrix, leak, form, bias=bool(loadings.bias.shape[1]))
        drive = loadings.inputs if inputs else loadings.left.new_zeros(size, 1)
        cell.drive = nn.Parameter(drive.detach().clone())
        if cell.bias is not None:
            cell.bias = nn.Parameter(loadings.bias[:, 0].detach().clone())
        return cell

    def loadings(self, readout: nn.Linear | None = None) -> Loadings:
        """Return the vectors of a low-rank network without random part, with those of a linear readout if given."""
        matrix = self.connectivity
        if not isinstance(matrix, LowRank):
            raise ValueError(
                f"Only a low-rank matrix has loadings, but this is {type(matrix).__name__}. Approximate it by "
                f"LowRank.from_matrix(W, rank)."
            )
        with torch.no_grad():
            none = self.drive[:, :0]
            readouts = none if readout is None else readout.weight.mT * self.hidden_size
            parts = (matrix.left, matrix.right, self.drive, readouts, none if self.bias is None else self.bias[:, None])
            return Loadings(*(part.detach().clone() for part in parts))

    def combined(self) -> Float[Tensor, "hidden hidden"]:
        """Return W."""
        return self.connectivity()

    def recurrent_input(self) -> Callable[[Tensor], Tensor]:
        return self.connectivity.transposed_product()

    def fast_path(self, xs: Tensor, state: Tensor, mask: Tensor | None) -> FastPath | NoFastPath:
        if isinstance(self.connectivity, LowRank):
            return NoFastPath("products with the factors of a low-rank matrix are cheaper than those with the matrix")
        return fused_leaky_path(self, xs, state, mask)

    def extra_repr(self) -> str:
        noise = f", noise={self.noise:g}" if self.noise else ""
        return f"{self.input_size}, {self.hidden_size}, leak={self.leak:g}, form={self.form}{noise}"
