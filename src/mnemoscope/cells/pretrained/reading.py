"""The affine recurrences that a module of another library computes on given inputs."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Num
from mnemoscope.cells.affine.layer import AffineLayer
from mnemoscope.cells.pretrained.cores import MixerCore, cores_of
from mnemoscope.cells.pretrained.module_state import MixerState, ModelState
from mnemoscope.cells.state import leaves


@runtime_checkable
class Adapted(Protocol):
    """A module as a cell, `ModuleCell`, which describes these members."""

    module: Any
    input_size: int | None

    @property
    def like(self) -> Tensor: ...

    def __call__(self, x: Tensor, state: Any) -> Any: ...

    def initial_state(self, batch: int) -> ModelState | MixerState: ...

    def whole(self, xs: Tensor) -> Tensor: ...


def read_layers(cell: Adapted, xs: Num[Tensor, "time batch ..."], state: Any) -> list[AffineLayer]:
    """Return the recurrent layers of a module with their parts; attention and sLSTM layers are not among them.

    The module runs over the inputs, and the inputs of its mixers are recorded; the parts are functions of these. One
    step of the module is first compared with the recurrences, so that a mixer that computes something else is found.
    """
    cores = cores_of(cell.module)
    _check_number(cell, cores, state)
    if not cores:
        return []
    _check_step(cell, cores)
    with _recorded(cores) as records:
        if _is_start(cell, state):
            cell.whole(xs.transpose(0, 1))
        else:
            later = state
            for x in xs.unbind():
                later = cell(x, later)
    return [
        core.layer(_in_time(record), part).named(name)
        for core, record, (name, part) in zip(cores, records, _memories(state), strict=True)
    ]


@contextmanager
def _recorded(cores: Sequence[MixerCore]) -> Generator[list[list[Tensor]]]:
    """Record the inputs of the mixers while the module runs."""
    records: list[list[Tensor]] = [[] for _ in cores]
    handles = [
        core.source.register_forward_pre_hook(partial(_record, record))
        for core, record in zip(cores, records, strict=True)
    ]
    try:
        yield records
    finally:
        for handle in handles:
            handle.remove()


def _record(record: list[Tensor], _: Any, inputs: tuple[Tensor, ...]) -> None:
    record.append(inputs[0])


def _in_time(record: list[Tensor]) -> Float[Tensor, "time batch features"]:
    """Return recorded inputs, each (batch, time, features) or (batch, features), as one sequence."""
    pieces = [piece if piece.dim() == 3 else piece.unsqueeze(1) for piece in record]
    return torch.cat(pieces, dim=1).transpose(0, 1)


def _memories(state: Any) -> list[tuple[str, Any]]:
    """Return the states of recurrent layers with their names; not those of attention, nor of sLSTM."""
    if not isinstance(state, ModelState):
        named = [("", state.layer)]
    else:
        named = [(f"layers.{depth}", part) for depth, part in enumerate(state.layers)]
    fields = {name: {*getattr(part, "_fields", ())} for name, part in named}
    return [(name, part) for name, part in named if {"S", "h"} & fields[name] and "c" not in fields[name]]


def _check_number(cell: Adapted, cores: Sequence[MixerCore], state: Any) -> None:
    expected = len(_memories(state))
    if len(cores) != expected:
        kind = type(cell.module)
        raise TypeError(
            f"{kind.__module__}.{kind.__name__} has {expected} recurrent layers, but {len(cores)} mixers whose "
            f"recurrence is known; docs/adapters.md lists them."
        )


def _is_start(cell: Adapted, state: Any) -> bool:
    """Whether the state is the one before the first input, from which modules run over whole sequences."""
    given, start = (leaves(each[0]) for each in (state, cell.initial_state(len(state.output))))  # without the output
    return all(
        one.shape == other.shape and torch.equal(one, other) and not one.requires_grad
        for one, other in zip(given, start, strict=True)
    )


@torch.no_grad()
def _check_step(cell: Adapted, cores: Sequence[MixerCore]) -> None:
    """Raise unless the second step, from a state of arbitrary numbers, is that of the recurrences."""
    like, size = cell.like, cell.input_size
    x = torch.zeros(1, dtype=torch.long, device=like.device) if size is None else _ramp(like.new_zeros(1, size))
    precision = torch.finfo(like.dtype).eps  # modules may keep their states in a higher one
    state = _arbitrary(cell(x, cell.initial_state(1)))
    with _recorded(cores) as records:
        after = cell(x, state)
    steps = zip(cores, records, _memories(state), _memories(after), strict=True)
    for core, record, (_, before), (name, new) in steps:
        layer = core.layer(_in_time(record), before).memory()
        S = core.start(new)[0][..., : layer.start.shape[-2], :]
        error = float((layer.states()[-1] - S).abs().max())
        if not error <= precision**0.5 * max(1.0, float(S.abs().max())):
            kind = type(cell.module)
            where = f" in {name}" if name else ""
            raise TypeError(
                f"A step of {kind.__module__}.{kind.__name__}{where} is not that of the recurrence that is known for "
                f"this mixer ({type(core).__name__}): their states differ by {error:.1e}. The library has changed, or "
                f"the module was."
            )


def _arbitrary(state: Any) -> Any:
    """Return a state with other memories, of positive numbers; convolutions, attention and scales are kept."""

    def filled(part: Any) -> Any:
        fields = {"S", "h", "n"} & {*getattr(part, "_fields", ())}
        return part._replace(**{name: _ramp(getattr(part, name)) for name in fields}) if fields else part

    if isinstance(state, ModelState):
        return state._replace(layers=tuple(map(filled, state.layers)))
    return state._replace(layer=filled(state.layer))


def _ramp(like: Tensor) -> Tensor:
    """Return numbers from 0.5 to 1.5 in the shape of a tensor."""
    return (1 + 0.5 * torch.cos(torch.arange(like.numel(), device=like.device))).view(like.shape).to(like)
