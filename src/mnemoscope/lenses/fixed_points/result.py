"""The result of the fixed-point lens: the points, their stability, and whether any are missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Complex, Float, Int
from mnemoscope.base.trial_table import Condition
from mnemoscope.drawing.projection import ChosenAxes
from mnemoscope.lenses.fixed_points.eigenvectors import left_eigenvectors
from mnemoscope.lenses.fixed_points.linear_algebra import inverse_and_index
from mnemoscope.lenses.fixed_points.outcomes import Certificate, Starts
from mnemoscope.lenses.fixed_points.stability import ARNOLDI, growth, unstable_directions
from mnemoscope.lenses.recording.result import Recording
from mnemoscope.lenses.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARGIN = 1e-5
"""A mode that grows or decays by less than this per step (for a flow: per 1 / rate) counts as marginal."""
MOST_KINDS = 8
"""Largest number of kinds, with different numbers of unstable directions, that a summary lists separately."""
LOST_SHARE = 1 / 3
"""Share of starts without a fixed point above which the index sum alone does not suggest a complete set."""
ILL_CONDITIONED = 1e6
"""Condition number from which an eigenvalue is ill-conditioned: a change of the Jacobian moves it a million times as
far, and its eigenvectors are not reliable."""


@dataclass(frozen=True, repr=False)
class FixedPoints(Result):
    """Fixed points of one system.

    Indexing with a number, a mask, a slice or a list selects points; iterating yields each point alone.

    >>> import mnemoscope as ms
    >>> double_well = ms.adapt(lambda x, h: torch.tanh(2 * h + x), state_size=1, bounds=(-1, 1))
    >>> fp = ms.find_fixed_points(ms.Dynamics(double_well), torch.tensor([[-0.9], [0.1], [0.9]]).double())
    >>> len(fp), fp.index_sum, sorted(fp.kind)
    (3, 1, ['stable', 'stable', 'unstable'])
    """

    noun: ClassVar[str] = "fixed points"
    drawn_by: ClassVar[str] = "draw_fixed_points"

    states: Float[Tensor, "points size"]
    """The fixed points as flat states."""
    q: Float[Tensor, " points"]
    """q = 1/2 |residual|^2 (Jang, Eq 4), where the residual is F(x) - x for a map, F(x) for a flow."""
    jacobians: Float[Tensor, "points size size"]
    """dF/dx."""
    reached: Int[Tensor, " points"]
    """Number of starts that ended at each point."""
    continuous: bool
    """Whether the system is a flow instead of a map."""
    bounded: bool
    """Whether the system is known to map a box into itself, so that the index sum must be 1."""
    rate: float = 1.0
    """Typical rate of a flow, to which `MARGIN` is relative; 1 for a map."""
    regular: Bool[Tensor, " points"] | None = None
    """Which points are certainly isolated, so that they have an index; None if the search did not test it."""
    signs: Int[Tensor, " points"] | None = None
    """The index of each point; None if `index` must compute it."""
    declared: bool = False
    """Whether the box was declared for a step of the user's own, which may have jumps; the index sum assumes none."""
    left_box: bool = False
    """Whether the system leaves the box that was declared for it."""
    starts: Starts | None = None
    """The outcome of each start; None for a selection of points."""
    slow: FixedPoints | None = None
    """Slow points: local minima of q between the two tolerances, which are not fixed points."""
    stopped: str = ""
    """Reason why an adaptive search ended."""
    certificate: Certificate | None = None
    """The proof that the set is complete within its box, if one was asked for."""
    dimension: int | None = None
    """For a step that is affine in the state: dimension of the set of all fixed points, 0 for a single one, -1 if there
    are none. None for other systems."""
    batch_first: bool = False
    """Whether trajectories that are passed to `figure` are (batch, time, size), as the network's own are."""

    def __len__(self) -> int:
        return self.states.shape[0]

    def __getitem__(self, which: int | np.integer | slice | list[int] | Tensor) -> FixedPoints:
        if isinstance(which, bool):
            raise TypeError("Fixed points are selected by a number, a list, a slice or a mask, not by True or False.")
        if isinstance(which, int | np.integer) or (isinstance(which, Tensor) and which.dim() == 0):
            which = int(which)
            if not -len(self) <= which < len(self):
                raise IndexError(f"There are {len(self)} fixed points, but number {which} was asked for.")
            which = [which % len(self)]
        if isinstance(which, slice):
            which = list(range(*which.indices(len(self))))  # torch takes no negative steps
        main = (self.states[which], self.q[which], self.jacobians[which], self.reached[which])
        regular = None if self.regular is None else self.regular[which]
        signs = None if self.signs is None else self.signs[which]
        facts: dict[str, Any] = {"rate": self.rate, "regular": regular, "signs": signs, "batch_first": self.batch_first}
        return FixedPoints(*main, self.continuous, False, **facts)  # no claim of completeness

    def __iter__(self) -> Iterator[FixedPoints]:
        return (self[point] for point in range(len(self)))

    @cached_property
    def _eigen(self) -> tuple[Tensor, Tensor]:
        # numpy's LAPACK: torch's batched eig takes several times as long for these sizes
        values, vectors = (np.asarray(part, complex) for part in np.linalg.eig(self.jacobians.cpu().numpy()))
        order = self._order(values)
        values = np.take_along_axis(values, order, axis=-1)
        vectors = np.take_along_axis(vectors, order[:, None, :], axis=-1)
        return torch.from_numpy(values), torch.from_numpy(vectors)

    @cached_property
    def eigenvalues(self) -> Complex[Tensor, "points size"]:
        """Eigenvalues of dF/dx, the least stable first."""
        if self.states.shape[1] < ARNOLDI:
            return self._eigen[0]
        values = np.asarray(np.linalg.eigvals(self.jacobians.cpu().numpy()), complex)  # half the time without vectors
        return torch.from_numpy(np.take_along_axis(values, self._order(values), axis=-1))

    def _order(self, values: np.ndarray) -> np.ndarray:
        return np.argsort(-(np.real(values) if self.continuous else np.abs(values)), axis=-1, kind="stable")

    @property
    def eigenvectors(self) -> Complex[Tensor, "points size size"]:
        """Right eigenvectors of unit length in columns, in the order of `eigenvalues`."""
        return self._eigen[1]

    @cached_property
    def left_eigenvectors(self) -> Complex[Tensor, "points size size"]:
        """Left eigenvectors in columns, in the order of `eigenvalues`: L^T R = I with the right ones, R.

        The product of a state's deviation with a column is its coordinate along that mode. Columns of a defective
        eigenvalue, which has too few eigenvectors, are long or NaN: see `ill_conditioned`.
        """
        J, (values, right) = self.jacobians.cpu().numpy(), (part.numpy() for part in self._eigen)
        left = [left_eigenvectors(*point) for point in zip(J, values, right, strict=True)]
        return torch.from_numpy(np.stack(left)) if left else torch.zeros_like(self.eigenvectors)

    @property
    def eigenvalue_conditions(self) -> Float[Tensor, "points size"]:
        """Condition number of each eigenvalue, 1 / |l^T r| for l and r of unit length: 1 if the Jacobian is normal.

        A small change of the Jacobian moves the eigenvalue by at most this many times its norm. It is infinite where
        the eigenvalue is defective to rounding.
        """
        conditions = self.left_eigenvectors.abs().square().sum(1).sqrt() * self.eigenvectors.norm(dim=1)
        return conditions.nan_to_num(nan=torch.inf)

    @property
    def ill_conditioned(self) -> Bool[Tensor, "points size"]:
        """Whether each eigenvalue is so ill-conditioned that its eigenvectors are not reliable."""
        return self.eigenvalue_conditions > ILL_CONDITIONED

    @cached_property
    def growth(self) -> Float[Tensor, "points size"]:
        """Growth rate of each mode: log |lambda| for a map, Re lambda for a flow. Stable modes are negative."""
        return self.eigenvalues.real if self.continuous else self.eigenvalues.abs().log()

    @cached_property
    def _modes(self) -> tuple[Tensor, Tensor]:
        """Number of unstable and of marginal modes of each point."""
        margin = MARGIN * self.rate
        if self.states.shape[1] < ARNOLDI or "eigenvalues" in self.__dict__:
            return (self.growth > margin).sum(1), (self.growth.abs() <= margin).sum(1)
        counts: list[tuple[int, int]] = []
        for J, index in zip(self.jacobians.cpu().numpy(), self.index.tolist(), strict=True):
            unstable, marginal = unstable_directions(J, self.continuous, margin, index), 0
            if unstable is None:
                rates = growth(np.linalg.eigvals(J), self.continuous)
                unstable, marginal = int((rates > margin).sum()), int((np.abs(rates) <= margin).sum())
            counts.append((unstable, marginal))
        both = torch.tensor(counts, dtype=torch.int64).reshape(-1, 2)
        return both[:, 0], both[:, 1]

    @property
    def unstable(self) -> Int[Tensor, " points"]:
        """Number of unstable directions of each point; for large states counted without all eigenvalues."""
        return self._modes[0]

    @property
    def time_constants(self) -> Float[Tensor, "points size"]:
        """Steps (for a flow: time) in which a mode grows or decays by a factor e: 1 / |growth|."""
        return 1 / self.growth.abs()

    @property
    def kind(self) -> list[str]:
        """Kind of each point: stable, saddle, unstable, or marginal where the linearisation is inconclusive.

        It is inconclusive where a mode lies within `MARGIN` of the stability boundary, or where the point is not
        `regular`: one of a line of points, or on a kink.
        """
        unstable, marginal_modes = self._modes
        marginal = marginal_modes > 0
        if self.regular is not None:
            marginal |= ~self.regular
        stable = self.states.shape[1] - unstable - marginal_modes
        return [
            "marginal" if inconclusive else "stable" if up == 0 else "unstable" if down == 0 else "saddle"
            for inconclusive, up, down in zip(marginal.tolist(), unstable.tolist(), stable.tolist(), strict=True)
        ]

    @property
    def shape(self) -> list[str]:
        """Shape of each point: spiral if the least stable mode rotates (complex eigenvalue), else node."""
        rotates = self.eigenvalues[:, 0].imag.abs() > MARGIN * self.rate
        return ["spiral" if rotating else "node" for rotating in rotates.tolist()]

    @property
    def description(self) -> list[str]:
        """Kind and shape of each point: stable node, spiral saddle, ... ("saddle node" is a bifurcation)."""
        names = {("saddle", "node"): "saddle", ("saddle", "spiral"): "spiral saddle"}
        return [names.get(pair, f"{pair[0]} {pair[1]}") for pair in zip(self.kind, self.shape, strict=True)]

    @cached_property
    def index(self) -> Int[Tensor, " points"]:
        """Index of each point, sign det(I - J) for a map, sign det(-J) for a flow; 0 where the sign is uncertain."""
        if self.signs is not None:
            return self.signs
        eye = 0 if self.continuous else torch.eye(self.states.shape[1], dtype=self.states.dtype)
        _, index = inverse_and_index(self.jacobians - eye)
        return index if self.regular is None else index * self.regular

    @property
    def index_sum(self) -> int:
        """Sum of the indices: 1 for the complete set if the map takes a ball into itself (Brouwer degree)."""
        return int(self.index.sum())

    @property
    def may_be_complete(self) -> bool | None:
        """Whether the index sum allows that the set is complete.

        False: points are certainly missing if the step is continuous. True: the index sum is that of a complete set,
        which is necessary but not sufficient, since missing points of opposite index cancel; see `doubt`. None: the
        index sum proves nothing. With a complete `certificate` it is True, and proved.
        """
        if self.certificate is not None and self.certificate.complete:
            return True
        if not self.bounded or bool((self.index == 0).any()):
            return None
        return self.index_sum == 1

    @property
    def continuum(self) -> bool:
        """Whether so many points are marginal, and apart, that they suggest a line or a surface of fixed points."""
        marginal = self.kind.count("marginal")
        spread = self.states.std(0, correction=0).max() if marginal else 0
        return bool(marginal >= 5 and 2 * marginal >= len(self) and spread > 1e-2)

    @property
    def cut_off(self) -> bool:
        """Whether a limit of starts, waves or steps ended the search."""
        return self.stopped.startswith("the limit of")

    @property
    def doubt(self) -> str:
        """Sign of a missing point that the index sum does not show, as the end of a sentence; "" without one.

        Where many starts reach no point, others may be hard to reach too. That few starts reached some of the points is
        no such sign: an adaptive search starts where it expects the next point, and each is then found once.
        """
        proved = self.dimension is not None or (self.certificate is not None and self.certificate.complete)
        if self.starts is None or proved:
            return ""
        if self.cut_off:
            return f"the search ended because {self.stopped}"
        lost = len(self.starts) - int(self.reached.sum())
        if lost > LOST_SHARE * len(self.starts):
            return f"{lost} of {len(self.starts)} starts reached no fixed point, so that pairs of points may be missing"
        return ""

    @property
    def completeness(self) -> str:
        """Sentence about the completeness of the set, from a linear equation, the certificate or the index sum."""
        if self.dimension is not None:
            return _affine_sentence(self.dimension)
        if self.certificate is None:
            return self._index_sentence
        return str(self.certificate) if self.certificate.complete else f"{self.certificate} {self._index_sentence}"

    @property
    def _index_sentence(self) -> str:
        total = self.index_sum
        if self.left_box:
            return (
                f"The index sum is {total}, but the system leaves the declared box from some states: it proves nothing."
            )
        if not self.bounded:
            return (
                f"The index sum is {total}, but no set is known that the system maps into itself, so it proves nothing."
            )
        if self.may_be_complete is None:
            return f"The index sum is {total}, but a degenerate point has no index, so it proves nothing."
        if self.may_be_complete:
            judged = f"; but {self.doubt}" if self.doubt else ": no sign of a missing point, though no proof"
            return f"The index sum is 1, as it must be for the complete set{judged}."
        missing = abs(1 - total)
        points = f"{missing} point{'s' * (missing > 1)}"
        parity, threshold = "even" if total < 1 else "odd", 0 if self.continuous else 1
        continuous = " if the step has no jumps" if self.declared else ""
        return (
            f"The index sum is {total} and must be 1{continuous}: at least {points} with an {parity} number of real "
            f"eigenvalues above {threshold} {'is' if missing == 1 else 'are'} missing. Search again from more starts."
        )

    def summary(self) -> str:
        """Return the number and kinds of the points, the completeness of the set and the outcome of the starts."""
        return " ".join(_sentences(self))

    def figure(
        self,
        trajectories: Float[Tensor, "time batch size"] | np.ndarray | Recording | None = None,
        *,
        colour: str | tuple[str, ...] | Condition | None = None,
        axes: ChosenAxes | None = None,
    ) -> Figure:
        """Draw the state space in principal components next to the eigenvalues (needs the `report` extra).

        Args:
            trajectories: a recording (`ms.record_activity`), or flat states in the layout of the network: (batch, time,
                size) if it is a torch.nn module with `batch_first`, otherwise (time, batch, size).
                `run_with_cache(network, inputs)[1].flat()` returns them.
            colour: condition of the recording by which trajectories are coloured, one or several names: the mean of
                each combination of values is a thick line, single trials are thin. With states, a `Condition` of them.
            axes: directions of the axes by name, such as {"choice": readout.weight[0]}, or numbers of units, instead
                of principal components.

        """
        trajectories = torch.from_numpy(trajectories) if isinstance(trajectories, np.ndarray) else trajectories
        if isinstance(trajectories, Tensor) and self.batch_first and trajectories.dim() == 3:
            trajectories = trajectories.transpose(0, 1)
        return super().figure(trajectories, colour=colour, axes=axes)


