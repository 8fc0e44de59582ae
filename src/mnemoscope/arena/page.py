"""The page of an arena: the table, every measurement, fronts, learning curves, and how it was measured."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from mnemoscope.arena.card.result import MemoryCard
from mnemoscope.arena.card_table import load_cards, short_text, shown_columns, shown_entries
from mnemoscope.arena.cell import CONFIDENCE, ArenaCell
from mnemoscope.arena.figure import draw_curves, draw_front, draw_fronts
from mnemoscope.arena.measurement import SUBFOLDER
from mnemoscope.arena.plan import run_settings
from mnemoscope.arena.result import ArenaTable
from mnemoscope.base.files import write_output
from mnemoscope.config.run_config import RunConfig
from mnemoscope.inspection.uses import uses_of_config
from mnemoscope.registry.citations import cited
from mnemoscope.report import Section, render_document
from mnemoscope.report.markup import figure_markup, table_markup
from mnemoscope.report.numbers import format_number
from mnemoscope.report.provenance import citation_section, provenance_section
from mnemoscope.report.sortable_table import Cell, Column, sortable_table_markup

CARDS = "cards"
"""Folder next to the page with the memory cards, `cards/<task>/<network>/card.html`."""
EMPTY = "–"


def write_arena_page(path: str | Path, table: ArenaTable, root: str | Path | None = None, command: str = "") -> Path:
    """Write the page of a table as one HTML file.

    Args:
        path: the file. Cards in a folder `cards` next to it are linked.
        table: the table.
        root: folder of all runs; the folders of runs that exist there are linked.
        command: the command that made the page.

    """
    path = Path(path)
    sections = [
        _table_section(table, path.parent),
        _cells_section(table, path.parent, root),
        _front_section(table),
        _fronts_section(table),
        _curves_section(table),
        _networks_section(table),
        _cards_section(table, path.parent),
        _method_section(table),
        citation_section(_cites(table)),
        provenance_section(command, _environments(table)),
    ]
    summary = f'<p class="summary">{escape(table.summary())}</p>'
    write_output(path, render_document(table.arena.title, summary, sections).encode())
    return path


def _table_section(table: ArenaTable, folder: Path) -> Section:
    columns = [
        Column("network"),
        Column("kind"),
        Column("mean", True, "Mean over the tasks, on a scale on which chance is 0 and no error is 1."),
        Column("state", True, "Numbers in the state, mean over the tasks."),
        *(Column(task, True, _task_title(table, task)) for task in table.tasks),
    ]
    rows = []
    for name in table.ranking():
        (skill, number), state = table.mean_skill(name), table.mean_state(name)
        reach = table.mean_reach(name)
        spread = "" if reach is None else f"± {reach:.3f}"
        part = f"{number} of {len(table.tasks)}" if number < len(table.tasks) else spread
        rows.append(
            [
                Cell(name),
                Cell(table.arena.network(name).kind),
                Cell(EMPTY if skill is None else f"{skill:.3f}", skill, part),
                Cell(EMPTY if state is None else f"{state:,.0f}", state),
                *(_accuracy_cell(table.cell(name, task), card_address(folder, name, task)) for task in table.tasks),
            ]
        )
    lead = (
        f"Accuracy on held-out sequences, mean over seeds, ± half the width of its {CONFIDENCE}. The colour is the "
        f"accuracy above chance. A star marks a remark, and a dash an empty cell: the reason appears under the "
        f"pointer, and in the list of cells. A linked accuracy leads to the memory card. A click on a heading sorts."
    )
    return Section(
        "Table", lead, sortable_table_markup("arena", "Accuracy by network and task", columns, rows, ["kind"])
    )


def _accuracy_cell(cell: ArenaCell, card: str = "") -> Cell:
    if cell.accuracy is None:
        return Cell(EMPTY, title=cell.reason)
    remarks = cell.remarks()
    seeds = ", ".join("not finite" if run.accuracy is None else f"{run.accuracy:.3f}" for run in cell.runs)
    title = f"{cell.network} on {cell.task}: {seeds}"
    title = "; ".join([title, *([] if cell.chance is None else [f"chance {cell.chance:.3g}"]), *remarks])
    note = "" if cell.reach is None else f"± {cell.reach:.3f}"
    level = None if cell.skill is None else min(1.0, max(0.0, cell.skill))
    text = f"{cell.accuracy:.3f}" + ("*" if remarks else "")
    return Cell(text, cell.accuracy, note, title, level, ((text, card),) if card else ())


def _cells_section(table: ArenaTable, folder: Path, root: str | Path | None) -> Section:
    columns = [
        Column("network"),
        Column("task"),
        Column("kind"),
        Column("accuracy", True),
        Column("interval", False, f"{CONFIDENCE}, cut off at 0 and 1."),
        Column("seeds", True, "Seeds whose runs have ended."),
        Column("chance", True, "Accuracy of the best predictor without memory."),
        Column("longer", False, "Accuracy at spans that are longer than those of the tests."),
        Column("parameters", True, "Trainable numbers, with embedding and readout."),
        Column("state", True, "Numbers in the state at the end of a training sequence."),
        Column("rate", True, "Learning rate that the tuning chose."),
        Column("seconds", True, "Training time of a run, which is longer if several share a GPU."),
        Column("joules", True, "Energy of a run, its share of what the GPU reports for all that run on it."),
        Column("runs"),
        Column("remarks"),
    ]
    rows = [_cell_row(table, cell, folder, root) for cell in table.cells()]
    lead = (
        "Every cell with all its measurements. A run is named by the hash of its settings, and linked if its folder is "
        "here."
    )
    markup = sortable_table_markup("cells", "All measurements", columns, rows, ["network", "task", "kind"])
    return Section("All cells", lead, markup)


def _cell_row(table: ArenaTable, cell: ArenaCell, folder: Path, root: str | Path | None) -> list[Cell]:
    interval = EMPTY if cell.interval is None else f"{cell.interval[0]:.3f} to {cell.interval[1]:.3f}"
    longer = ", ".join(f"{span}: {accuracy:.3f}" for span, accuracy in cell.longer.items())
    links = tuple((run.hash, _run_address(table, cell, run.hash, folder, root)) for run in cell.runs)
    return [
        Cell(cell.network),
        Cell(cell.task),
        Cell(table.arena.network(cell.network).kind),
        _accuracy_cell(cell),
        Cell(interval),
        Cell(str(len(cell.runs)), len(cell.runs)),
        _number(cell.chance),
        Cell(longer or EMPTY),
        Cell(EMPTY if cell.parameters is None else f"{cell.parameters:,}", cell.parameters),
        Cell(EMPTY if cell.state is None else f"{cell.state:,}", cell.state),
        _number(cell.learning_rate),
        _number(cell.seconds),
        _number(cell.joules),
        Cell(EMPTY, links=links),
        Cell("; ".join(cell.remarks()), words=True),
    ]


def _front_section(table: ArenaTable) -> Section:
    caption = "Each point is a network that has run all tasks; the line joins those of the front, which are named."
    alt = "Mean accuracy above chance against the numbers in the state."
    lead = (
        "Mean over the tasks, on a scale on which chance is 0 and no error is 1. A network is on the front if none has "
        "a state that is no larger and does as well; differences within the intervals of the table are not decided."
    )
    markup = figure_markup(draw_front(table), "front", alt=alt, caption=caption)
    return Section("Accuracy against state size", lead, markup)


def _fronts_section(table: ArenaTable) -> Section:
    caption = (
        "Above each panel: the networks of the front, from the smallest state to the largest. Dotted: the best "
        "predictor without memory."
    )
    alt = "Accuracy against the numbers in the state, one panel for each task."
    markup = figure_markup(draw_fronts(table), "fronts", alt=alt, caption=caption)
    target = table.arena.training.get("target_score")
    equal = f" Accuracies from {target:g} on, at which trainings stop, count as equal." if target else ""
    return Section("Fronts by task", f"The same for every task, as accuracy.{equal}", markup)


def _curves_section(table: ArenaTable) -> Section:
    lead = (
        "Mean accuracy during training, over the seeds whose runs stayed finite. A run that reaches the target "
        "accuracy stops there."
    )
    alt = "Accuracy during training, one panel for each task and one line for each network."
    return Section("Learning curves", lead, figure_markup(draw_curves(table), "curves", alt=alt))


def _networks_section(table: ArenaTable) -> Section:
    columns = [Column("network"), Column("kind"), Column("cell"), Column("options")]
    rows = []
    for each in table.arena.networks:
        options = ", ".join(f"{name} {value}" for name, value in each.cell_options.items())
        rows.append([Cell(each.name), Cell(each.kind), Cell(each.cell), Cell(options or EMPTY, words=True)])
    lead = "What each network is built from."
    return Section("Networks", lead, sortable_table_markup("networks", "Networks", columns, rows, ["kind"]))


def _cards_section(table: ArenaTable, folder: Path) -> Section:
    """Return the tables of the memory cards next to the page, one for each task, or how to make them."""
    found = load_cards(folder / CARDS, table.arena)
    if not found:
        lead = (
            f"A memory card describes what a network holds, for how long, and what erases it. The command "
            f"mnemoscope arena {table.arena.name} --cards makes them."
        )
        return Section("Memory cards", lead, "")
    lead = (
        "One trained network each. A name leads to the whole card, with the intervals and the other entries. What a "
        "step does is that of the last affine layer. Load is how much must be held at once, relative to training. "
        "Times are those of the machine on which the card was made. A column that applies to no network is left out."
    )
    return Section("Memory cards", lead, "".join(_cards_table(table, folder, task, found[task]) for task in found))


def _cards_table(table: ArenaTable, folder: Path, task: str, cards: Mapping[str, MemoryCard]) -> str:
    ranked = {name: cards[name] for name in table.ranking() if name in cards}
    shown = shown_columns(ranked.values())
    columns = [Column("network"), *(Column(name, name != "what a step does") for name in shown)]
    rows = []
    for name, card in ranked.items():
        entries = shown_entries(card)
        cells = [
            Cell(short_text(entry), entry.value, title=entry.text(), words=entry.value is None)
            for entry in map(entries.__getitem__, shown)
        ]
        rows.append([Cell(name, links=((name, card_address(folder, name, task)),)), *cells])
    descriptions = " and ".join(dict.fromkeys(card.task for card in ranked.values()))
    caption = f"Memory cards on {task}: {descriptions}"
    return f"<h3>{escape(caption)}</h3>{sortable_table_markup(f'cards-{task}', caption, columns, rows)}"


def _method_section(table: ArenaTable) -> Section:
    arena, rates = table.arena, [f"{rate:g}" for rate in table.arena.tuning.learning_rates]
    shared = ", ".join(f"{name} {value}" for name, value in arena.training.items()) or "the defaults of a run"
    texts = [
        f"Size: each network has about {arena.match.target:,} {arena.match.quantity} on each task, within "
        f"{arena.match.tolerance:.0%}. Of the hidden sizes that are multiples of a number, 8 unless the arena states "
        f"another one, that which comes closest is used{_reached(table)}.",
        f"Tuning budget: every network is trained on every task once with each of the learning rates "
        f"{', '.join(rates)}, with seed {arena.tuning.seed}. The rate with the highest accuracy is used for the seeds "
        f"{', '.join(map(str, arena.seeds))} of the table. Nothing else is tuned.",
        f"Spread: the {CONFIDENCE}. Runs that do not stay finite count at chance, or at 0 if chance is not known; "
        f"the remarks name them.",
        f"All runs: {shared}.",
    ]
    headings = ("task", "name in mnemoscope", "options", "settings", "longer spans", "chance")
    rows = [
        (
            task.name,
            task.task,
            ", ".join(f"{name} {value}" for name, value in task.task_options.items()) or EMPTY,
            ", ".join(f"{name} {value}" for name, value in task.settings.items()) or EMPTY,
            ", ".join(map(str, task.longer)) or EMPTY,
            EMPTY if (chance := table.chances.get(task.name)) is None else f"{chance:.3g}",
        )
        for task in arena.tasks
    ]
    markup = "".join(f"<p>{escape(text)}</p>" for text in texts) + table_markup("Tasks", headings, rows)
    return Section("How it was measured", "The same rules for all networks.", markup)


def _reached(table: ArenaTable) -> str:
    """Return the smallest and largest number of parameters of the runs; "" without any."""
    sizes = [run.parameters for run in table.runs]
    return f": the networks have {min(sizes):,} to {max(sizes):,} parameters" if sizes else ""


def card_folder(folder: str | Path, network: str, task: str) -> Path:
    """Return the folder of the memory card of a network on a task, next to a page in `folder`."""
    return Path(folder, CARDS, task, network)


def card_address(folder: Path, network: str, task: str) -> str:
    """Return the address of a memory card, relative to the folder of the page; "" without a card."""
    file = card_folder(folder, network, task) / "card.html"
    return file.relative_to(folder).as_posix() if file.exists() else ""


def _run_address(table: ArenaTable, cell: ArenaCell, run: str, folder: Path, root: str | Path | None) -> str:
    """Return the address of a run's folder, or of its page, relative to the page; "" if it is not there."""
    if root is None:
        return ""
    place = Path(root, SUBFOLDER, table.arena.name, f"{cell.network}.{cell.task}", run)
    if not place.is_dir():
        return ""
    address = Path(os.path.relpath(place, folder or Path())).as_posix()
    return f"{address}/page.html" if (place / "page.html").exists() else f"{address}/"


