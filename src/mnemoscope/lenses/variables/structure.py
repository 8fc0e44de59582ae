"""From memory modes to variables: how many there are, how large, which direction holds which, and what follows what."""

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
"""Two readings are one variable, or its negative, if their cosine is beyond this, 1 or -1 in theory."""
AVERAGED_STEPS = 64
"""Over which the metric is taken, at least."""
SILENT = 1e-6
"""An output that says less than this share of what the loudest says is none."""
MOST_VARIABLES = 512


@dataclass(frozen=True)
class Structure:
    """What was read off the memory modes."""

    basis: MemoryBasis
    projection: Float[Tensor, "units units"]
    """Onto the memory space, along all other modes."""
    rank_profile: Int[Tensor, " steps"]
    """Rank of the readings C, C A_u^-1, ... of the last 1, 2, ... steps on the memory space. It rises by kappa while
    new variables come into sight, and stays once all have."""
    margins: Float[Tensor, "steps 2"]
    """Lowest singular value that counted and highest that did not, for each rank."""
    groups: Int[Tensor, " memories"]
    """Which readings are one and the same variable: equal numbers."""
    group_signs: Int[Tensor, " memories"]
    F: Float[Tensor, "size memories"]
    """F_emp: what comes next, by the last N variables; where some repeat others, by the newest of each."""
    selection: SignedSelection | None
    """F_emp as a signed selection, each element by its smallest lag; None if it is none."""
    outputs: Int[Tensor, " size"]
    """Which outputs are the elements of a variable: all but those that say nothing, or what others say."""
    worst_cosine: float
    """Of the elements of that selection with what they were taken to be; 1 in theory."""

    @property
    def free(self) -> int:
        """Variables' elements that can be set independently of each other."""
        return int(self.groups.max()) + 1 if len(self.groups) else 0

    def values(self, held: Float[Tensor, "*batch variables size"]) -> Float[Tensor, "*batch free"]:
        """Of each group of readings that are the same variable, the mean of its members, with their signs."""
        flat = held.flatten(-2) * self.group_signs
        total = flat.new_zeros(*flat.shape[:-1], self.free).index_add(-1, self.groups, flat)
        return total / torch.bincount(self.groups, minlength=self.free)

    def held(self, values: Float[Tensor, "*batch free"]) -> Float[Tensor, "*batch variables size"]:
        """All variables, from the values of the groups."""
        return (values[..., self.groups] * self.group_signs).unflatten(-1, (self.basis.variables, -1))

    def written(
        self, held: Float[Tensor, "*batch variables size"], variable: int, values: Float[Tensor, "*#batch size"]
    ) -> Float[Tensor, "*batch variables size"]:
        """What is held once a variable is replaced; what is the same as one of its elements goes along."""
        own = torch.arange(self.basis.variables * self.basis.size).unflatten(0, (self.basis.variables, -1))[variable]
        new = self.values(held)
        new[..., self.groups[own]] = values.to(new) * self.group_signs[own]
        return self.held(new)


def structure(modes: Modes, C: Float[Tensor, "outputs units"], variables: int | None = None) -> Structure | str:
    """Steps 4 to 6 of the extraction; where the memory space is no such structure, a sentence that says why.

    Readings are compared in the metric `G = mean_m (C A_u^m)^T (C A_u^m)`, in which A_u is a rotation.
    """
    if modes.condition > NEARLY_DEPENDENT:
        return (
            f"the {modes.count} modes that last are so nearly dependent on others (|v| |w| = {modes.condition:.2g}) "
            f"that float64 cannot tell them apart: such a network amplifies for a while, and need not remember"
        )
    R, L = _coordinates(modes)
    A, back = L @ modes.operator(1) @ R, L @ modes.operator(-1) @ R
    root = _inverse_root(_metric(A, C @ R, max(AVERAGED_STEPS, 2 * modes.count)))
    if root is None:
        return (
            f"the readout does not see all of the {modes.count} memory modes: some variables would never be told apart"
        )
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
            f"the last {len(past)} readings tell all {modes.count} memory modes apart, so that there are {len(past)} "
            f"variables at most, not {variables}"
        )
    if ranks[-1] != modes.count:
        return (
            f"the last {len(past)} readings tell {ranks[-1]} of {modes.count} memory modes apart: they are not a "
            f"succession of {len(past)} variables"
        )
    duals = torch.cat(past[::-1])
    basis = MemoryBasis(R @ _inverse(duals, root), duals @ L, len(past))
    unit = _unit(duals, root)
    groups, signs = _grouped(unit, modes.count)
    following = _unit(reading @ A, root) @ unit.mT
    newest = _newest(groups)
    F = torch.zeros(kappa, len(duals), dtype=duals.dtype)
    F[:, newest] = (reading @ A) @ _inverse(duals[newest], root)
    profile, edges = torch.tensor(ranks), torch.tensor(margins, dtype=torch.float64)
    selected, worst = _selection(following, len(past), kappa)
    return Structure(basis, R @ L, profile, edges, groups, signs, F, selected, outputs, worst)


