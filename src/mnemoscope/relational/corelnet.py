"""CoRelNet and its variants: encoder, context normalisation, similarity and decoder (Kerg, chapters 5 and 7)."""

from __future__ import annotations

from typing import Literal, Unpack, get_args

from torch import Tensor

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.relational.decoders import MLPDecoder, PairsDecoder, RecurrentDecoder, TransformerDecoder
from mnemoscope.relational.network import EncodedObjects, ModelOptions, ProblemLike
from mnemoscope.relational.similarity import (
    Asymmetric,
    Difference,
    Distance,
    Mixture,
    RelationMask,
    Similarity,
    Symmetric,
)
from mnemoscope.relational.similarity_model import Scores, SimilarityModel, numbered_names

Kind = Literal["symmetric", "asymmetric", "difference", "distance", "mixture"]
Decoder = Literal["mlp", "transformer", "recurrent", "pairs"]
HIDDEN = 256
"""Default units of the hidden layer of the decoders "mlp" and "pairs"."""


class CoRelNet(SimilarityModel):
    """A network whose decoder sees only the similarities between objects.

    Args:
        problem: the task, or the sizes of its problems.
        similarity: "symmetric", `z z^T`; "asymmetric"; "difference"; "distance", not in the thesis; or
            "mixture", in which symmetric and difference compete.
        relations: number of relation matrices; more than one is not in the thesis.
        decoder: "mlp"; "transformer", CoRelNet-T; "recurrent"; or "pairs", with the same layers for all pairs.
        causal: compare an object with itself and the objects before it, which matches the published numbers of
            parameters; False for all pairs, as printed.
        hidden: units of the hidden layer of "mlp" and "pairs"; the other decoders have none.
        sensory: append the normalised objects to the input of the decoder.
        options: `segmented`, `trained_encoder` and `l1` of `RelationalModel`.

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

    def compare(self, encoded: EncodedObjects) -> Float[Tensor, "batch relations objects objects"]:
        return self.similarity(encoded)

    def decide(
        self,
        relations: Float[Tensor, "batch relations objects objects"],
        z: Float[Tensor, "batch objects features"] | None,
    ) -> Float[Tensor, "batch choices"]:
        return self.decoder(relations, z)

    @property
    def read(self) -> Bool[Tensor, "objects objects"]:
        read = self.similarity.mask.matrix(self.objects)
        return read.fill_diagonal_(False) if isinstance(self.decoder, PairsDecoder) else read

    @property
    def relation_names(self) -> tuple[str, ...]:
        return numbered_names("relation", self.similarity.relations)


def check_segments(kind: Kind, sensory: bool, **options: Unpack[ModelOptions]) -> None:
    """Raise if the model has segments but reads nothing that is normalised."""
    if kind == "distance" and options.get("segmented") and not sensory:
        raise ValueError(
            "Distances use objects that are not normalised, so that segments would change nothing: omit segmented."
        )


def build_similarity(
    kind: Kind, features: int, objects: int, relations: int = 1, mask: RelationMask | None = None
) -> Similarity:
    """Build a similarity by its name."""
    simple = {"symmetric": Symmetric, "asymmetric": Asymmetric, "difference": Difference, "distance": Distance}
    if kind in simple:
        return simple[kind](features, relations, mask)
    if kind == "mixture":
        rules = [Symmetric(features, relations, mask), Difference(features, relations, mask)]
        return Mixture(rules, features, objects)
    raise ValueError(f"similarity must be one of {', '.join(map(repr, get_args(Kind)))}, but is {kind!r}.")
