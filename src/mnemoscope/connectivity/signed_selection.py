"""Signed selections: every new element is plus or minus an element of the last s vectors (Karuvally et al. 2023).

`x(t) = F [x(t-s); ...; x(t-1)]`, the oldest vector first, where each row of F has one non-zero entry, 1 or -1. Repeat
copy, compose copy and all tasks of their family have this form, and so has the boundary map of networks that solve
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

import torch
from torch import Tensor

from mnemoscope.base.array_types import Complex, Float, Int

COMPOSE_8 = sum(1 << 9 * element for element in range(8))
"""First number of the id of compose copy with 8 vectors of 8 elements."""
FAMILY: dict[str, tuple[int, int, int]] = {
    "T1": (255, 0, 0),
    "T2": (COMPOSE_8, 0, 0),
    "T3": (COMPOSE_8, 262676, 189),
    "T4": (COMPOSE_8, 38637, 145),
}
"""Ids of the published tasks, for s = d = 8: repeat copy, compose copy, and two that also permute and negate."""


@dataclass(frozen=True)
class Cycle:
    """Elements that are copied from one another in a cycle."""

    elements: tuple[int, ...]
    """Indices of the elements, in the order of the cycle."""
    lag: int
    """Total lag of the cycle, in steps."""
    sign: int
    """Product of the signs around the cycle: 1 or -1."""

    def eigenvalues(self) -> Complex[Tensor, " lag"]:
        """Return the `lag` roots of lambda^lag = sign."""
        turns = torch.arange(self.lag, dtype=torch.float64) + (0 if self.sign > 0 else 0.5)
        return torch.polar(torch.ones_like(turns), 2 * torch.pi * turns / self.lag)


@dataclass(frozen=True)
class SignedSelection:
    """Element a of x(t) is `signs[a]` times element `elements[a]` of `x(t - lags[a])`.

    >>> compose = SignedSelection.compose_copy(3)
    >>> [(cycle.elements, cycle.lag) for cycle in compose.cycles()]
    [((0,), 3), ((1,), 2), ((2,), 1)]
    >>> compose.matrix().shape, len(compose.eigenvalues())
    (torch.Size([3, 9]), 6)
    """

    variables: int
    """Number of vectors in memory, s."""
    lags: tuple[int, ...]
    """Lag of each element, 1 to s steps."""
    elements: tuple[int, ...]
    """Index of the element that each element is copied from."""
    signs: tuple[int, ...]
    """Sign of each copy, 1 or -1."""

    def __post_init__(self) -> None:
        d = self.size
        if self.variables < 1 or d < 1:
            raise ValueError(f"There must be at least one vector and one element, but {self.variables=} and {d=}.")
        if not len(self.lags) == len(self.elements) == len(self.signs):
            raise ValueError(
                f"Each element needs a lag, an element and a sign, but there are {len(self.lags)}, "
                f"{len(self.elements)} and {len(self.signs)}."
            )
        for a, (lag, element, sign) in enumerate(zip(self.lags, self.elements, self.signs, strict=True)):
            if not 1 <= lag <= self.variables:
                raise ValueError(
                    f"Element {a} is taken from {lag} steps ago, but the last {self.variables} vectors are kept: "
                    f"lags are from 1 to {self.variables}."
                )
            if not 0 <= element < d:
                raise ValueError(f"Element {a} is taken from element {element}, but they are numbered 0 to {d - 1}.")
            if sign not in (1, -1):
                raise ValueError(f"Signs are 1 or -1, but that of element {a} is {sign}.")

    @property
    def size(self) -> int:
        """Number of elements of a vector, d."""
        return len(self.lags)

    @classmethod
    def repeat_copy(cls, variables: int, size: int) -> SignedSelection:
        """Return x(t) = x(t - s) (Karuvally et al. 2023, section 9)."""
        return cls(variables, (variables,) * size, tuple(range(size)), (1,) * size)

    @classmethod
    def compose_copy(cls, variables: int) -> SignedSelection:
        """Return the selection whose element i of x(t) is element i of x(t - s - 1 + i), counted from 1; s = d.

        This is Karuvally et al. 2023, Eq 33, where the printed index is one too low.
        """
        lags = tuple(variables - element for element in range(variables))
        return cls(variables, lags, tuple(range(variables)), (1,) * variables)

    @classmethod
    def from_id(cls, task: str | tuple[int, int, int], variables: int, size: int) -> SignedSelection:
        """Return a member of the published family by the three numbers of its id, or by "T1" to "T4".

        The first number has a binary digit 1 for each of the d selected places of [x(t-s); ...; x(t-1)]; the lowest
        digit is the first place. The second permutes them: its i-th digit in base d, from the lowest on, is the
        distance to the place that place i is exchanged with. The third has a binary digit 1 for each negated element.

        >>> SignedSelection.from_id("T1", 8, 8) == SignedSelection.repeat_copy(8, 8)
        True
        """
        if isinstance(task, str):
            if task not in FAMILY:
                raise ValueError(f"Tasks by name are {', '.join(FAMILY)}, but {task!r} was given.")
            if (variables, size) != (8, 8):
                raise ValueError(f"{task} has 8 vectors of 8 elements, but {variables=} and {size=}.")
            task = FAMILY[task]
        chosen, permutation, negated = task
        if min(task) < 0:
            raise ValueError(f"The numbers of an id are at least 0, but {min(task)} is among them.")
        places = [place for place in range(chosen.bit_length()) if chosen >> place & 1]
        if len(places) != size or (places and places[-1] >= variables * size):
            raise ValueError(
                f"The first number must have {size} binary digits 1 among the lowest {variables * size}, but "
                f"{chosen} has them at {places}."
            )
        for element in range(size):
            permutation, distance = divmod(permutation, size)
            other = element + distance
            if other >= size:
                raise ValueError(
                    f"The second number exchanges place {element} with place {other}, but there are only {size}."
                )
            places[element], places[other] = places[other], places[element]
        if permutation or negated >> size:
            raise ValueError(f"The second and the third number have too many digits for {size} elements.")
        signs = [-1 if negated >> element & 1 else 1 for element in range(size)]
        return cls._from_places(places, signs, variables, size)

    @classmethod
    def from_matrix(cls, F: Float[Tensor, "size columns"], tolerance: float = 1e-6) -> SignedSelection:
        """Return the selection with matrix F; raise unless each row of F has exactly one non-zero entry, 1 or -1."""
        d, columns = F.shape
        if columns == 0 or columns % d:
            raise ValueError(f"F must be (d, s d), but is {tuple(F.shape)}.")
        nearest = F.round()
        if (F - nearest).abs().max() > tolerance or (nearest.abs().sum(1) != 1).any() or (nearest.abs() > 1).any():
            raise ValueError("Each row of F must have one entry 1 or -1, and zeros: F is not a signed selection.")
        places = nearest.abs().argmax(1).tolist()
        signs = [int(nearest[a, place]) for a, place in enumerate(places)]
        return cls._from_places(places, signs, columns // d, d)

    @classmethod
    def _from_places(cls, places: list[int], signs: list[int], variables: int, size: int) -> SignedSelection:
        """Return the selection of these places of [x(t-s); ...; x(t-1)], counted from 0."""
        lags = tuple(variables - place // size for place in places)
        return cls(variables, lags, tuple(place % size for place in places), tuple(signs))

    def matrix(self) -> Float[Tensor, "size columns"]:
        """Return F, of shape (d, s d)."""
        F = torch.zeros(self.size, self.variables * self.size, dtype=torch.float64)
        for a, (lag, element, sign) in enumerate(zip(self.lags, self.elements, self.signs, strict=True)):
            F[a, (self.variables - lag) * self.size + element] = sign
        return F

    def simulate(self, first: Float[Tensor, "variables *batch size"], steps: int) -> Float[Tensor, "time *batch size"]:
        """Return the first s vectors and the `steps` vectors that follow from them."""
        if first.shape[0] != self.variables or first.shape[-1] != self.size:
            raise ValueError(
                f"The first {self.variables} vectors of {self.size} elements must be given, but their shape is "
                f"{tuple(first.shape)}."
            )
        if steps < 0:
            raise ValueError(f"steps must be at least 0, but is {steps}.")
        place, sign = self.sources(steps)
        vectors = first.movedim(-1, 1).flatten(0, 1)  # (time and element, *batch)
        signs = sign.to(first).reshape(-1, *(1,) * (vectors.dim() - 1))
        sequence = (signs * vectors[place]).unflatten(0, (-1, self.size))
        return sequence.movedim(1, -1).contiguous()

    def sources(self, steps: int) -> tuple[Int[Tensor, " places"], Int[Tensor, " places"]]:
        """Return the place in [x(1); ...; x(s)] that each element of x(1), ..., x(s + steps) comes from, and its sign.

        Every element is one of the first s vectors, after some copies: one gather yields the whole sequence.
        """
        return _sources(self, steps)

    def cycles(self) -> list[Cycle]:
        """Return the cycles of the map from each element to its source; elements on no cycle are forgotten."""
        found, seen = [], set()
        for start in range(self.size):
            path: list[int] = []
            element = start
            while element not in seen:
                seen.add(element)
                path.append(element)
                element = self.elements[element]
            if element in path:
                cycle = path[path.index(element) :]
                sign = prod(self.signs[a] for a in cycle)
                found.append(Cycle(tuple(cycle), sum(self.lags[a] for a in cycle), sign))
        return found

    def eigenvalues(self) -> Complex[Tensor, " modes"]:
        """Return the non-zero eigenvalues of Phi, exactly; all lie on the unit circle.

        Each cycle of total lag L and sign S gives the L roots of lambda^L = S; the other s d - L_1 - L_2 - ...
        eigenvalues are 0. For an eigenvector x(t) = lambda^t v, so that v_a = sign_a lambda^-lag_a v_b(a), and once
        around a cycle lambda^L = S.
        """
        parts = [cycle.eigenvalues() for cycle in self.cycles()]
        return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.complex128)


@lru_cache(maxsize=32)  # a task draws many batches of the same length
def _sources(selection: SignedSelection, steps: int) -> tuple[Int[Tensor, " places"], Int[Tensor, " places"]]:
    s, d = selection.variables, selection.size
    places, signs = [list(range(time * d, (time + 1) * d)) for time in range(s)], [[1] * d for _ in range(s)]
    for time in range(s, s + steps):
        origins = [(time - lag, element) for lag, element in zip(selection.lags, selection.elements, strict=True)]
        places.append([places[before][element] for before, element in origins])
        signs.append(
            [sign * signs[before][element] for sign, (before, element) in zip(selection.signs, origins, strict=True)]
        )
    return torch.tensor(places).flatten(), torch.tensor(signs).flatten()


def companion(F: Float[Tensor, "size columns"]) -> Float[Tensor, "memories memories"]:
    """Return Phi, the block companion matrix of any F (d, s d) (Karuvally et al. 2023, Eq 20).

    Subspace j takes over the vector of subspace j + 1, and the last one takes F times all of them.
    """
    d, columns = F.shape
    if columns == 0 or columns % d:
        raise ValueError(f"F must be (d, s d), but is {tuple(F.shape)}.")
    Phi = torch.diag(torch.ones(columns - d, dtype=F.dtype), d)
    Phi[-d:] = F
    return Phi


def parse_selection(rule: str, variables: int, size: int) -> SignedSelection:
    """Return the selection that a rule names.

    A rule is "repeat", "compose", "T1" to "T4", an id of the published family such as "255/0/0", or one signed number
    for each element such as "1 -5 3": the place, counted from 1, in [x(t-s); ...; x(t-1)].

    >>> parse_selection("-2 1", variables=1, size=2).signs
    (-1, 1)
    """
    if rule == "repeat":
        return SignedSelection.repeat_copy(variables, size)
    if rule == "compose":
        if variables != size:
            raise ValueError(f"Compose copy has as many vectors as elements, but {variables=} and {size=}.")
        return SignedSelection.compose_copy(variables)
    if rule in FAMILY:
        return SignedSelection.from_id(rule, variables, size)
    try:
        if rule.count("/") == 2:
            first, second, third = (int(part) for part in rule.split("/"))
            return SignedSelection.from_id((first, second, third), variables, size)
        places = [int(word) for word in rule.replace(",", " ").split()]
    except ValueError as error:
        if "invalid literal" not in str(error):
            raise
        raise ValueError(
            f'A rule is "repeat", "compose", {", ".join(FAMILY)}, an id such as "255/0/0", or a signed place for each '
            f'element such as "1 -5 3", but is {rule!r}.'
        ) from None
    if len(places) != size or any(not 1 <= abs(place) <= variables * size for place in places):
        raise ValueError(
            f"There must be {size} signed places, each from 1 to {variables * size} ({variables} vectors of {size} "
            f"elements, the oldest first), but they are {places}."
        )
    signs = [1 if place > 0 else -1 for place in places]
    return SignedSelection._from_places([abs(place) - 1 for place in places], signs, variables, size)
