"""Whether the states of a network settle on a slow manifold, and the page section on it."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE
from mnemoscope.inspection.cost import HOW_TO_MEASURE, is_quick_alone
from mnemoscope.inspection.options import InspectionOptions
from mnemoscope.inspection.spectra import LARGEST
from mnemoscope.lenses import Dynamics, FixedPoints, SlowManifold, find_slow_manifold
from mnemoscope.lenses.slow_manifold.figure import draw_slow_manifold
from mnemoscope.report import Section
from mnemoscope.report.markup import figure_markup

TITLE = "Slow manifold"
STARTS = 300
"""Visited states that settle; fewer for large states, in proportion."""
LARGE = 128
"""Size of the state from which fewer states settle."""
STEPS = 400
"""Steps that a search takes at least, roughly: some time scales, and twice as long for each. A long one takes ten times
as many."""


def inspect_slow_manifold(
    dynamics: Dynamics,
    visited: Float[Tensor, "time batch size"],
    fp: FixedPoints,
    options: InspectionOptions,
    *,
    steps: int | None = None,
) -> SlowManifold | str | None:
    """Return the slow manifold on which most visited states settle, or else what they do if the page should say it.

    A page says that states settle at several isolated points, or that they hold a value too briefly. If the search
    takes long, the result is a sentence for the page. Otherwise, and for large states, it is None. `steps` is the time
    for which a value must be held, by default that of the lens.
    """
    if dynamics.size > LARGEST:
        return None
    states = visited.flatten(0, 1).to(dynamics.origin)
    states = states[states.isfinite().all(1)]
    number = min(STARTS, STARTS * LARGE // dynamics.size)
    if not is_quick_alone(dynamics.cell, STEPS, number, options):
        return f"Not searched for, since the steps of this network take long one at a time. {HOW_TO_MEASURE}"
    chosen = torch.randperm(len(states), generator=torch.Generator().manual_seed(options.seed))[:number]
    memory = find_slow_manifold(dynamics, starts=states[chosen], steps=steps, fixed_points=fp, seed=options.seed)
    if memory:
        return memory if memory.share >= 0.5 else None
    return memory if memory.isolated > 1 or memory.shorter_steps is not None else None


def slow_manifold_section(memory: SlowManifold | str) -> Section:
    """Return the section with the shape of the manifold, its drift and its errors, or why it was not searched for."""
    if isinstance(memory, str):
        return Section(TITLE, memory, "")
    figure = draw_slow_manifold(memory, COLOUR, figure=new_figure(11, 4.2), font_size=PAGE_FONT_SIZE)
    alt = "Settled states with fixed points, drift along the manifold, and error of a held value against the delay."
    return Section(TITLE, memory.summary(), figure_markup(figure, "slow-manifold", alt=alt))
