"""Deep transitions: several cells within one step."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float, Inexact
from mnemoscope.cells.cell import Box, Cell, Step
from mnemoscope.cells.state import State, leaves
from mnemoscope.cells.unrolled import prepared_steps


class DeepTransition(Cell):
    """One recurrence through several layers, as in the released network of Renanse et al. (2021).

    The first layer starts from the state of the last step, every other one from the state that the layer below has just
    computed, and all read the input. There is one state, where a `Stack` has one for each layer. The layers must have
    states of the same shape and take the same inputs.

    >>> from mnemoscope.cells.matrix import MatrixRNN
    >>> cell = DeepTransition([MatrixRNN((5, 5), (4, 3)) for _ in range(3)])
    >>> cell(torch.zeros(2, 25), cell.initial_state(2)).shape
    torch.Size([2, 4, 3])
    """

    def __init__(self, layers: Sequence[Cell]) -> None:
        super().__init__()
        if not layers:
            raise ValueError("A deep transition needs at least one layer.")
        forms = {tuple(tuple(part.shape) for part in leaves(layer.initial_state(1))) for layer in layers}
        if len(forms) > 1:
            raise ValueError(f"All layers must have states of one shape, but theirs are {sorted(forms)}, batch first.")
        sizes = {layer.input_size for layer in layers}
        if len(sizes) > 1:
            raise ValueError(f"All layers see the same input, but they take {sizes} features.")
        self.layers = nn.ModuleList(layers)
        self.input_size = layers[0].input_size

    def _cells(self) -> list[Cell]:
        return [layer for layer in self.layers if isinstance(layer, Cell)]

    @property
    def state_shape(self) -> tuple[int, int] | None:
        """Rows and columns of the state; None if the layers have none."""
        return getattr(self._cells()[-1], "state_shape", None)

    @property
    def input_shapes(self) -> list[tuple[int, int]] | None:
        """Rows and columns of each input matrix; None if the layers take none."""
        return getattr(self._cells()[0], "input_shapes", None)

    def initial_state(self, batch: int) -> State:
        return self._cells()[0].initial_state(batch)

    def output(self, state: State) -> Inexact[Tensor, "*batch features"]:
        return self._cells()[-1].output(state)

    def prepare(self, xs: Float[Tensor, " ..."]) -> tuple[Tensor, Step]:
        driven = [prepared_steps(layer, xs) for layer in self._cells()]
        kept = xs.dim() - 1  # time and batch
        shapes = [us.shape[kept:] for us, _ in driven]
        sizes = [prod(shape) for shape in shapes]

        def step(u: Tensor, state: State) -> State:
            for part, shape, (_, layer_step) in zip(u.split(sizes, dim=-1), shapes, driven, strict=True):
                state = layer_step(part.unflatten(-1, shape), state)
            return state

        return torch.cat([us.flatten(kept) for us, _ in driven], dim=-1), step

    def forward(self, x: Float[Tensor, "batch features"], state: State) -> State:
        for layer in self._cells():
            state = layer(x, state)
        return state

    def jacobian(self, x: Tensor, state: State) -> Float[Tensor, "batch size size"] | None:
        """Return the product of the layers' Jacobians."""
        product = None
        for layer in self._cells():
            J = layer.jacobian(x, state)
            if J is None:
                return None
            product = J if product is None else J @ product
            state = layer(x, state)
        return product

    def bounds(self, low: Tensor, high: Tensor) -> Box | None:
        """Return the layers' box if all of them have the same one."""
        boxes = [layer.bounds(low, high) for layer in self._cells()]
        first = boxes[0]
        if first is None or not all(box is not None and all(map(torch.equal, box, first)) for box in boxes):
            return None
        return first

    def intermediates(self, x: Tensor, state: State) -> dict[str, Tensor]:
        """Return the intermediates of every layer, `0.pre`, `1.pre` and so on."""
        named = {}
        for depth, layer in enumerate(self._cells()):
            named |= {f"{depth}.{name}": value for name, value in layer.intermediates(x, state).items()}
            state = layer(x, state)
        return named

    def frozen(self, dtype: torch.dtype | None = None, device: torch.device | None = None) -> DeepTransition:
        return DeepTransition([layer.frozen(dtype, device) for layer in self._cells()]).eval()
