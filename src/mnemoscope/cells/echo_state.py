"""The echo state network: a fixed random reservoir, a learned readout, and feedback from the readout."""

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
from mnemoscope.cells.leaky_reservoir import LeakyReservoir
from mnemoscope.cells.leaky_units import Form, check_leak
from mnemoscope.cells.model import Model
from mnemoscope.cells.nonlinearities import Nonlinearity, make_nonlinearity
from mnemoscope.cells.reservoirs import Reservoirs
from mnemoscope.cells.state import State


class EchoState(LeakyReservoir):
    """A leaky reservoir with output feedback (Jang, Eq 22-26), in Euler steps of dt = leak tau.

    With `W_c = W_r + W_fb W_o`, which includes the feedback of the output z = W_o r:

    - "current": `x' = (1 - leak) x + leak (W_c r(x) + B u + b)`; the state x is a current, and the readout sees the
      rates r(x) (Sussillo & Abbott 2009);
    - "rate": `r' = (1 - leak) r + leak phi(W_c r + B u + b)`; the state is the rates (Jaeger et al. 2007).

    W_r, B, W_fb and b are random and fixed; `mnemoscope.train_force` and `fit_readout` learn W_o, which starts at zero.
    All of them are parameters; the fixed ones have `requires_grad=False`, so that you can choose to train them too.

    Args:
        input_size: number of input features.
        hidden_size: number of units N.
        output_size: number of outputs z that are fed back; 0 for a reservoir without readout and feedback.
        gain: g; the entries of W_r are N(0, g^2 / (density N)), so that its spectral radius is about g. The published
            1.5 is for tanh, whose slope at 0 is 1; the slope of the logistic function is 1/4.
        tau: time constant, in units of dt.
        dt: length of a time step.
        density: fraction of the entries of W_r that are not zero.
        nonlinearity: "tanh", "logistic", or any elementwise function.
        form: "current" or "rate", as above.
        input_scale: B is uniform in [-input_scale, input_scale].
        feedback_scale: W_fb is uniform in [-feedback_scale, feedback_scale].
        bias_scale: b is uniform in [-bias_scale, bias_scale].

    >>> reservoir = EchoState(3, 100, output_size=3)
    >>> reservoir(torch.zeros(4, 3), reservoir.initial_state(4)).shape
    torch.Size([4, 100])

    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        output_size: int = 0,
        *,
        gain: float = 1.5,
        tau: float = 10.0,
        dt: float = 1.0,
        density: float = 0.1,
        nonlinearity: str | Nonlinearity | Callable[[Tensor], Tensor] = "tanh",
        form: Form = "current",
        input_scale: float = 1.0,
        feedback_scale: float = 1.0,
        bias_scale: float = 0.0,
    ) -> None:
        super().__init__()
        check_whole(1, input_size=input_size, hidden_size=hidden_size)
        check_whole(0, output_size=output_size)
        if form not in get_args(Form):
            raise ValueError(f'form must be "current" or "rate", but is {form!r}.')
        scales = {"input_scale": input_scale, "feedback_scale": feedback_scale, "bias_scale": bias_scale}
        for name, value in {"gain": gain, **scales}.items():
            if not 0 <= value < inf:
                raise ValueError(f"{name} must be 0 or positive and finite, but is {value}.")
        if not (0 < dt <= tau < inf):
            raise ValueError(f"A step may not be longer than the time constant: 0 < dt <= tau, but {dt=} and {tau=}.")
        if not 0 < density <= 1:
            raise ValueError(f"density is a fraction of the entries, in (0, 1], but is {density}.")
        self.input_size, self.hidden_size, self.output_size = input_size, hidden_size, output_size
        self.leak = float(dt / tau)
        self.form = form
        self.phi = make_nonlinearity(nonlinearity, hidden_size)
        N = hidden_size
        nonzero = torch.rand(N, N) < density
        self.recurrent = _constant(torch.randn(N, N) * nonzero * (gain / (density * N) ** 0.5))
        self.drive = _constant(input_scale * (2 * torch.rand(N, input_size) - 1))
        self.bias = _constant(bias_scale * (2 * torch.rand(N) - 1))
        self.feedback = _constant(feedback_scale * (2 * torch.rand(N, output_size) - 1)) if output_size else None
        self.readout = nn.Parameter(torch.zeros(output_size, N)) if output_size else None
        self.register_buffer("_formed", None, persistent=False)
        self._formed_of = ()

    @classmethod
    def from_weights(
        cls,
        recurrent: Float[Tensor, "hidden hidden"],
        drive: Float[Tensor, "rows input"],
        *,
        feedback: Float[Tensor, " ..."] | None = None,
        readout: Float[Tensor, " ..."] | None = None,
        bias: Float[Tensor, " ..."] | None = None,
        leak: float = 0.1,
        nonlinearity: str | Nonlinearity | Callable[[Tensor], Tensor] = "tanh",
        form: Form = "current",
    ) -> EchoState:
        """Return a reservoir with copies of the given weights.

        Their shapes are W_r (hidden, hidden), B (hidden, input), W_fb (hidden, output), W_o (output, hidden) and b
        (hidden,).

        >>> W = torch.eye(2)
        >>> cell = EchoState.from_weights(W, torch.ones(2, 1), leak=1.0, form="rate")
        >>> cell(torch.zeros(1, 1), torch.ones(1, 2)).shape
        torch.Size([1, 2])
        """
        N, outputs = recurrent.shape[0], 0 if feedback is None else feedback.shape[1]
        with torch.device("meta"):  # draws no random numbers for matrices that are replaced below
            cell = cls(drive.shape[1], N, outputs, nonlinearity=nonlinearity, form=form)
        cell.phi = make_nonlinearity(nonlinearity, N)
        cell.leak = check_leak(leak)
        if outputs and readout is None:
            readout = recurrent.new_zeros(outputs, N)
        given = {
            "recurrent": (recurrent, (N, N)),
            "drive": (drive, (N, drive.shape[1])),
            "feedback": (feedback, (N, outputs)),
            "readout": (readout, (outputs, N)),
            "bias": (recurrent.new_zeros(N) if bias is None else bias, (N,)),
        }
        for name, (matrix, expected) in given.items():
            if matrix is None:
                continue
            if tuple(matrix.shape) != expected or not torch.isfinite(matrix).all():
                raise ValueError(f"{name} must be finite and of shape {expected}, but has {tuple(matrix.shape)}.")
            value = matrix.detach().to(recurrent).clone()
            setattr(cell, name, nn.Parameter(value) if name == "readout" else _constant(value))
        return cell

    def with_readout(self, readout: Float[Tensor, "output hidden"]) -> EchoState:
        """Return a copy of the reservoir with another readout, such as one that `train_force` kept.

        >>> reservoir = EchoState(3, 100, output_size=3)
        >>> reservoir.with_readout(torch.ones(3, 100)).read(torch.ones(100)).tolist()
        [100.0, 100.0, 100.0]
        """
        if self.feedback is None:
            raise ValueError("This reservoir has no readout; give it an output_size: EchoState(..., outputs).")
        return EchoState.from_weights(
            self.recurrent,
            self.drive,
            feedback=self.feedback,
            readout=readout,
            bias=self.bias,
            leak=self.leak,
            nonlinearity=self.phi,
            form=self.form,
        )

    def as_model(self) -> Model:
        """Return the reservoir and its readout as a `Model` with outputs z, which shares the weights."""
        if self.readout is None:
            raise ValueError("This reservoir has no readout; give it an output_size: EchoState(..., outputs).")
        model = Model(self, self.output_size, readout_bias=False)
        model.linear_readout.weight = self.readout
        return model

    def fast_path(self, xs: Tensor, state: State, mask: Tensor | None) -> FastPath | NoFastPath:
        tensors = [xs, state, *self.parameters()]
        differentiated = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
        if differentiated or mask is not None or xs.is_cuda:
            fused = fused_leaky_path(self, xs, state, mask)
            if differentiated or mask is not None or isinstance(fused, FastPath):
                return fused
        if not xs.dtype == state.dtype == self.recurrent.dtype:
            return NoFastPath("inputs, state and weights differ in dtype")
        return FastPath("reservoir", lambda: Reservoirs([self]).scan(xs, state))

    def frozen(self, dtype: torch.dtype | None = None, device: torch.device | None = None) -> EchoState:
        """Return a constant copy, as every cell does; W_c is formed here, once."""
        cell = super().frozen(dtype, device)
        assert isinstance(cell, EchoState)
        cell._formed, cell._formed_of = cell.combined().detach(), cell._versions()
        return cell


def _constant(value: Tensor) -> nn.Parameter:
    return nn.Parameter(value, requires_grad=False)
