"""Memory modes: the modes of a linearised network that inputs reach, the readout sees, and time does not wear out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.linalg import schur, solve_sylvester
from torch import Tensor

from mnemoscope.base.array_types import Complex, Float

LASTING_STEPS = 32
"""How long a mode must last."""
KEPT = 0.01
"""A mode of which less is left after that many steps holds no memory; |lambda| > 0.866 for 32 steps."""
GONE, FADING = 1e-13, 1e-3
"""Modes of which less than the first is left after that many steps are parted off, those of which more than the second
is are looked at; between, they are parted where the gap is widest."""
NEARLY_DEPENDENT = 1e8
"""Modes whose vector and covector, of product 1, are together longer than this cannot be told apart in float64."""
FLOOR = 1e-4
"""Scores below this share of the highest are as good as 0: between two of these there is no gap worth the name."""

SMALLEST_GAP, MOST_CUTS = 3.0, 8
"""Where else to cut, if the largest gap leads to nothing."""


@dataclass(frozen=True)
class Modes:
    """All modes of A by their score, and the first `count` of them, which hold memory."""

    eigenvalues: Complex[Tensor, " units"]
    """Of A, the highest score first."""
    scores: Float[Tensor, " units"]
    """|C v| |w B| min(|lambda|, 1)^steps: how much of an input comes out again after so many steps, by this mode.
    0 where it fades at once."""
    count: int
    """How many hold memory; 0: none."""
    gaps: Float[Tensor, " lasting"]
    """Of each mode, its score over that of the next (at least `FLOOR` of the highest of all): where one could cut. 0
    where one could not, since conjugate pairs stay together."""
    steps: int
    vectors: Complex[Tensor, "units lasting"]
    covectors: Complex[Tensor, "lasting units"]

    @property
    def condition(self) -> float:
        """How nearly the memory modes depend on other modes: the largest |v| |w|, 1 for a normal matrix."""
        kept = slice(self.count)
        lengths = self.vectors[:, kept].norm(dim=0) * self.covectors[kept].norm(dim=1)
        return float(lengths.max()) if self.count else 1.0

    @property
    def gap(self) -> float:
        """Lowest score kept over the highest left out."""
        return float(self.gaps[self.count - 1]) if self.count else 1.0

    def cuts(self) -> list[Modes]:
        """These modes, and other choices of how many hold memory: the next largest gaps, down to `SMALLEST_GAP`."""
        order = self.gaps.argsort(descending=True)[:MOST_CUTS].tolist()
        counts = [place + 1 for place in order if self.gaps[place] >= SMALLEST_GAP and place + 1 != self.count]
        return [self, *(replace(self, count=count) for count in counts)]

    @property
    def kept(self) -> Complex[Tensor, " count"]:
        """Eigenvalues of the memory modes."""
        return self.eigenvalues[: self.count]

    def operator(self, power: int) -> Float[Tensor, "units units"]:
        """A_u^power on the memory space: every mode turned as A turns it, but neither grown nor shrunk.

        A trained network lets its memory modes grow and its nonlinearity bound them; what is left is rotation.
        """
        turned = (self.kept / self.kept.abs()) ** power
        return ((self.vectors[:, : self.count] * turned) @ self.covectors[: self.count]).real

    def projection(self) -> Float[Tensor, "units units"]:
        """Onto the memory space, along all other modes."""
        return self.operator(0)


def memory_modes(
    A: Float[Tensor, "units units"],
    B: Float[Tensor, "units features"],
    C: Float[Tensor, "outputs units"],
    steps: int = LASTING_STEPS,
) -> Modes:
    """The modes that hold memory: those above the largest gap of the scores. Conjugate pairs stay together.

    >>> A = torch.diag(torch.tensor([1.0, -1.0, 0.3], dtype=torch.float64))
    >>> one = torch.ones(3, 1, dtype=torch.float64)
    >>> memory_modes(A, one, one.T).kept.real.tolist()
    [1.0, -1.0]
    """
    R, L, fading = _lasting_space(A.numpy(), steps)
    values, V = np.linalg.eig(L @ A.numpy() @ R)
    units = _units(values)
    with np.errstate(all="ignore"):
        W = _inverse(V)
        raw = np.linalg.norm(C.numpy() @ R @ V, axis=0) * np.linalg.norm(W @ L @ B.numpy(), axis=1)
    left = np.minimum(np.abs(values), 1) ** steps
    score = np.nan_to_num(raw * left, nan=0.0, posinf=0.0)
    for unit in units:  # equal but for rounding
        score[unit] = score[unit].max()
    units.sort(key=lambda unit: -score[unit[0]])
    order = np.array([mode for unit in units for mode in unit], int)
    ends = np.array([place == len(unit) - 1 for unit in units for place in range(len(unit))], bool)
    values, V, W, score, left = values[order], V[:, order], W[order], score[order], left[order]
    some = bool((score[left >= KEPT] > 0).any())
    gaps = _gaps(score) * ends * (left >= KEPT) if some else np.zeros(len(score))
    every = np.append(values, fading[np.argsort(-np.abs(fading))])
    scores = np.append(score, np.zeros(len(fading)))
    return Modes(
        eigenvalues=torch.from_numpy(every.astype(complex)),
        scores=torch.from_numpy(scores),
        count=int(gaps.argmax()) + 1 if some else 0,
        gaps=torch.from_numpy(gaps),
        steps=steps,
        vectors=torch.from_numpy((R @ V).astype(complex)),
        covectors=torch.from_numpy((W @ L).astype(complex)),
    )


def _units(values: np.ndarray) -> list[list[int]]:
    """Real eigenvalues alone, conjugate ones in pairs: LAPACK gives each after its partner."""
    return [[i, i + 1] if value.imag > 0 else [i] for i, value in enumerate(values) if not value.imag < 0]


def _inverse(V: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.inv(V)
    except np.linalg.LinAlgError:  # no eigenvectors for all: `condition` tells
        return np.full(V.shape[::-1], np.inf)


def _lasting_space(A: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """R (units, k) and L (k, units) with L A R the part of A that does not fade at once, L R = I, and the eigenvalues
    of the rest.

    The rest is parted off by the ordered Schur form, as its eigenvectors need not exist: a shift register forgets by
    Jordan blocks, whose eigenvectors would spoil all others in an inverse.
    """
    moduli = np.sort(np.abs(np.linalg.eigvals(A)))[::-1]
    cut = _cut(moduli, GONE ** (1 / steps), FADING ** (1 / steps))
    ordered: Any = schur(A, output="real", sort=lambda real, imaginary: np.hypot(real, imaginary) > cut)
    T, Z, kept = ordered
    X = solve_sylvester(T[:kept, :kept], -T[kept:, kept:], T[:kept, kept:])
    # [I X] T = T11 [I X]
    L = np.hstack([np.eye(kept), X]) @ Z.T
    return Z[:, :kept], L, np.linalg.eigvals(T[kept:, kept:])


def _cut(moduli: np.ndarray, low: float, high: float) -> float:
    """The middle of the widest gap between moduli that lies, or begins or ends, between the two bounds."""
    edges = np.append(moduli, 0.0)
    upper, lower = np.minimum(edges[:-1], high), np.maximum(edges[1:], low)
    widths = np.where(upper > lower, upper / lower, 0)
    if not len(widths) or widths.max() == 0:
        return low if moduli.size and moduli.min() >= high else high
    best = int(widths.argmax())
    return float(np.sqrt(upper[best] * lower[best]))


def _gaps(score: np.ndarray) -> np.ndarray:
    floored = np.maximum(score, FLOOR * score[0])
    return floored / np.append(floored[1:], FLOOR * score[0])
