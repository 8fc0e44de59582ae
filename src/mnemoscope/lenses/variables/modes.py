"""Memory modes: modes of a linearised network that inputs reach, the readout sees and time does not erase."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.linalg import schur, solve_sylvester
from torch import Tensor

from mnemoscope.base.array_types import Complex, Float

LASTING_STEPS = (32, 128, 512)
"""Steps that a mode must last by default; the later ones are tried if the first leave the memory modes unclear."""
KEPT = 0.01
"""Least share of a mode that must be left after these steps to hold memory: |lambda| > 0.866 for 32 steps."""
GONE, FADING = 1e-13, 1e-3
"""Modes of which less than GONE is left after these steps are deflated, those of which more than FADING is left are
kept; the cut is at the widest gap between these bounds."""
NEARLY_DEPENDENT = 1e8
"""Largest |v| |w| of a mode, with w v = 1, at which float64 still separates it from the others."""
FLOOR = 1e-4
"""Scores below this share of the highest count as 0: a gap between two of them has no meaning."""
CLEAR_GAP = 100.0
"""Least gap at which the number of memory modes counts as clear."""
SMALLEST_GAP, MOST_CUTS = 3.0, 8
"""Smallest gap, and most gaps, tried after the largest one."""


@dataclass(frozen=True)
class Modes:
    """All modes of A in the order of their scores; the first `count` of them hold memory."""

    eigenvalues: Complex[Tensor, " units"]
    """Eigenvalues of A, by falling score."""
    scores: Float[Tensor, " units"]
    """|C v| |w B| min(|lambda|, 1)^steps: how much of an input comes out again through this mode after `steps` steps.
    0 for deflated modes."""
    count: int
    """Number of memory modes; 0 if there are none."""
    gaps: Float[Tensor, " lasting"]
    """Ratio of each score to the next (which counts as at least `FLOOR` times the highest). 0 inside a conjugate pair,
    which must not be split."""
    steps: int
    """Steps that a mode must last."""
    vectors: Complex[Tensor, "units lasting"]
    """Right eigenvectors v in columns."""
    covectors: Complex[Tensor, "lasting units"]
    """Left eigenvectors w in rows, with w v = 1."""

    @property
    def condition(self) -> float:
        """Condition of the memory modes: the largest |v| |w|, which is 1 for a normal matrix."""
        kept = slice(self.count)
        lengths = self.vectors[:, kept].norm(dim=0) * self.covectors[kept].norm(dim=1)
        return float(lengths.max()) if self.count else 1.0

    @property
    def gap(self) -> float:
        """Ratio of the lowest score of a memory mode to the highest score of the others."""
        return float(self.gaps[self.count - 1]) if self.count else 1.0

    @property
    def clear(self) -> bool:
        """Whether the gap below the memory modes is wide enough to trust their number."""
        return self.gap >= CLEAR_GAP

    def cuts(self) -> list[Modes]:
        """Return these modes, and the same modes cut at the next largest gaps, down to `SMALLEST_GAP`."""
        order = self.gaps.argsort(descending=True)[:MOST_CUTS].tolist()
        counts = [place + 1 for place in order if self.gaps[place] >= SMALLEST_GAP and place + 1 != self.count]
        return [self, *(replace(self, count=count) for count in counts)]

    @property
    def memory_eigenvalues(self) -> Complex[Tensor, " count"]:
        """Eigenvalues of the memory modes."""
        return self.eigenvalues[: self.count]

    def operator(self, power: int) -> Float[Tensor, "units units"]:
        """Return A_u^power on the memory space: A with every eigenvalue scaled to modulus 1.

        A trained network lets its memory modes grow, and its nonlinearity bounds them; the rotation is what remains.
        """
        values = self.memory_eigenvalues
        rotation = (values / values.abs()) ** power
        return ((self.vectors[:, : self.count] * rotation) @ self.covectors[: self.count]).real

    def projection(self) -> Float[Tensor, "units units"]:
        """Return the projection onto the memory space along all other modes."""
        return self.operator(0)


def memory_modes(
    A: Float[Tensor, "units units"],
    B: Float[Tensor, "units features"],
    C: Float[Tensor, "outputs units"],
    steps: int = LASTING_STEPS[0],
) -> Modes:
    """Return the modes of A, with those above the largest gap of the scores as memory modes.

    >>> A = torch.diag(torch.tensor([1.0, -1.0, 0.3], dtype=torch.float64))
    >>> ones = torch.ones(3, 1, dtype=torch.float64)
    >>> memory_modes(A, ones, ones.T).memory_eigenvalues.real.tolist()
    [1.0, -1.0]
    """
    R, L, fading = _lasting_space(A.numpy(), steps)
    values, V = np.linalg.eig(L @ A.numpy() @ R)
    units = _conjugate_units(values)
    with np.errstate(all="ignore"):
        W = _inverse(V)
        raw = np.linalg.norm(C.numpy() @ R @ V, axis=0) * np.linalg.norm(W @ L @ B.numpy(), axis=1)
    left = np.minimum(np.abs(values), 1) ** steps
    score = np.nan_to_num(raw * left, nan=0.0, posinf=0.0)
    for unit in units:  # the scores of a pair differ by rounding only
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


def _conjugate_units(values: np.ndarray) -> list[list[int]]:
    """Return the indices of real eigenvalues alone and of conjugate ones in pairs, which LAPACK gives side by side."""
    return [[i, i + 1] if value.imag > 0 else [i] for i, value in enumerate(values) if not value.imag < 0]


def _inverse(V: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.inv(V)
    except np.linalg.LinAlgError:  # A is not diagonalisable; `condition` becomes infinite
        return np.full(V.shape[::-1], np.inf)


def _lasting_space(A: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Deflate the fading modes: return R (units, k), L (k, units) with L R = I, and the deflated eigenvalues.

    L A R is the part of A that lasts. The rest is deflated by the ordered Schur form, as it may lack eigenvectors: a
    shift register forgets by Jordan blocks, whose eigenvectors would spoil all others in an inverse.
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
    """Return the geometric middle of the widest gap between the moduli, clipped to the two bounds."""
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
