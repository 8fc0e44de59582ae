"""The echo state network: a fixed random reservoir, a readout that is learned, and its feedback."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.cells.cell import Box, Cell, Step
from mnemoscope.cells.fast import FastPath, NoFastPath
from mnemoscope.cells.model import Model
from mnemoscope.cells.nonlinearity import Nonlinearity, nonlinearity
from mnemoscope.cells.state import State

Form = Literal["current", "rate"]


class EchoState(Cell):
    """A leaky reservoir with output feedback (Jang, Eq 22-26), by Euler steps of dt = leak tau.

    With `W_c = W_r + W_fb W_o`, the matrix that the feedback of the output z = W_o r closes:

    - "current": `x' = (1 - leak) x + leak (W_c r(x) + B u + b)`; the state x is a current, a readout sees the rates
      r(x) (Sussillo & Abbott 2009);
    - "rate": `r' = (1 - leak) r + leak phi(W_c r + B u + b)`; the state is the rates (Jaeger et al. 2007).

    W_r, B, W_fb and b are random and fixed; `mnemoscope.train_force` and `fit_readout` learn W_o, which starts at zero.
    All of them are parameters; the fixed ones have `requires_grad=False`, so that you can choose to train them too.

    Args:
        input_size: number of input features.
        hidden_size: number of units N.
        output_size: outputs z that are fed back; 0 for a reservoir without readout and feedback of its own.
        gain: g; the entries of W_r are N(0, g^2 / (density N)), so that its spectral radius is about g. The published
            1.5 is that of tanh, whose slope is 1; the logistic function's is 1/4.
        tau: time constant in units of dt.
        dt: step of time.
        density: share of entries of W_r that are not zero.
        nonlinearity: "tanh", "logistic", or any elementwise function.
        form: "current" or "rate", as above.
        input_scale: B is uniform in [-input_scale, input_scale].
        feedback_scale: W_fb is uniform in [-feedback_scale, feedback_scale].
        bias_scale: b is uniform in [-bias_scale, bias_scale].

    >>> reservoir = EchoState(3, 100, output_size=3)
    >>> reservoir(torch.zeros(4, 3), reservoir.initial_state(4)).shape
    torch.Size([4, 100])

    """

    _formed: Tensor | None

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
        _check(input_size, hidden_size, output_size, form)
        scales = {"input_scale": input_scale, "feedback_scale": feedback_scale, "bias_scale": bias_scale}
        _check_numbers({"gain": gain, **scales})
        if not (0 < dt <= tau < inf):
            raise ValueError(f"A step may not be longer than the time constant: 0 < dt <= tau, but {dt=} and {tau=}.")
        if not 0 < density <= 1:
            raise ValueError(f"density is a share of the entries, in (0, 1], but is {density}.")
        self.input_size, self.hidden_size, self.output_size = input_size, hidden_size, output_size
        self.leak = float(dt / tau)
        self.form: Form = form
        self.phi = _named(nonlinearity, hidden_size)
        N = hidden_size
        there = torch.rand(N, N) < density
        self.recurrent = _constant(torch.randn(N, N) * there * (gain / (density * N) ** 0.5))
        self.drive = _constant(input_scale * (2 * torch.rand(N, input_size) - 1))
        self.bias = _constant(bias_scale * (2 * torch.rand(N) - 1))
        self.feedback = _constant(feedback_scale * (2 * torch.rand(N, output_size) - 1)) if output_size else None
        self.readout = nn.Parameter(torch.zeros(output_size, N)) if output_size else None
        self.register_buffer("_formed", None, persistent=False)
        self._formed_of: tuple[int, ...] = ()

    @classmethod
    def of_weights(
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
        """A reservoir of given W_r (hidden, hidden), B (hidden, input), W_fb (hidden, output), W_o (output, hidden) and
        b (hidden,), which are copied.

        >>> W = torch.eye(2)
        >>> EchoState.of_weights(W, torch.ones(2, 1), leak=1.0, form="rate")(torch.zeros(1, 1), torch.ones(1, 2)).shape
        torch.Size([1, 2])
        """
        N, outputs = recurrent.shape[0], 0 if feedback is None else feedback.shape[1]
        with torch.device("meta"):  # no numbers are drawn for matrices that are replaced at once
            cell = cls(drive.shape[1], N, outputs, nonlinearity=nonlinearity, form=form)
        cell.phi = _named(nonlinearity, N)
        if not 0 < leak <= 1:
            raise ValueError(f"leak = dt / tau is in (0, 1], but is {leak}.")
        cell.leak = float(leak)
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

    def initial_state(self, batch: int) -> Float[Tensor, "batch hidden"]:
        return torch.zeros(batch, self.hidden_size, dtype=self.recurrent.dtype, device=self.recurrent.device)

    def output(self, state: Float[Tensor, "*batch hidden"]) -> Float[Tensor, "*batch hidden"]:
        """The rates r."""
        return self.phi(state) if self.form == "current" else state

    def read(self, rates: Float[Tensor, "*batch hidden"]) -> Float[Tensor, "*batch output"]:
        """The outputs z = W_o r (Eq 23)."""
        if self.readout is None:
            raise ValueError("This reservoir has no readout of its own; give it an output_size, or put it in a Model.")
        return rates @ self.readout.mT

    def combined(self) -> Float[Tensor, "hidden hidden"]:
        """`W_c = W_r + W_fb W_o` (Eq 26)."""
        if self._formed is not None and self._formed_of == self._versions():
            return self._formed
        if self.feedback is None or self.readout is None:
            return self.recurrent
        return torch.addmm(self.recurrent, self.feedback, self.readout)

    def as_model(self) -> Model:
        """The reservoir and its readout as a `Model`, whose outputs are z; the weights stay shared."""
        if self.readout is None:
            raise ValueError(
                "This reservoir has no readout of its own; give it an output_size: EchoState(..., outputs)."
            )
        model = Model(self, self.output_size, readout_bias=False)
        model.linear_readout.weight = self.readout
        return model

    def prepare(self, xs: Float[Tensor, " ..."]) -> tuple[Tensor, Step]:
        W_T, leak = self.combined().mT, self.leak
        us = xs @ self.drive.mT + self.bias
        if self.form == "current":
            return us, lambda u, x: (1 - leak) * x + leak * (self.phi(x) @ W_T + u)
        return us, lambda u, r: (1 - leak) * r + leak * self.phi(r @ W_T + u)

    def forward(self, x: Float[Tensor, "batch features"], state: Float[Tensor, "batch hidden"]) -> Tensor:
        u, step = self.prepare(x)
        return step(u, state)

    def fast_path(self, xs: Tensor, state: State, mask: Tensor | None) -> FastPath | NoFastPath:
        learned = [xs, state, *self.parameters()]
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in learned):
            return NoFastPath("gradients are wanted, and the reservoir's fast path has none")
        if mask is not None:
            return NoFastPath("a mask is given")
        if not xs.dtype == state.dtype == self.recurrent.dtype:
            return NoFastPath("inputs, state and weights differ in dtype")
        from mnemoscope.cells.reservoirs import Reservoirs

        return FastPath("reservoir", lambda: Reservoirs([self]).scan(xs, state))

    def jacobian(self, x: Tensor, state: Tensor) -> Tensor:
        """`(1 - leak) I + leak W_c diag(r'(x))`, or with `diag(phi') W_c` in the rate form (Eq 20 on W_c)."""
        W = self.combined()
        if self.form == "current":
            J = self.leak * self.phi.derivative(state).unsqueeze(-2) * W
        else:
            slope = self.phi.derivative(state @ W.mT + x @ self.drive.mT + self.bias)
            J = self.leak * slope.unsqueeze(-1) * W
        J.diagonal(dim1=-2, dim2=-1).add_(1 - self.leak)
        return J

    def bounds(self, low: Tensor, high: Tensor) -> Box | None:
        """Of rates: the range of phi. Of currents: what W_c r + B u + b can be for any rates in that range."""
        if not (isfinite(self.phi.low) and isfinite(self.phi.high)):
            return None
        if self.form == "rate":
            one = torch.ones_like(self.initial_state(1)[0])
            return self.phi.low * one, self.phi.high * one
        least, most = _product_range(self.combined(), self.phi.low, self.phi.high)
        from_low, from_high = _product_range(self.drive, low, high)
        # a larger box is kept too; one without width, of a unit that nothing reaches, would not bear rounding
        margin = 1e-6 * (1 + torch.maximum(least.abs(), most.abs()).amax())
        return least + from_low + self.bias - margin, most + from_high + self.bias + margin

    def intermediates(self, x: Tensor, state: Tensor) -> dict[str, Tensor]:
        pre = self.output(state) @ self.combined().mT + x @ self.drive.mT + self.bias
        return {"pre": pre} if self.readout is None else {"pre": pre, "z": self.read(self.output(state))}

    def frozen(self, dtype: torch.dtype | None = None, device: torch.device | None = None) -> EchoState:
        """As for every cell; W_c is formed here once and for all."""
        cell = super().frozen(dtype, device)
        assert isinstance(cell, EchoState)
        cell._formed, cell._formed_of = cell.combined().detach(), cell._versions()
        return cell

    def _versions(self) -> tuple[int, ...]:
        """Changes when W_r, W_fb or W_o are written to."""
        parts = (self.recurrent, self.feedback, self.readout)
        return tuple(part._version for part in parts if part is not None)

    def extra_repr(self) -> str:
        sizes = f"{self.input_size}, {self.hidden_size}, {self.output_size}"
        return f"{sizes}, leak={self.leak:g}, form={self.form}"


def _product_range(W: Tensor, low: float | Tensor, high: float | Tensor) -> tuple[Tensor, Tensor]:
    """Least and greatest values of W r for r between low and high."""
    up, down = W.clamp_min(0), W.clamp_max(0)
    ones = torch.ones_like(W[0])
    low, high = ones * low, ones * high
    return up @ low + down @ high, up @ high + down @ low


def _constant(value: Tensor) -> nn.Parameter:
    return nn.Parameter(value, requires_grad=False)


def _check(input_size: int, hidden_size: int, output_size: int, form: str) -> None:
    if input_size < 1 or hidden_size < 1 or output_size < 0:
        raise ValueError(
            f"A reservoir needs inputs and units, but input_size is {input_size}, hidden_size {hidden_size} and "
            f"output_size {output_size} (0: no readout of its own)."
        )
    if form not in get_args(Form):
        raise ValueError(f'form must be "current" or "rate", but is {form!r}.')


def _check_numbers(options: dict[str, float]) -> None:
    for name, value in options.items():
        if not 0 <= value < inf:
            raise ValueError(f"{name} must be 0 or positive and finite, but is {value}.")


def _named(which: str | Nonlinearity | Callable[[Tensor], Tensor], size: int) -> Nonlinearity:
    return nonlinearity(which, size)  # the constructor's argument shadows the function's name