def _affine_sentence(dimension: int) -> str:
    if dimension < 0:
        return "The step is affine in the state, A S + W, and has none: A has the eigenvalue 1, and W moves the state."
    if dimension == 0:
        return "The step is affine in the state, and A has no eigenvalue 1: there is no other fixed point."
    return (
        f"The step is affine in the state, and A has the eigenvalue 1: the fixed points form a linear space of "
        f"{dimension} dimension{'s' * (dimension > 1)}, of which this point is the nearest to 0."
    )


def _kinds(fp: FixedPoints) -> list[str]:
    """Return the number of points of each kind and number of unstable directions, or of each kind if these are many."""
    counted = Counter(zip(fp.kind, fp.unstable.tolist(), strict=True))
    groups: dict[tuple[str, int], list[int]] = {}
    for kind, up in sorted(counted, key=lambda key: (key[1], key[0])):
        groups.setdefault((kind, up if len(counted) <= MOST_KINDS else 0), []).append(up)
    parts = []
    for (kind, _), ups in groups.items():
        number = sum(counted[kind, up] for up in ups)
        directions = f"{ups[0]}" if len(ups) == 1 else f"{ups[0]} to {ups[-1]}"
        unstable = f" with {directions} unstable direction{'s' * (ups[-1] > 1)}" if ups[-1] else ""
        parts.append(f"{number} {kind}{'s' * (kind == 'saddle' and number > 1)}{unstable}")
    return parts


