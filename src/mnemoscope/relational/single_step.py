"""Adapter from relational networks to `Model`, so that they are trained and tested like recurrent networks."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.cells.model import Model
from mnemoscope.relational.network import RelationalModel, Scenes


class SingleStepModel(Model):
    """Model of a single step, `network(scenes)`, without cell, readout and state.

    >>> from mnemoscope.networks.relational import relational_model
    >>> from mnemoscope.tasks.relational import RMTS
    >>> model = SingleStepModel(relational_model("corelnet", RMTS()))
    >>> logits, state = model(RMTS().batch(5, seed=0, number=0))
    >>> logits.shape, state
    (torch.Size([1, 5, 2]), ())
    """

    def __init__(self, network: RelationalModel) -> None:
        nn.Module.__init__(self)  # that of Model would build a readout
        self.network = network

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]: the inputs are scenes, not a tensor
        self, inputs: Scenes, state: tuple[()] | None = None
    ) -> tuple[Float[Tensor, "1 batch choices"], tuple[()]]:
        """Return the logits (1, batch, choices) and an empty state."""
        return self.network(inputs.images, inputs.objects)[None], ()

    def __getattr__(self, name: str) -> Any:
        if name in ("cell", "encode", "readout"):
            raise TypeError(
                f"This model is a relational network, a {type(self.network).__name__}: it answers a problem in one "
                f"step and has no {name}, which analyses of recurrent cells need. Use its `network`."
            )
        return super().__getattr__(name)
