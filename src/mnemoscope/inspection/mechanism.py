"""How a network remembers: its fixed points, the slow manifold on which it settles, and the lenses on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.plurals import pluralise
from mnemoscope.cells import Cell
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE
from mnemoscope.inspection.options import InspectionOptions
from mnemoscope.inspection.page import describe_input
from mnemoscope.inspection.slow_manifold import inspect_slow_manifold, slow_manifold_section
from mnemoscope.lenses import Box, ByCondition, Dynamics, FixedPoints, SlowManifold, by_condition
from mnemoscope.lenses.conditions.figure import draw_by_condition
from mnemoscope.lenses.result import Result
from mnemoscope.report import InspectedNetwork, Section, lens_sections
from mnemoscope.report.markup import figure_markup, table_markup

TRAJECTORIES = 24
"""Number of trajectories on a page."""
Wanted = Callable[[str], bool]
"""Whether a lens, by its name in the registry, is wanted."""


@dataclass
class Mechanism:
    """Findings of the lenses on the dynamics of a network, and the sections of its page."""

    trajectories: Float[Tensor, "time batch size"]
    """Flat states that the network visited."""
    constant_input: str
    """The input of the first context, as text."""
    fixed_points: FixedPoints | None = None
    contexts: Mapping[str, FixedPoints] = field(default_factory=dict)
    settling: SlowManifold | None = None
    """Where most states settle, if the page should say it; false if that is no manifold."""
    sections: list[Section] = field(default_factory=list)
    lenses: list[str] = field(default_factory=list)

    @property
    def slow_manifold(self) -> SlowManifold | None:
        """The slow manifold on which most states settle, if there is one."""
        return self.settling or None

    @property
    def results(self) -> dict[str, Result]:
        """The results by name; the first context is the one of `fixed_points`."""
        named: dict[str, Result | None] = {"fixed_points": self.fixed_points, "slow_manifold": self.slow_manifold}
        others = list(self.contexts.items())[1:]
        named |= {f"fixed_points-{number}": fp for number, (_, fp) in enumerate(others, start=2)}
        return {name: result for name, result in named.items() if result is not None}


def inspect_mechanism(
    cell: Cell,
    contexts: Mapping[str, Dynamics],
    visited: Float[Tensor, "time batch size"] | None,
    options: InspectionOptions,
    *,
    wanted: Wanted = lambda name: True,
    starts: Callable[[Tensor], Tensor] = lambda states: states,
) -> Mechanism:
    """Apply the lenses on fixed points to a network at one or more constant inputs.

    Args:
        cell: the network.
        contexts: the network at each constant input, by name. The first one has all sections, the others one table.
        visited: states along its trials, NaN after the end of a trial, from which the search starts; None: trajectories
            start at random.
        options: how to search.
        wanted: which lenses.
        starts: changes the states from which the search starts.

    """
    first = next(iter(contexts.values()))
    if not wanted("fixed-points"):
        paths = _relaxations(first, None, options.seed) if visited is None else visited
        return Mechanism(paths, describe_input(first))
    pool = None if visited is None else starts(sample_states(visited.flatten(0, 1), options.starts, options.seed))
    points = by_condition(options.search, contexts, pool=pool)
    fp = points.results[0]
    assert isinstance(fp, FixedPoints)
    paths = _relaxations(first, fp, options.seed) if visited is None else visited
    found = Mechanism(paths, describe_input(first), fp, points if len(points) > 1 else {}, lenses=["fixed-points"])
    if len(points) > 1:
        found.sections.append(contexts_section(points, None if visited is None else visited[:, :TRAJECTORIES]))
    if wanted("slow-manifold"):
        memory = inspect_slow_manifold(first, paths, fp, options)
        if isinstance(memory, str):
            found.sections.append(slow_manifold_section(memory))
        else:
            found.settling = memory
        if found.slow_manifold is not None:
            found.sections.append(slow_manifold_section(found.slow_manifold))
            found.lenses.append("slow-manifold")
    by_lens = lens_sections(InspectedNetwork(cell, first, fp, paths), wanted)
    found.sections += chain(*by_lens.values())
    found.lenses += by_lens
    return found


def contexts_section(points: ByCondition, trajectories: Float[Tensor, "time batch size"] | None) -> Section:
    """Return the section that compares the fixed points in several contexts, in a table and in one projection."""
    rows = [
        (
            name,
            str(len(fp)),
            str(sum(kind == "stable" for kind in fp.kind)),
            str(sum(kind == "saddle" for kind in fp.kind)),
            str(0 if fp.slow is None else len(fp.slow)),
            "–" if fp.index_sum is None else str(fp.index_sum),
        )
        for name, fp in points.items()
    ]
    table = table_markup("Contexts", ("Context", "Fixed points", "Stable", "Saddles", "Slow", "Index sum"), rows)
    lead = (
        f"The network was searched in {pluralise(len(points), 'context')}, each a constant input. The other sections "
        f"are about the first one, {next(iter(points))!r}."
    )
    figure = draw_by_condition(points, trajectories, COLOUR, figure=new_figure(6.4, 5.4), font_size=PAGE_FONT_SIZE)
    alt = "Fixed points of all contexts in one projection."
    return Section("Contexts", lead, table + figure_markup(figure, "contexts", alt=alt))


def sample_states(states: Float[Tensor, "states size"], number: int, seed: int) -> Float[Tensor, "starts size"]:
    """Return some of the finite states, chosen at random."""
    states = states[states.isfinite().all(1)]
    order = torch.randperm(len(states), generator=torch.Generator().manual_seed(seed))
    return states[order[:number]]


def _relaxations(
    dynamics: Dynamics, fp: FixedPoints | None, seed: int, steps: int = 60
) -> Float[Tensor, "time batch size"]:
    """Return trajectories of the undisturbed network from random states around the fixed points."""
    generator = torch.Generator().manual_seed(seed)
    extent = 1.5 * float(fp.states.abs().max()) if fp is not None and len(fp) else 1.0
    states = dynamics.clamp(Box(TRAJECTORIES, -extent - 0.1, extent + 0.1).draw(dynamics, generator))
    path = [states]
    with torch.no_grad():
        for _ in range(steps):
            path.append(dynamics(path[-1]))
    trajectories = torch.stack(path)
    return trajectories[:, torch.isfinite(trajectories).all(2).all(0)]
