"""Stacked cells."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.cells.affine.layer import AffineLayer
from mnemoscope.cells.cell import Box, Cell
from mnemoscope.cells.enclosure import Enclosure
from mnemoscope.cells.fast_path import FastPath, NoFastPath
from mnemoscope.cells.state import Layout, State, leaves
from mnemoscope.cells.unrolled import run_loop


class Stack(Cell):
    """Layers of cells; each reads the output of the one below at the same step. The state is the tuple of their states.

    The first layer reads the inputs. With `has_readout` the last one is the readout, so that no other readout follows.

    >>> from mnemoscope.cells import GRU
    >>> stack = Stack([GRU(3, 8), GRU(8, 8)])
    >>> len(stack(torch.zeros(2, 3), stack.initial_state(2)))
    2
    """

    def __init__(self, layers: Sequence[Cell], has_readout: bool = False) -> None:
        super().__init__()
        if not layers:
            raise ValueError("A stack needs at least one layer.")
        self.layers = nn.ModuleList(layers)
        self.input_size = layers[0].input_size
        self.reads_input = any(layer.reads_input for layer in layers)
        self._has_readout = has_readout

    @property
    def grows(self) -> bool:
        return any(layer.grows for layer in self._cells())

    @property
    def has_readout(self) -> bool:
        return self._has_readout

    def _cells(self) -> list[Cell]:
        return [layer for layer in self.layers if isinstance(layer, Cell)]

    def initial_state(self, batch: int) -> tuple[State, ...]:
        return tuple(layer.initial_state(batch) for layer in self._cells())

    def state_names(self, state: tuple[State, ...]) -> list[str]:
        layers = enumerate(zip(self._cells(), state, strict=True))
        return [f"layers.{depth}.{name}" for depth, (layer, part) in layers for name in layer.state_names(part)]

    def forward(self, x: Float[Tensor, "batch features"], state: tuple[State, ...]) -> tuple[State, ...]:
        new = []
        for layer, part in zip(self._cells(), state, strict=True):
            x, after = layer.step(x, part)
            new.append(after)
        return tuple(new)

    def output(self, state: tuple[State, ...]) -> Float[Tensor, "batch features"]:
        return super().output(state) if self.reads_input else self._cells()[-1].output(state[-1])

    def output_at(self, x: Float[Tensor, "batch features"], state: tuple[State, ...]) -> Float[Tensor, "batch outputs"]:
        if not self.reads_input:
            return self.output(state)
        for layer, part in zip(self._cells(), state, strict=True):
            x = layer.output_at(x, part)
        return x

    @property
    def output_features(self) -> int:
        return self._cells()[-1].output_features

    def fast_path(self, xs: Tensor, state: State, mask: Tensor | None) -> FastPath | NoFastPath:
        """Run layer by layer over the whole sequence; layers without a fast path run in the loop."""
        paths, inputs = [], xs
        for layer, part in zip(self._cells(), state, strict=True):
            paths.append(layer.fast_path(xs, part, mask))
            # has the shape and dtype of the next layer's input at each step
            xs_above = xs.new_zeros(xs.shape[1], layer.output_features) if layer.reads_input else layer.output(part)
            xs = xs_above.expand(xs.shape[0], *xs_above.shape)
        if not any(isinstance(path, FastPath) for path in paths):
            reasons = [path.reason for path in paths if isinstance(path, NoFastPath)]
            return NoFastPath("; ".join(f"layer {depth}: {reason}" for depth, reason in enumerate(reasons)))
        names = [path.name if isinstance(path, FastPath) else f"loop, as {path.reason}" for path in paths]
        return FastPath("layer by layer: " + "; ".join(names), lambda: self._fused(inputs, state, mask))

    def affine_layers(self, xs: Tensor, state: State) -> list[AffineLayer]:
        found = []
        for depth, (layer, part) in enumerate(zip(self._cells(), state, strict=True)):
            found += [inner.named(f"layers.{depth}") for inner in layer.affine_layers(xs, part)]
            if depth == len(self.layers) - 1:  # no layer reads the outputs of the last one
                break
            path = layer.fast_path(xs, part, None)
            xs, _ = path.run() if isinstance(path, FastPath) else run_loop(layer, xs, part, None)
        return found

    def _fused(self, xs: Tensor, state: State, mask: Tensor | None) -> tuple[Tensor, State]:
        last = []
        for layer, part in zip(self._cells(), state, strict=True):
            path = layer.fast_path(xs, part, mask)
            xs, new = path.run() if isinstance(path, FastPath) else run_loop(layer, xs, part, mask)
            last.append(new)
        return xs, tuple(last)

    def bounds(self, low: Tensor, high: Tensor) -> Box | None:
        """Return the product of the layers' boxes; a layer's inputs lie in the box of the outputs below it."""
        boxes = []
        for layer in self._cells():
            box = None if layer.reads_input else layer.bounds(low, high)
            if box is None:
                return None
            boxes.append(box)
            layout = Layout(layer.initial_state(1))
            low, high = (layer.output(layout.unflatten(corner[None]))[0] for corner in box)
        return torch.cat([low for low, _ in boxes]), torch.cat([high for _, high in boxes])

    def enclose(self, x: Enclosure, state: Enclosure) -> Enclosure | None:
        new: list[Enclosure] = []
        layouts = [Layout(layer.initial_state(1)) for layer in self._cells()]
        parts = state.split([layout.size for layout in layouts])
        for layer, layout, part in zip(self._cells(), layouts, parts, strict=True):
            enclosed = layer.enclose(x, part)
            if enclosed is None:
                return None
            new.append(enclosed)
            if layer.reads_input:
                return None
            positions = _output_positions(layer, layout)
            if positions is None:
                return None
            x = enclosed.select(positions)
        return Enclosure.concatenate(new)

    def frozen(self, dtype: torch.dtype | None = None, device: torch.device | None = None) -> Stack:
        return Stack([layer.frozen(dtype, device) for layer in self._cells()], self.has_readout).eval()


def _output_positions(layer: Cell, layout: Layout) -> Tensor | None:
    """Return which numbers of a layer's flat state are its outputs; None if the outputs are other functions of it."""
    template = next(iter(leaves(layout.example)))
    marks = -1.5 - torch.arange(layout.size, dtype=template.dtype, device=template.device)  # a nonlinearity moves them
    same = layer.output(layout.unflatten(marks[None]))[0][:, None] == marks
    return same.long().argmax(1) if bool(same.any(1).all()) else None
