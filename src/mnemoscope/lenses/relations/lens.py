"""The relations lens: record how alike a relational network finds the objects of problems."""

from __future__ import annotations

from torch import Tensor

from mnemoscope.base.array_types import Int
from mnemoscope.base.progress import show_slow
from mnemoscope.lenses.relations.evaluation import check_comparing, check_kinds, evaluation_mode
from mnemoscope.lenses.relations.result import Relations
from mnemoscope.relational import RelationalModel, Scenes


@show_slow("relations")
def record_relations(model: RelationalModel, scenes: Scenes, kinds: Int[Tensor, " images"] | None = None) -> Relations:
    """Record the matrices by which a model compares objects, before the softmax and as the decoder receives them.

    For CoRelNet and its variants they are similarity matrices, for ESBN the weights and confidences of memory reads,
    for the Abstractor and the transformer the attention of their heads.

    Args:
        model: a relational model. A model without such matrices is refused, with a note on what it does instead.
        scenes: problems, such as the batches of a relational task.
        kinds: the kind of object that each image shows, -1 if it is empty. Two objects are the same if their kinds are
            equal. A task gives them by `task.kinds(scenes.images)`, since it knows which features are irrelevant, such
            as a colour. By default every image shows a different object.

    """
    comparing = check_comparing(model)
    with evaluation_mode(comparing):
        encoded = comparing.encode(scenes.images, scenes.objects)
        scores, names, used = comparing.scores(encoded)
        relations = comparing.compare(encoded)
        logits = comparing.decide(relations, encoded.z if comparing.sensory else None)
    return Relations(
        images=scenes.images.cpu(),
        objects=scenes.objects.cpu(),
        labels=scenes.labels.cpu(),
        logits=logits.cpu(),
        scores=scores.cpu(),
        used=used.cpu(),
        relations=relations.cpu(),
        read=comparing.read.cpu(),
        kinds=check_kinds(kinds, scenes),
        score_names=names,
        relation_names=comparing.relation_names,
    )
