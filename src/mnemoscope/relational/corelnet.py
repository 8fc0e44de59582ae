"""CoRelNet and its variants: encoder, context normalisation, similarity and decoder (Kerg, chapters 5 and 7)."""

from __future__ import annotations

from typing import Literal, Unpack, get_args

from torch import Tensor

from mnemoscope.base.array_types import Bool
from mnemoscope.relational.decoders import MLPDecoder, PairsDecoder, RecurrentDecoder, TransformerDecoder
from mnemoscope.relational.network import EncodedObjects, Logits, ModelOptions, Objects, ProblemLike, Relations
from mnemoscope.relational.similarity import Kind, RelationMask, build_similarity, check_segments
from mnemoscope.relational.similarity_model import Scores, SimilarityModel, numbered_names

Decoder = Literal["mlp", "transformer", "recurrent", "pairs"]
HIDDEN = 256
"""Default units of the hidden layer of the decoders "mlp" and "pairs"."""


class CoRelNet(SimilarityModel):
    """A network whose decoder sees only the similarities between objects.

    Args:
        similarity: "symmetric", `z z^T`; "asymmetric"; "difference"; "distance", not in the thesis; or
            "mixture", in which symmetric and difference compete.
        relations: number of relation matrices; more than one is not in the thesis.
        decoder: "mlp"; "transformer", CoRelNet-T; "recurrent"; or "pairs", with the same layers for all pairs.
        causal: compare an object with itself and the objects before it, which matches the published numbers of
            parameters; False for all pairs, as printed.
        hidden: units of the hidden layer of "mlp" and "pairs"; the other decoders have none.
        sensory: append the normalised objects to the input of the decoder.

    >>> from mnemoscope.relational.network import Sizes
    >>> rmts = CoRelNet(Sizes(objects=6, choices=2))
    >>> sum(weight.numel() for weight in rmts.parameters())
    205026

    """

    def __init__(
        self,
        problem: ProblemLike,
        *,
        similarity: Kind = "symmetric",
        relations: int = 1,
        decoder: Decoder = "mlp",
        causal: bool = True,
        hidden: int = HIDDEN,
        sensory: bool = False,
        **options: Unpack[ModelOptions],
    ) -> None:
        super().__init__(problem, **options)
        check_segments(similarity, sensory, **options)
        if decoder in ("transformer", "recurrent") and hidden != HIDDEN:
            raise ValueError(
                f"hidden applies to the decoders 'mlp' and 'pairs', but the decoder is {decoder!r}: omit it."
            )
        mask = RelationMask(causal)
        self.sensory = sensory
        self.similarity = build_similarity(similarity, self.features, self.objects, relations, mask)
        features = self.features if sensory else 0
        if decoder == "mlp":
            self.decoder = MLPDecoder(self.objects, self.choices, relations, mask, hidden, features)
        elif decoder == "transformer":
            self.decoder = TransformerDecoder(self.objects, self.choices, relations, features)
        elif decoder == "recurrent":
            self.decoder = RecurrentDecoder(self.objects, self.choices, relations, sensory=features)
        elif decoder == "pairs":
            self.decoder = PairsDecoder(self.objects, self.choices, relations, mask, hidden, features)
        else:
            raise ValueError(f"decoder must be one of {', '.join(map(repr, get_args(Decoder)))}, but is {decoder!r}.")

    def scores(self, encoded: EncodedObjects) -> Scores:
        return self.similarity.parts(encoded)

    def compare(self, encoded: EncodedObjects) -> Relations:
        return self.similarity(encoded)

    def decide(self, relations: Relations, z: Objects | None) -> Logits:
        return self.decoder(relations, z)

    @property
    def read(self) -> Bool[Tensor, "objects objects"]:
        read = self.similarity.mask.matrix(self.objects)
        return read.fill_diagonal_(False) if isinstance(self.decoder, PairsDecoder) else read

    @property
    def relation_names(self) -> tuple[str, ...]:
        return numbered_names("relation", self.similarity.relations)
