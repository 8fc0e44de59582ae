"""Steps of the cells of a scan with attention on the CPU, and their gradients."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.kernels.activation import ACTIVATIONS


class ElementwiseSteps:
    """Steps `h = phi(z)`, in place."""

    def __init__(self, name: str, bias: Tensor | None, like: Tensor) -> None:
        self.apply = ACTIVATIONS[name].in_place(like, bias)

    def step(self, t: int, z: Tensor) -> Tensor:
        """Return h; z becomes what `kept` returns."""
        self.apply(z)
        return z

    def kept(self, made: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return the gates and memories of all steps."""
        return None, None


class LSTMSteps:
    """Steps of an LSTM, `c' = f c + i g`, `h' = o tanh(c')`; z becomes the gates."""

    def __init__(self, us: Tensor, c: Tensor) -> None:
        self.c, self.cs = c, us.new_empty(*us.shape[:2], c.shape[-1])

    def step(self, t: int, z: Tensor) -> Tensor:
        size = self.c.shape[-1]
        z[:, : 2 * size].sigmoid_()
        z[:, 2 * size : 3 * size].tanh_()
        z[:, 3 * size :].sigmoid_()
        i, f, g, o = z.chunk(4, dim=1)
        self.c = torch.mul(f, self.c, out=self.cs[t]).addcmul_(i, g)
        return o * torch.tanh(self.c)

    def kept(self, made: Tensor) -> tuple[Tensor | None, Tensor | None]:
        return made, self.cs


class ElementwiseGradient:
    """Gradients of z from those of h, which are overwritten."""

    carried: Tensor | None = None
    """Gradient of the memory c before the present step; None without such a memory."""

    def __init__(self, name: str, hs: Tensor, bias: Tensor | None) -> None:
        self.phi = ACTIVATIONS[name]
        gates = self.phi.gates(hs, bias)
        self.gates = list(zip(*(gate.unbind() for gate in gates), strict=True)) if gates else [()] * len(hs)

    def pull(self, t: int, g: Tensor, into: Tensor) -> None:
        """Write the gradient of z at step t."""
        self.phi.pull_back_(g, *self.gates[t])
        into.copy_(g)


class LSTMGradient:
    """`dz = slopes * (dc, dc, dc, dh)`; the slopes of all steps are computed before the loop."""

    def __init__(self, gates: Tensor, cs: Tensor, c0: Tensor, into_c: Tensor | None) -> None:
        i, f, g, o = gates.chunk(4, dim=-1)
        before, seen = torch.cat([c0.unsqueeze(0), cs[:-1]]), torch.tanh(cs)
        slopes = [g * i * (1 - i), before * f * (1 - f), i * (1 - g * g), seen * o * (1 - o)]
        self.slopes = torch.stack(slopes, dim=2)
        self.into_c, self.forget = o * (1 - seen * seen), f
        self.carried = torch.zeros_like(c0) if into_c is None else into_c.clone()

    def pull(self, t: int, g: Tensor, into: Tensor) -> None:
        self.carried.addcmul_(g, self.into_c[t])
        into, slopes = into.unflatten(-1, (4, -1)), self.slopes[t]
        torch.mul(slopes[:, :3], self.carried.unsqueeze(1), out=into[:, :3])
        torch.mul(slopes[:, 3], g, out=into[:, 3])
        self.carried.mul_(self.forget[t])


def build_steps(
    cell: str, us: Tensor, s: Tensor, c: Tensor | None, bias: Tensor | None
) -> ElementwiseSteps | LSTMSteps:
    """Return the steps of a cell; `c` is the first memory of an LSTM."""
    return ElementwiseSteps(cell, bias, s) if c is None else LSTMSteps(us, c)


def build_gradient(
    cell: str,
    hs: Tensor,
    bias: Tensor | None,
    gates: Tensor | None,
    cs: Tensor | None,
    c: Tensor | None,
    into_c: Tensor | None,
) -> ElementwiseGradient | LSTMGradient:
    """Return the gradients of a cell's steps; `hs` are its states, `gates`, `cs` and the first `c` those of an LSTM."""
    if gates is None or cs is None or c is None:
        return ElementwiseGradient(cell, hs, bias)
    return LSTMGradient(gates, cs, c, into_c)
