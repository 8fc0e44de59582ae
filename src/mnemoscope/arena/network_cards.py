"""The memory cards of an arena's networks, next to its page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mnemoscope.arena.card.build import memory_card
from mnemoscope.arena.cell import TrainedRun
from mnemoscope.arena.measurement import SUBFOLDER
from mnemoscope.arena.page import CARDS
from mnemoscope.arena.result import ArenaTable
from mnemoscope.inspection.options import DEFAULT_OPTIONS, InspectionOptions


def write_cards(
    table: ArenaTable, root: str | Path, folder: str | Path, options: InspectionOptions = DEFAULT_OPTIONS
) -> Iterator[Path]:
    """Make the card of each network that has a run in `root`, and yield its folder, `<folder>/cards/<network>`.

    A card describes one trained network: that of the first seed on the first task of the arena whose run stayed finite
    and is in `root`. Networks that have run the same tasks thus have cards on the same task, which can be compared.
    """
    for network in table.networks:
        place = next((found for run in _runs(table, network) if (found := _folder(table, run, root)).is_dir()), None)
        if place is not None:
            target = Path(folder, CARDS, network)
            memory_card(place, arena=table, options=options).save(target)
            yield target


def _runs(table: ArenaTable, network: str) -> Iterator[TrainedRun]:
    """Yield the runs of a network that stayed finite, in the order of the arena's tasks and seeds."""
    for task in table.tasks:
        yield from (run for run in table.cell(network, task).runs if run.accuracy is not None)


def _folder(table: ArenaTable, run: TrainedRun, root: str | Path) -> Path:
    return Path(root, SUBFOLDER, table.arena.name, f"{run.network}.{run.task}", run.hash)
