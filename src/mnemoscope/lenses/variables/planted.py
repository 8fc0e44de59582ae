"""Planted networks: random networks with known variables, hidden as training might hide them, to check the lens."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells import Model
from mnemoscope.connectivity.signed_selection import SignedSelection, companion
from mnemoscope.lenses.variables.basis import MemoryBasis
from mnemoscope.lenses.variables.theory import boundary_matrix, elman_model

TRANSIENT_RADIUS = 0.7
"""Default spectral radius of the transients."""


@dataclass(frozen=True)
class PlantedNetwork:
    """A network with the state h = h* + T [memory; transients; idle units], and its true parameters.

    Around its fixed point, h(t) - h* = A (h(t-1) - h*) + B u(t) and o(t) = C (h(t) - h*).
    """

    model: Model
    basis: MemoryBasis
    """The first columns of T, and the first rows of its inverse. These duals differ from those of the pseudo-inverse,
    as they do not read the transients."""
    F: Float[Tensor, "size columns"]
    Phi: Float[Tensor, "memories memories"]
    """The interaction of the memories, times the gain."""
    transient: Float[Tensor, "transients transients"]
    fixed_point: Float[Tensor, " units"]
    A: Float[Tensor, "units units"]
    B: Float[Tensor, "units size"]
    C: Float[Tensor, "size units"]

    def rest(self, batch: int) -> Float[Tensor, "batch units"]:
        """Return the fixed point as an initial state; zeros are not at rest in a network with a bias."""
        return self.fixed_point.expand(batch, -1).clone()


def planted_network(
    variables: int,
    size: int,
    units: int,
    transients: int,
    generator: torch.Generator,
    *,
    F: SignedSelection | Float[Tensor, "size columns"] | None = None,
    bias: bool = False,
    nonlinearity: str = "linear",
    leak: float = 0.5,
    gain: float = 1.0,
    offset: float = 0.05,
    radius: float = TRANSIENT_RADIUS,
) -> PlantedNetwork:
    """Return a random network that binds `variables` vectors of `size` elements in a hidden basis.

    T is far from orthogonal (condition number 10 to 30). In addition to the memory there are `transients` directions
    with non-normal dynamics of spectral radius `radius`, which inputs drive and the readout sees; the remaining units
    are idle. A = T diag(gain Phi, transient, 0) T^-1, B = T [Psi_s; leak; 0], C = [Psi_s*, leak, 0] T^-1.

    A tanh network has exactly this linearisation at its fixed point h*: W_hh = D^-1 A, W_uh = D^-1 B with
    D = diag(1 - h*^2), and b = artanh(h*) - W_hh h*. So it is the network of the theory for small inputs only. Without
    a bias, h* is 0; with one it is random, and the bias of the readout cancels C h*. Such a network has other fixed
    points too, and if Phi has the eigenvalue 1, as that of repeat copy, h* is degenerate. Newton's method finds h* from
    0 if the `gain` is well above 1 and h* is near, as with a gain of 1.2 and the default offset.

    Args:
        variables: number of vectors held, s.
        size: elements of each vector, d.
        units: units of the network, at least s d + transients.
        transients: number of fading directions.
        generator: source of T, the transients, the leaks and h*.
        F: boundary map; repeat copy by default.
        bias: whether the fixed point differs from 0.
        nonlinearity: "linear" or "tanh".
        leak: scale of the weights by which transients are driven and read.
        gain: factor of Phi.
        offset: scale of the entries of h* if there is a bias; below 0.6.
        radius: spectral radius of the transients.

    >>> net = planted_network(3, 2, units=10, transients=3, generator=torch.Generator().manual_seed(0))
    >>> bool(torch.allclose(net.basis.duals @ net.A @ net.basis.vectors, net.Phi))
    True

    """
    memories = variables * size
    if min(variables, size) < 1 or transients < 0 or units < memories + transients:
        raise ValueError(
            f"{variables} vectors of {size} elements and {transients} transients need {memories + transients} units at "
            f"least, but {units=}."
        )
    if nonlinearity not in ("linear", "tanh"):
        raise ValueError(f"nonlinearity must be linear or tanh, but is {nonlinearity!r}.")
    if not 0 <= offset < 0.6:
        raise ValueError(f"offset must be from 0 to 0.6, so that h* is within the range of tanh, but is {offset}.")
    F = boundary_matrix(SignedSelection.repeat_copy(variables, size) if F is None else F)
    if F.shape != (size, memories):
        raise ValueError(
            f"F must be ({size}, {memories}) for {variables} vectors of {size} elements, but is {tuple(F.shape)}."
        )

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=generator)

    T = _skewed_matrix(units, generator)
    inverse = torch.linalg.inv(T)
    transient = random(transients, transients)
    if transients:
        transient *= radius / float(torch.linalg.eigvals(transient).abs().max())
    Phi = gain * companion(F)
    inside, write, read = T.new_zeros(units, units), T.new_zeros(units, size), T.new_zeros(size, units)
    inside[:memories, :memories] = Phi
    fading = slice(memories, memories + transients)
    inside[fading, fading] = transient
    write[memories - size : memories] = read[:, memories - size : memories] = torch.eye(size, dtype=T.dtype)
    write[fading], read[:, fading] = leak * random(transients, size), leak * random(size, transients)
    A, B, C = T @ inside @ inverse, T @ write, read @ inverse

    rest = offset * random(units).clamp(-1.5, 1.5) if bias else T.new_zeros(units)
    slope = 1 - rest.square() if nonlinearity == "tanh" else torch.ones_like(rest)
    before = rest.atanh() if nonlinearity == "tanh" else rest
    W = A / slope[:, None]
    offsets = (before - W @ rest, -C @ rest) if bias else (None, None)
    model = elman_model(W, B / slope[:, None], C, nonlinearity, *offsets)
    basis = MemoryBasis(T[:, :memories].clone(), inverse[:memories].clone(), variables)
    return PlantedNetwork(model, basis, F, Phi, transient, rest, A, B, C)


def _skewed_matrix(size: int, generator: torch.Generator) -> Float[Tensor, "size size"]:
    """Return a random matrix with log-spaced singular values and a condition number of 10 to 30."""

    def rotation() -> Tensor:
        return torch.linalg.qr(torch.randn(size, size, dtype=torch.float64, generator=generator))[0]

    condition = 10 + 20 * float(torch.rand((), dtype=torch.float64, generator=generator))
    singular = condition ** torch.linspace(0.5, -0.5, size, dtype=torch.float64)
    return rotation() * singular @ rotation()
