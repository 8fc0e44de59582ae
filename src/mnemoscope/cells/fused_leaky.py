"""The fast path of leaky units: one operation for the whole sequence."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.cells.fast_path import FastPath, NoFastPath
from mnemoscope.cells.fused_gated import why_unusual
from mnemoscope.cells.leaky_units import LeakyUnits
from mnemoscope.cells.nonlinearities import FusableNonlinearity
from mnemoscope.kernels.leaky import leaky_scan, no_leaky_scan


def fused_leaky_path(cell: LeakyUnits, xs: Tensor, state: Tensor, mask: Tensor | None) -> FastPath | NoFastPath:
    """Return the fast path of leaky units whose recurrent matrix is dense."""
    phi = cell.phi.description() if isinstance(cell.phi, FusableNonlinearity) else None
    if phi is None:
        return NoFastPath("its nonlinearity has no description in mnemoscope.kernels, so each step must call it")
    reason = why_unusual(xs, state, *cell.parameters())
    if reason is None and torch.compiler.is_compiling() and xs.device.type != "cpu":
        reason = "the fused scan of leaky units was not tried under torch.compile on a GPU"
    if reason is None:
        reason = no_leaky_scan(xs.device, xs.dtype, state.shape[1], xs.shape[1], phi)
    if reason is not None:
        return NoFastPath(reason)

    def run() -> tuple[Tensor, Tensor]:
        us = cell.with_noise(cell.driven(xs))
        return leaky_scan(us, state, cell.combined(), cell.leak, phi.name, cell.form == "rate", mask)

    return FastPath(f"fused leaky units ({phi.name}, {xs.device.type})", run)
