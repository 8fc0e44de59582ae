"""The emergent symbol binding network: keys for what was seen, and a controller that sees nothing but keys."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.relational.comparing import Comparing, Scores
from mnemoscope.relational.corelnet import Kind, check_segments, similarity_of
from mnemoscope.relational.layers import layer, lstm
from mnemoscope.relational.network import Options, Seen, Sized
from mnemoscope.relational.similarity import Rows

KEY, HIDDEN = 256, 512


class ESBN(Comparing):
    """Two memories, one of normalised objects z, one of keys that an LSTM wrote for them (Webb et al. 2021).

    At step t the LSTM reads the key that was found at the step before, and writes a key k_t = relu(W h) and a gate g.
    Object z_t is then compared with those stored: with `w = softmax_i(z_t . z_i)` and confidences
    `c_i = sigmoid(gain z_t . z_i + bias)` the key found is `g sum_i w_i [k_i; c_i]`, and 0 while nothing is stored;
    z_t and k_t are then stored. One more step reads the last key, and its h answers.

    As objects meet keys in the scores of pairs only, weights and confidences are taken at once: they are its relations.

    Args:
        problem: the task, or its sizes.
        similarity: that scores are taken from, "symmetric" as published; "asymmetric" as in Kerg, section 7.2.
        sensory: append z_t to the key that the LSTM reads (Kerg, Fig 4); at the last step it is 0.
        options: `segmented`, `trained_encoder` and `l1`, as for every `RelationalModel`.

    >>> from mnemoscope.relational.network import Sizes
    >>> sum(weight.numel() for weight in ESBN(Sizes(objects=6, choices=2)).parameters())
    1910757

    """

    def __init__(
        self, problem: Sized, *, similarity: Kind = "symmetric", sensory: bool = False, **options: Unpack[Options]
    ) -> None:  # fmt: skip
        super().__init__(problem, **options)
        check_segments(similarity, sensory, **options)
        self.similarity = similarity_of(similarity, self.features, self.objects)
        self.sensory = sensory
        self.controller = lstm(KEY + 1 + (self.features if sensory else 0), HIDDEN)
        self.write = layer(HIDDEN, KEY, "relu")
        self.gate = layer(HIDDEN, 1)
        self.gain = nn.Parameter(torch.ones(1))
        self.bias = nn.Parameter(torch.zeros(1))
        self.out = layer(HIDDEN, self.choices)

    def scores(self, seen: Seen) -> Scores:
        return self.similarity.parts(seen)

    def compare(self, seen: Seen) -> Float[Tensor, "batch relations objects objects"]:
        """Weights w and confidences c of those stored before each object."""
        scores = self.similarity.scores(seen).squeeze(1)  # (batch, objects, objects)
        weights = Rows().softmax(scores[:, 1:, :-1])  # a row has what comes before its object
        confidence = torch.sigmoid(self.gain * scores + self.bias).tril(-1)
        return torch.stack([pad(weights, (0, 1, 1, 0)), confidence], dim=1)

    def decide(
        self,
        relations: Float[Tensor, "batch relations objects objects"],
        z: Float[Tensor, "batch objects features"] | None,
    ) -> Float[Tensor, "batch choices"]:
        weights, confidence = relations.unbind(1)
        sure = (weights * confidence).sum(2, keepdim=True)
        state = self.controller.initial_state(len(weights))
        found = weights.new_zeros(len(weights), KEY + 1)
        keys: list[Tensor] = []
        for t in range(self.objects):
            state = self.controller(self._read(found, z, t), state)
            if keys:
                recalled = (weights[:, t, None, :t] @ torch.stack(keys, 1)).squeeze(1)
                found = torch.sigmoid(self.gate(state.h)) * torch.cat([recalled, sure[:, t]], dim=1)
            keys.append(torch.relu(self.write(state.h)))
        return self.out(self.controller(self._read(found, z, self.objects), state).h)

    @property
    def read(self) -> Bool[Tensor, "objects objects"]:
        return torch.ones(self.objects, self.objects, dtype=torch.bool).tril(-1)

    @property
    def relation_names(self) -> tuple[str, ...]:
        return ("weights", "confidences")

    def _read(self, found: Tensor, z: Tensor | None, t: int) -> Tensor:
        """What the controller reads at step t."""
        if z is None:
            return found
        return torch.cat([found, z[:, t] if t < self.objects else torch.zeros_like(z[:, 0])], dim=1)
