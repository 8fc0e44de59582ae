"""The recurrent networks of the literature that are an Elman cell with a matrix of some kind, by their names.

Each has the nonlinearity, the matrix and its initial value of the paper that named it, or of Kerg's thesis (chapter 3)
where that compares them: there all but LSTM and GORU have modReLU, no bias beside its own, and differ in the matrix
alone. `matched_size` says how large one must be to have as many parameters as another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import nn

from mnemoscope.cells.cell import Cell
from mnemoscope.cells.elman import Elman
from mnemoscope.cells.episodic import EpisodicMemory
from mnemoscope.cells.goru import GORU
from mnemoscope.cells.model import Model
from mnemoscope.connectivity import (
    SVD,
    Cayley,
    Connectivity,
    Dense,
    Exponential,
    Fourier,
    Givens,
    Householder,
    Normal,
    Schur,
    orthogonal,
)

SkewInit = Literal["henaff", "cayley", "identity", "glorot", "random"]
Basis = Literal["exponential", "cayley", "householder", "givens"]


def rnn(input_size: int, hidden_size: int, nonlinearity: str = "modrelu", init: str = "glorot") -> Elman:
    """A free matrix that starts with normal numbers of variance 1/N (Kerg, A.1)."""
    return _elman(input_size, Dense(hidden_size, init), nonlinearity)


def irnn(input_size: int, hidden_size: int) -> Elman:
    """ReLU and a free matrix that starts as the identity; input weights ~ N(0, 0.001), biases 0 (Le et al. 2015)."""
    cell = Elman(input_size, hidden_size, "relu", Dense(hidden_size, "identity"))
    nn.init.normal_(cell.drive.get_parameter("weight"), std=1e-3)
    nn.init.zeros_(cell.drive.get_parameter("bias"))
    return cell


def rnn_orth(
    input_size: int, hidden_size: int, nonlinearity: str = "modrelu", soft_orthogonality: float = 0.0
) -> Elman:
    """A free matrix that starts orthogonal (Henaff et al. 2016), and may be held there by a penalty (Vorontsov et al.
    2017).
    """
    return _elman(input_size, Dense(hidden_size, "orthogonal", soft_orthogonality), nonlinearity)


def eurnn(
    input_size: int,
    hidden_size: int,
    layers: int | None = None,
    style: Literal["tunable", "fft"] = "tunable",
    init: Literal["random", "henaff", "cayley", "identity"] = "random",
) -> Elman:
    """Unitary by layers of rotations; two of them unless more are asked for (Jing et al. 2017)."""
    return _elman(input_size, Givens(hidden_size, layers, style, init=init))


def ornn(input_size: int, hidden_size: int, reflections: int | None = None, nonlinearity: str = "modrelu") -> Elman:
    """Orthogonal by Householder reflections (Mhammedi et al. 2017)."""
    return _elman(input_size, Householder(hidden_size, reflections), nonlinearity)


def urnn(input_size: int, hidden_size: int) -> Elman:
    """Unitary by phases, reflections, a permutation and Fourier transforms (Arjovsky et al. 2016)."""
    return _elman(input_size, Fourier(hidden_size))


def full_urnn(
    input_size: int, hidden_size: int, by: Literal["cayley", "exponential"] = "cayley", init: SkewInit = "random"
) -> Elman:
    """Any unitary matrix: by Cayley steps along the group (Wisdom et al. 2016), or by the exponential."""
    matrix = Cayley(hidden_size, init=init, complex=True, moving=True)
    return _elman(input_size, matrix if by == "cayley" else Exponential(hidden_size, init, complex=True))


def scornn(input_size: int, hidden_size: int, negative: int | None = None, init: SkewInit = "cayley") -> Elman:
    """Orthogonal by the scaled Cayley transform (Helfrich et al. 2018)."""
    return _elman(input_size, Cayley(hidden_size, negative, init))


def scurnn(input_size: int, hidden_size: int, init: SkewInit = "cayley") -> Elman:
    """Unitary by the scaled Cayley transform, with learned scaling (Maduranga et al. 2019)."""
    return _elman(input_size, Cayley(hidden_size, init=init, complex=True))


def svd_rnn(
    input_size: int, hidden_size: int, margin: float = 0.1, basis: Basis = "exponential", nonlinearity: str = "modrelu"
) -> Elman:
    """Singular values within a margin of 1 (Vorontsov et al. 2017)."""
    return _elman(input_size, SVD(hidden_size, margin, basis), nonlinearity)


def exprnn(input_size: int, hidden_size: int, init: SkewInit = "henaff") -> Elman:
    """Orthogonal by the matrix exponential (Lezcano-Casado & Martinez-Rubio 2019)."""
    return _elman(input_size, Exponential(hidden_size, init))


def nnrnn(
    input_size: int,
    hidden_size: int,
    basis: Basis = "exponential",
    init: SkewInit | None = None,
    modulus_penalty: float = 1e-4,
    modulus: float = 1.0,
    clamp: float | None = None,
    decay: float = 1e-6,
    within_pairs: bool = False,
) -> Elman:
    """Non-normal: by its Schur form, eigenvalues near the unit circle (Kerg et al. 2019; Kerg, Eq 3.5.1). The weights
    of the penalties are those of the copy task (Kerg, A.1, Table 1).
    """
    return _elman(input_size, Schur(hidden_size, basis, init, modulus_penalty, modulus, clamp, decay, within_pairs))


def normal_rnn(
    input_size: int,
    hidden_size: int,
    nonlinearity: str = "modrelu",
    basis: Basis = "exponential",
    init: SkewInit | None = "random",
    modulus_penalty: float = 0.0,
    modulus: float = 1.0,
    clamp: float | None = None,
    real: int | None = None,
    negative: int | None = None,
) -> Elman:
    """Normal: an orthogonal basis and the eigenvalues learn, and nothing beside them; options as of `Normal`."""
    matrix = Normal(hidden_size, basis, init, modulus_penalty, modulus, clamp, real, negative)
    return _elman(input_size, matrix, nonlinearity)


def goru(input_size: int, hidden_size: int, basis: Basis = "exponential", init: SkewInit | None = None) -> GORU:
    """Gated, with an orthogonal matrix (Jing et al. 2019)."""
    return GORU(input_size, hidden_size, orthogonal(basis, hidden_size, init))


def episodic(input_size: int, hidden_size: int, memories: int = 16, sigma: str = "tanh") -> Elman:
    """The conjugate map of an episodic memory, whose stored memories Xi and their interaction Phi learn (Karuvally et
    al. 2023, Eq 11). It starts with orthonormal memories that a random orthogonal matrix I + Phi^T takes to each other.
    """
    if memories < 1:
        raise ValueError(f"There must be at least one memory, but memories is {memories}.")
    Xi = nn.init.orthogonal_(torch.empty(hidden_size, memories))
    Phi = nn.init.orthogonal_(torch.empty(memories, memories)) - torch.eye(memories)
    cell = EpisodicMemory(Xi, Phi, sigma).conjugate().as_elman()
    drive = nn.Linear(input_size, hidden_size)
    return Elman.from_parts(drive, cell.connectivity, cell.phi, input_size, hidden_size)


def matched_size(
    cell: Callable[..., Cell], parameters: int, input_size: int, output_size: int, even: bool = True, **options: Any
) -> int:
    """The number of units with which a model of this cell and a linear readout has nearest to so many parameters.

    Args:
        cell: one of the functions here, or any other that takes input_size and hidden_size.
        parameters: how many there should be.
        input_size: input features.
        output_size: features of the readout.
        even: whether the number must be even, as some matrices need it.
        options: of the cell.

    >>> matched_size(exprnn, 18_900, input_size=10, output_size=9)
    176

    """

    def count(size: int) -> int:
        try:
            model = Model(cell(input_size=input_size, hidden_size=size, **options), output_size)
        except ValueError:
            if size >= parameters:  # the smallest network of that size would have more
                raise
            return 0  # too small for the options, or of a size that the matrix does not take
        return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)

    step = 2 if even else 1
    low = high = step
    while count(high) < parameters:
        low, high = high, 2 * high
    while high - low > step:
        middle = (low + high) // (2 * step) * step
        low, high = (middle, high) if count(middle) < parameters else (low, middle)
    return min((low, high), key=lambda size: abs(count(size) - parameters))


def _elman(input_size: int, matrix: Connectivity, nonlinearity: str | nn.Module = "modrelu") -> Elman:
    return Elman(input_size, matrix.size, nonlinearity, matrix, bias=False)
