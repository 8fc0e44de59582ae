"""The cells of a screened scan on the CPU: their steps, and the gradients of these."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.kernels.activation import ACTIVATIONS
from mnemoscope.kernels.screened_types import Screening, Start, Trace


class ElementwiseSteps:
    """`h = phi(z)`, in place."""

    def __init__(self, name: str, bias: Tensor | None, like: Tensor) -> None:
        self.apply = ACTIVATIONS[name].in_place(like, bias)

    def step(self, t: int, z: Tensor) -> Tensor:
        """H from z, which is turned into what `kept` hands on."""
        self.apply(z)
        return z

    def kept(self, made: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """The gates and memories of all steps."""
        return None, None


class LSTMSteps:
    """`c' = f c + i g`, `h' = o tanh(c')`; z is turned into the gates."""

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


class ElementwisePull:
    """Gradients at z from those at h, which are used up."""

    carried: Tensor | None = None
    """The gradient of the memory that the next step begins with."""

    def __init__(self, trace: Trace, bias: Tensor | None, how: Screening) -> None:
        self.phi = ACTIVATIONS[how.cell]
        hs = trace.rows[how.slots :, :, : trace.outputs.shape[-1]]
        gates = self.phi.gates(hs, bias)
        self.gates = list(zip(*(gate.unbind() for gate in gates), strict=True)) if gates else [()] * len(hs)

    def pull(self, t: int, g: Tensor, into: Tensor) -> None:
        """Write the gradient at z of step t."""
        self.phi.pull_back_(g, *self.gates[t])
        into.copy_(g)


class LSTMPull:
    """`dz = slopes * (dc, dc, dc, dh)`, with the slopes of all steps formed at once."""

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


def steps_of(us: Tensor, start: Start, bias: Tensor | None, how: Screening) -> ElementwiseSteps | LSTMSteps:
    """The steps of a cell."""
    return ElementwiseSteps(how.cell, bias, start.s) if start.c is None else LSTMSteps(us, start.c)


def pull_of(
    trace: Trace, start: Start, bias: Tensor | None, how: Screening, into_c: Tensor | None
) -> ElementwisePull | LSTMPull:
    """Their gradients."""
    if start.c is None or trace.gates is None or trace.c is None:
        return ElementwisePull(trace, bias, how)
    return LSTMPull(trace.gates, trace.c, start.c, into_c)
