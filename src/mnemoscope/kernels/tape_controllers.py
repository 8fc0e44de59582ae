"""Steps of the controllers of a tape, and their gradients."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.kernels.screened_cells import LSTMGradient, LSTMSteps


class LayerSteps:
    """`h = tanh(z + P h_below)` in several layers within one step; the first layer uses the previous h."""

    cs: Tensor | None = None

    def __init__(self, us: Tensor, h: Tensor, recurrent: Float[Tensor, "layers units units"] | None) -> None:
        self.made, self.before, units = us.clone(), h, h.shape[-1]
        self.layers = self.made.unflatten(-1, (-1, units)).unbind(2)
        self.hs = self.layers[-1]
        self.recurrent = None if recurrent is None else recurrent.mT.contiguous()

    def step(self, t: int, reads: Tensor, reader: Tensor) -> Float[Tensor, "batch units"]:
        """Return the output of the controller; `made` becomes the h of all layers."""
        self.made[t].addmm_(reads, reader)
        h = self.before
        for number, layer in enumerate(self.layers):
            z = layer[t]
            if self.recurrent is not None:
                z.addmm_(h, self.recurrent[number])
            h = z.tanh_()
        self.before = h
        return h


class GatedSteps:
    """Steps of an LSTM."""

    def __init__(self, us: Tensor, h: Tensor, c: Tensor, recurrent: Float[Tensor, "one gates units"]) -> None:
        self.made, self.before = us.clone(), h
        self.hs, self.lstm = us.new_empty(*us.shape[:2], h.shape[-1]), LSTMSteps(us, c)
        self.cs = self.lstm.cs
        self.recurrent = recurrent[0].T.contiguous()

    def step(self, t: int, reads: Tensor, reader: Tensor) -> Float[Tensor, "batch units"]:
        z = self.made[t].addmm_(reads, reader).addmm_(self.before, self.recurrent)
        self.before = self.hs[t].copy_(self.lstm.step(t, z))
        return self.before


class LayerGradient:
    """Gradients of the drive of all layers from that of h."""

    carried: Tensor | None = None

    def __init__(self, made: Tensor, h0: Tensor, recurrent: Float[Tensor, "layers units units"] | None) -> None:
        self.h0, self.weights = h0, recurrent
        self.layers = made.unflatten(-1, (-1, h0.shape[-1]))
        self.slopes = (1 - self.layers * self.layers).unbind()
        self.into = torch.empty_like(made)
        self.into_layers = self.into.unflatten(-1, (-1, h0.shape[-1]))

    def pull(self, t: int, g: Tensor) -> Tensor:
        """Return the gradient of the previous h."""
        into, slopes = self.into_layers[t], self.slopes[t]
        for number in reversed(range(into.shape[1])):
            torch.mul(g, slopes[:, number], out=into[:, number])
            if self.weights is None:  # one feed-forward layer
                return torch.zeros_like(g)
            g = into[:, number] @ self.weights[number]
        return g

    def recurrent(self) -> Float[Tensor, "layers units units"] | None:
        """Return the gradient of the recurrent matrices."""
        if self.weights is None:
            return None
        before = torch.cat([self.h0.unsqueeze(0), self.layers[:-1, :, -1]]).unsqueeze(2)
        below = torch.cat([before, self.layers[:, :, :-1]], dim=2).flatten(0, 1)
        return torch.einsum("nli,nlj->lij", self.into_layers.flatten(0, 1), below)


class GatedGradient:
    """Gradients of the gates of an LSTM."""

    def __init__(
        self, made: Tensor, hs: Tensor, cs: Tensor, h0: Tensor, c0: Tensor, recurrent: Tensor, grad_c: Tensor | None
    ) -> None:
        self.lstm = LSTMGradient(made, cs, c0, grad_c)
        self.h0, self.hs, self.weights, self.into = h0, hs, recurrent[0], torch.empty_like(made)

    @property
    def carried(self) -> Tensor:
        return self.lstm.carried

    def pull(self, t: int, g: Tensor) -> Tensor:
        self.lstm.pull(t, g, self.into[t])
        return self.into[t] @ self.weights

    def recurrent(self) -> Float[Tensor, "one gates units"]:
        before = torch.cat([self.h0.unsqueeze(0), self.hs[:-1]]).flatten(0, 1)
        return (self.into.flatten(0, 1).T @ before).unsqueeze(0)


def build_steps(us: Tensor, h: Tensor, c: Tensor | None, recurrent: Tensor | None) -> LayerSteps | GatedSteps:
    """Return the steps of a controller: an LSTM if there is a c."""
    if c is None:
        return LayerSteps(us, h, recurrent)
    assert recurrent is not None
    return GatedSteps(us, h, c, recurrent)


def build_gradient(
    made: Tensor,
    hs: Tensor,
    cs: Tensor | None,
    h0: Tensor,
    c0: Tensor | None,
    recurrent: Tensor | None,
    grad_c: Tensor | None,
) -> LayerGradient | GatedGradient:
    """Return the gradients of a controller's steps."""
    if cs is None or c0 is None:
        return LayerGradient(made, h0, recurrent)
    assert recurrent is not None
    return GatedGradient(made, hs, cs, h0, c0, recurrent, grad_c)
