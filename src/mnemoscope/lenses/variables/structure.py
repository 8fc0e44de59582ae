"""Structure of the memory space: the number and size of the variables, the directions that hold them, and F.

A reading is a row vector that reads one number off a state: the rows of C, and of C A_u^-k for what the readout gave k
steps ago.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.connectivity.signed_selection import SignedSelection
from mnemoscope.lenses.variables.basis import MemoryBasis
from mnemoscope.lenses.variables.modes import NEARLY_DEPENDENT, Modes

INDEPENDENT = 0.3
"""Readings of unit length in the metric are independent if their singular values are above this: independent variables
have 1, and copies of one another 0."""
SAME = 0.7
"""Two readings are the same variable, or its negative, if |cosine| is above this; it is 1 in theory."""
AVERAGED_STEPS = 64
"""Least number of steps over which the metric is averaged."""
SILENT = 1e-6
"""Outputs whose reading is shorter than this share of the longest are ignored."""
MOST_VARIABLES = 512
"""Most readings that are tried."""


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
    groups: Int[Tensor, " memories"]
    """Group of each reading; readings of the same variable are in one group."""
    group_signs: Int[Tensor, " memories"]
    """Sign of each reading relative to its group."""
    F: Float[Tensor, "size memories"]
    """F_emp: the next variable as a linear map of the last N; if some repeat others, of the newest of each group."""
    outputs: Int[Tensor, " size"]
    """Outputs that are the elements of a variable: those whose readings are not zero and independent of the others."""
    worst_cosine: float
    """Lowest |cosine| between the elements of `selection` and the readings that they stand for; 1 in theory."""
    selection: SignedSelection | None = None
    """F_emp as a signed selection, each element by its smallest lag; None if it is not one."""

    @property
    def free(self) -> int:
        """Number of elements that can be set independently of each other."""
        return int(self.groups.max()) + 1 if len(self.groups) else 0

    def group_values(self, held: Float[Tensor, "*batch variables size"]) -> Float[Tensor, "*batch free"]:
        """Return the signed mean over the members of each group."""
        flat = held.flatten(-2) * self.group_signs
        total = flat.new_zeros(*flat.shape[:-1], self.free).index_add(-1, self.groups, flat)
        return total / torch.bincount(self.groups, minlength=self.free)

    def expand_groups(self, values: Float[Tensor, "*batch free"]) -> Float[Tensor, "*batch variables size"]:
        """Return all variables from the values of their groups."""
        return (values[..., self.groups] * self.group_signs).unflatten(-1, (self.basis.variables, -1))

    def replace(
        self, held: Float[Tensor, "*batch variables size"], variable: int, values: Float[Tensor, "*#batch size"]
    ) -> Float[Tensor, "*batch variables size"]:
        """Return the variables with one of them replaced, together with all elements of its groups."""
        readings = torch.arange(self.basis.variables * self.basis.size)
        members = readings.unflatten(0, (self.basis.variables, -1))[variable]
        new = self.group_values(held)
        new[..., self.groups[members]] = values.to(new) * self.group_signs[members]
        return self.expand_groups(new)


def find_structure(modes: Modes, C: Float[Tensor, "outputs units"], variables: int | None = None) -> Structure | str:
    """Return the variables of the memory space, or the reason why it holds none (steps 4 to 6 of the extraction).

    Readings are compared in the metric `G = mean_m (C A_u^m)^T (C A_u^m)`, in which A_u is a rotation.
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
    unit = _normalise(duals, root)
    groups, signs = _group(unit, modes.count)
    following = _normalise(reading @ A, root) @ unit.mT
    newest = sorted({int(group): place for place, group in enumerate(groups)}.values())  # reading of each group
    F = torch.zeros(kappa, len(duals), dtype=duals.dtype)
    F[:, newest] = (reading @ A) @ _inverse(duals[newest], root)
    profile, edges = torch.tensor(ranks), torch.tensor(margins, dtype=torch.float64)
    selection, worst = _selection(following, len(past), kappa)
    return Structure(basis, R @ L, profile, edges, groups, signs, F, outputs, worst, selection)


def structure_by_powers(
    A: Float[Tensor, "units units"], C: Float[Tensor, "outputs units"], variables: int
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
    try:
        selection = SignedSelection.from_matrix(F.round(), 0.5) if bool(torch.isfinite(F).all()) else None
    except ValueError:
        selection = None
    singular = torch.linalg.svdvals(Psi)
    ranks = torch.arange(size, memories + 1, size)
    margins = torch.stack([singular[ranks - 1], torch.zeros_like(singular[ranks - 1])], 1)
    groups, signs = torch.arange(memories), torch.ones(memories, dtype=torch.int64)
    # the lowest share, over the rows of F, that the largest entry has of the row's norm
    worst = float((F.abs().max(1).values / F.norm(dim=1)).min())
    projection, outputs = basis.projection(), torch.arange(size)
    return Structure(basis, projection, ranks, margins, groups, signs, F, outputs, worst, selection)


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


def _group(unit: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the group and the sign of each reading; independent readings have a group each."""
    memories = len(unit)
    if memories == count:
        return torch.arange(memories), torch.ones(memories, dtype=torch.int64)
    cosine = unit @ unit.mT
    groups, signs = torch.full((memories,), -1), torch.ones(memories, dtype=torch.int64)
    number = 0
    for first in reversed(range(memories)):  # from the newest, which sets the sign
        if groups[first] >= 0:
            continue
        same = (cosine[first].abs() > SAME) & (groups < 0)
        groups[same] = number
        signs[same] = cosine[first, same].sign().to(torch.int64)
        number += 1
    return groups, signs


def _selection(cosine: Tensor, variables: int, size: int) -> tuple[SignedSelection | None, float]:
    """Match each element of the next variable with plus or minus the newest reading that equals it.

    Returns the selection, or None if an element has no match, and the lowest |cosine|.
    """
    lags, elements, signs, worst = [], [], [], 1.0
    for row in cosine:
        alike = (row.abs() > SAME).nonzero().flatten()
        if not len(alike):
            return None, float(row.abs().max())
        place = int(alike.max())
        newest = alike[alike // size == place // size]  # the best match within the newest variable
        place = int(newest[row[newest].abs().argmax()])
        lags.append(variables - place // size)
        elements.append(place % size)
        signs.append(1 if row[place] > 0 else -1)
        worst = min(worst, float(row[place].abs()))
    return SignedSelection(variables, tuple(lags), tuple(elements), tuple(signs)), worst