def _sentences(fp: FixedPoints) -> Iterator[str]:
    unit = f" in units of rate^2 = {fp.rate**2:.1e}" if fp.rate != 1 else ""
    if len(fp) == 0:
        yield "No fixed point was found."
    else:
        parts = _kinds(fp)
        q = f"q at most {fp.q.max() / fp.rate**2:.1e}{unit}"
        yield f"{len(fp)} fixed point{'s' * (len(fp) > 1)}: {', '.join(parts)}; {q}."
    if len(fp) or fp.bounded or fp.left_box or fp.dimension is not None:
        yield fp.completeness
    if fp.continuum:
        yield "So many marginal points suggest a continuous attractor: a line or surface of fixed points."
    if fp.slow is not None and len(fp.slow):
        q = f"q from {fp.slow.q.min() / fp.rate**2:.1e}{unit}"
        yield f"{len(fp.slow)} slow point{'s' * (len(fp.slow) > 1)} in addition, {q}."
    if fp.starts is not None:
        outcomes = [f"{number} {status.description}" for status, number in fp.starts.counts().items()]
        yield f"Of {len(fp.starts)} start{'s' * (len(fp.starts) > 1)}, {', '.join(outcomes)}."
    if fp.stopped and (fp.may_be_complete is False or (fp.may_be_complete is None and fp.cut_off)):
        yield f"The search ended because {fp.stopped}."
