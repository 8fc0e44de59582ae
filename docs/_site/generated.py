"""Pages generated from the registries and the docstrings, as Markdown by path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from reference import reference  # pyright: ignore[reportMissingImports]
from tables import section  # pyright: ignore[reportMissingImports]

from mnemoscope import registry
from mnemoscope.config import PRESETS
from mnemoscope.config.options import options_of, required_options
from mnemoscope.registry import Entry
from mnemoscope.replication import Study
from mnemoscope.store import find_study_results
from mnemoscope.training import task_named


def pages(results: Path) -> dict[str, str]:
    """Return all generated pages; `results` is the folder with the results of studies."""
    written = {"cells.md": cells(), "tasks.md": tasks(), "studies.md": studies(results)}
    return {**written, **reference()}


def cells() -> str:
    """Return the page of cells, relational networks, their parts and the optimisers."""
    sizes = ("input_size", "hidden_size", "output_size")
    return _page(
        "Cells and networks",
        "A cell is one step of a recurrent network. Choose one by `--cell` or `RunConfig(cell=...)`, and set its "
        "options by `--cell-options`. This page is generated from the registries; `mnemoscope list cells` and "
        "`mnemoscope list networks` print the same.",
        section("Cells", ("name", "what it is", "options", "source"),
                [(_linked(e), e.summary, _options(e.load(), sizes), e.source) for e in registry.cells]),
        section("Relational networks", ("name", "what it is", "options", "source"),
                [(f"`{e.name}`", e.summary, _options(e.load(), ("problem",)), e.source) for e in registry.networks],
                "They learn tasks that show all objects of a problem together."),
        section("Parts", ("name", "kind", "what it is", "source"),
                [(_linked(e), ", ".join(e.tags), e.summary, e.source) for e in registry.parts],
                "Parts of networks with a published source; `mnemoscope cite` finds them in a network."),
        section("Optimisers", ("name", "what it is", "source"),
                [(f"`{e.name}`", e.summary, e.source) for e in registry.optimisers]),
    )  # fmt: skip


def tasks() -> str:
    """Return the page of tasks and presets."""
    rows = []
    for entry in registry.tasks:
        baseline = "depends on the options"
        if not required_options(entry.load()):
            task = task_named(entry.name)
            baseline = f"{task.baseline():.3g} ({task.baseline_label})"
        rows.append((_linked(entry), entry.summary, _options(entry.load(), ()), baseline, entry.source))
    presets = [
        (f"`{name}`", f"`{config.cell}`", f"`{config.task}`", f"{config.steps:,} batches of {config.batch_size}")
        for name, config in PRESETS.items()
    ]
    return _page(
        "Tasks",
        "A task is a seeded stream of inputs, targets and a mask. Choose one by `--task` or `RunConfig(task=...)`. The "
        "baseline is the loss of the best predictor without memory, or of a guess, with the options shown.",
        section("All tasks", ("name", "what it asks", "options", "baseline", "source"), rows),
        section("Presets", ("name", "cell", "task", "length"), presets,
                "Complete configurations; `mnemoscope train NAME` runs one."),
    )  # fmt: skip


def studies(results: Path) -> str:
    """Return the page of studies, with links to their results."""
    links: dict[str, list[str]] = {}
    for stored in find_study_results(results):
        link = f"[{stored.preset}](../results/{stored.path.name}) ({stored.progress})"
        links.setdefault(stored.study, []).append(link)
    rows = []
    for entry in registry.studies:
        study: Study = entry.load()
        linked = "; ".join(links.get(entry.name, ["not run"]))
        rows.append((f"`{entry.name}`", study.question, entry.source, linked))
    return _page(
        "Studies",
        "A study measures a published result again: `mnemoscope study NAME --preset smoke`, `cpu` or `paper`. The "
        "[scoreboard](../SCOREBOARD.md) compares every published number with ours.",
        section("All studies", ("study", "question", "source", "results"), rows),
    )


def _page(title: str, lead: str, *sections: str) -> str:
    return "\n\n".join([f"# {title}", lead, *sections]) + "\n"


def _linked(entry: Entry) -> str:
    """Return the name as a link to its object in the reference, if that has one."""
    module, _, name = entry.target.partition(":")
    if "[" in name:  # an item of a table
        return f"`{entry.name}`"
    return f"[`{entry.name}`][{module}.{name}]"


def _options(target: Callable[..., Any], given: Sequence[str]) -> str:
    """Return the options of a cell, network or task with their defaults, without arguments that are always given."""
    known = {name: option for name, option in options_of(target).items() if name not in given}
    defaults = [
        name if option.default is option.empty else f"{name} = {option.default!r}" for name, option in known.items()
    ]
    return f"`{', '.join(defaults)}`" if defaults else ""
