"""The gated orthogonal recurrent unit."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from mnemoscope.base.array_types import Float
from mnemoscope.base.validation import check_whole
from mnemoscope.cells.cell import Cell, Step
from mnemoscope.cells.fast_path import FastPath, NoFastPath
from mnemoscope.cells.fused_gated import why_unusual
from mnemoscope.cells.nonlinearities import FusableNonlinearity, ModReLU
from mnemoscope.connectivity import Connectivity, Exponential
from mnemoscope.kernels.gated import gru_scan
from mnemoscope.kernels.gated_plans import no_gated_scan


class GORU(Cell):
    """`h' = z h + (1 - z) modrelu(U x + r V h)` with an orthogonal V (Jing et al. 2019, Eq 6-9).

    The gates z and r are logistic functions of affine maps of x and h; the bias of modReLU is the only one of the
    candidate. By default V is `Exponential` with Henaff's initialiser.

    >>> cell = GORU(3, 16)
    >>> cell(torch.zeros(4, 3), cell.initial_state(4)).shape
    torch.Size([4, 16])
    """

    def __init__(self, input_size: int, hidden_size: int, connectivity: Connectivity | None = None) -> None:
        super().__init__()
        check_whole(1, input_size=input_size, hidden_size=hidden_size)
        connectivity = Exponential(hidden_size) if connectivity is None else connectivity
        if connectivity.size != hidden_size or connectivity.complex:
            raise ValueError(
                f"A GORU needs a real matrix with as many rows as it has units, {hidden_size}, but the connectivity "
                f"yields a {'complex' if connectivity.complex else 'real'} one with {connectivity.size} rows."
            )
        self.input_size, self.hidden_size = input_size, hidden_size
        self.drive = nn.Linear(input_size, 3 * hidden_size, bias=False)
        """Input weights of r, z and the candidate."""
        self.gate_bias = nn.Parameter(torch.zeros(2 * hidden_size))
        self.gates = nn.Linear(hidden_size, 2 * hidden_size, bias=False)
        """Recurrent weights of r and z."""
        self.connectivity = connectivity
        self.phi = ModReLU(hidden_size)

    def initial_state(self, batch: int) -> Float[Tensor, "batch hidden"]:
        return self.drive.weight.new_zeros(batch, self.hidden_size)

    def prepare(self, xs: Float[Tensor, " ..."]) -> tuple[Tensor, Step]:
        weights = torch.cat([self.gates.weight, self.connectivity()])  # one product per step

        def step(u: Tensor, h: Tensor) -> Tensor:
            _, z, candidate = self._parts(u, linear(h, weights))
            return candidate + z * (h - candidate)

        return self._driven(xs), step

    def fast_path(self, xs: Tensor, state: Tensor, mask: Tensor | None) -> FastPath | NoFastPath:
        phi = self.phi.description() if isinstance(self.phi, FusableNonlinearity) else None
        if phi is None:
            return NoFastPath("its nonlinearity has no description in mnemoscope.kernels, so each step must call it")
        reason = why_unusual(xs, state, *self.parameters())
        if reason is None and torch.compiler.is_compiling() and xs.device.type != "cpu":
            reason = "the fused scan of gates was not tried under torch.compile on a GPU"
        if reason is None:
            reason = no_gated_scan(xs.device, xs.dtype, self.hidden_size, xs.shape[1], cudnn=False)
        if reason is not None:
            return NoFastPath(reason)
        return FastPath(f"fused goru ({xs.device.type})", lambda: self._fused(phi.name, xs, state, mask))

    def _fused(self, phi: str, xs: Tensor, state: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        V = torch.cat([self.gates.weight, self.connectivity()])
        unbiased, threshold = state.new_zeros(self.hidden_size), getattr(self.phi, "bias", None)
        hs = gru_scan(self._driven(xs), state, V, unbiased, mask, phi, threshold)
        return hs, hs[-1].clone()  # a copy: writing into the state must not change the outputs

    def _driven(self, xs: Tensor) -> Tensor:
        bias = torch.cat([self.gate_bias, self.gate_bias.new_zeros(self.hidden_size)])
        return linear(xs, self.drive.weight, bias)

    def _parts(self, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        u_r, u_z, u_n = u.chunk(3, dim=-1)
        v_r, v_z, v_n = v.chunk(3, dim=-1)
        r = torch.sigmoid(u_r + v_r)
        return r, torch.sigmoid(u_z + v_z), self.phi(u_n + r * v_n)

    def intermediates(self, x: Tensor, state: Tensor) -> dict[str, Tensor]:
        v = linear(state, torch.cat([self.gates.weight, self.connectivity()]))
        return dict(zip(("r", "z", "candidate"), self._parts(self._driven(x), v), strict=True))
