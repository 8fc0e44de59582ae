"""The drift lens: how well an encoder separates objects that it was not trained with, before and after training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isnan, log, nan
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.base.progress import show_slow
from mnemoscope.lenses.relations.evaluation import check_kinds, evaluation_mode, same_and_different
from mnemoscope.lenses.result import Result
from mnemoscope.relational import RelationalModel, Scenes

MISTAKEN = 0.5
"""An object is mistaken for another if a softmax gives that one more than this share of what it gives to itself."""


class ConfusedPair(NamedTuple):
    """Two images of a set of problems that the network mistakes for each other."""

    first: int
    second: int
    mistakes: int
    """How often an object of one image was mistaken for one of the other."""
    occurrences: int
    """How often objects of both images occurred in one problem."""


@dataclass(frozen=True, repr=False)
class Drift(Result):
    """Similarities `z_i . z_j` of the normalised objects of problems, by network and by set of problems.

    CoRelNet and ESBN compare objects by these similarities (Kerg, section 5.5); every model has them.
    """

    noun: ClassVar[str] = "the drift of an encoder"
    drawn_by: ClassVar[str] = "draw_drift"

    networks: tuple[str, ...]
    sets: tuple[str, ...]
    similarities: Float[Tensor, "networks sets problems objects objects"]
    same: Bool[Tensor, "sets problems objects objects"]
    """Whether two objects are the same; False if either is empty."""
    different: Bool[Tensor, "sets problems objects objects"]
    """Whether two objects differ; False if either is empty."""
    right: Bool[Tensor, "networks sets problems"]
    """Whether a problem is answered correctly."""

    def pairs(self, network: int, problem_set: int) -> tuple[Float[Tensor, " same"], Float[Tensor, " different"]]:
        """Return the similarities of pairs of the same objects, and of different ones, each pair once."""
        z = self.similarities[network, problem_set]
        above = torch.ones(z.shape[-2:], dtype=torch.bool).triu(1)
        return z[self.same[problem_set] & above], z[self.different[problem_set] & above]

    @property
    def mistaken(self) -> Bool[Tensor, "networks sets problems objects objects"]:
        """Whether object i is mistaken for object j: they differ, but `z_i . z_j - z_i . z_i > log 1/2`.

        A softmax over row i then gives object j more than half of what it gives to object i itself.
        """
        itself = self.similarities.diagonal(dim1=-2, dim2=-1).unsqueeze(-1)
        return (self.similarities - itself > log(MISTAKEN)) & self.different

    @property
    def mistakes(self) -> Float[Tensor, "networks sets"]:
        """Share of the pairs (i, j) of different objects in which i is mistaken for j."""
        return self.mistaken.sum((2, 3, 4)) / self.different.sum((1, 2, 3)).double()

    @property
    def affected(self) -> Float[Tensor, "networks sets"]:
        """Share of problems with a mistaken pair."""
        return self.mistaken.any(-1).any(-1).double().mean(-1)

    def accuracy(self, affected: bool) -> Float[Tensor, "networks sets"]:
        """Return the accuracy on problems with a mistaken pair, or on those without; NaN if there are none."""
        chosen = self.mistaken.any(-1).any(-1) == affected
        return (self.right & chosen).sum(-1).double() / chosen.sum(-1)

    def confused_pairs(
        self, network: int, problem_set: int, objects: Int[Tensor, "problems objects"]
    ) -> list[ConfusedPair]:
        """Return the pairs of images that are mistaken for each other, the most frequent first.

        `network` and `problem_set` are indices; `objects` are the images of the objects in these problems.
        """
        different = self.different[problem_set]
        first, second = objects.unsqueeze(2).expand_as(different), objects.unsqueeze(1).expand_as(different)
        occurrences = Counter(_unordered(first[different], second[different]))
        wrong = self.mistaken[network, problem_set]
        mistakes = Counter(_unordered(first[wrong], second[wrong]))
        return [ConfusedPair(*pair, count, occurrences[pair]) for pair, count in mistakes.most_common()]

    @property
    def d_prime(self) -> Float[Tensor, "networks sets"]:
        """`(mean_same - mean_different) / sqrt((var_same + var_different) / 2)`, with unbiased variances."""
        return self._separation(d_prime)

    @property
    def auc(self) -> Float[Tensor, "networks sets"]:
        """Probability that a random same pair is more similar than a random different pair; ties count half."""
        return self._separation(auc)

    def summary(self) -> str:
        parts = []
        for n, network in enumerate(self.networks):
            shares = [f"{float(self.mistakes[n, s]):.2%} ({name})" for s, name in enumerate(self.sets)]
            parts.append(f"{network} {', '.join(shares)}")
        n, s = divmod(int(self.affected.flatten().argmax()), len(self.sets))
        sentence = f"Share of pairs of different objects that are mistaken for each other: {'; '.join(parts)}."
        if float(self.affected[n, s]) == 0:
            return sentence
        with_mistake, without = (float(self.accuracy(affected)[n, s]) for affected in (True, False))
        others = "" if isnan(without) else f", compared with {without:.1%} of the others"
        return (
            f"{sentence} {self.networks[n].capitalize()}, {float(self.affected[n, s]):.1%} of the problems with "
            f"{self.sets[s]} objects have such a pair; {with_mistake:.1%} of them are answered correctly{others}."
        )

    def _separation(self, measure: Callable[[Tensor, Tensor], float]) -> Float[Tensor, "networks sets"]:
        networks, sets = range(len(self.networks)), range(len(self.sets))
        return torch.tensor([[measure(*self.pairs(n, s)) for s in sets] for n in networks], dtype=torch.float64)


@show_slow("drift")
def measure_drift(
    networks: Mapping[str, RelationalModel],
    problems: Mapping[str, Scenes],
    kinds: Mapping[str, Int[Tensor, " images"]] | None = None,
) -> Drift:
    """Measure how similar same and different objects are to each network, in each set of problems.

    Args:
        networks: by name, such as before and after training.
        problems: sets of problems by name, such as with seen and with unseen shapes; all of the same size.
        kinds: for each set, the kind of object that each image shows, as in `record_relations`. By default every image
            shows a different object.

    """
    if not networks or not problems:
        raise ValueError("There must be at least one network and one set of problems.")
    shapes = {name: tuple(scenes.objects.shape) for name, scenes in problems.items()}
    if len(set(shapes.values())) > 1:
        raise ValueError(f"All sets must have as many problems and objects, but have (problems, objects) = {shapes}.")
    similarities, right = [], []
    for model in networks.values():
        with evaluation_mode(model):
            seen = [model.encode(scenes.images, scenes.objects) for scenes in problems.values()]
            similarities.append(torch.stack([objects.z @ objects.z.mT for objects in seen]).cpu())
            answers = [model.answer(objects).argmax(1) for objects in seen]
            labels = [scenes.labels for scenes in problems.values()]
            right.append((torch.stack(answers) == torch.stack(labels)).cpu())
    pairs = [
        same_and_different(check_kinds(None if kinds is None else kinds[name], scenes), scenes.objects.cpu())
        for name, scenes in problems.items()
    ]
    same, different = (torch.stack(parts) for parts in zip(*pairs, strict=True))
    return Drift(tuple(networks), tuple(problems), torch.stack(similarities), same, different, torch.stack(right))


def d_prime(same: Float[Tensor, " same"], different: Float[Tensor, " different"]) -> float:
    """Return the distance of the means, divided by the root of the mean variance; NaN if a sample has fewer than 2.

    >>> round(d_prime(torch.tensor([3.0, 5.0]), torch.tensor([-1.0, 1.0])), 6)
    2.828427
    """
    if min(len(same), len(different)) < 2:
        return nan
    distance = same.double().mean() - different.double().mean()
    return float(distance / torch.sqrt((same.double().var() + different.double().var()) / 2))


def auc(same: Float[Tensor, " same"], different: Float[Tensor, " different"]) -> float:
    """Return the probability that a draw from `same` exceeds a draw from `different`; ties count half.

    It is `(sum of the ranks of same - n (n + 1) / 2) / (n m)` for samples of sizes n and m, with ranks in the joint
    sample, averaged over ties (Mann & Whitney 1947). It is NaN if a sample is empty.

    >>> auc(torch.tensor([2.0, 3.0]), torch.tensor([1.0, 2.0]))
    0.875
    """
    from scipy.stats import rankdata  # not at the top: importing it takes 0.8 s

    n, m = len(same), len(different)
    ranks = rankdata(torch.cat([same, different]).numpy())
    return float((ranks[:n].sum() - n * (n + 1) / 2) / (n * m)) if n and m else nan


def _unordered(first: Tensor, second: Tensor) -> list[tuple[int, int]]:
    low, high = torch.minimum(first, second), torch.maximum(first, second)
    return list(zip(low.tolist(), high.tolist(), strict=True))
