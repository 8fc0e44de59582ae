"""Shared by the fused scans of attention to the past (`screened`, `full_attention`, `sparse_attention`).

Each is one operator without a graph per step. A past state is a row [values; key]. A scan stores every row once, and
its backward pass recomputes or restores what a step attended to, so that its memory is linear in time.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.kernels.activation import ACTIVATIONS
from mnemoscope.kernels.devices import no_triton

MOST_UNITS = 128
"""Largest number of units for which a program on a GPU holds a matrix in registers."""


class Weights(NamedTuple):
    """Parameters of a scan."""

    recurrent: Float[Tensor, "gates hidden"]
    """Recurrent weights, applied to s_{t-1}: all gates of an LSTM (i, f, g, o), or V."""
    bias: Float[Tensor, " hidden"] | None
    """Bias of modReLU."""
    query: Float[Tensor, "hidden hidden"]
    key: Float[Tensor, "hidden hidden"]
    direction: Float[Tensor, " hidden"] | None
    """v_a of the additive alignment; None: scaled dot product."""


def no_attention_scan(scan: str, device: torch.device, dtype: torch.dtype, cell: str, hidden: int) -> str | None:
    """Return the reason why the fused `scan` of that name does not take these arguments, or None if it does."""
    if cell != "lstm" and cell not in ACTIVATIONS:
        return f"{cell!r} has no description in mnemoscope.kernels.ACTIVATIONS"
    if device.type == "cpu":
        return None if dtype in (torch.float32, torch.float64) else f"it computes in float32 or float64, not in {dtype}"
    reason = no_triton(scan, device)
    if reason is None and dtype != torch.float32:
        return f"the {scan} on a GPU computes in float32, not in {dtype}"
    if reason is None and hidden > MOST_UNITS:
        return f"the {scan} on a GPU takes up to {MOST_UNITS} units"
    return reason


def refuse_second_derivatives() -> None:
    """Raise if a backward pass is to be differentiated."""
    if torch.is_grad_enabled():
        raise RuntimeError(
            "Second derivatives through a shared history of attention are not implemented. Run the steps with "
            "scan(..., backend='loop')."
        )