def _number(value: float | None) -> Cell:
    return Cell(EMPTY if value is None else format_number(value), value)


def _task_title(table: ArenaTable, name: str) -> str:
    task, chance = table.arena.task(name), table.chances.get(name)
    options = ", ".join(f"{key} {value}" for key, value in task.task_options.items())
    return f"{task.task}: {options}" + ("" if chance is None else f"; chance {chance:.3g}")


def _cites(table: ArenaTable) -> list[str]:
    """Return the BibTeX keys of all networks and tasks."""
    networks, tasks = table.arena.networks, table.arena.tasks
    uses = []
    for n in range(max(len(networks), len(tasks))):
        network, task = networks[n % len(networks)], tasks[n % len(tasks)]
        config = RunConfig(
            "cite",
            task=task.task,
            task_options=task.task_options,
            cell=network.cell,
            cell_options=network.cell_options,
            hidden_size=8 * network.multiple,
            **run_settings(table.arena, task),
        )
        uses += uses_of_config(config)
    return list(cited(uses))


def _environments(table: ArenaTable) -> str:
    """Return on which machines the runs were trained."""
    machines: Sequence[str] = list(
        dict.fromkeys(str(each.get("cuda") or each.get("cpu")) for each in table.environments)
    )
    return f"The runs were trained on {' and '.join(machines)}." if machines else ""
