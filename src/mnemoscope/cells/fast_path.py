"""Fast paths: operations that run a whole sequence, and the conditions under which `scan` may use one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.modules import module as torch_module

from mnemoscope.cells.state import State

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
"""Attributes of a module that hold its hooks."""
_STEPS = ("forward", "prepare", "output", "output_at", "_step", "_gates", "advance", "_advance", "parts", "finish")
_STEPS += ("preactivations", "recurrent_input")
"""Methods of a cell that make up its step."""
_HARMLESS = {"initial_state", "state_names", "jacobian", "unit_jacobian", "bounds", "intermediates", "frozen"}
_HARMLESS |= {"cuts_gradients", "extra_repr", "fast_path"}
"""Methods of a cell that do not change what a fast path must compute."""


@dataclass(frozen=True)
class FastPath:
    """An operation that runs a whole sequence."""

    name: str
    """Name of the operation, for `Route`."""
    run: Callable[[], tuple[Tensor, State]]
    """Returns the same as the loop: outputs (time, batch, features) and the last state."""


@dataclass(frozen=True)
class NoFastPath:
    """The absence of a fast path."""

    reason: str
    """Why the loop is used instead, as part of a sentence."""


def why_no_fast_path(module: nn.Module) -> str | None:
    """Return the reason why `scan` must run the steps of `module` now, or None if it may use a fast path."""
    if torch._C._are_functorch_transforms_active():
        return "a torch.func transform is active"
    if forward_ad._current_level >= 0:
        return "forward-mode differentiation is active"
    if any(getattr(torch_module, f"_global{kind}") for kind in _HOOKS):
        return "hooks on all modules are registered, which must see every step"
    for name, part in module.named_modules():
        where = f"its part {name}" if name else "it"
        if has_hooks(part):
            return f"hooks are registered on {where}, which must see every step"
        if hasattr(part, "fast_path") and any(name in vars(part) for name in _STEPS):
            return f"the step of {where} was replaced on the instance"
    return None


def is_unmodified(module: nn.Module, *kinds: type) -> bool:
    """Whether a module is exactly of one of these classes, and no method was replaced on the instance.

    Users may put other modules in its place, or other functions in the place of its methods.

    >>> is_unmodified(nn.Linear(2, 3), nn.Linear), is_unmodified(nn.Identity(), nn.Linear)
    (True, False)
    """
    replaced = any(callable(value) and hasattr(type(module), name) for name, value in vars(module).items())
    return type(module) in kinds and not replaced


def has_hooks(module: nn.Module) -> bool:
    """Whether hooks are registered on this module."""
    return any(getattr(module, kind) for kind in _HOOKS)


def disable_inherited_fast_path(cls: type) -> None:
    """Disable the inherited fast path of a class that overrides the step for which that path was written."""
    lineage = cls.__mro__
    owner = next(index for index, base in enumerate(lineage) if "fast_path" in vars(base))
    if not any(hasattr(base, "fast_path") for base in lineage[owner + 1 :]):
        return  # `Cell` itself has no fast path
    replaced = set().union(*(vars(base) for base in lineage[owner:] if hasattr(base, "fast_path"))) - _HARMLESS
    replaced -= getattr(lineage[owner], "called_by_fast_path", frozenset())
    overridden = {name for base in lineage[:owner] for name in vars(base) if _is_behaviour(name)} & replaced
    if not overridden:
        return
    reason = (
        f"{cls.__name__} overrides {', '.join(sorted(overridden))} of {lineage[owner].__name__}, whose fast path may "
        f"not compute the same; define fast_path there too"
    )

    def fast_path(self: Any, xs: Tensor, state: State, mask: Tensor | None) -> NoFastPath:
        return NoFastPath(reason)

    cls.fast_path = fast_path  # type: ignore


def _is_behaviour(name: str) -> bool:
    return not name.startswith("__") or name in ("__call__", "__getattr__", "__getattribute__")
