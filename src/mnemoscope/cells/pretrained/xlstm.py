"""xLSTM: the models of transformers, and the blocks and models of the package xlstm."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mnemoscope.cells.pretrained.module_cell import ModuleCell, named_inputs
from mnemoscope.cells.state import State

_EMPTY_SCALE = 1e38
"""Minus the logarithm of the scale of an empty mLSTM of the package xlstm. The package itself begins its steps at 0,
which differs from its whole sequences by about 1e-8, because its eps is added in units of the scale."""


class MLSTM(NamedTuple):
    """The state of an mLSTM: matrix, normaliser, and the logarithm of the scale of both."""

    S: Tensor
    n: Tensor
    m: Tensor


class ConvMLSTM(NamedTuple):
    """The state of an mLSTM with a convolution, whose last inputs are `conv`."""

    S: Tensor
    n: Tensor
    m: Tensor
    conv: Tensor


class ConvSLSTM(NamedTuple):
    """The state of an sLSTM: output, cell, normaliser, logarithm of the scale, and last inputs of the convolution."""

    h: Tensor
    c: Tensor
    n: Tensor
    m: Tensor
    conv: Tensor


class LargeMixer(ModuleCell):
    """One layer or block whose forward is `(x, state) -> (output, state)`: xLSTMLayer, xLSTMBlock of transformers."""

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.input_size = int(getattr(module.config, "hidden_size", 0) or module.config.embedding_dim)

    def start(self) -> tuple[State, Tensor]:
        zeros = self.like.new_zeros(1, 1, self.input_size or 0)
        return _empty(self, self.module), zeros[:, 0]

    def advance(self, x: Tensor, state: MLSTM) -> tuple[Tensor, MLSTM]:
        (output, new), _ = self.pure(lambda: self.module(x.unsqueeze(1), tuple(state)))
        return output[:, 0], MLSTM(*new)

    def whole(self, xs: Tensor) -> Tensor:
        return self.pure(lambda: self.module(xs, None)[0])[0]


class LargeModel(ModuleCell):
    """A whole model of transformers, with or without its language-modelling head."""

    @property
    def has_readout(self) -> bool:
        return hasattr(self.module, "backbone")

    def start(self) -> tuple[list[State], Tensor]:
        blocks = (self.module.backbone if self.has_readout else self.module).blocks
        output = self.whole(torch.zeros(1, 1, dtype=torch.long, device=self.like.device))
        return [_empty(self, block) for block in blocks], output[:, 0]

    def advance(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        offset = torch.zeros(1, dtype=torch.long, device=x.device)
        cache = SimpleNamespace(rnn_state=dict(enumerate(map(tuple, state))), seqlen_offset=offset)
        output, pure = self.pure(lambda: self._run(x.unsqueeze(1), cache_params=cache, use_cache=True), state)
        return output[:, 0], [MLSTM(*map(pure.new_value, part)) for part in state]

    def whole(self, xs: Tensor) -> Tensor:
        return self.pure(lambda: self._run(xs, use_cache=False))[0]

    def _run(self, xs: Tensor, **options: Any) -> Tensor:
        options |= named_inputs(xs)
        return self.module(**options, return_dict=True)[0]


class BlockCell(ModuleCell):
    """A layer or block of the package xlstm: mLSTMLayer, sLSTMLayer, mLSTMBlock, sLSTMBlock."""

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        config = module.config
        config = getattr(config, "mlstm", None) or getattr(config, "slstm", None) or config
        self.input_size = int(config.embedding_dim)

    def start(self) -> tuple[State, Tensor]:
        zeros = self.like.new_zeros(1, 1, self.input_size or 0)
        (output, new), _ = self.pure(lambda: self.module.step(zeros))
        return _packed(new, empty=True), output[:, 0]

    def advance(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        (output, new), _ = self.pure(lambda: self.module.step(x.unsqueeze(1), **_unpacked(state)))
        return output[:, 0], _packed(new)


class BlockStack(ModuleCell):
    """xLSTMBlockStack, from features to features, or xLSTMLMModel, from tokens to logits."""

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.input_size = None if self.has_readout else int(module.config.embedding_dim)

    @property
    def has_readout(self) -> bool:
        return hasattr(self.module, "lm_head")

    def start(self) -> tuple[list[State], Tensor]:
        like = self.like
        x = like.new_zeros(1, 1, self.input_size) if self.input_size else like.new_zeros(1, 1, dtype=torch.long)
        (output, new), _ = self.pure(lambda: self.module.step(x))
        return [_packed(part, empty=True) for part in new.values()], output[:, 0]

    def advance(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        blocks = {f"block_{depth}": _unpacked(part) for depth, part in enumerate(state)}
        (output, new), _ = self.pure(lambda: self.module.step(x.unsqueeze(1), blocks))
        return output[:, 0], [_packed(new[name]) for name in blocks]


def _empty(cell: ModuleCell, module: Any) -> MLSTM:
    """Return the empty state of a layer or block; its shapes are those that the module returns."""
    size = getattr(module.config, "hidden_size", 0) or module.config.embedding_dim
    (_, state), _ = cell.pure(lambda: module(cell.like.new_zeros(1, 1, size), None))
    return MLSTM(*map(torch.zeros_like, state))


def _packed(state: dict[str, Any], empty: bool = False) -> ConvMLSTM | ConvSLSTM:
    """Return the state of a block of the package xlstm, batch first; if `empty`, the one before the first input."""
    (conv,) = state["conv_state"]
    parts = [*(state["mlstm_state"] if "mlstm_state" in state else state["slstm_state"].unbind()), conv]
    if empty:
        parts = [torch.zeros_like(part) for part in parts]
        if "mlstm_state" in state:
            parts[2] -= _EMPTY_SCALE
    return (ConvMLSTM if "mlstm_state" in state else ConvSLSTM)(*parts)


def _unpacked(state: ConvMLSTM | ConvSLSTM) -> dict[str, Any]:
    conv = {"conv_state": (state.conv.clone(),)}  # it is written into
    if isinstance(state, ConvMLSTM):
        return {"mlstm_state": state[:3], **conv}
    return {"slstm_state": torch.stack(state[:4]), **conv}
