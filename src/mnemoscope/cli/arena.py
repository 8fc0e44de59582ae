"""The command arena. Importing it does not import torch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mnemoscope.arena.definition import Arena, add_networks, read_arena
from mnemoscope.base.plurals import pluralise
from mnemoscope.base.terminal import printable, shows_progress
from mnemoscope.base.validation import check_whole
from mnemoscope.cli.commands import engine_named
from mnemoscope.cli.tables import RESULTS, print_error, print_table
from mnemoscope.cli.tyro_types import Positional, Suppress
from mnemoscope.config.options import Option

if TYPE_CHECKING:
    from mnemoscope.arena.result import ArenaTable


@dataclass(frozen=True)
class RunArena:
    """Train networks of one size on the same memory tasks, with the same tuning budget, and compare them in a table.

    An arena is a TOML file with networks, tasks, seeds, the size that all networks have (parameters, or numbers in the
    state) and the learning rates that each network tries on each task. `memory` and `tiny` come with the package.

        mnemoscope arena tiny                                  # an example: a minute on one core
        mnemoscope arena mine.toml --networks gru lstm         # your arena, some of its networks
        mnemoscope arena memory --minutes 9 --processes 30 --share-gpu    # a slice; the same command continues it
        mnemoscope arena memory --status                       # what is done, what is left, and its time
        mnemoscope arena memory --collect                      # merge finished runs into results/arena/memory.json
        mnemoscope arena memory --page arena.html              # the table, fronts and learning curves as a page
        mnemoscope arena tiny --cards                          # the memory cards of all networks, linked by the page
        mnemoscope --plugin mine.py arena memory --add mine.toml --networks mine    # compare a network of yours

    Nothing is repeated: a run that has finished in --root or is in the results is kept. A run that did not finish
    continues from its checkpoint. Docs: arena.md, with the steps to submit a network.
    """

    arena: Positional[str] = "memory"
    """Name of an arena of the package, or a .toml file."""
    add: Path | None = None
    """TOML file with tables [[network]]: networks that join the arena."""
    networks: tuple[str, ...] = ()
    """Run only these networks; with --cards, make only their cards."""
    tasks: tuple[str, ...] = ()
    """Run only these tasks; with --cards, make only the cards on these, by default those that the arena names."""
    minutes: float | None = None
    """Time after which running trainings are interrupted; they then have half a minute to write a checkpoint. Without
    it, the command ends when everything is done."""
    processes: int | None = None
    """Number of trainings that run simultaneously with the engine local; by default one per core."""
    share_gpu: bool = False
    """With the engine local: start NVIDIA's Multi-Process Service, so that trainings use a GPU at the same time instead
    of in turns."""
    engine: Literal["local", "ray", "slurm", "here"] = "local"
    """Where to run, as in `mnemoscope study`."""
    engine_options: dict[str, Option] = field(default_factory=dict)
    """Options of the engine in pairs of name and value, such as address auto (ray), or partition gpu minutes 90
    (slurm)."""
    device: Literal["cpu", "cuda"] | None = None
    """Device to train on instead of the arena's. Runs on another device are other runs."""
    root: Path = Path("runs")
    """Folder of all runs; those of the arena are in <root>/arenas/<name>."""
    results: Path = RESULTS / "arena"
    """Folder of collected tables, <results>/<name>.json."""
    status: bool = False
    """Run nothing; print what is done and what is left."""
    collect: bool = False
    """Run nothing; write the finished runs of --root and of the results into the results."""
    page: Path | None = None
    """Run nothing; write the page of all finished runs to this file."""
    cards: bool = False
    """Make a memory card of every network, or of --networks, on every task that the arena names for its cards, or on
    --tasks, in a folder `cards` next to the page, and write the page, by default <root>/arenas/<name>/page.html. A
    network whose run is not in --root is trained again, once, on --device. With --collect, the numbers of the cards go
    into <results>/<name>-cards."""
    markdown: Path | None = None
    """Run nothing; write the table as Markdown to this file: a new one, or one with the marks <!-- arena --> and
    <!-- end of arena -->, between which it is written."""
    figure: Path | None = None
    """Run nothing; draw the table in this file, such as arena.png or arena.svg."""
    json: bool = False
    """Print the table, or what is left, as JSON."""
    command: Suppress[str] = ""

    def run(self) -> int:
        arena = read_arena(self.arena)
        own = arena if self.add is None else add_networks(arena, self.add)
        arena = own if self.device is None else own.on(self.device)
        known = self._known(arena)
        if not (self.status or self.collect or self.page or self.markdown or self.figure or self.cards):
            return self._run(arena, known)
        if (self.tasks or self.networks) and not self.cards:
            raise ValueError(
                "--networks and --tasks choose what to run; the status and the results are of the whole arena."
            )
        limits = self.minutes is not None or self.processes is not None or self.share_gpu or self.engine_options
        if self.cards and (self.engine != "local" or limits):
            raise ValueError(
                "--cards makes one card after the other in this process. Omit --minutes, --processes, --share-gpu, "
                "--engine and --engine-options."
            )
        from mnemoscope.arena.plan import matched_sizes
        from mnemoscope.arena.runner import collect_runs

        sizes = matched_sizes(arena)
        tables = [collect_runs(arena, self.root, known, sizes)]
        if self.cards and own != arena:  # others are trained again, with the rates of the arena's own device
            tables.append(collect_runs(own, self.root, known, sizes))
        table = max(tables, key=lambda each: len(each.runs))
        if self.collect:
            self._save(table, known)
        page = self._page(arena) if self.cards else self.page
        if known is None and not table.runs:
            print_error(f"There are no runs in {self.root} and no results in {self._file(arena)}: the table is empty.")
        if self.cards:
            self._write_cards(tables, table, self._page(arena).parent)
        if page is not None:
            print(f"Page: {self._write_page(page, table).resolve()}")
        if self.markdown is not None:
            from mnemoscope.arena.card_table import load_cards
            from mnemoscope.arena.markdown import write_markdown
            from mnemoscope.arena.page import CARDS

            made = self.cards and not self.collect
            cards = load_cards(self._page(arena).parent / CARDS if made else self._collected_cards(arena), arena)
            print(f"Table: {write_markdown(self.markdown, table, cards).resolve()}")
        if self.figure is not None:
            from mnemoscope.arena.figure import draw_table

            self.figure.parent.mkdir(parents=True, exist_ok=True)
            draw_table(table).savefig(self.figure, dpi=130)
            print(f"Figure: {self.figure.resolve()}")
        if self.status:
            self._print_status(table, sizes)
        return 0

    def _run(self, arena: Arena, known: ArenaTable | None) -> int:
        from mnemoscope.arena.runner import collect_runs, run_arena
        from mnemoscope.report.markup import check_report_extra

        check_report_extra()  # the page comes last
        options = dict(self.engine_options)
        if self.engine != "local" and (self.processes is not None or self.share_gpu):
            raise ValueError(f"--processes and --share-gpu are for the engine local, but the engine is {self.engine}.")
        if self.processes is not None:
            check_whole(1, processes=self.processes)
            options["max_jobs"] = self.processes
        if self.share_gpu:
            options["share_gpu"] = True
        shown = shows_progress(self.json)
        part = arena.part(self.networks, self.tasks)
        result = run_arena(
            part,
            self.root,
            known=known,
            engine=engine_named(self.engine, options),
            minutes=self.minutes,
            progress=shown,
            report=None if shown or self.json else lambda line: print(printable(line), flush=True),
        )
        # The page is that of the whole arena: a call with --networks must not hide what earlier calls have run.
        whole = result.table if part == arena else collect_runs(arena, self.root, known)
        page = self._write_page(self._page(arena), whole)
        if self.json:
            print(
                json.dumps(
                    {"finished": result.finished, "jobs": dict(result.states), "cells": result.table.rows()}, indent=2
                )
            )
        else:
            print_table(_rows(result.table))
            for cell in result.table.cells():
                if cell.remarks():
                    print(printable(f"{cell.network} on {cell.task}: {'; '.join(cell.remarks())}."))
            print(printable(result.table.summary()))
            stopped = {state: number for state, number in result.states.items() if number and state != "finished"}
            jobs = "".join(f"; {number} jobs {state}" for state, number in stopped.items())
            print(f"{result.finished} runs finished{jobs}.")
            print(f"Page: {page}")
        for failed in result.failed:
            print_error(f"Failed: {failed}")
        return 1 if result.failed else 0

    def _known(self, arena: Arena) -> ArenaTable | None:
        if not self._file(arena).exists():
            return None
        from mnemoscope.arena.result import ArenaTable

        return ArenaTable.load(self._file(arena))

    def _save(self, table: ArenaTable, known: ArenaTable | None) -> None:
        """Write the results; raise if the file has runs that the table has not."""
        file, before = self._file(table.arena), () if known is None else known.runs
        if lost := len({run.hash for run in before} - {run.hash for run in table.runs}):
            raise ValueError(
                f"{file} has {pluralise(lost, 'run')} that the arena does not have, and --collect would drop. Pass "
                f"--add and --device as they were when these runs were collected; or, if the arena has changed, move "
                f"the file away."
            )
        table.save(file)
        print(f"{file}: {len(table.runs)} runs, {len(before)} before.")

    def _file(self, arena: Arena) -> Path:
        return self.results / f"{arena.name}.json"

    def _collected_cards(self, arena: Arena) -> Path:
        return self.results / f"{arena.name}-cards"

    def _page(self, arena: Arena) -> Path:
        return self.page or self.root / "arenas" / arena.name / "page.html"

    def _write_cards(self, tables: Sequence[ArenaTable], shown: ArenaTable, folder: Path) -> None:
        from mnemoscope.arena.network_cards import write_cards
        from mnemoscope.arena.page import card_folder
        from mnemoscope.base.files import write_json
        from mnemoscope.base.rounding import shortened
        from mnemoscope.inspection import InspectionOptions

        arena, options = tables[0].arena, InspectionOptions(progress=shows_progress(self.json), command=self.command)
        networks = self.networks or tuple(each.name for each in arena.networks)
        for name in networks:
            arena.network(name)  # an unknown name is an error before anything is trained
        tasks = self.tasks or arena.cards or (arena.tasks[0].name,)
        for name in tasks:
            arena.task(name)
        made = write_cards(tables, shown, networks, tasks, self.root, folder, options=options, report=print_error)
        for network, task, card in made:
            print(f"Card: {(card_folder(folder, network, task) / 'card.html').resolve()}", flush=True)
            if self.collect:
                collected = self._collected_cards(arena) / task
                collected.mkdir(parents=True, exist_ok=True)
                write_json(collected / f"{network}.json", shortened(card.to_dict()))

    def _write_page(self, path: Path, table: ArenaTable) -> Path:
        from mnemoscope.arena.page import write_arena_page

        return write_arena_page(path, table, self.root, self.command)

    def _print_status(self, table: ArenaTable, sizes: dict[tuple[str, str], int]) -> None:
        from mnemoscope.arena.status import status_rows

        rows = status_rows(table, sizes)
        if self.json:
            print(json.dumps(rows, indent=2))
        else:
            print_table(rows)


def _rows(table: ArenaTable) -> list[dict[str, Any]]:
    """Return the table as rows of text: accuracy and spread by network and task."""
    rows = []
    for name in table.ranking():
        row = {"network": name}
        for task in table.tasks:
            cell = table.cell(name, task)
            spread = "" if cell.reach is None else f" ± {cell.reach:.3f}"
            row[task] = "" if cell.accuracy is None else f"{cell.accuracy:.3f}{spread}"
        rows.append(row)
    return rows
