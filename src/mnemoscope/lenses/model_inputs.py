"""Constant inputs of a model, as its cell sees them."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.cells import Model, Network


@torch.no_grad()
def encode_inputs(network: Network, inputs: Tensor) -> tuple[Network, Tensor]:
    """Return the cell of a model and constant inputs (inputs, features) after its encoder; others unchanged."""
    if not isinstance(network, Model):
        return network, inputs
    weight = next(network.parameters())
    given = inputs.to(weight.device, weight.dtype) if inputs.is_floating_point() else inputs.to(weight.device)
    return network.cell, network.encode(given.unsqueeze(0))[0].double()
