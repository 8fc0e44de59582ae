"""Drift of an encoder: how well it keeps objects apart that it was never trained with, before and after training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isnan, log, nan
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.lenses.relations.lens import at_rest, compared, kinds_of
from mnemoscope.lenses.storage import load_result, save_result
from mnemoscope.relational import RelationalModel, Scenes
from mnemoscope.tasks.relational import RelationalTask

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MISTAKEN = 0.5
"""Of what an object gives to itself, in a softmax; what gives more to a different one mistakes it."""


class Confused(NamedTuple):
    """Two images of a set of problems of which one is mistaken for the other."""

    one: int
    other: int
    times: int
    """That an object was mistaken for one of the other image."""
    of: int
    """Times that objects of both images stood in a problem."""


@dataclass(frozen=True)
class Drift:
    """Similarities `z_i . z_j` of the normalised objects of problems, by networks and by sets of problems.

    They are what CoRelNet and ESBN compare (Kerg, section 5.5), and can be had of every model.
    """

    networks: tuple[str, ...]
    sets: tuple[str, ...]
    similarities: Float[Tensor, "networks sets problems objects objects"]
    same: Bool[Tensor, "sets problems objects objects"]
    """Whether two objects are the same."""
    different: Bool[Tensor, "sets problems objects objects"]
    """Whether they are not; of two of which one is an empty place neither is said."""
    right: Bool[Tensor, "networks sets problems"]
    """Whether a problem is answered right."""

    def pairs(self, network: int, of: int) -> tuple[Float[Tensor, " same"], Float[Tensor, " different"]]:
        """The similarities of two objects that are the same, and of two that are not, each pair once."""
        z = self.similarities[network, of]
        above = torch.ones(z.shape[-2:], dtype=torch.bool).triu(1)
        return z[self.same[of] & above], z[self.different[of] & above]

    @property
    def mistaken(self) -> Bool[Tensor, "networks sets problems objects objects"]:
        """Whether objects i and j are different, but `z_i . z_j - z_i . z_i > log 1/2`: a softmax over the row of i
        gives the other one more than half of what it gives to i itself.
        """
        own = self.similarities.diagonal(dim1=-2, dim2=-1).unsqueeze(-1)
        return (self.similarities - own > log(MISTAKEN)) & self.different

    @property
    def mistakes(self) -> Float[Tensor, "networks sets"]:
        """Share of the pairs (i, j) of different objects that are mistaken for one another."""
        return self.mistaken.sum((2, 3, 4)) / self.different.sum((1, 2, 3)).double()

    @property
    def troubled(self) -> Float[Tensor, "networks sets"]:
        """Share of problems in which some pair is mistaken."""
        return self.mistaken.any(-1).any(-1).double().mean(-1)

    def accuracy(self, troubled: bool) -> Float[Tensor, "networks sets"]:
        """Share of problems that are answered right, of those in which some pair is mistaken, or of those in which none
        is; NaN where there are no such problems.
        """
        chosen = self.mistaken.any(-1).any(-1) == troubled
        return (self.right & chosen).sum(-1).double() / chosen.sum(-1)

    def confused(self, network: int, of: int, objects: Int[Tensor, "problems objects"]) -> list[Confused]:
        """Pairs of images that are mistaken for one another, those first with which it happens most often.

        Args:
            network: whose, counted as in `networks`.
            of: the set of problems, counted as in `sets`.
            objects: which image each object of these problems is.

        """
        first, second = objects.unsqueeze(2).expand_as(self.same[of]), objects.unsqueeze(1).expand_as(self.same[of])
        there = Counter(_unordered(first[self.different[of]], second[self.different[of]]))
        wrong = self.mistaken[network, of]
        times = Counter(_unordered(first[wrong], second[wrong]))
        return [Confused(*pair, often, there[pair]) for pair, often in times.most_common()]

    @property
    def d_prime(self) -> Float[Tensor, "networks sets"]:
        """`(mean_same - mean_different) / sqrt((var_same + var_different) / 2)`, with unbiased variances."""
        return self._of_all(d_prime)

    @property
    def auc(self) -> Float[Tensor, "networks sets"]:
        """The chance that of a same and a different pair, drawn at random, the same one is more alike; ties half."""
        return self._of_all(auc)

    def summary(self) -> str:
        """The result in words."""
        told = []
        for n, network in enumerate(self.networks):
            each = [f"{float(self.mistakes[n, s]):.2%} of {name} ones" for s, name in enumerate(self.sets)]
            told.append(f"{network} {', '.join(each)}")
        n, s = divmod(int(self.troubled.flatten().argmax()), len(self.sets))
        words = f"Pairs of different objects that are mistaken for one another: {'; '.join(told)}."
        if float(self.troubled[n, s]) == 0:
            return words
        bad, good = (float(self.accuracy(troubled)[n, s]) for troubled in (True, False))
        without = "" if isnan(good) else f", of problems without {good:.1%}"
        return (
            f"{words} {self.networks[n].capitalize()} {float(self.troubled[n, s]):.1%} of problems of {self.sets[s]} "
            f"objects have such a pair, and {bad:.1%} of them are answered right{without}."
        )

    def __repr__(self) -> str:
        return f"Drift({self.summary()})"

    def save(self, path: str | Path) -> None:
        """Write one `.safetensors` file; `Drift.load` reads it back."""
        names = ("similarities", "same", "different", "right")
        tensors = {name: getattr(self, name) for name in names}
        save_result(path, "Drift", tensors, {"networks": self.networks, "sets": self.sets})

    @classmethod
    def load(cls, path: str | Path) -> Drift:
        """Read what `save` wrote."""
        tensors, names = load_result(path, "Drift", "the drift of an encoder")
        return cls(tuple(names["networks"]), tuple(names["sets"]), **tensors)

    def figure(self) -> Figure:
        """The similarities of same and of different pairs as histograms (needs the `report` extra)."""
        from mnemoscope.lenses.relations.figure import draw_drift

        return draw_drift(self)

    def _of_all(self, separation: Callable[[Tensor, Tensor], float]) -> Float[Tensor, "networks sets"]:
        networks, sets = range(len(self.networks)), range(len(self.sets))
        return torch.tensor([[separation(*self.pairs(n, s)) for s in sets] for n in networks], dtype=torch.float64)


def measure_drift(
    networks: Mapping[str, RelationalModel], problems: Mapping[str, Scenes], task: RelationalTask | None = None
) -> Drift:
    """How alike same and different objects are to each network, in each set of problems.

    Args:
        networks: by name, such as before and after training.
        problems: by name, such as of shapes that were trained with and of others; as many in each.
        task: that has them, which knows what of an image does not matter, such as a colour, and which show no object;
            without it, two objects are the same if they are one image.

    """
    if not networks or not problems:
        raise ValueError("There must be at least one network and one set of problems.")
    shapes = {name: tuple(scenes.objects.shape) for name, scenes in problems.items()}
    if len(set(shapes.values())) > 1:
        raise ValueError(f"All sets must have as many problems and objects, but have (problems, objects) = {shapes}.")
    similarities, right = [], []
    for model in networks.values():
        with at_rest(model):
            seen = [model.see(scenes.images, scenes.objects) for scenes in problems.values()]
            similarities.append(torch.stack([each.z @ each.z.mT for each in seen]).cpu())
            answers = [model.answer(each).argmax(1) for each in seen]
            labels = [scenes.labels for scenes in problems.values()]
            right.append((torch.stack(answers) == torch.stack(labels)).cpu())
    pairs = [compared(kinds_of(scenes, task), scenes.objects.cpu()) for scenes in problems.values()]
    same, different = (torch.stack(each) for each in zip(*pairs, strict=True))
    return Drift(tuple(networks), tuple(problems), torch.stack(similarities), same, different, torch.stack(right))


def _unordered(first: Tensor, second: Tensor) -> list[tuple[int, int]]:
    low, high = torch.minimum(first, second), torch.maximum(first, second)
    return list(zip(low.tolist(), high.tolist(), strict=True))


def d_prime(same: Float[Tensor, " same"], different: Float[Tensor, " different"]) -> float:
    """How many standard deviations the means are apart, the variance being the mean of both; NaN where either has fewer
    than 2.

    >>> round(d_prime(torch.tensor([3.0, 5.0]), torch.tensor([-1.0, 1.0])), 6)
    2.828427
    """
    if min(len(same), len(different)) < 2:
        return nan
    apart = same.double().mean() - different.double().mean()
    return float(apart / torch.sqrt((same.double().var() + different.double().var()) / 2))


def auc(same: Float[Tensor, " same"], different: Float[Tensor, " different"]) -> float:
    """The chance that one drawn from `same` is larger than one drawn from `different`; ties count half. NaN where there
    is none to draw.

    It is `(sum of the ranks of same - n (n + 1) / 2) / (n m)`, n and m being how many there are, and ranks those among
    all, means of ties (Mann & Whitney 1947).

    >>> auc(torch.tensor([2.0, 3.0]), torch.tensor([1.0, 2.0]))
    0.875
    """
    from scipy.stats import rankdata  # not above: it takes 0.8 s to import

    n, m = len(same), len(different)
    ranks = rankdata(torch.cat([same, different]).numpy())
    return float((ranks[:n].sum() - n * (n + 1) / 2) / (n * m)) if n and m else nan
