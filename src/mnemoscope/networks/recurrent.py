"""Named networks that are one cell with a recurrent matrix of a certain kind.

Most of them are an Elman cell, `h' = phi(V h + U x + b)`, and differ in the module that yields `V`. Each factory takes
`input_size`, the number of input features, and `hidden_size`, the number of units N. Nonlinearity, matrix and
initialisation are those of the paper that named the network, or of Kerg's thesis (chapter 3), which compares them:
there all networks but LSTM and GORU use modReLU, have no bias except that of modReLU, and differ in the matrix alone.
`matched_size` finds the size at which two networks have as many parameters.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from mnemoscope import connectivity
from mnemoscope.cells.elman import Elman
from mnemoscope.cells.episodic import EpisodicMemory
from mnemoscope.cells.goru import GORU

SkewInit = Literal["henaff", "cayley", "identity", "glorot", "random"]
"""Initialisers of a matrix that is parametrised by a skew matrix."""
Basis = Literal["exponential", "cayley", "householder", "givens"]
"""Parametrisations of an orthogonal matrix, as in `connectivity.ORTHOGONAL`."""


def rnn(
    input_size: int,
    hidden_size: int,
    nonlinearity: str = "modrelu",
    init: str = "glorot",
    input_scale: float | None = None,
) -> Elman:
    """Return a plain RNN: an unconstrained matrix with normal entries of variance 1/N at the start (Kerg, A.1).

    `init` is one of `connectivity.INITIALISERS`. Input weights start uniform in [-input_scale, input_scale]; None:
    1 / sqrt(input_size).
    """
    return _elman(input_size, connectivity.Dense(hidden_size, init), nonlinearity, input_scale)


def irnn(input_size: int, hidden_size: int) -> Elman:
    """Return an IRNN: ReLU and an unconstrained matrix that starts as the identity (Le et al. 2015).

    As published, input weights start ~ N(0, 0.001) and biases at 0.
    """
    cell = Elman(input_size, hidden_size, "relu", connectivity.Dense(hidden_size, "identity"))
    nn.init.normal_(cell.drive.get_parameter("weight"), std=1e-3)
    nn.init.zeros_(cell.drive.get_parameter("bias"))
    return cell


def rnn_orth(
    input_size: int, hidden_size: int, nonlinearity: str = "modrelu", soft_orthogonality: float = 0.0
) -> Elman:
    """Return an RNN-orth: an unconstrained matrix that starts orthogonal (Henaff et al. 2016).

    With `soft_orthogonality` > 0, a penalty of that weight keeps it nearly orthogonal (Vorontsov et al. 2017).
    """
    return _elman(input_size, connectivity.Dense(hidden_size, "orthogonal", soft_orthogonality), nonlinearity)


def eurnn(
    input_size: int,
    hidden_size: int,
    layers: int | None = None,
    style: Literal["tunable", "fft"] = "tunable",
    init: Literal["random", "henaff", "cayley", "identity"] = "random",
) -> Elman:
    """Return an EURNN: a unitary, complex matrix composed of layers of Givens rotations (Jing et al. 2017).

    Options are those of `connectivity.Givens`; by default there are two layers of neighbouring pairs.
    """
    return _elman(input_size, connectivity.Givens(hidden_size, layers, style, init=init))


def ornn(input_size: int, hidden_size: int, reflections: int | None = None, nonlinearity: str = "modrelu") -> Elman:
    """Return an oRNN: an orthogonal matrix composed of Householder reflections (Mhammedi et al. 2017).

    By default there are 16 `reflections`, or N if N < 16.
    """
    return _elman(input_size, connectivity.Householder(hidden_size, reflections), nonlinearity)


def urnn(input_size: int, hidden_size: int) -> Elman:
    """Return a uRNN: a unitary matrix of 7 N parameters (Arjovsky et al. 2016).

    It is the product of diagonal phases, complex reflections, a fixed permutation and Fourier transforms.
    """
    return _elman(input_size, connectivity.Fourier(hidden_size))


def full_urnn(
    input_size: int, hidden_size: int, by: Literal["cayley", "exponential"] = "cayley", init: SkewInit = "random"
) -> Elman:
    """Return a full-capacity uRNN: any unitary matrix (Wisdom et al. 2016).

    By default training moves along the group in Cayley steps, as published; `by="exponential"` parametrises the matrix
    as the exponential of a skew-Hermitian one.
    """
    matrix = connectivity.Cayley(hidden_size, init=init, complex=True, dynamic=True)
    return _elman(input_size, matrix if by == "cayley" else connectivity.Exponential(hidden_size, init, complex=True))


def scornn(input_size: int, hidden_size: int, negative: int | None = None, init: SkewInit = "cayley") -> Elman:
    """Return a scoRNN: an orthogonal matrix by the scaled Cayley transform (Helfrich et al. 2018).

    `negative` of the N entries of the scaling matrix are -1, by default half of them.
    """
    return _elman(input_size, connectivity.Cayley(hidden_size, negative, init))


def scurnn(input_size: int, hidden_size: int, init: SkewInit = "cayley") -> Elman:
    """Return a scuRNN: a unitary matrix by the scaled Cayley transform with learned scaling (Maduranga et al. 2019)."""
    return _elman(input_size, connectivity.Cayley(hidden_size, init=init, complex=True))


def svd_rnn(
    input_size: int, hidden_size: int, margin: float = 0.1, basis: Basis = "exponential", nonlinearity: str = "modrelu"
) -> Elman:
    """Return an RNN whose matrix has singular values within `margin` of 1 (Vorontsov et al. 2017).

    `basis` parametrises the two orthogonal factors of its singular value decomposition.
    """
    return _elman(input_size, connectivity.SVD(hidden_size, margin, basis), nonlinearity)


def exprnn(input_size: int, hidden_size: int, init: SkewInit = "henaff", nonlinearity: str = "modrelu") -> Elman:
    """Return an expRNN: an orthogonal matrix by the matrix exponential (Lezcano-Casado & Martinez-Rubio 2019)."""
    return _elman(input_size, connectivity.Exponential(hidden_size, init), nonlinearity)


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
    """Return an nnRNN: a non-normal matrix by its Schur form (Kerg et al. 2019; Kerg, Eq 3.5.1).

    The eigenvalues stay near the unit circle, and a triangular part makes the matrix non-normal. Options are those of
    `connectivity.Schur`; the weights of the penalties are those of the copy task (Kerg, A.1, Table 1).

    >>> nnrnn(10, 128).connectivity().shape
    torch.Size([128, 128])
    """
    matrix = connectivity.Schur(hidden_size, basis, init, modulus_penalty, modulus, clamp, decay, within_pairs)
    return _elman(input_size, matrix)


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
    """Return an RNN whose matrix stays normal: it learns its eigenvalues and their orthogonal basis.

    Options are those of `connectivity.Normal`. A real matrix is normal if and only if it has this form (Serre 2002,
    Theorem 3.3.1); a linear network of it keeps all Fisher information about its inputs (Ganguli et al. 2008).
    """
    matrix = connectivity.Normal(hidden_size, basis, init, modulus_penalty, modulus, clamp, real, negative)
    return _elman(input_size, matrix, nonlinearity)


def goru(input_size: int, hidden_size: int, basis: Basis = "exponential", init: SkewInit | None = None) -> GORU:
    """Return a GORU: a gated recurrent unit with an orthogonal matrix (Jing et al. 2019).

    `basis` parametrises the matrix; `init` is its initialiser, by default that of the parametrisation.
    """
    return GORU(input_size, hidden_size, connectivity.orthogonal(basis, hidden_size, init))


def episodic(input_size: int, hidden_size: int, memories: int = 16, sigma: str = "tanh") -> Elman:
    """Return an Elman network whose matrix is an episodic memory's (Karuvally et al. 2023, Eq 11).

    It is the conjugate map of an `EpisodicMemory`, which learns the stored memories Xi and their interaction Phi. At
    the start the `memories` are orthonormal, and a random orthogonal matrix I + Phi^T maps them to each other.
    """
    if memories < 1:
        raise ValueError(f"There must be at least one memory, but memories is {memories}.")
    Xi = nn.init.orthogonal_(torch.empty(hidden_size, memories))
    Phi = nn.init.orthogonal_(torch.empty(memories, memories)) - torch.eye(memories)
    cell = EpisodicMemory(Xi, Phi, sigma).conjugate().as_elman()
    drive = nn.Linear(input_size, hidden_size)
    return Elman.from_parts(drive, cell.connectivity, cell.phi, input_size, hidden_size)


def _elman(
    input_size: int,
    matrix: connectivity.Connectivity,
    nonlinearity: str | nn.Module = "modrelu",
    input_scale: float | None = None,
) -> Elman:
    return Elman(input_size, matrix.size, nonlinearity, matrix, bias=False, input_scale=input_scale)
