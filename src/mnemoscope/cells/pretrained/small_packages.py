"""Modules of the packages mambapy and minGRU-pytorch, whose steps are pure already."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from mnemoscope.cells.pretrained.module_cell import ModuleCell
from mnemoscope.cells.state import State


class MambaPyState(NamedTuple):
    """The state of a block: the last inputs of its convolution, and a vector for each channel."""

    conv: Tensor
    S: Tensor


class Units(NamedTuple):
    """The state of a minGRU or minLSTM: its units."""

    h: Tensor


class MambaPyBlock(ModuleCell):
    """MambaBlock or ResidualBlock of mambapy."""

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.config: Any = getattr(module, "mixer", module).config
        self.input_size = int(self.config.d_model)

    def start(self) -> tuple[State, Tensor]:
        return _empty_block(self.config, self.like), self.like.new_zeros(1, self.input_size or 0)

    def advance(self, x: Tensor, state: MambaPyState) -> tuple[Tensor, MambaPyState]:
        (output, (S, conv)), _ = self.pure(lambda: self.module.step(x, (state.S, state.conv)))
        return output, MambaPyState(conv, S)


class MambaPyModel(ModuleCell):
    """Mamba of mambapy: a stack of blocks, from features to features."""

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.input_size = int(module.config.d_model)

    def start(self) -> tuple[list[State], Tensor]:
        config = self.module.config
        layers: list[State] = [_empty_block(config, self.like) for _ in range(config.n_layers)]
        return layers, self.like.new_zeros(1, config.d_model)

    def advance(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        caches = [(part.S, part.conv) for part in state]
        (output, new), _ = self.pure(lambda: self.module.step(x, caches))
        return output, [MambaPyState(conv, S) for S, conv in new]


class MinRNN(ModuleCell):
    """MinGRU or minLSTM of minGRU-pytorch."""

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.input_size = int(next(iter(module.children())).in_features)

    def start(self) -> tuple[State, Tensor]:
        (output, h), _ = self.pure(lambda: self._run(self.like.new_zeros(1, 1, self.input_size or 0), None))
        return Units(torch.zeros_like(h[:, 0])), output[:, 0]

    def advance(self, x: Tensor, state: Units) -> tuple[Tensor, Units]:
        (output, h), _ = self.pure(lambda: self._run(x.unsqueeze(1), state.h.unsqueeze(1)))
        return output[:, 0], Units(h[:, 0])

    def _run(self, xs: Tensor, h: Tensor | None) -> Any:
        return self.module(xs, h, return_next_prev_hidden=True)


class MinLM(ModuleCell):
    """The language model minLM of minGRU-pytorch."""

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        if not module.can_cache:
            raise TypeError(
                "This minLM has convolutions, whose past it does not return, so that it cannot continue from a state: "
                "build it with enable_conv=False, or pass one of its recurrent layers, such as module.layers[0][2]."
            )

    @property
    def has_readout(self) -> bool:
        return True

    def start(self) -> tuple[list[State], Tensor]:
        token = torch.zeros(1, 1, dtype=torch.long, device=self.like.device)
        (output, new), _ = self.pure(lambda: self._run(token, None))
        return [Units(torch.zeros_like(h[:, 0])) for h in new], output[:, 0]

    def advance(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        (output, new), _ = self.pure(lambda: self._run(x.unsqueeze(1), [part.h.unsqueeze(1) for part in state]))
        return output[:, 0], [Units(h[:, 0]) for h in new]

    def _run(self, tokens: Tensor, hiddens: list[Tensor] | None) -> Any:
        return self.module(tokens, return_prev_hiddens=True, prev_hiddens=hiddens)


def _empty_block(config: Any, like: Tensor) -> MambaPyState:
    conv = like.new_zeros(1, config.d_inner, config.d_conv - 1)
    return MambaPyState(conv, like.new_zeros(1, config.d_inner, config.d_state))
