"""State-space models with constant, complex and diagonal transitions."""

from __future__ import annotations

from math import pi
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from mnemoscope.base.array_types import Complex, Float, Inexact
from mnemoscope.base.validation import check_whole
from mnemoscope.cells.affine.cell import AffineCell
from mnemoscope.cells.affine.channels import ChannelModel
from mnemoscope.cells.affine.initial import log_uniform
from mnemoscope.cells.affine.parts import Parts, as_complex
from mnemoscope.cells.surroundings import Surroundings


class S4D(ChannelModel):
    """A state-space model for each output channel (Gu et al. 2022, S4D-Lin, sections 3 and 4).

    `s' = exp(A dt) s + (exp(A dt) - 1) / A u` and `y = 2 Re(C s) + D u`, where u is one of `hidden_size` linear maps of
    x, and A has `state_size` / 2 complex entries. At the start `A_n = -1/2 + i pi n`, dt is log-uniform between 0.001
    and 0.1, C is complex normal, and D normal.

    >>> cell = S4D(3, 16, state_size=8)
    >>> cell(torch.zeros(4, 3), cell.initial_state(4)).S.shape
    torch.Size([4, 16, 4, 1])
    """

    surroundings = Surroundings(input_norm="layer", gate="glu", bias=True)
    complex_state = True

    def __init__(self, input_size: int, hidden_size: int, state_size: int = 64) -> None:
        pairs = _number_of_pairs(state_size)
        super().__init__(input_size, hidden_size, keys=pairs)
        self.project = nn.Linear(input_size, hidden_size)
        self.log_rate = nn.Parameter(torch.full((hidden_size, pairs), 0.5).log())
        self.frequency = nn.Parameter(pi * torch.arange(pairs).expand(hidden_size, pairs).clone())
        self.log_step = nn.Parameter(log_uniform(hidden_size, 1).log())
        self.C = nn.Parameter(torch.randn(hidden_size, pairs, 2) * 0.5**0.5)
        self.skip = nn.Parameter(torch.randn(hidden_size))
        """D."""

    @classmethod
    def for_blocks(cls, width: int, depth: int, **options: Any) -> list[Any]:
        cores = super().for_blocks(width, depth, **options)
        for core in cores:  # the channels are the inputs themselves
            core.project = nn.Identity()
        return cores

    def parts(self, features: Float[Tensor, "*batch features"]) -> Parts:
        A = torch.complex(-torch.exp(self.log_rate), self.frequency)
        g = A * torch.exp(self.log_step)
        B = (torch.exp(g) - 1) / A
        shape = (*features.shape[:-1], *g.shape)
        C = 2 * torch.view_as_complex(self.C)
        return Parts(C.expand(shape), B.expand(shape), self.channels(features).unsqueeze(-1), g.expand(shape))


class _ComplexVector(AffineCell):
    """Base class: one complex vector s with `s' = lambda s + B x`, read by `Re(C s) + D x`."""

    surroundings = Surroundings(input_norm="layer", gate="glu", bias=True)
    complex_state = True

    def __init__(self, input_size: int, hidden_size: int, units: int) -> None:
        super().__init__(input_size, hidden_size, heads=units, keys=1, values=1)
        self.project = nn.Linear(input_size, 2 * units + hidden_size, bias=False)
        """Real and imaginary parts of B in turn, then D."""
        self.C = nn.Linear(2 * units, hidden_size, bias=False)
        """Reads the real and imaginary parts in turn."""
        nn.init.normal_(self.project.get_parameter("weight")[2 * units :], std=input_size**-0.5)

    @classmethod
    def for_blocks(cls, width: int, depth: int, **options: Any) -> list[Any]:
        cores = super().for_blocks(width, depth, **options)
        for core in cores:
            core.project = _WithDiagonal(core.project.get_parameter("weight")[: 2 * core.heads])
        return cores

    def spectrum(self) -> tuple[Complex[Tensor, " units"], Inexact[Tensor, " units"]]:
        """Return the logarithms of lambda, and the factor of B x."""
        raise NotImplementedError(f"{type(self).__name__} must define spectrum().")

    def parts(self, features: Float[Tensor, "*batch features"]) -> Parts:
        g, scale = self.spectrum()
        pairs = features[..., : 2 * self.heads].unflatten(-1, (self.heads, 2))
        values = (scale * as_complex(pairs)).unsqueeze(-1)
        ones = torch.ones_like(values)
        return Parts(ones, ones, values, g.unsqueeze(-1).expand(ones.shape))

    def finish(self, reads: Tensor, features: Tensor, scale: Tensor | None) -> Tensor:
        return self.C(torch.view_as_real(reads).flatten(-3)) + features[..., 2 * self.heads :]


