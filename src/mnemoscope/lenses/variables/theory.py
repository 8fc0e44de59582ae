"""The linear theory of variable binding: networks that continue a sequence by x(t) = F [x(t-s); ...; x(t-1)].

Karuvally et al. 2023, sections 5 to 10, in PyTorch's convention: h(t) = g(W_hh h(t-1) + W_uh u(t)), o(t) = W_r h(t),
h(0) = 0, so that o(t) = u(t) while inputs arrive. Subspaces are numbered from the oldest variable on.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import isfinite, tanh
from typing import NamedTuple

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Complex, Float
from mnemoscope.cells import Elman, Model
from mnemoscope.connectivity import Dense
from mnemoscope.connectivity.signed_selection import SignedSelection, companion
from mnemoscope.lenses.variables.basis import MemoryBasis


class BindingRun(NamedTuple):
    """States and outputs of a run; entry T - 1 is time T."""

    states: Float[Tensor, "time batch units"]
    outputs: Float[Tensor, "time batch size"]


@dataclass(frozen=True, eq=False)
class BindingNetwork:
    """The network of the theory for any boundary map F (d, s d) and any independent memories Xi (units, s d).

    W_hh = Xi Phi Xi^+ (Eq 13, 20), W_uh = Psi_s (Eq 21) and W_r = Psi_s* (Eq 22): each step moves the content of every
    subspace to the one before it, and writes F of all of them into the last one. Inputs are written into the last
    subspace, and outputs are read from it. Without Xi each unit holds one element of one variable (the register basis).

    >>> net = BindingNetwork(SignedSelection.compose_copy(3))
    >>> vectors = torch.arange(9.0).reshape(3, 1, 3)
    >>> net.run(vectors, steps=2).outputs[:, 0].tolist()
    [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0], [6.0, 7.0, 8.0], [0.0, 4.0, 8.0], [3.0, 7.0, 8.0]]
    """

    F: SignedSelection | Float[Tensor, "size columns"]
    Xi: Float[Tensor, "units memories"] | None = None

    def __post_init__(self) -> None:
        _ = self.basis  # raises here if F or Xi is wrong

    @cached_property
    def boundary(self) -> Float[Tensor, "size columns"]:
        """F as a matrix."""
        return boundary_matrix(self.F)

    @cached_property
    def selection(self) -> SignedSelection | None:
        """F as a signed selection; None if it is not one."""
        if isinstance(self.F, SignedSelection):
            return self.F
        try:
            return SignedSelection.from_matrix(self.boundary, tolerance=0.0)
        except ValueError:
            return None

    @property
    def size(self) -> int:
        """Elements of a vector, d."""
        return len(self.boundary)

    @property
    def variables(self) -> int:
        """Vectors held, s."""
        return self.boundary.shape[1] // self.size

    @cached_property
    def basis(self) -> MemoryBasis:
        """The memories and their duals, the rows of Xi^+."""
        memories = self.boundary.shape[1]
        Xi = torch.eye(memories, dtype=torch.float64) if self.Xi is None else self.Xi
        if Xi.shape[-1] != memories:
            raise ValueError(
                f"{self.variables} vectors of {self.size} elements need {memories} memories, the columns of Xi, but "
                f"its shape is {tuple(Xi.shape)}."
            )
        return MemoryBasis.from_vectors(Xi, self.variables)

    @cached_property
    def Phi(self) -> Float[Tensor, "memories memories"]:
        """The network in its memory basis (Eq 20): a shift by one subspace, with F in the last rows."""
        return companion(self.boundary)

    @property
    def W_hh(self) -> Float[Tensor, "units units"]:
        """Recurrent weights, Xi Phi Xi^+."""
        return self.basis.vectors @ self.Phi @ self.basis.duals

    @property
    def W_uh(self) -> Float[Tensor, "units size"]:
        """Input weights, Psi_s: they write into the last subspace."""
        return self.basis.block(-1)

    @property
    def W_r(self) -> Float[Tensor, "size units"]:
        """Readout weights, Psi_s*: they read from the last subspace."""
        return self.basis.dual(-1)

    @property
    def time_invariant(self) -> bool:
        """Whether the network is exact without a phase signal: if F depends on the oldest vector only.

        In the input phase the boundary map also acts on inputs that have already arrived. u(1) is in subspace j at time
        s - j + 1; if F reads it there, for j > 1, it is added to a later input, and
        o(s - j + 2) = u(s - j + 2) + F_j u(1) + ... .

        No linear time-invariant network solves compose copy, whatever its weights. An element with the period p < s
        must forget its input of time s - p, which that of time s replaces, and remember the input of time s: the
        impulse response would have to be 0 and 1 at the same lags 2 p, 3 p, ... .
        """
        return not self.boundary[:, self.size :].any()

    def run(self, inputs: Float[Tensor, "variables batch size"], steps: int, phase_aware: bool = True) -> BindingRun:
        """Present s vectors, then run for `steps` without input.

        With `phase_aware`, the input phase is a pure shift with the input in the last subspace, and Phi acts after it:
        this is exact for every F. Without, it is the linear time-invariant network h(t) = W_hh h(t-1) + W_uh u(t),
        which is exact for repeat copy and wrong for compose copy (see `time_invariant`).
        """
        first = self._check_inputs(inputs)
        if steps < 0:
            raise ValueError(f"steps, the number after the inputs, must be at least 0, but is {steps}.")
        shift = companion(torch.zeros_like(self.boundary))
        while_inputs = self.basis.vectors @ shift @ self.basis.duals if phase_aware else self.W_hh
        after, write = self.W_hh.mT, self.W_uh.mT
        h = first.new_zeros(first.shape[1], self.basis.units)
        states = []
        for u in first:
            h = h @ while_inputs.mT + u @ write
            states.append(h)
        for _ in range(steps):
            h = h @ after
            states.append(h)
        run = torch.stack(states)
        return BindingRun(run, run @ self.W_r.mT)

    def sequence(self, inputs: Float[Tensor, "variables batch size"], steps: int) -> Float[Tensor, "time batch size"]:
        """Return the target sequence: the inputs, then x(t) = F [x(t-s); ...; x(t-1)]."""
        return continue_sequence(self.boundary, self._check_inputs(inputs), steps)

    def law(self, sequence: Float[Tensor, "time batch size"]) -> Float[Tensor, "time batch units"]:
        """Return the states by the universal law: subspace j holds x(T - s + j) at time T, for every F."""
        held = [variables_at(sequence, time, self.variables) for time in range(1, len(sequence) + 1)]
        return self.basis.embed(torch.stack(held).transpose(1, 2).to(torch.float64))  # (time, batch, variables, size)

    def eigenvalues(self) -> Complex[Tensor, " memories"]:
        """Return the s d eigenvalues of Phi: exact for a signed selection (see its `eigenvalues`), else numerical.

        W_hh has the same eigenvalues, and a zero for each further unit.
        """
        if self.selection is None:
            return torch.linalg.eigvals(self.Phi)
        on_the_circle = self.selection.eigenvalues()
        return torch.cat([on_the_circle, on_the_circle.new_zeros(len(self.Phi) - len(on_the_circle))])

    def elman(self, nonlinearity: str = "linear") -> Model:
        """Return the network as a float64 model."""
        return elman_model(self.W_hh, self.W_uh, self.W_r, nonlinearity)

    def saturating(self, gain: float = 1.2, drive: float | None = None) -> Model:
        """Return the network h(t) = tanh(g Phi h(t-1) + c Psi_s u(t)), which needs no phase signal.

        It solves the task of every signed selection for inputs 1 and -1: the signs of the outputs stay right for ever.
        Each unit has one source, whose sign tanh keeps. While inputs arrive, they must outweigh the boundary map:
        c u + g v has the sign of u if g |v| < c. Since |v| < 1, c >= g suffices for every F; the exact condition is
        `largest_interference(F, g, c)` < c, or c > 0 for repeat copy, which has no interference. Later each amplitude
        follows a -> tanh(g a): with g > 1 to the positive root of a = tanh(g a), with g = 1 to 0 as sqrt(3 / (2 t)),
        and with g < 1 as g^t, which is refused here. `drive` is c; by default it is g.

        >>> from mnemoscope.connectivity.signed_selection import parse_selection
        >>> net = BindingNetwork(parse_selection("T4", variables=8, size=8))
        >>> vectors = torch.randint(0, 2, (8, 5, 8)).double() * 2 - 1
        >>> silence = torch.zeros(100, 5, 8, dtype=torch.float64)
        >>> outputs, _ = net.saturating()(torch.cat([vectors, silence]))
        >>> bool((outputs.sign() == net.sequence(vectors, 100)).all())
        True
        """
        if self.selection is None:
            raise ValueError(
                "Signs are kept if each new element is plus or minus one of the held ones, but F is no signed "
                "selection. Use elman() for the linear network."
            )
        if self.Xi is not None and not torch.equal(self.basis.vectors, torch.eye(len(self.Phi), dtype=torch.float64)):
            raise ValueError("tanh acts on units, so each must hold one element: omit Xi.")
        drive = gain if drive is None else drive
        if not (isfinite(gain) and gain >= 1):
            raise ValueError(f"The gain must be at least 1, or memory fades as gain^t, but is {gain}.")
        if not isfinite(drive):
            raise ValueError(f"The drive, the factor of the inputs, must be finite, but is {drive}.")
        interference = largest_interference(self.selection, gain, drive)
        if not interference < drive:
            raise ValueError(
                f"Held variables can outweigh the inputs: they enter the last subspace with up to {interference:.4g}, "
                f"but inputs with {drive:.4g}. A drive above the gain, {gain:.4g}, is always enough."
            )
        return elman_model(gain * self.W_hh, drive * self.W_uh, self.W_r, "tanh")

    def _check_inputs(self, inputs: Tensor) -> Float[Tensor, "variables batch size"]:
        if inputs.dim() != 3 or inputs.shape[0] != self.variables or inputs.shape[2] != self.size:
            raise ValueError(
                f"The inputs are {self.variables} vectors of {self.size} elements, ({self.variables}, batch, "
                f"{self.size}), but their shape is {tuple(inputs.shape)}."
            )
        return inputs.to(torch.float64)


def continue_sequence(
    F: Float[Tensor, "size memories"], first: Float[Tensor, "variables batch size"], steps: int
) -> Float[Tensor, "time batch size"]:
    """Return the first vectors, and after them x(t) = F [x(t-s); ...; x(t-1)]."""
    x = [*first]
    for _ in range(steps):
        x.append(torch.cat(x[-len(first) :], dim=-1) @ F.mT)
    return torch.stack(x)


def variables_at(
    sequence: Float[Tensor, "time *batch size"], time: int, variables: int
) -> Float[Tensor, "variables *batch size"]:
    """Return the content of the subspaces at time T, oldest first: x(T - N + 1), ..., x(T), and 0 before x(1).

    >>> variables_at(torch.tensor([[1.0], [2.0], [3.0]]), time=2, variables=3).flatten().tolist()
    [0.0, 1.0, 2.0]
    """
    if not 1 <= time <= len(sequence):
        raise ValueError(f"Times are from 1 to {len(sequence)}, the length of the sequence, but {time} was asked for.")
    if variables < 1:
        raise ValueError(f"There must be at least one variable, but {variables=}.")
    known = sequence[max(0, time - variables) : time]
    before = sequence.new_zeros(variables - len(known), *sequence.shape[1:])
    return torch.cat([before, known])


def largest_interference(F: SignedSelection, gain: float, drive: float) -> float:
    """Return the largest g |v| that a saturating network adds to an input, over all inputs of 1 and -1.

    All inputs are kept if, and only if, this is below the drive c. With M the largest modulus that a unit can have, a
    unit of the last subspace reaches tanh(g M(source) + c), since the signs of inputs at different times are free, and
    any other unit tanh(g M(source)). The bound c = g is nearly tight: compose copy of 8 vectors needs c > 0.958 g for
    g = 1, 0.982 g for g = 1.2 and 0.9993 g for g = 2.

    >>> largest_interference(SignedSelection.repeat_copy(3, 2), gain=2.0, drive=0.1)
    0.0
    """
    s, d = F.variables, F.size
    held = [[0.0] * d for _ in range(s)]  # M, by subspace and element
    largest = 0.0
    for _ in range(s):
        sources = [gain * held[s - lag][element] for lag, element in zip(F.lags, F.elements, strict=True)]
        largest = max(largest, *sources)
        held = [[tanh(gain * modulus) for modulus in block] for block in held[1:]]
        held.append([tanh(source + drive) for source in sources])
    return largest


def boundary_matrix(F: SignedSelection | Float[Tensor, "size columns"]) -> Float[Tensor, "size columns"]:
    """Return F as a float64 matrix (d, s d); raise if its shape or a value is wrong."""
    if isinstance(F, SignedSelection):
        return F.matrix()
    if F.dim() != 2 or 0 in F.shape or F.shape[1] % F.shape[0] or F.is_complex() or not torch.isfinite(F).all():
        raise ValueError(
            f"F maps the last s vectors of d elements to d numbers, so it must be a finite real matrix (d, s d), but "
            f"its shape is {tuple(F.shape)} and its type {F.dtype}."
        )
    return F.detach().to(torch.float64)


def elman_model(
    W_hh: Float[Tensor, "units units"],
    W_uh: Float[Tensor, "units inputs"],
    W_r: Float[Tensor, "outputs units"],
    nonlinearity: str = "tanh",
    bias: Float[Tensor, " units"] | None = None,
    readout_bias: Float[Tensor, " outputs"] | None = None,
) -> Model:
    """Return the network h(t) = g(W_hh h(t-1) + W_uh u(t) + b), o(t) = W_r h(t) + c, in the dtype of W_hh.

    >>> one = torch.ones(1, 1, dtype=torch.float64)
    >>> elman_model(0.5 * one, one, 3 * one, "linear")(torch.ones(2, 1, 1, dtype=torch.float64))[0].flatten().tolist()
    [3.0, 4.5]
    """
    units, inputs = W_uh.shape
    cell = Elman(inputs, units, nonlinearity, Dense.from_matrix(W_hh.detach().clone()), bias=bias is not None)
    model = Model(cell, len(W_r), readout_bias=readout_bias is not None).to(W_hh.dtype)
    layers = [(cell.drive, W_uh, bias), (model.readout, W_r, readout_bias)]
    with torch.no_grad():
        for linear, weight, offset in layers:
            assert isinstance(linear, nn.Linear)
            linear.weight.copy_(weight)
            if offset is not None:
                linear.bias.copy_(offset)
    return model
