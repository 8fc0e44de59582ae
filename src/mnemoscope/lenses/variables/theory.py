"""The linear theory of variable binding: the network that goes on with x(t) = F [x(t-s); ...; x(t-1)].

Karuvally et al. 2023, sections 5 to 10, in PyTorch's convention: h(t) = g(W_hh h(t-1) + W_uh u(t)), o(t) = W_r h(t),
h(0) = 0, so that o(t) = u(t) while inputs arrive. Subspaces are numbered from the oldest variable on.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import isfinite, tanh
from typing import NamedTuple

import torch
from torch import Tensor

from mnemoscope.base.array_types import Complex, Float
from mnemoscope.cells import Model
from mnemoscope.connectivity.signed_selection import SignedSelection, companion
from mnemoscope.lenses.variables.basis import MemoryBasis
from mnemoscope.lenses.variables.matrices import boundary_matrix, elman_model


class BindingRun(NamedTuple):
    """What a network went through: entry T - 1 is time T."""

    states: Float[Tensor, "time batch units"]
    outputs: Float[Tensor, "time batch size"]


@dataclass(frozen=True, eq=False)
class BindingNetwork:
    """The theory's network for any boundary map F (d, s d), in any independent memories Xi (units, s d).

    W_hh = Xi Phi Xi^+ (Eq 13, 20), W_uh = Psi_s (Eq 21) and W_r = Psi_s* (Eq 22): each step moves the content of every
    subspace to the one before it, and puts into the last one what F makes of all; inputs are written into the last
    one, and outputs read from it. Without Xi each unit holds one element of one variable (the register basis).

    >>> net = BindingNetwork(SignedSelection.compose_copy(3))
    >>> shown = torch.arange(9.0).reshape(3, 1, 3)
    >>> net.run(shown, steps=2).outputs[:, 0].tolist()
    [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0], [6.0, 7.0, 8.0], [0.0, 4.0, 8.0], [3.0, 7.0, 8.0]]
    """

    F: SignedSelection | Float[Tensor, "size columns"]
    Xi: Float[Tensor, "units memories"] | None = None

    def __post_init__(self) -> None:
        _ = self.basis  # a wrong F or Xi is told here

    @cached_property
    def boundary(self) -> Float[Tensor, "size columns"]:
        """F as a matrix."""
        return boundary_matrix(self.F)

    @cached_property
    def selection(self) -> SignedSelection | None:
        """F as a signed selection, where it is one."""
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
        return MemoryBasis.of(Xi, self.variables)

    @cached_property
    def Phi(self) -> Float[Tensor, "memories memories"]:
        """The network in its own basis (Eq 20): a shift by one subspace, and F in the last rows."""
        return companion(self.boundary)

    @property
    def W_hh(self) -> Float[Tensor, "units units"]:
        """Xi Phi Xi^+."""
        return self.basis.vectors @ self.Phi @ self.basis.duals

    @property
    def W_uh(self) -> Float[Tensor, "units size"]:
        """Psi_s: writes into the last subspace."""
        return self.basis.block(-1)

    @property
    def W_r(self) -> Float[Tensor, "size units"]:
        """Psi_s*: reads from it."""
        return self.basis.dual(-1)

    @property
    def time_invariant(self) -> bool:
        """Whether the network is exact without being told the phase: where F takes from the oldest vector alone.

        In the input phase the boundary map works on what has arrived, unless it looks only where nothing has arrived
        yet. u(1) is in subspace j at time s - j + 1; if F sees it there, for j > 1, it is added to an input that is yet
        to come, and o(s - j + 2) = u(s - j + 2) + F_j u(1) + ... .

        For compose copy no linear time-invariant network will do, whatever its weights. An element with the period
        p < s must forget its input of time s - p, for that of time s takes its place, and remember the one of time s:
        the response to an input must vanish at the lags 2 p, 3 p, ..., and be 1 there.
        """
        return not self.boundary[:, self.size :].any()

    def run(self, inputs: Float[Tensor, "variables batch size"], steps: int, phase_aware: bool = True) -> BindingRun:
        """Show s vectors, then let it go on for `steps`.

        With `phase_aware`, the input phase is a pure shift with the input in the last subspace, and Phi works from then
        on: exact for every F. Without, it is the linear time-invariant network h(t) = W_hh h(t-1) + W_uh u(t): exact
        for repeat copy, and wrong for compose copy (see `time_invariant`).
        """
        first = self._checked(inputs)
        if steps < 0:
            raise ValueError(f"steps, those after the inputs, must be at least 0, but is {steps}.")
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
        """What is asked for: the inputs, then x(t) = F [x(t-s); ...; x(t-1)]."""
        x = [*self._checked(inputs)]
        for _ in range(steps):
            held = torch.cat(x[-self.variables :], dim=-1)
            x.append(held @ self.boundary.mT)
        return torch.stack(x)

    def law(self, sequence: Float[Tensor, "time batch size"]) -> Float[Tensor, "time batch units"]:
        """The states that the universal law gives: subspace j holds x(T - s + j) at time T, whatever F is."""
        held = [variables_at(sequence, time, self.variables) for time in range(1, len(sequence) + 1)]
        return self.basis.change(torch.stack(held).transpose(1, 2).to(torch.float64))  # (time, batch, variables, size)

    def eigenvalues(self) -> Complex[Tensor, " memories"]:
        """Those of Phi, s d of them; exact for a signed selection (see its `eigenvalues`), else computed.

        W_hh has them too, and as many zeros as it has further units.
        """
        if self.selection is None:
            return torch.linalg.eigvals(self.Phi)
        on_the_circle = self.selection.eigenvalues()
        return torch.cat([on_the_circle, on_the_circle.new_zeros(len(self.Phi) - len(on_the_circle))])

    def elman(self, nonlinearity: str = "linear") -> Model:
        """The network as a model in float64, for every lens."""
        return elman_model(self.W_hh, self.W_uh, self.W_r, nonlinearity)

    def saturating(self, gain: float = 1.2, drive: float | None = None) -> Model:
        """h(t) = tanh(g Phi h(t-1) + c Psi_s u(t)): solves the task of every signed selection for inputs 1 and -1,
        without being told the phase: the signs of the outputs are right for ever.

        Each unit has one source, whose sign tanh keeps. Where inputs arrive the boundary map must be overruled:
        c u + g v has the sign of u if g |v| < c. Since |v| < 1, c >= g is enough, for every F; what is needed is
        `largest_interference(F, g, c)` < c, and for repeat copy, where nothing interferes, c > 0. Later each amplitude
        follows a -> tanh(g a): with g > 1 to the positive root of a = tanh(g a), with g = 1 to 0 as sqrt(3 / (2 t)),
        and with g < 1 as g^t, which is refused here. `drive` is c; by default it is g.

        >>> from mnemoscope.connectivity.signed_selection import parse_selection
        >>> net = BindingNetwork(parse_selection("T4", variables=8, size=8))
        >>> shown = torch.randint(0, 2, (8, 5, 8)).double() * 2 - 1
        >>> silence = torch.zeros(100, 5, 8, dtype=torch.float64)
        >>> outputs, _ = net.saturating()(torch.cat([shown, silence]))
        >>> bool((outputs.sign() == net.sequence(shown, 100)).all())
        True
        """
        if self.selection is None:
            raise ValueError(
                "Signs are kept where each new element is plus or minus one of the held ones, but F is no signed "
                "selection. Use elman() for the linear network."
            )
        if self.Xi is not None and not torch.equal(self.basis.vectors, torch.eye(len(self.Phi), dtype=torch.float64)):
            raise ValueError("tanh works on units, so that each must hold one element: leave Xi out.")
        drive = gain if drive is None else drive
        if not (isfinite(gain) and gain >= 1):
            raise ValueError(f"The gain must be at least 1, or memory fades as gain^t, but is {gain}.")
        if not isfinite(drive):
            raise ValueError(f"The drive, what inputs are multiplied by, must be finite, but is {drive}.")
        interference = largest_interference(self.selection, gain, drive)
        if not interference < drive:
            raise ValueError(
                f"What is held can overrule the inputs: it enters the last subspace with up to {interference:.4g}, but "
                f"inputs with {drive:.4g}. A drive above the gain, {gain:.4g}, is always enough."
            )
        return elman_model(gain * self.W_hh, drive * self.W_uh, self.W_r, "tanh")

    def _checked(self, inputs: Tensor) -> Float[Tensor, "variables batch size"]:
        if inputs.dim() != 3 or inputs.shape[0] != self.variables or inputs.shape[2] != self.size:
            raise ValueError(
                f"The inputs are {self.variables} vectors of {self.size} elements, ({self.variables}, batch, "
                f"{self.size}), but their shape is {tuple(inputs.shape)}."
            )
        return inputs.to(torch.float64)


def variables_at(
    sequence: Float[Tensor, "time *batch size"], time: int, variables: int
) -> Float[Tensor, "variables *batch size"]:
    """What the subspaces hold at time T, from the oldest on: x(T - N + 1), ..., x(T), and 0 before x(1).

    >>> variables_at(torch.tensor([[1.0], [2.0], [3.0]]), time=2, variables=3).flatten().tolist()
    [0.0, 1.0, 2.0]
    """
    if not 1 <= time <= len(sequence):
        raise ValueError(f"Times are from 1 to {len(sequence)}, the length of the sequence, but {time} was asked for.")
    if variables < 1:
        raise ValueError(f"There must be a variable at least, but {variables=}.")
    known = sequence[max(0, time - variables) : time]
    before = sequence.new_zeros(variables - len(known), *sequence.shape[1:])
    return torch.cat([before, known])


def largest_interference(F: SignedSelection, gain: float, drive: float) -> float:
    """The most that held variables can add to an input, g |v|, over all inputs of 1 and -1 to the saturating network.

    All inputs are kept if, and only if, this is below the drive c. With M the largest modulus of a unit so far, a unit
    of the last subspace gets up to tanh(g M(source) + c), since the signs of inputs at different times are free, and
    any other unit tanh(g M(source)). There is little below c = g: compose copy of 8 vectors needs c > 0.958 g for
    g = 1, 0.982 g for g = 1.2 and 0.9993 g for g = 2.

    >>> largest_interference(SignedSelection.repeat_copy(3, 2), gain=2.0, drive=0.1)
    0.0
    """
    s, d = F.variables, F.size
    held = [[0.0] * d for _ in range(s)]
    """Of each subspace and element."""
    largest = 0.0
    for _ in range(s):
        sources = [gain * held[s - lag][element] for lag, element in zip(F.lags, F.elements, strict=True)]
        largest = max(largest, *sources)
        held = [[tanh(gain * one) for one in block] for block in held[1:]]
        held.append([tanh(source + drive) for source in sources])
    return largest
