"""The base classes of cells that call a module of another library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float, Num
from mnemoscope.cells.affine.layer import AffineLayer
from mnemoscope.cells.cell import Cell
from mnemoscope.cells.from_torch import evaluating
from mnemoscope.cells.pretrained.module_state import MixerState, ModelState
from mnemoscope.cells.pretrained.pure_step import PureStep
from mnemoscope.cells.pretrained.reading import read_layers
from mnemoscope.cells.state import State, leaves, map_state, named_leaves


def named_inputs(xs: Num[Tensor, "batch time ..."]) -> dict[str, Any]:
    """Return inputs of a whole model by the name of their argument in transformers: tokens, or embeddings."""
    if not xs.is_floating_point():
        return {"input_ids": xs}
    if xs.dim() != 3:
        raise ValueError(
            f"A model takes tokens (batch, time) as integers, but these are {xs.dtype}: convert them by .long(). "
            f"Embeddings are (batch, time, features)."
        )
    return {"inputs_embeds": xs}


class ModuleCell(Cell):
    """A module of another library as a cell. It computes what the module computes in evaluation mode.

    The module's output at a step is a function of its input and its state, not of the new state alone, so that it is
    part of the state, as `output`. No step reads it.

    A subclass defines `start` and `advance`, and `whole` if the module returns more than its outputs. Whether the
    module is one mixer or a whole model follows from what `start` returns: the state of a layer, or a list of them.
    """

    batch_first = True
    takes_integers = True
    attention_layers: tuple[int, ...] = ()
    """Numbers of the layers with attention, which are passed through."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module: Any = module
        limits = (getattr(part, "time_step_limit", None) for part in module.modules())
        self._time_steps: Any = next((tuple(limit) for limit in limits if limit is not None), None)  # a model has one
        self._template: State | None = None

    def start(self) -> tuple[State | list[State], Tensor]:
        """Return the state before the first input, as a batch of one, and any output (1, features)."""
        raise NotImplementedError(f"{type(self).__name__} must define start().")

    def advance(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Return the output (batch, features) for one input of each sequence, and the new state."""
        raise NotImplementedError(f"{type(self).__name__} must define advance(x, state).")

    def whole(self, xs: Tensor) -> Tensor:
        """Return the module's outputs (batch, time, features) for whole sequences (batch, time, ...), in one call."""
        return self.pure(lambda: self.module(xs))[0]

    @property
    def like(self) -> Tensor:
        """A parameter of the module, which has the dtype and the device of its computations."""
        return next(parameter for parameter in self.module.parameters() if parameter.is_floating_point())

    def initial_state(self, batch: int) -> ModelState | MixerState:
        like = self.like
        known = None if self._template is None else self._template.output
        if known is None or (known.dtype, known.device) != (like.dtype, like.device):
            with torch.no_grad():
                parts, output = self.start()
            output = torch.zeros_like(output, dtype=like.dtype)
            state = ModelState(tuple(parts), output) if isinstance(parts, list) else MixerState(parts, output)
            self._template = map_state(Tensor.detach, state)
        return map_state(lambda tensor: tensor.expand(batch, *tensor.shape[1:]).clone(), self._template)

    def forward(self, x: Tensor, state: ModelState | MixerState) -> ModelState | MixerState:
        if len(x) == 0 and not self.grows:  # modules cannot reshape an empty batch
            return state
        if isinstance(state, ModelState):
            output, layers = self.advance(x, state.layers)
            return ModelState(tuple(layers), output)
        return MixerState(*reversed(self.advance(x, state.layer)))

    def affine_layers(self, xs: Num[Tensor, "time batch ..."], state: ModelState | MixerState) -> list[AffineLayer]:
        return read_layers(self, xs, state)

    def state_names(self, state: ModelState | MixerState) -> list[str]:
        return [name.removeprefix("layer.") for name, _ in named_leaves(state)]

    def output(self, state: ModelState | MixerState) -> Float[Tensor, "batch features"]:
        return state.output

    def pure(self, function: Callable[[], Any], state: State = ()) -> tuple[Any, PureStep]:
        """Call a function that runs the module; return its value, and the values that it copied into the state."""
        pure = PureStep(leaves(state), double=self.like.dtype == torch.float64, time_steps=self._time_steps)
        with evaluating(self.module), pure:
            return function(), pure
