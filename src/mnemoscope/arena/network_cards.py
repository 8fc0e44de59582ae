"""The memory cards of an arena, one for each network and task, next to its page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path

from mnemoscope.arena.card.build import memory_card
from mnemoscope.arena.card.result import MemoryCard
from mnemoscope.arena.cell import TrainedRun
from mnemoscope.arena.definition import Arena
from mnemoscope.arena.measurement import SUBFOLDER, read_entry, run_entry
from mnemoscope.arena.page import card_folder
from mnemoscope.arena.plan import planned_again
from mnemoscope.arena.result import ArenaTable
from mnemoscope.arena.runner import ACTIVITY
from mnemoscope.base.files import lock_folder
from mnemoscope.inspection.options import DEFAULT_OPTIONS, InspectionOptions
from mnemoscope.training.run_folder import RunFolder
from mnemoscope.training.trial import TRIAL, trained_to_the_end


def write_cards(
    tables: Sequence[ArenaTable],
    placed_in: ArenaTable,
    networks: Sequence[str],
    tasks: Sequence[str],
    root: str | Path,
    folder: str | Path,
    *,
    options: InspectionOptions = DEFAULT_OPTIONS,
    report: Callable[[str], None] = print,
) -> Iterator[tuple[str, str, MemoryCard]]:
    """Make the card of each network on each task, and yield it with the names of both; a table must have a finite run.

    A card describes one trained network: that of the table's first seed. A run whose folder is not in `root` is trained
    again, with the learning rate of the table.

    Args:
        tables: finished runs of the arena on the device that missing networks are trained on, and then on others.
        placed_in: table in which the cards place the networks.
        networks: networks whose cards are made.
        tasks: tasks of the cards.
        root: folder of all runs.
        folder: folder of the page; the card of a network on a task is in `<folder>/cards/<task>/<network>`.
        options: how the networks are inspected.
        report: called with a sentence before a network is trained again, and for each missing card.

    """
    arena = tables[0].arena
    home = Path(root, SUBFOLDER, arena.name)
    for task, network in product(tasks, networks):
        described = described_run(tables, network, task)
        if described is None:
            report(f"No card of {network} on {task}: {_why_none(tables, network, task)}.")
            continue
        place = _trained(arena, described, home, report)
        if not trained_to_the_end(place):
            report(f"No card of {network} on {task}: it was trained again, and did not stay finite.")
            continue
        card = memory_card(place, arena=placed_in, options=options)
        if not _is(described, place, home):
            card = _of_another_training(card, described, planned_again(arena, described).config.device)
        card.save(card_folder(folder, network, task))
        yield network, task, card


def described_run(tables: Sequence[ArenaTable], network: str, task: str) -> TrainedRun | None:
    """Return the run that the card of a network on a task describes; None if none stayed finite.

    It is that of the first seed in the first table which has such a run.
    """
    runs = (run for table in tables for run in table.cell(network, task).runs)
    return next((run for run in runs if run.accuracy is not None), None)


def _why_none(tables: Sequence[ArenaTable], network: str, task: str) -> str:
    runs = [run for table in tables for run in table.runs if (run.network, run.task) == (network, task)]
    if not runs:
        return tables[0].arena.reason_empty(network, task) or "it has not been run"
    reported = any(table.cell(network, task).runs for table in tables)
    diverged = reported or all(run.accuracy is None for run in runs)  # or else only the tuning has ended
    return "no run of it stayed finite" if diverged else "its runs with the seeds of the table are missing"


def _trained(arena: Arena, run: TrainedRun, home: Path, report: Callable[[str], None]) -> Path:
    """Return the folder of a run, which is trained again if it is not there."""
    finished = home / f"{run.network}.{run.task}" / run.hash
    if (finished / TRIAL).exists():
        return finished
    planned = planned_again(arena, run)
    folder = planned.config.folder(home)
    with lock_folder(home, ACTIVITY):
        if not (folder / TRIAL).exists():
            report(f"Training {run.network} on {run.task} again: the folder of its run is not in {home}.")
        run_entry(asdict(planned.config), planned.task.longer, home)
    return folder


def _is(run: TrainedRun, folder: Path, home: Path) -> bool:
    """Whether a folder holds the run itself, or a repetition that ended with the same numbers."""
    config = RunFolder(folder).read_config()
    entry = read_entry(run.network, run.task, config, home)
    ended = None if entry is None else (folder.name, entry[0].steps, entry[0].accuracy, entry[0].loss)
    return ended == (run.hash, run.steps, run.accuracy, run.loss)


def _of_another_training(card: MemoryCard, run: TrainedRun, device: str) -> MemoryCard:
    """Return the card with the remark that it does not describe the arena's own run."""
    remark = f"Trained again for this card on {device}: the run {run.hash} of the arena is another training."
    return replace(
        card, training=f"{card.training} {remark}", provenance={**card.provenance, "run of the arena": run.hash}
    )
