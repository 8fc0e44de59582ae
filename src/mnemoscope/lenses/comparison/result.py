"""The result of a comparison: distances between systems, and what they can and cannot show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.comparison.grouping import permutation_share, scale_to_plane, silhouettes
from mnemoscope.lenses.result import Result

LEVEL = 0.05
"""A share below this counts as a difference from the null distribution or from the halves."""
FEWEST = 19
"""Fewest draws with which a share can be as small as `LEVEL`."""
PERMUTATIONS = 999
"""Random assignments to groups."""
NEAR = 0.5
"""Systems that are called the same are at most this share as far apart as surrogates."""
CONVERGED = 1e-4
"""Residual above which an alignment is reported as unfinished."""
TITLES = {
    "dsa": "dynamics (DSA)",
    "input-dsa": "dynamics and inputs (InputDSA)",
    "procrustes": "geometry (Procrustes)",
    "cka": "geometry (CKA)",
    "topology": "fixed points",
}
"""Title of each method."""
HALVES = {"procrustes": "units", "cka": "units", "topology": "searches"}
"""Parts of the data that are divided into halves; trials for other methods."""


@dataclass(frozen=True, repr=False)
class Comparison(Result):
    """Distances between networks or recordings, by one method.

    Two distributions give them a meaning. `null` holds distances to surrogates, which share no dynamics or no
    correspondence with the other system: a distance below them is a similarity. `within` and `between` hold distances
    between halves of the data: two systems differ if halves of different systems are further apart than halves of one.
    """

    noun: ClassVar[str] = "a comparison"
    drawn_by: ClassVar[str] = "draw_comparison"

    names: tuple[str, ...]
    """Name of each system."""
    method: str
    """"dsa", "input-dsa", "procrustes", "cka" or "topology"."""
    score: str
    """"angular", "euclidean" or "wasserstein"; "matching" for fixed points."""
    distances: Float[Tensor, "systems systems"]
    groups: tuple[str, ...] = ()
    """Group of each system, such as its architecture; systems of a group differ in their seeds."""
    null: Float[Tensor, "draws systems systems"] | None = None
    """Distances between each system and surrogates of the other one; NaN on the diagonal."""
    null_kind: str = ""
    """Kind of the surrogates."""
    within: Float[Tensor, "splits systems"] | None = None
    """Distances between two halves of the same system."""
    between: Float[Tensor, "splits systems systems"] | None = None
    """Distances between a half of one system and the other half of another; NaN on the diagonal."""
    delays: int = 0
    """Number of delays of DSA and InputDSA."""
    rank: int = 0
    """Size of the operators of DSA and InputDSA."""
    ranks: tuple[int, ...] = ()
    """Number of coordinates of each system in DSA; operators with fewer than `rank` are padded with zeros."""
    variance: Float[Tensor, " systems"] | None = None
    """Share of the delay-embedded activity that the operators of DSA see."""
    residual: Float[Tensor, "systems systems"] | None = None
    """Norm of the gradient where the alignment of two operators ended; 0 at an optimum."""
    agreement: Float[Tensor, "systems systems"] | None = None
    """Share of the starts of an alignment that reached the same optimum."""
    bound: Float[Tensor, "systems systems"] | None = None
    """A distance that no orthogonal matrix can undercut: the alignment is certainly global where it is reached."""
    state: Float[Tensor, "systems systems"] | None = None
    """Distances of the state operators of InputDSA, under the joint alignment."""
    input: Float[Tensor, "systems systems"] | None = None
    """Distances of the input operators of InputDSA, under the joint alignment."""
    signatures: tuple[str, ...] = ()
    """Fixed points of each network at each constant input, as text."""
    missing: tuple[str, ...] = ()
    """Names of networks for which fixed points are certainly missing."""
    seed: int = 0

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def p_similar(self) -> Float[Tensor, "systems systems"] | None:
        """Share of surrogates that are as close as the system itself, with the system counted; None without a null."""
        if self.null is None:
            return None
        closer = (self.null <= self.distances).sum(0).double()
        return _without_diagonal((1 + closer) / (1 + len(self.null)))

    @cached_property
    def overlap(self) -> Float[Tensor, "systems systems"] | None:
        """Share of splits in which halves of two systems are as close as halves of one of them; None without halves."""
        if self.within is None or self.between is None:
            return None
        larger = torch.maximum(self.within[:, :, None], self.within[:, None, :])
        return _without_diagonal((1 + (self.between <= larger).sum(0).double()) / (1 + len(self.within)))

    def verdict(self, first: int, second: int) -> str:
        """Return the conclusion from the distance of two systems.

        - "same": near, and no further apart than halves of one system;
        - "related": more similar than surrogates, and yet different;
        - "unrelated": different, and no more similar than surrogates;
        - "similar" or "different": only this is shown, or could be tested;
        - "undecided": neither is shown.
        """
        similar = self.p_similar
        alike = similar is not None and float(similar[first, second]) <= LEVEL
        differ = self._differ(first, second)
        if alike:
            return "related" if differ else "same" if self.are_near(first, second) else "similar"
        return "undecided" if not differ else "unrelated" if self.can_show_similarity(first, second) else "different"

    def can_show_similarity(self, first: int, second: int) -> bool:
        """Return whether surrogates are enough, and would be further apart than two equal systems.

        Where networks have few fixed points, surrogates that are drawn from them often equal the network itself.
        """
        if self.null is None or len(self.null) < FEWEST:
            return False
        if self.method != "topology" or self.within is None:
            return True
        equal = self.null[:, first, second] <= self.within[:, [first, second]].max()
        return (1 + int(equal.sum())) / (1 + len(self.null)) <= LEVEL

    def are_near(self, first: int, second: int) -> bool:
        """Return whether two systems are at most half as far apart as surrogates (their median).

        Halves of a few units are hardly more similar than systems that share nothing, whatever the number of trials.
        Then only this distance separates systems that differ from equal ones.
        """
        return self.null is not None and bool(
            self.distances[first, second] <= NEAR * self.null[:, first, second].median()
        )

    def _differ(self, first: int, second: int) -> bool:
        if self.within is None or self.between is None:
            return False
        if self.method == "topology":  # no sample: two searches that find the same points leave nothing to chance
            spread = self.within[:, [first, second]].max()
            return bool((self.between[:, first, second] > spread).all())
        assert self.overlap is not None
        return float(self.overlap[first, second]) <= LEVEL

    @property
    def verdicts(self) -> dict[tuple[str, str], str]:
        """The verdict on each pair of systems."""
        pairs = combinations(range(len(self)), 2)
        return {(self.names[i], self.names[j]): self.verdict(i, j) for i, j in pairs}

    @property
    def bifurcations(self) -> dict[str, list[tuple[int, str, str]]]:
        """Where the fixed points of each network change along the inputs: number of the input, points before and after.

        This is the bifurcation signature if the inputs are the values of a stimulus in order.
        """
        each = {name: text.split("; ") for name, text in zip(self.names, self.signatures, strict=False)}
        return {
            name: [
                (place, texts[place - 1], texts[place])
                for place in range(1, len(texts))
                if texts[place] != texts[place - 1]
            ]
            for name, texts in each.items()
        }

    @property
    def silhouette(self) -> float | None:
        """Mean silhouette of the groups, 1 for perfect separation; None without groups."""
        return float(silhouettes(self.distances, self.groups).mean()) if self._grouped else None

    @cached_property
    def p_groups(self) -> float | None:
        """Share of random assignments to the groups with at least this silhouette; None without groups."""
        return permutation_share(self.distances, self.groups, PERMUTATIONS, self.seed) if self._grouped else None

    @property
    def _grouped(self) -> bool:
        return 1 < len(set(self.groups)) < len(self)

    def embedding(self, dims: int = 2) -> tuple[Float[Tensor, "systems dims"], float]:
        """Return a point for each system by classical scaling, and the relative misfit of the distances."""
        return scale_to_plane(self.distances, dims)

    def summary(self) -> str:
        """Return the range of the distances, the groups, and which pairs are the same, related or undecided."""
        return " ".join(_sentences(self))


def _without_diagonal(square: Tensor) -> Tensor:
    return square.fill_diagonal_(torch.nan)


def _sentences(result: Comparison) -> Iterator[str]:
    pairs = list(combinations(range(len(result)), 2))
    values = [float(result.distances[i, j]) for i, j in pairs]
    nearest, furthest = pairs[values.index(min(values))], pairs[values.index(max(values))]
    unit = {"angular": " rad", "matching": " (0: same, 1: nothing in common)"}.get(result.score, "")
    title = TITLES[result.method][0].upper() + TITLES[result.method][1:]
    if len(pairs) == 1:
        yield f"{title}: {_pair(result, nearest)} are {values[0]:.3g}{unit} apart."
    else:
        yield (
            f"{title} of {len(result)} systems: distances from {min(values):.3g} "
            f"({_pair(result, nearest)}) to {max(values):.3g}{unit} ({_pair(result, furthest)})."
        )
    yield from _sentences_on_groups(result)
    yield from _sentences_on_verdicts(result)
    yield from _sentences_on_trust(result)


def _sentences_on_groups(result: Comparison) -> Iterator[str]:
    if result.silhouette is None:
        return
    yield (
        f"The groups {', '.join(sorted(set(result.groups)))} have a silhouette of {result.silhouette:.2f}; "
        f"{result.p_groups:.2g} of random assignments reach it."
    )


def _sentences_on_verdicts(result: Comparison) -> Iterator[str]:
    pairs = list(combinations(range(len(result)), 2))
    draws = 0 if result.null is None else len(result.null)
    if result.null is None and result.within is None:
        yield "Without null distributions, no distance shows that two systems are the same or different."
        return
    if result.null is None:
        yield "A single input has no other order, so that no similarity is shown."
    if result.within is None:
        halves = HALVES.get(result.method, "trials")
        yield f"There are too few {halves} to divide into halves, so that no difference is shown."
    if 0 < draws < FEWEST:
        yield f"{draws} draws are too few for a share of {LEVEL}: draw {FEWEST} or more."
    elif draws and not all(result.can_show_similarity(*pair) for pair in pairs):
        yield "Of some pairs no similarity could be shown: surrogates of these fixed points often equal them."
    counts = Counter(result.verdicts.values())
    if result.within is not None and counts["similar"]:
        halves = HALVES.get(result.method, "trials")
        yield f"Similar pairs are not near, but a difference is not shown: more {halves} may show it."
    parts_of_one = "two searches" if result.method == "topology" else "halves"
    meanings = {
        "same": f"same (at most half as far apart as surrogates, no further than {parts_of_one} of one system)",
        "related": f"related (closer than surrogates, but further apart than {parts_of_one} of one)",
        "unrelated": f"unrelated (further apart than {parts_of_one} of one, no closer than surrogates)",
        "similar": "similar (closer than surrogates)",
        "different": f"different (further apart than {parts_of_one} of one system)",
        "undecided": "undecided (neither a similarity nor a difference is shown)",
    }
    parts = [f"{counts[verdict]} {meaning}" for verdict, meaning in meanings.items() if counts[verdict]]
    yield f"Of {sum(counts.values())} pair{'s' * (sum(counts.values()) > 1)}: {', '.join(parts)}."


def _sentences_on_trust(result: Comparison) -> Iterator[str]:
    if result.variance is not None and float(result.variance.min()) < 0.9:
        worst = int(result.variance.argmin())
        yield (
            f"The operators see only {result.variance[worst]:.0%} of the variance of {result.names[worst]}: raise rank."
        )
    if result.residual is not None and float(result.residual.max()) > CONVERGED:
        yield f"An alignment ended with a gradient of {result.residual.max():.1e}: its distance is an upper bound."
    changing = {name: len(changes) for name, changes in result.bifurcations.items() if changes}
    if changing:
        counts = ", ".join(f"{number} in {name}" for name, number in changing.items())
        yield f"Along the inputs, fixed points appear, vanish or change their kind: {counts}."
    if result.missing:
        yield f"Fixed points of {', '.join(result.missing)} are certainly missing."


def _pair(result: Comparison, pair: tuple[int, int]) -> str:
    return f"{result.names[pair[0]]} and {result.names[pair[1]]}"
