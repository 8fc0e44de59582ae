"""A network with its encoder and its readout, and the evaluation mode in which lenses look at all of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, ParamSpec, TypeVar

from torch import Tensor, nn

from mnemoscope.cells import Cell, Model, Network, as_cell

Readout = Callable[[Tensor], Tensor]
Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


class Parts(NamedTuple):
    """The parts of a network: its answers are `read(scan(cell, encode(inputs)))`."""

    cell: Cell
    encode: Callable[[Tensor], Tensor]
    read: Readout


def parts_of(network: Network, readout: Readout | None = None) -> Parts:
    """Return the parts of a network; the readout belongs to a cell, which has none otherwise.

    >>> import torch
    >>> parts = parts_of(nn.RNN(2, 3), nn.Linear(3, 1))
    >>> parts.read(torch.zeros(5, 3)).shape
    torch.Size([5, 1])
    """
    check_readout(network, readout)
    if isinstance(network, Model):
        return Parts(network.cell, network.encode, network.step_readout)
    return Parts(as_cell(network), nn.Identity(), nn.Identity() if readout is None else readout)


def check_readout(network: object, readout: object) -> None:
    """Refuse a readout for a model, which has one."""
    if isinstance(network, Model) and readout is not None:
        raise ValueError("A Model has a readout of its own; omit readout, or pass model.cell.")


def in_evaluation_mode(function: Callable[Arguments, Answer]) -> Callable[Arguments, Answer]:
    """Decorate a lens: during a call, the modules among its arguments are in evaluation mode, so without dropout.

    A network that was just trained is in training mode, in which its answers are random if it has dropout. Modules in
    lists and tables count too; all of them have their former mode after the call.

    >>> @in_evaluation_mode
    ... def is_training(network, readout=None):
    ...     return network.training, readout.training
    >>> network, readout = nn.Linear(1, 1), nn.Dropout(0.5)
    >>> is_training(network, readout=readout), network.training, readout.training
    ((False, False), True, True)
    """

    @functools.wraps(function)
    def call(*args: Arguments.args, **options: Arguments.kwargs) -> Answer:
        with evaluation_mode([*args, *options.values()]):
            return function(*args, **options)

    return call


@contextmanager
def evaluation_mode(values: Iterable[Any]) -> Generator[None]:
    """Context in which the modules among some values are in evaluation mode."""
    # the attribute is set, since train() and eval() of a module may do more, and would treat its parts alike
    training = [part for module in _modules(values) for part in module.modules() if part.training]
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True


def _modules(values: Iterable[Any]) -> Generator[nn.Module]:
    for value in values:
        if isinstance(value, nn.Module):
            yield value
        elif isinstance(value, Mapping):
            yield from _modules(value.values())
        elif isinstance(value, list | tuple):
            yield from _modules(value)
