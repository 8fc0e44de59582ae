"""A unitary matrix as a product of layers of Givens rotations."""

from __future__ import annotations

from collections.abc import Iterator
from math import pi
from typing import Literal

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Inexact
from mnemoscope.connectivity.skew import ANGLES, check_initialiser
from mnemoscope.connectivity.unitary import Unitary


class Givens(Unitary):
    """`V = F_1 ... F_L D`: layers of rotations of disjoint pairs, and phases: EURNN (Jing et al. 2017, Eq 4-8).

    A rotation is `((e^{i phi} cos theta, -e^{i phi} sin theta), (sin theta, cos theta))`. A real V has neither phi nor
    D.

    Args:
        size: rows and columns N; even, and a power of 2 for the style "fft".
        layers: number of layers L. For "tunable" 1..N, 2 by default; N layers reach every unitary matrix (N^2
            parameters). "fft" always has log2 N layers.
        style: pairs that are rotated. "tunable" alternates between neighbours (0, 1), (2, 3), ... and (1, 2), (3, 4),
            ...; "fft" pairs units 1, 2, 4, ... apart, so that every unit is connected with every other one.
        complex: whether the matrix is unitary (True) or orthogonal (False).
        init: "random" (all angles ~ U(-pi, pi)), "henaff" (angles of the first layer ~ U(-pi, pi)), "cayley" (angles of
            the first layer ~ U(0, pi / 2)) or "identity".

    >>> Givens(8, layers=2)().dtype, Givens(8, style="fft", complex=False)().dtype
    (torch.complex64, torch.float32)

    """

    initialisers = ("random", *ANGLES)

    def __init__(
        self,
        size: int,
        layers: int | None = None,
        style: Literal["tunable", "fft"] = "tunable",
        complex: bool = True,
        init: str = "random",
    ) -> None:
        super().__init__(size)
        if style not in ("tunable", "fft"):
            raise ValueError(f'style is "tunable" or "fft", but is {style!r}.')
        if size % 2:
            raise ValueError(f"Units are rotated in pairs: size must be even, but is {size}.")
        if style == "fft" and (size & (size - 1) or layers is not None):
            raise ValueError(
                f"Rotations in the style of an FFT need a power of 2 units and have log2 N layers, "
                f"but size is {size} and layers is {layers}."
            )
        layers = 2 if layers is None else layers
        if not 1 <= layers <= size:
            raise ValueError(f"There may be 1 to {size} layers of rotations, but layers is {layers}.")
        check_initialiser(init, self.initialisers, self)
        self.complex = complex
        pairs = list(_neighbours(size, layers) if style == "tunable" else _strides(size))
        self._rotations = [len(first) for first, _ in pairs]
        self.angles = nn.Parameter(torch.zeros(sum(self._rotations)))
        self.phases = nn.Parameter(torch.zeros_like(self.angles)) if complex else None
        self.diagonal = nn.Parameter(torch.zeros(size)) if complex else None
        for number, (first, second) in enumerate(pairs):
            order = torch.arange(size)
            order[first], order[second] = second, first
            self.register_buffer(f"_partner_{number}", order, persistent=False)
            self.register_buffer(f"_first_{number}", first, persistent=False)
            self.register_buffer(f"_second_{number}", second, persistent=False)
        with torch.no_grad():
            if init == "random":
                for parameter in self.parameters():
                    parameter.uniform_(-pi, pi)
            else:
                self.angles[: self._rotations[0]].uniform_(*ANGLES[init])

    def forward(self) -> Inexact[Tensor, "n n"]:
        V = torch.eye(self.size, dtype=self.dtype, device=self.device)
        if self.diagonal is not None:
            V = V * torch.polar(torch.ones_like(self.diagonal), self.diagonal)
        angles = self.angles.split(self._rotations)
        phases = [None] * len(angles) if self.phases is None else self.phases.split(self._rotations)
        for number in reversed(range(len(angles))):
            diagonal, off_diagonal = self._layer(number, angles[number], phases[number])
            partner = self.get_buffer(f"_partner_{number}")
            V = diagonal[:, None] * V + off_diagonal[:, None] * V[partner]
        return V

    def _layer(self, number: int, angle: Tensor, phase: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the weight of every unit itself, and of its partner."""
        first, second = self.get_buffer(f"_first_{number}"), self.get_buffer(f"_second_{number}")
        turn = 1 if phase is None else torch.polar(torch.ones_like(phase), phase)
        cos, sin = angle.cos(), angle.sin()
        ones = torch.ones(self.size, dtype=self.dtype, device=self.device)
        diagonal = ones.index_put((first,), (turn * cos).to(ones)).index_put((second,), cos.to(ones))
        zeros = torch.zeros_like(ones)
        return diagonal, zeros.index_put((first,), (-turn * sin).to(ones)).index_put((second,), sin.to(ones))


def _neighbours(size: int, layers: int) -> Iterator[tuple[Tensor, Tensor]]:
    for layer in range(layers):
        first = torch.arange(layer % 2, size - 1, 2)
        yield first, first + 1


def _strides(size: int) -> Iterator[tuple[Tensor, Tensor]]:
    units, stride = torch.arange(size), 1
    while stride < size:
        first = units[units & stride == 0]
        yield first, first + stride
        stride *= 2