def _coordinates(modes: Modes) -> tuple[Tensor, Tensor]:
    """R (units, k) with orthonormal columns that span the memory space, and L with P = R L."""
    P = modes.projection()
    R = torch.linalg.svd(P)[0][:, : modes.count]
    return R, R.mT @ P


def _metric(A: Tensor, reading: Tensor, steps: int) -> Tensor:
    total, ahead = torch.zeros_like(A), reading
    for _ in range(steps):
        total, ahead = total + ahead.mT @ ahead, ahead @ A
    return total / steps


def _independent(readings: Tensor, root: Tensor) -> Tensor:
    """Rows that are neither (almost) 0 nor what the rows before them make up."""
    lengths = (readings @ root).norm(dim=1)
    unit, kept = _unit(readings, root), []
    for row in range(len(readings)):
        if float(lengths[row]) <= SILENT * float(lengths.max()):
            continue
        basis = torch.linalg.qr(unit[kept].mT)[0] if kept else unit.new_zeros(unit.shape[1], 0)
        if float((unit[row] - basis @ (basis.mT @ unit[row])).norm()) > INDEPENDENT:
            kept.append(row)
    return torch.tensor(kept)


def _inverse_root(G: Tensor) -> Tensor | None:
    """S with S^T G S = I; None where G is singular: what no reading ever sees cannot be told apart."""
    values, vectors = torch.linalg.eigh(G)
    return None if not float(values[0]) > 1e-10 * float(values[-1]) else vectors / values.sqrt()


def _unit(readings: Tensor, root: Tensor) -> Tensor:
    """Readings of unit length in the metric."""
    seen = readings @ root
    return seen / seen.norm(dim=1, keepdim=True).clamp_min(1e-300)


def _rank(readings: list[Tensor], root: Tensor) -> tuple[int, float, float]:
    values = torch.linalg.svdvals(_unit(torch.cat(readings), root))
    rank = int((values > INDEPENDENT).sum())
    return rank, float(values[rank - 1]) if rank else 0.0, float(values[rank]) if rank < len(values) else 0.0


def _inverse(duals: Tensor, root: Tensor) -> Tensor:
    """The pseudo-inverse of the duals, in the metric; readings that repeat each other share what they hold."""
    scale = (duals @ root).norm(dim=1, keepdim=True)
    unit = duals / scale
    return root @ torch.linalg.pinv(unit @ root, rtol=INDEPENDENT / 3) / scale.mT


def _grouped(unit: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Which readings are the same, and with which sign; if all are independent, each is its own."""
    memories = len(unit)
    if memories == count:
        return torch.arange(memories), torch.ones(memories, dtype=torch.int64)
    cosine = unit @ unit.mT
    groups, signs = torch.full((memories,), -1), torch.ones(memories, dtype=torch.int64)
    number = 0
    for first in reversed(range(memories)):  # from the newest: it gives the sign
        if groups[first] >= 0:
            continue
        same = (cosine[first].abs() > SAME) & (groups < 0)
        groups[same] = number
        signs[same] = cosine[first, same].sign().to(torch.int64)
        number += 1
    return groups, signs


def _newest(groups: Tensor) -> Tensor:
    """The newest reading of each group."""
    last = {int(group): place for place, group in enumerate(groups)}
    return torch.tensor(sorted(last.values()))


def _selection(cosine: Tensor, variables: int, size: int) -> tuple[SignedSelection | None, float]:
    """Each element of what comes next as plus or minus the newest reading that it is the same as."""
    lags, elements, signs, worst = [], [], [], 1.0
    for row in cosine:
        alike = (row.abs() > SAME).nonzero().flatten()
        if not len(alike):
            return None, float(row.abs().max())
        place = int(alike.max())
        newest = alike[alike // size == place // size]  # of the newest variable, the most alike
        place = int(newest[row[newest].abs().argmax()])
        lags.append(variables - place // size)
        elements.append(place % size)
        signs.append(1 if row[place] > 0 else -1)
        worst = min(worst, float(row[place].abs()))
    return SignedSelection(variables, tuple(lags), tuple(elements), tuple(signs)), worst