class _WithDiagonal(nn.Module):
    """The map of x to B x and D x with a diagonal D, which is normal at the start."""

    def __init__(self, B: Float[Tensor, "outputs inputs"]) -> None:
        super().__init__()
        self.weight = nn.Parameter(B.detach().clone())
        """B."""
        self.skip = nn.Parameter(torch.randn(B.shape[1]))
        """D."""

    def forward(self, x: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch features"]:
        return torch.cat([linear(x, self.weight), self.skip * x], dim=-1)


class LRU(_ComplexVector):
    """The linear recurrent unit (Orvieto et al. 2023, section 3).

    `s' = lambda s + gamma B x` and `y = Re(C s) + D x` with `lambda = exp(-exp(nu) + i exp(theta))` and learned gamma.
    At the start lambda is uniform in the ring between the radii `r_min` and `r_max`, up to the phase `max_phase`, and
    `gamma = sqrt(1 - |lambda|^2)`. The state has `state_size` complex numbers, by default `hidden_size`.

    >>> cell = LRU(3, 16)
    >>> cell(torch.zeros(4, 3), cell.initial_state(4)).S.shape
    torch.Size([4, 16, 1, 1])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        state_size: int | None = None,
        r_min: float = 0.0,
        r_max: float = 1.0,
        max_phase: float = 2 * pi,
    ) -> None:
        if not 0 <= r_min < r_max <= 1 or not max_phase > 0:
            raise ValueError(
                f"0 <= r_min < r_max <= 1 and max_phase > 0 are needed, but they are {r_min}, {r_max} and {max_phase}."
            )
        units = hidden_size if state_size is None else state_size
        super().__init__(input_size, hidden_size, units)
        square = r_min**2 + (r_max**2 - r_min**2) * torch.rand(units)
        self.nu = nn.Parameter(torch.log(-0.5 * torch.log(square)))
        self.theta = nn.Parameter(torch.log(max_phase * torch.rand(units)))
        self.log_gamma = nn.Parameter(0.5 * torch.log1p(-square))
        nn.init.normal_(self.project.get_parameter("weight")[: 2 * units], std=(2 * input_size) ** -0.5)
        nn.init.normal_(self.C.weight, std=units**-0.5)

    def spectrum(self) -> tuple[Tensor, Tensor]:
        return torch.complex(-torch.exp(self.nu), torch.exp(self.theta)), torch.exp(self.log_gamma)


class S5(_ComplexVector):
    """The simplified state-space layer (Smith et al. 2023, section 3).

    `s' = exp(L dt) s + (exp(L dt) - 1) / L B x` and `y = 2 Re(C s) + D x`. At the start L is one of each pair of
    eigenvalues of the normal part of the HiPPO-LegS matrix, B and C are random matrices in its eigenbasis, and dt is
    log-uniform between 0.001 and 0.1. The state has `state_size` / 2 complex numbers; by default `state_size` is
    `hidden_size`, or one more if that is odd.

    >>> cell = S5(3, 16)
    >>> cell(torch.zeros(4, 3), cell.initial_state(4)).S.shape
    torch.Size([4, 8, 1, 1])
    """

    surroundings = Surroundings(input_norm="layer", gate="half glu", bias=True)

    def __init__(self, input_size: int, hidden_size: int, state_size: int | None = None) -> None:
        size = hidden_size + hidden_size % 2 if state_size is None else state_size
        units = _number_of_pairs(size)
        super().__init__(input_size, hidden_size, units)
        eigenvalues, V = _hippo_normal(size)
        self.log_rate = nn.Parameter(torch.log(-eigenvalues.real))
        self.frequency = nn.Parameter(eigenvalues.imag.clone())
        self.log_step = nn.Parameter(log_uniform(units).log())
        B = V.mH @ torch.complex(torch.randn(size, input_size) * input_size**-0.5, torch.zeros(size, input_size))
        C = torch.complex(torch.randn(hidden_size, size) * size**-0.5, torch.zeros(hidden_size, size)) @ V
        with torch.no_grad():
            self.project.get_parameter("weight")[: 2 * units] = torch.view_as_real(B).movedim(-1, 1).flatten(0, 1)
            self.C.weight.copy_(
                2 * torch.view_as_real(C.conj().resolve_conj()).flatten(1)
            )  # Re(C s) = Re C Re s - Im C Im s

    def spectrum(self) -> tuple[Tensor, Tensor]:
        L = torch.complex(-torch.exp(self.log_rate), self.frequency)
        g = L * torch.exp(self.log_step)
        return g, (torch.exp(g) - 1) / L


def _number_of_pairs(state_size: int) -> int:
    check_whole(2, state_size=state_size)
    if state_size % 2:
        raise ValueError(f"state_size must be even, as eigenvalues come in complex pairs, but is {state_size}.")
    return state_size // 2


def _hippo_normal(size: int) -> tuple[Complex[Tensor, " pairs"], Complex[Tensor, "size pairs"]]:
    """Return the eigenvalues with positive imaginary part of the normal part of HiPPO-LegS, and their eigenvectors.

    The matrix is -1/2 plus a skew-symmetric one with the entries `-sqrt((n + 1/2)(m + 1/2))` below the diagonal. It is
    solved in float64, and returned in the precision of new parameters.
    """
    root = torch.sqrt(torch.arange(size, dtype=torch.float64) + 0.5)
    skew = torch.tril(-torch.outer(root, root), -1)
    skew = skew - skew.mT
    frequencies, V = torch.linalg.eigh(-1j * skew)
    positive = frequencies > 0
    eigenvalues = torch.complex(torch.full((size // 2,), -0.5, dtype=torch.float64), frequencies[positive])
    dtype = torch.get_default_dtype().to_complex()
    return eigenvalues.to(dtype), V[:, positive].to(dtype)
