"""The emergent symbol binding network (ESBN): a controller that sees keys instead of the objects they stand for."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from mnemoscope.base.array_types import Bool
from mnemoscope.relational.layers import layer, lstm
from mnemoscope.relational.network import EncodedObjects, Logits, ModelOptions, Objects, ProblemLike, Relations
from mnemoscope.relational.similarity import Kind, RelationMask, build_similarity, check_segments
from mnemoscope.relational.similarity_model import Scores, SimilarityModel

KEY, HIDDEN = 256, 512
"""Length of a key, and units of the controller."""


class ESBN(SimilarityModel):
    """Two memories: normalised objects z, and keys that an LSTM writes for them (Webb et al. 2021).

    At step t the LSTM reads the key retrieved at the previous step, and writes a key `k_t = relu(W h)` and a gate g.
    Object z_t is then compared with the stored objects: with `w = softmax_i(z_t . z_i)` and confidences
    `c_i = sigmoid(gain z_t . z_i + bias)`, the retrieved key is `g sum_i w_i [k_i; c_i]`, or 0 while the memory is
    empty. Then z_t and k_t are stored. An extra step reads the last key, and its h gives the answer.

    Objects influence keys only through the scores of pairs, so that the weights and confidences of all steps can be
    computed beforehand: they are the relations of this model.

    Args:
        similarity: the similarity of objects: "symmetric" as published, "asymmetric" as in Kerg, section 7.2.
        sensory: append z_t to the key that the LSTM reads (Kerg, Fig 4), and 0 at the extra step.

    >>> from mnemoscope.relational.network import Sizes
    >>> sum(weight.numel() for weight in ESBN(Sizes(objects=6, choices=2)).parameters())
    1910757

    """

    def __init__(
        self,
        problem: ProblemLike,
        *,
        similarity: Kind = "symmetric",
        sensory: bool = False,
        **options: Unpack[ModelOptions],
    ) -> None:
        super().__init__(problem, **options)
        check_segments(similarity, sensory, **options)
        self.similarity = build_similarity(similarity, self.features, self.objects)
        self.sensory = sensory
        self.controller = lstm(KEY + 1 + (self.features if sensory else 0), HIDDEN)
        self.write = layer(HIDDEN, KEY, "relu")
        self.gate = layer(HIDDEN, 1)
        self.gain = nn.Parameter(torch.ones(1))
        self.bias = nn.Parameter(torch.zeros(1))
        self.out = layer(HIDDEN, self.choices)

    def scores(self, encoded: EncodedObjects) -> Scores:
        return self.similarity.parts(encoded)

    def compare(self, encoded: EncodedObjects) -> Relations:
        """Return the weights w and confidences c of the objects stored before each object."""
        scores = self.similarity.scores(encoded).squeeze(1)  # (batch, objects, objects)
        weights = RelationMask().softmax(scores[:, 1:, :-1])  # a row holds the objects before its object
        confidence = torch.sigmoid(self.gain * scores + self.bias).tril(-1)
        return torch.stack([pad(weights, (0, 1, 1, 0)), confidence], dim=1)

    def decide(self, relations: Relations, z: Objects | None) -> Logits:
        weights, confidence = relations.unbind(1)
        mean_confidence = (weights * confidence).sum(2, keepdim=True)
        state = self.controller.initial_state(len(weights))
        retrieved = weights.new_zeros(len(weights), KEY + 1)
        keys: list[Tensor] = []
        for t in range(self.objects):
            state = self.controller(self._input(retrieved, z, t), state)
            if keys:
                key = (weights[:, t, None, :t] @ torch.stack(keys, 1)).squeeze(1)
                retrieved = torch.sigmoid(self.gate(state.h)) * torch.cat([key, mean_confidence[:, t]], dim=1)
            keys.append(torch.relu(self.write(state.h)))
        return self.out(self.controller(self._input(retrieved, z, self.objects), state).h)

    @property
    def read(self) -> Bool[Tensor, "objects objects"]:
        return torch.ones(self.objects, self.objects, dtype=torch.bool).tril(-1)

    @property
    def relation_names(self) -> tuple[str, ...]:
        return ("weights", "confidences")

    def _input(self, retrieved: Tensor, z: Tensor | None, t: int) -> Tensor:
        """Return the input of the controller at step t."""
        if z is None:
            return retrieved
        return torch.cat([retrieved, z[:, t] if t < self.objects else torch.zeros_like(z[:, 0])], dim=1)
