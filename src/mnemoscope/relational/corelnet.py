"""CoRelNet and its variants: an encoder, context normalisation, similarity and decoder (Kerg, chapters 5 and 7)."""

from __future__ import annotations

from typing import Literal, Unpack, get_args

from torch import Tensor

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.relational.comparing import Comparing, Scores, numbered
from mnemoscope.relational.decoders import MLPDecoder, PairsDecoder, RecurrentDecoder, TransformerDecoder
from mnemoscope.relational.network import Options, Seen, Sized
from mnemoscope.relational.similarity import Asymmetric, Difference, Distance, Mixture, Rows, Similarity, Symmetric

Kind = Literal["symmetric", "asymmetric", "difference", "distance", "mixture"]
Decoder = Literal["mlp", "transformer", "recurrent", "pairs"]
HIDDEN = 256


class CoRelNet(Comparing):
    """Objects are compared with each other, and a decoder sees nothing but how alike they are.

    Args:
        problem: the task, or its sizes.
        similarity: "symmetric", `z z^T`; "asymmetric"; "difference"; "distance", beyond the thesis; or "mixture",
            for which symmetric and difference compete.
        relations: how many of that kind; beyond the thesis where there are several.
        decoder: "mlp"; "transformer", CoRelNet-T; "recurrent"; or "pairs", the same layers for all pairs of objects.
        causal: compare an object with itself and those before it, as the published numbers of parameters count; False
            for all pairs, as printed.
        hidden: units of the hidden layer of "mlp" and "pairs"; the other decoders have none.
        sensory: append the normalised objects to what the decoder sees.
        options: `segmented`, `trained_encoder` and `l1`, as for every `RelationalModel`.

    >>> from mnemoscope.relational.network import Sizes
    >>> rmts = CoRelNet(Sizes(objects=6, choices=2))
    >>> sum(weight.numel() for weight in rmts.parameters())
    205026

    """

    def __init__(
        self, problem: Sized, *, similarity: Kind = "symmetric", relations: int = 1, decoder: Decoder = "mlp",
        causal: bool = True, hidden: int = HIDDEN, sensory: bool = False, **options: Unpack[Options],
    ) -> None:  # fmt: skip
        super().__init__(problem, **options)
        check_segments(similarity, sensory, **options)
        if decoder in ("transformer", "recurrent") and hidden != HIDDEN:
            raise ValueError(
                f"hidden is of the decoders 'mlp' and 'pairs', but the decoder is {decoder!r}: leave it out."
            )
        rows = Rows(causal)
        self.sensory = sensory
        self.similarity = similarity_of(similarity, self.features, self.objects, relations, rows)
        beside = self.features if sensory else 0
        if decoder == "mlp":
            self.decoder = MLPDecoder(self.objects, self.choices, relations, rows, hidden, beside)
        elif decoder == "transformer":
            self.decoder = TransformerDecoder(self.objects, self.choices, relations, beside)
        elif decoder == "recurrent":
            self.decoder = RecurrentDecoder(self.objects, self.choices, relations, sensory=beside)
        elif decoder == "pairs":
            self.decoder = PairsDecoder(self.objects, self.choices, relations, rows, hidden, beside)
        else:
            raise ValueError(f"decoder must be one of {', '.join(map(repr, get_args(Decoder)))}, but is {decoder!r}.")

    def scores(self, seen: Seen) -> Scores:
        return self.similarity.parts(seen)

    def compare(self, seen: Seen) -> Float[Tensor, "batch relations objects objects"]:
        return self.similarity(seen)

    def decide(
        self,
        relations: Float[Tensor, "batch relations objects objects"],
        z: Float[Tensor, "batch objects features"] | None,
    ) -> Float[Tensor, "batch choices"]:
        return self.decoder(relations, z)

    @property
    def read(self) -> Bool[Tensor, "objects objects"]:
        read = self.similarity.rows.read(self.objects)
        return read.fill_diagonal_(False) if isinstance(self.decoder, PairsDecoder) else read

    @property
    def relation_names(self) -> tuple[str, ...]:
        return numbered("relation", self.similarity.relations)


def check_segments(kind: Kind, sensory: bool, **options: Unpack[Options]) -> None:
    """Refuse segments where nothing that is normalised is read."""
    if kind == "distance" and options.get("segmented") and not sensory:
        raise ValueError("Distances are taken before objects are normalised, so that segments would change nothing.")


def similarity_of(kind: Kind, features: int, objects: int, relations: int = 1, rows: Rows | None = None) -> Similarity:
    """By its name."""
    simple = {"symmetric": Symmetric, "asymmetric": Asymmetric, "difference": Difference, "distance": Distance}
    if kind in simple:
        return simple[kind](features, relations, rows)
    if kind == "mixture":
        rules = [Symmetric(features, relations, rows), Difference(features, relations, rows)]
        return Mixture(rules, features, objects)
    raise ValueError(f"similarity must be one of {', '.join(map(repr, get_args(Kind)))}, but is {kind!r}.")
