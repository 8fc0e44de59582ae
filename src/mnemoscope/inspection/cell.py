"""Inspect any network without a task: its fixed points at a constant input, and its page."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells import Cell
from mnemoscope.inspection.options import DEFAULT_OPTIONS, InspectionOptions
from mnemoscope.inspection.page import TRAJECTORIES, describe_input, write_with_results
from mnemoscope.inspection.result import Inspection
from mnemoscope.inspection.slow_manifold import inspect_slow_manifold, slow_manifold_section
from mnemoscope.inspection.uses import add_citations
from mnemoscope.lenses import Box, Dynamics, FixedPoints
from mnemoscope.report import InspectedNetwork, NetworkPage, lens_sections
from mnemoscope.report.markup import check_report_extra


def inspect_cell(
    cell: Cell, title: str, page: str | Path, *, options: InspectionOptions = DEFAULT_OPTIONS
) -> Inspection:
    """Find the fixed points of a network at a constant input, and write its page; trajectories start at random."""
    check_report_extra()
    if not all(torch.isfinite(weight).all() for weight in cell.parameters()):
        raise ValueError("The network has NaN or infinite weights.")
    dynamics = Dynamics(cell, options.constant_input())
    fp = options.search(dynamics)
    facts = [
        ("Cell", f"{type(cell).__name__}, {dynamics.size} numbers in a state"),
        ("Parameters", f"{sum(weight.numel() for weight in cell.parameters()):,}"),
        ("Constant input", describe_input(dynamics)),
    ]
    trajectories = _relaxations(dynamics, fp, options.seed)
    memory = inspect_slow_manifold(dynamics, trajectories, fp, options.seed)
    by_lens = lens_sections(InspectedNetwork(cell, dynamics, fp, trajectories))
    sections, lenses = [*chain(*by_lens.values())], ["fixed-points", *by_lens]
    if memory:
        sections, lenses = [slow_manifold_section(memory), *sections], [*lenses, "slow-manifold"]
    content = NetworkPage(
        title, fp, facts, trajectories, command=options.command, sections=sections, slow_manifold=memory
    )
    results = {"fixed_points": fp, "slow_manifold": memory or None}
    write_with_results(Path(page), add_citations(content, lenses), results)
    return Inspection(Path(page), fp, slow_manifold=memory or None)


def _relaxations(dynamics: Dynamics, fp: FixedPoints, seed: int, steps: int = 60) -> Float[Tensor, "time batch size"]:
    """Return trajectories of the undisturbed network from random states around the fixed points."""
    generator = torch.Generator().manual_seed(seed)
    extent = 1.5 * float(fp.states.abs().max()) if len(fp) else 1.0
    states = dynamics.clamp(Box(TRAJECTORIES, -extent - 0.1, extent + 0.1).draw(dynamics, generator))
    path = [states]
    with torch.no_grad():
        for _ in range(steps):
            path.append(dynamics(path[-1]))
    trajectories = torch.stack(path)
    return trajectories[:, torch.isfinite(trajectories).all(2).all(0)]
