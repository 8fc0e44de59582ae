"""Which lenses `inspect` applies, and what they need."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Literal

from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from mnemoscope import registry
from mnemoscope.base.suggestions import did_you_mean
from mnemoscope.inspection.options import InspectionOptions, refuse_fixed_point_options

ON_THE_CELL = (
    "behaviour",
    "gradients",
    "influence",
    "measured-influence",
    "memory-capacity",
    "transitions",
    "intervention",
)
"""Lenses that need no fixed points."""
ON_REQUEST = ("variables",)
"""Lenses that "auto" does not include: for a network without variables they take long and find nothing."""


def wanted_lenses(
    lenses: Literal["auto"] | Collection[str],
    inputs: Tensor | PackedSequence | None,
    targets: Tensor | None,
    variable: Tensor | None,
) -> Callable[[str], bool]:
    """Return which lenses to apply; raise if a name is unknown or something that a lens needs is missing."""
    if variable is not None and inputs is None:
        raise ValueError("A variable belongs to inputs; pass the inputs too.")
    if lenses == "auto":
        return lambda lens: lens not in ON_REQUEST
    if isinstance(lenses, str):
        lenses = (lenses,)
    known = (*ON_THE_CELL, "fixed-points", "slow-manifold", *ON_REQUEST)
    known = (*known, *(entry.name for entry in registry.lenses if entry.sections))
    for lens in lenses:
        if lens not in known:
            raise ValueError(
                f"inspect has no lens {lens!r}.{did_you_mean(lens, known)} It applies {', '.join(known)}; call the "
                f"others directly."
            )
    on_points = [lens for lens in lenses if lens not in (*ON_THE_CELL, "fixed-points", *ON_REQUEST)]
    if on_points and "fixed-points" not in lenses:
        raise ValueError(f'The lens {on_points[0]!r} looks at fixed points; add "fixed-points".')
    for lens in ("behaviour", "influence", "measured-influence", "transitions"):
        if lens in lenses and inputs is None:
            raise ValueError(f'The lens "{lens}" needs inputs.')
    if "gradients" in lenses and targets is None:
        raise ValueError('The lens "gradients" needs inputs and targets: it follows the loss back through time.')
    if "intervention" in lenses and variable is None:
        raise ValueError('The lens "intervention" needs inputs and variable, a class number for each trial.')
    return lambda lens: lens in lenses


def refuse_for_tokens(lenses: Any, given: dict[str, Any], options: InspectionOptions) -> None:
    """Raise if something was given that does not apply to inputs that are token numbers."""
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"Inputs that are token numbers are inspected without {name}; omit {name}.")
    if lenses not in ("auto", "influence", ["influence"], ("influence",)):
        raise ValueError('Inputs that are token numbers are inspected by the lens "influence" alone; omit lenses.')
    refuse_fixed_point_options(options, "The inputs are token numbers.")
