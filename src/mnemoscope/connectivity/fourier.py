"""The unitary matrix of a uRNN: a product of structured matrices."""

from __future__ import annotations

from math import pi

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Complex
from mnemoscope.connectivity.unitary import Unitary


class Fourier(Unitary):
    """`V = D_3 R_2 F^-1 D_2 Pi R_1 F D_1` (Arjovsky et al. 2016, Eq 6): 7 N parameters.

    D are diagonal matrices of phases, R complex Householder reflections, F is the unitary Fourier transform, and Pi a
    fixed permutation.

    >>> V = Fourier(6)()
    >>> torch.allclose(V @ V.mH, torch.eye(6, dtype=V.dtype), atol=1e-6)
    True

    """

    complex = True
    permutation: Tensor

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.phases = nn.Parameter(torch.empty(3, size).uniform_(-pi, pi))
        self.reflections = nn.Parameter(torch.empty(2, size, 2).uniform_(-1, 1))
        self.register_buffer("permutation", torch.randperm(size))

    def forward(self) -> Complex[Tensor, "n n"]:
        D1, D2, D3 = torch.polar(torch.ones_like(self.phases), self.phases)[:, :, None]
        R1, R2 = torch.view_as_complex(self.reflections)
        V = torch.fft.fft(torch.diag(D1[:, 0]), dim=0, norm="ortho")
        V = D2 * _reflected(V, R1)[self.permutation]
        return D3 * _reflected(torch.fft.ifft(V, dim=0, norm="ortho"), R2)


def _reflected(V: Complex[Tensor, "n n"], v: Complex[Tensor, " n"]) -> Complex[Tensor, "n n"]:
    """Return `(I - 2 v v^H / |v|^2) V`."""
    v = v / torch.linalg.vector_norm(v)
    return V - 2 * torch.outer(v, v.conj() @ V)
