"""A relational network in the form of a model, so that whatever trains and tests models does so with it."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.cells.model import Model
from mnemoscope.relational.network import RelationalModel
from mnemoscope.relational.scenes import Scenes


class Solver(Model):
    """`network(scenes)` as the one step of a model that has no cell, no readout and no state.

    >>> from mnemoscope.networks.relational import relational_model
    >>> from mnemoscope.tasks.relational import RMTS
    >>> solver = Solver(relational_model("corelnet", RMTS()))
    >>> logits, state = solver(RMTS().batch(5, seed=0, number=0))
    >>> logits.shape, state
    (torch.Size([1, 5, 2]), ())
    """

    def __init__(self, network: RelationalModel) -> None:
        nn.Module.__init__(self)  # a model's own would build a readout
        self.network = network

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]: scenes are its inputs, and no tensor is
        self, inputs: Scenes, state: tuple[()] | None = None
    ) -> tuple[Float[Tensor, "1 batch choices"], tuple[()]]:
        """Logits (one step, batch, choices), and no state."""
        return self.network(inputs.images, inputs.objects)[None], ()

    def __getattr__(self, name: str) -> Any:
        if name in ("cell", "encode", "readout"):
            raise TypeError(
                f"This model is a relational network, a {type(self.network).__name__}: it answers a problem in one "
                f"step and has no {name}, as what looks at recurrent cells would need. See its `network`."
            )
        return super().__getattr__(name)
