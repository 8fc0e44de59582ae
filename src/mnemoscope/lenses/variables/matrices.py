"""Networks from matrices: check a boundary map F, and build an Elman network with given weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.cells import Elman, Model
from mnemoscope.connectivity import Dense
from mnemoscope.connectivity.signed_selection import SignedSelection


def boundary_matrix(F: SignedSelection | Float[Tensor, "size columns"]) -> Float[Tensor, "size columns"]:
    """Return F as a float64 matrix (d, s d); raise if its shape or a value is wrong."""
    if isinstance(F, SignedSelection):
        return F.matrix()
    if F.dim() != 2 or 0 in F.shape or F.shape[1] % F.shape[0] or F.is_complex() or not torch.isfinite(F).all():
        raise ValueError(
            f"F maps the last s vectors of d elements to d numbers, so it must be a finite real matrix (d, s d), but "
            f"its shape is {tuple(F.shape)} and its type {F.dtype}."
        )
    return F.detach().to(torch.float64)


def elman_model(
    W_hh: Float[Tensor, "units units"],
    W_uh: Float[Tensor, "units inputs"],
    W_r: Float[Tensor, "outputs units"],
    nonlinearity: str = "tanh",
    bias: Float[Tensor, " units"] | None = None,
    readout_bias: Float[Tensor, " outputs"] | None = None,
) -> Model:
    """Return the network h(t) = g(W_hh h(t-1) + W_uh u(t) + b), o(t) = W_r h(t) + c, in the dtype of W_hh.

    >>> one = torch.ones(1, 1, dtype=torch.float64)
    >>> elman_model(0.5 * one, one, 3 * one, "linear")(torch.ones(2, 1, 1, dtype=torch.float64))[0].flatten().tolist()
    [3.0, 4.5]
    """
    units, inputs = W_uh.shape
    cell = Elman(inputs, units, nonlinearity, Dense.from_matrix(W_hh.detach().clone()), bias=bias is not None)
    model = Model(cell, len(W_r), readout_bias=readout_bias is not None).to(W_hh.dtype)
    layers = [(cell.drive, W_uh, bias), (model.readout, W_r, readout_bias)]
    with torch.no_grad():
        for linear, weight, offset in layers:
            assert isinstance(linear, nn.Linear)
            linear.weight.copy_(weight)
            if offset is not None:
                linear.bias.copy_(offset)
    return model
