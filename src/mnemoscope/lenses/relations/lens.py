"""The relations of a network on a sample: how alike it finds the objects, and what its decoder gets of that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.lenses.storage import load_result, save_result
from mnemoscope.relational import Comparing, RelationalModel, Scenes
from mnemoscope.tasks.relational import RelationalTask

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 4
"""Relations that are told of in words."""


@dataclass(frozen=True)
class Relations:
    """What a network compares on a batch of problems (Kerg, section 5.5; of ESBN, Webb et al. 2021).

    >>> from mnemoscope.networks.relational import relational_model
    >>> from mnemoscope.tasks.relational import RMTS
    >>> seen = record_relations(relational_model("esbn", RMTS()), RMTS().batch(8, seed=0, number=0))
    >>> seen.relation_names, seen.relations.shape
    (('weights', 'confidences'), torch.Size([8, 2, 6, 6]))
    """

    images: Float[Tensor, "distinct channels height width"]
    objects: Int[Tensor, "batch objects"]
    """Which image each object is."""
    labels: Int[Tensor, " batch"]
    logits: Float[Tensor, "batch choices"]
    scores: Float[Tensor, "batch scores objects objects"]
    """Before the softmax and before rules compete. Row i is of object i with all others."""
    used: Bool[Tensor, "batch scores"]
    """Whether relations are made of them: of rules that compete, one wins."""
    relations: Float[Tensor, "batch relations objects objects"]
    """As the decoder gets them."""
    read: Bool[Tensor, "objects objects"]
    """Which numbers of a relation it reads."""
    kinds: Int[Tensor, " distinct"]
    """Which object each image shows, -1 where there is none."""
    score_names: tuple[str, ...]
    relation_names: tuple[str, ...]

    def __len__(self) -> int:
        """Problems."""
        return len(self.labels)

    @property
    def answers(self) -> Int[Tensor, " batch"]:
        """The choice with the largest logit."""
        return self.logits.argmax(1)

    @property
    def accuracy(self) -> float:
        """Share of problems that are answered right."""
        return float((self.answers == self.labels).double().mean())

    @property
    def same(self) -> Bool[Tensor, "batch objects objects"]:
        """Whether two objects of a problem are the same."""
        return compared(self.kinds, self.objects)[0]

    def read_of(self, alike: bool) -> Float[Tensor, " relations"]:
        """The mean of each relation over what is read of two objects that are the same, or of those that are not; an
        object with itself does not count. NaN where there is no such pair.
        """
        same, different = compared(self.kinds, self.objects)
        chosen = (same if alike else different) & self.read & ~torch.eye(self.objects.shape[1], dtype=torch.bool)
        return self.relations.transpose(0, 1)[:, chosen].mean(1)

    def summary(self) -> str:
        """The result in words."""
        kinds = (("the same", self.read_of(True)), ("different ones", self.read_of(False)))
        told = []
        for r, name in enumerate(self.relation_names[:MOST]):
            means = [f"{float(mean[r]):.3g} of {kind}" for kind, mean in kinds if not mean[r].isnan()]
            told.append(f"{name} {' and '.join(means)}".strip())
        first = f", of the first {MOST} of {len(self.relation_names)}" if len(self.relation_names) > MOST else ""
        return (
            f"{len(self)} problems of {self.objects.shape[1]} objects, {self.accuracy:.1%} of them answered right. "
            f"What the decoder reads of two objects, in the mean{first}: {'; '.join(told)}."
        )

    def __repr__(self) -> str:
        return f"Relations({self.summary()})"

    def save(self, path: str | Path) -> None:
        """Write one `.safetensors` file; `Relations.load` reads it back."""
        tensors = {name: getattr(self, name) for name in _TENSORS}
        save_result(path, "Relations", tensors, {name: getattr(self, name) for name in _NAMES})

    @classmethod
    def load(cls, path: str | Path) -> Relations:
        """Read what `save` wrote."""
        tensors, names = load_result(path, "Relations", "relations")
        score_names, relation_names = (tuple(names[name]) for name in _NAMES)
        return cls(**tensors, score_names=score_names, relation_names=relation_names)

    def figure(self, task: RelationalTask, problem: int = 0) -> Figure:
        """One problem: its images, label and answer, and the matrices beside them (needs the `report` extra)."""
        from mnemoscope.lenses.relations.figure import draw_relations

        return draw_relations(self, task, problem)


_NAMES = ("score_names", "relation_names")
_TENSORS = tuple(field.name for field in fields(Relations) if field.name not in _NAMES)


def compared(
    kinds: Int[Tensor, " images"], objects: Int[Tensor, "batch objects"]
) -> tuple[Bool[Tensor, "batch objects objects"], Bool[Tensor, "batch objects objects"]]:
    """Whether two objects of a problem are the same, and whether they are different; neither where one is none."""
    kind = kinds[objects]
    there = (kind >= 0).unsqueeze(2) & (kind >= 0).unsqueeze(1)
    alike = kind.unsqueeze(2) == kind.unsqueeze(1)
    return there & alike, there & ~alike


def kinds_of(scenes: Scenes, task: RelationalTask | None) -> Int[Tensor, " images"]:
    """Which object each image shows to the task; without one, each shows another."""
    return torch.arange(len(scenes.images)) if task is None else task.kinds(scenes.images.cpu())


def record_relations(model: RelationalModel, scenes: Scenes, task: RelationalTask | None = None) -> Relations:
    """The matrices by which a model compares the objects of problems, before the softmax and as they are decided by.

    Of CoRelNet and its kin they are the similarity matrices, of ESBN the weights and confidences by which memory is
    read, of the Abstractor and the transformer the attention of their heads.

    Args:
        model: a relational model; one that has no such matrix is refused, with a word on what it does instead.
        scenes: problems, as a relational task has them.
        task: that has them, which knows what of an image does not matter, such as a colour, and which show no object;
            without it, two objects are the same if they are one image.

    """
    comparing = check_comparing(model)
    with at_rest(comparing):
        seen = comparing.see(scenes.images, scenes.objects)
        scores, names, used = comparing.scores(seen)
        matrices = comparing.compare(seen)
        logits = comparing.decide(matrices, seen.z if comparing.sensory else None)
    found = (scenes.images, scenes.objects, scenes.labels, logits, scores, used, matrices, comparing.read,
             kinds_of(scenes, task))  # fmt: skip
    tensors = dict(zip(_TENSORS, (tensor.cpu() for tensor in found), strict=True))
    return Relations(**tensors, score_names=names, relation_names=comparing.relation_names)


def check_comparing(model: RelationalModel) -> Comparing:
    """The model, if it has relations."""
    if isinstance(model, Comparing):
        return model
    if isinstance(model, RelationalModel):
        raise TypeError(f"A {type(model).__name__} has no matrix of how alike its objects are: {model.instead}.")
    raise TypeError(f"Relations are those of a RelationalModel, but a {type(model).__name__} was given.")


@contextmanager
def at_rest(model: RelationalModel) -> Iterator[None]:
    """Nothing is drawn at random, and no gradient is kept; afterwards the model is as it was."""
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(training)
