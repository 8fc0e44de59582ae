"""Structure of the memory space: the number and size of the variables, the directions that hold them, and F.

A reading is a row vector that reads one number off a state: the rows of C, and of C A_u^-k for what the readout gave k
steps ago.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.connectivity.signed_selection import SignedSelection
from mnemoscope.lenses.variables.basis import MemoryBasis
from mnemoscope.lenses.variables.modes import NEARLY_DEPENDENT, Modes

INDEPENDENT = 0.3
"""Readings of unit length in the metric are independent if their singular values are above this: independent variables
have 1, and copies of one another 0."""
NEAREST = 0.5**0.5
"""Rows of F closer than this to a signed selection have no other selection as near: two of them differ by sqrt(2)."""
AVERAGED_STEPS = 64
"""Least number of steps over which the metric is averaged."""
SILENT = 1e-6
"""Outputs whose reading is shorter than this share of the longest are ignored."""
MOST_VARIABLES = 512
"""Most readings that are tried."""
PRECISION = torch.finfo(torch.float64).eps
"""Relative rounding error of float64."""
ARITHMETIC = 10
"""Bound of the error of an eigendecomposition, in roundings per unit."""


@dataclass(frozen=True)
class Structure:
    """The variables that the memory modes hold."""

    basis: MemoryBasis
    projection: Float[Tensor, "units units"]
    """Projection onto the memory space along all other modes."""
    rank_profile: Int[Tensor, " steps"]
    """Rank of the readings C, C A_u^-1, ... of the last 1, 2, ... steps on the memory space. It rises by kappa with
    each reading of a new variable, and stays constant once all variables have been read."""
    margins: Float[Tensor, "steps 2"]
    """For each rank: the lowest singular value that counted, and the highest that did not."""
    mixing: Float[Tensor, "memories free"]
    """Each reading as a combination of the free ones, which are the newest that are independent of each other. It is
    the identity if all are; a copy has one entry, 1 or -1."""
    F: Float[Tensor, "size memories"]
    """F_emp: the next variable as a linear map of the last N; if some depend on others, of the free readings."""
    outputs: Int[Tensor, " size"]
    """Outputs that are the elements of a variable: those whose readings are not zero and independent of the others."""
    rounding: float = 0.0
    """Error of F that the rounding of the weights explains, by the conditioning of modes and readings."""
    selection: SignedSelection | None = None
    """F_emp as a signed selection, if its deviation from one is within rounding, or within the noise of trials."""

    @property
    def free(self) -> int:
        """Number of elements that can be set independently of each other."""
        return self.mixing.shape[1]

    @property
    def nearest(self) -> SignedSelection | None:
        """The signed selection nearest to F; None if another may be as near."""
        signs = torch.where(self.F > 0, 1.0, -1.0)
        chosen = torch.zeros_like(self.F).scatter(1, self.F.abs().argmax(1, keepdim=True), 1.0) * signs
        near = torch.isfinite(self.F).all() and (self.F - chosen).norm(dim=1).max() < NEAREST
        return SignedSelection.from_matrix(chosen) if near else None

    @property
    def deviation(self) -> float:
        """Largest distance between a row of F and that of the nearest signed selection; infinite without one."""
        return inf if self.nearest is None else float((self.F - self.nearest.matrix()).norm(dim=1).max())

    def named(self) -> Structure:
        """Return the structure with F recognised as the nearest signed selection, and copies as exact copies."""
        exact = self.mixing.round()
        copies = bool(((exact.abs().sum(1) == 1) & (exact.abs().amax(1) == 1)).all())
        return replace(self, selection=self.nearest, mixing=exact if copies else self.mixing)

    def free_values(self, held: Float[Tensor, "*batch variables size"]) -> Float[Tensor, "*batch free"]:
        """Return the values of the free readings that fit all readings best: for copies, their signed mean."""
        return held.flatten(-2) @ torch.linalg.pinv(self.mixing).mT

    def expand(self, values: Float[Tensor, "*batch free"]) -> Float[Tensor, "*batch variables size"]:
        """Return all variables from the values of the free readings."""
        return (values @ self.mixing.mT).unflatten(-1, (self.basis.variables, -1))

    def setting(self, variable: int) -> Float[Tensor, "free size"]:
        """Return the least change of the free values by which each element of a variable rises by 1 alone."""
        return torch.linalg.pinv(self.mixing.unflatten(0, (self.basis.variables, -1))[variable])

    def replace(
        self, held: Float[Tensor, "*batch variables size"], variable: int, values: Float[Tensor, "*#batch size"]
    ) -> Float[Tensor, "*batch variables size"]:
        """Return the variables with one of them replaced, together with all that depend on it."""
        before = self.free_values(held)
        change = values.to(before) - self.expand(before)[..., variable, :]
        return self.expand(before + change @ self.setting(variable).mT)


def find_structure(
    modes: Modes, C: Float[Tensor, "outputs units"], variables: int | None = None, precision: float = PRECISION
) -> Structure | str:
    """Return the variables of the memory space, or the reason why it holds none (steps 4 to 6 of the extraction).

    Readings are compared in the metric `G = mean_m (C A_u^m)^T (C A_u^m)`, in which A_u is a rotation. `precision` is
    the relative rounding error of the weights.
    """
    if modes.condition > NEARLY_DEPENDENT:
        return (
            f"the {modes.count} modes that last are so nearly dependent on others (|v| |w| = {modes.condition:.2g}) "
            f"that float64 cannot separate them: such a network amplifies for a while, and need not remember"
        )
    P = modes.projection()
    R = torch.linalg.svd(P)[0][:, : modes.count]  # (units, k): orthonormal columns that span the memory space
    L = R.mT @ P  # so that P = R L
    A, back = L @ modes.operator(1) @ R, L @ modes.operator(-1) @ R
    root = _inverse_root(_metric(A, C @ R, max(AVERAGED_STEPS, 2 * modes.count)))
    if root is None:
        return f"the readout does not see all of the {modes.count} memory modes, so it cannot separate the variables"
    outputs = _independent(C @ R, root)
    kappa, reading = len(outputs), (C @ R)[outputs]
    past, ranks, margins = [reading], [], []
    while True:
        rank, *margin = _rank(past, root)
        ranks.append(rank)
        margins.append(margin)
        if rank == modes.count or len(past) == variables or len(past) > min(modes.count, MOST_VARIABLES):
            break
        past.append(past[-1] @ back)
    if variables is not None and rank == modes.count and len(past) < variables:
        return (
            f"the last {len(past)} readings separate all {modes.count} memory modes, so there are {len(past)} "
            f"variables at most, not {variables}"
        )
    if ranks[-1] != modes.count:
        return (
            f"the last {len(past)} readings separate {ranks[-1]} of {modes.count} memory modes: they are not a "
            f"succession of {len(past)} variables"
        )
    duals = torch.cat(past[::-1])
    basis = MemoryBasis(R @ _inverse(duals, root), duals @ L, len(past))
    profile, edges = torch.tensor(ranks), torch.tensor(margins, dtype=torch.float64)
    free = _free_readings(_normalise(duals, root).unflatten(0, (len(past), kappa)), ranks)
    directions = _inverse(duals[free], root)
    mixing = duals @ directions
    mixing[free] = torch.eye(len(free), dtype=duals.dtype)
    F = torch.zeros(kappa, len(duals), dtype=duals.dtype)
    F[:, free] = (reading @ A) @ directions
    # Each of the N readings adds the error of a step: that of float64 arithmetic, and that of the weights, whose
    # roundings are independent. It is amplified by the modes, and by the inverse of the readings.
    errors = ARITHMETIC * len(P) * PRECISION + precision * len(P) ** 0.5
    rounding = len(past) * errors * modes.condition / float(edges[-1, 0])
    found = Structure(basis, R @ L, profile, edges, mixing, F, outputs, rounding)
    return found.named() if found.deviation <= rounding else found


def structure_by_powers(
    A: Float[Tensor, "units units"], C: Float[Tensor, "outputs units"], variables: int, precision: float = PRECISION
) -> Structure | str:
    """Return the structure with Psi_N = C^+, Psi_(N-i) = A^i Psi_N and the duals Psi^+ (Karuvally et al. 2023).

    This is exact for orthogonal memories if the readout reads nothing else. If it also reads transients, or the
    memories are far from orthogonal, C^+ has other components, and powers of A amplify them.
    """
    if variables < 1:
        raise ValueError(f"There is at least one variable, but number is {variables}.")
    blocks = [torch.linalg.pinv(C)]
    for _ in range(variables - 1):
        blocks.insert(0, A @ blocks[0])
    Psi = torch.cat(blocks, 1)
    try:
        basis = MemoryBasis.from_vectors(Psi, variables)
    except ValueError as error:
        return f"the published method yields no memory basis: {error}"
    memories, size = Psi.shape[1], len(C)
    F = basis.dual(-1) @ A @ Psi
    singular = torch.linalg.svdvals(Psi)
    ranks = torch.arange(size, memories + 1, size)
    margins = torch.stack([singular[ranks - 1], torch.zeros_like(singular[ranks - 1])], 1)
    errors = ARITHMETIC * len(A) * PRECISION + precision * len(A) ** 0.5
    rounding = variables * errors * float(singular[0] / singular[-1])
    mixing, outputs = torch.eye(memories, dtype=F.dtype), torch.arange(size)
    found = Structure(basis, basis.projection(), ranks, margins, mixing, F, outputs, rounding)
    return found.named() if found.deviation <= rounding else found


def _metric(A: Tensor, reading: Tensor, steps: int) -> Tensor:
    total, ahead = torch.zeros_like(A), reading
    for _ in range(steps):
        total, ahead = total + ahead.mT @ ahead, ahead @ A
    return total / steps


def _independent(readings: Tensor, root: Tensor) -> Tensor:
    """Return the indices of the rows that are neither (almost) 0 nor combinations of earlier rows."""
    lengths = (readings @ root).norm(dim=1)
    unit, kept = _normalise(readings, root), []
    for row in range(len(readings)):
        if float(lengths[row]) <= SILENT * float(lengths.max()):
            continue
        basis = torch.linalg.qr(unit[kept].mT)[0] if kept else unit.new_zeros(unit.shape[1], 0)
        if float((unit[row] - basis @ (basis.mT @ unit[row])).norm()) > INDEPENDENT:
            kept.append(row)
    return torch.tensor(kept)


def _inverse_root(G: Tensor) -> Tensor | None:
    """Return S with S^T G S = I, or None if G is singular: then some directions are never read."""
    values, vectors = torch.linalg.eigh(G)
    return None if not float(values[0]) > 1e-10 * float(values[-1]) else vectors / values.sqrt()


def _normalise(readings: Tensor, root: Tensor) -> Tensor:
    """Return the readings scaled to unit length in the metric."""
    scaled = readings @ root
    return scaled / scaled.norm(dim=1, keepdim=True).clamp_min(1e-300)


def _rank(readings: list[Tensor], root: Tensor) -> tuple[int, float, float]:
    values = torch.linalg.svdvals(_normalise(torch.cat(readings), root))
    rank = int((values > INDEPENDENT).sum())
    return rank, float(values[rank - 1]) if rank else 0.0, float(values[rank]) if rank < len(values) else 0.0


def _inverse(duals: Tensor, root: Tensor) -> Tensor:
    """Return the pseudo-inverse of the duals in the metric; readings that repeat each other share their directions."""
    scale = (duals @ root).norm(dim=1, keepdim=True)
    unit = duals / scale
    return root @ torch.linalg.pinv(unit @ root, rtol=INDEPENDENT / 3) / scale.mT


def _free_readings(unit: Float[Tensor, "variables size memories"], ranks: list[int]) -> list[int]:
    """Return the places of the newest readings that are independent of each other, as many as the last rank.

    Each variable, from the newest on, adds the readings that are farthest from the span of those before.
    """
    size, free = unit.shape[1], []
    for age, (before, rank) in enumerate(pairwise([0, *ranks])):
        variable = len(unit) - 1 - age
        for _ in range(rank - before):
            span = torch.linalg.qr(unit.flatten(0, 1)[free].mT)[0]
            far = (unit[variable] - unit[variable] @ span @ span.mT).norm(dim=1)
            free.append(variable * size + int(far.argmax()))
    return sorted(free)
