"""Pages generated from the registries and the docstrings, as Markdown by path."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import mnemoscope
from mnemoscope import registry
from mnemoscope.config import PRESETS
from mnemoscope.config.options import options_of
from mnemoscope.registry import Entry
from mnemoscope.replication import Study
from mnemoscope.store import find_study_results
from mnemoscope.training import task_named

PARTS = (
    "mnemoscope.config.run_config",
    "mnemoscope.registry.citations",
    "mnemoscope.networks.recurrent",
    "mnemoscope.cells.nonlinearities",
    "mnemoscope.networks.matrix",
    "mnemoscope.networks.attentive",
    "mnemoscope.drawing.axes",
    "mnemoscope.drawing.svg",
    "mnemoscope.replication.cited_works",
    "mnemoscope.replication.scoreboard",
)
"""Modules with public functions that their package does not export."""
HIDDEN = ("mnemoscope.kernels", "mnemoscope.cli", "mnemoscope.config.presets")
"""Packages without a public API."""


def pages(results: Path) -> dict[str, str]:
    """Return all generated pages; `results` is the folder with the results of studies."""
    written = {"cells.md": cells(), "tasks.md": tasks(), "lenses.md": lenses(), "studies.md": studies(results)}
    return {**written, **reference()}


def cells() -> str:
    """Return the page of cells, relational networks, their parts and the optimisers."""
    sizes = ("input_size", "hidden_size", "output_size")
    return _page(
        "Cells and networks",
        "A cell is one step of a recurrent network. Choose one by `--cell` or `RunConfig(cell=...)`, and set its "
        "options by `--cell-options`. This page is generated from the registries; `mnemoscope list cells` and "
        "`mnemoscope list networks` print the same.",
        _section("Cells", ("name", "what it is", "options", "source"),
                 [(_linked(e), e.summary, _options(e.load(), sizes), e.source) for e in registry.cells]),
        _section("Relational networks", ("name", "what it is", "options", "source"),
                 [(f"`{e.name}`", e.summary, _options(e.load(), ("problem",)), e.source) for e in registry.networks],
                 "They learn tasks that show all objects of a problem together."),
        _section("Parts", ("name", "kind", "what it is", "source"),
                 [(_linked(e), ", ".join(e.tags), e.summary, e.source) for e in registry.parts],
                 "Parts of networks with a published source; `mnemoscope cite` finds them in a network."),
        _section("Optimisers", ("name", "what it is", "source"),
                 [(f"`{e.name}`", e.summary, e.source) for e in registry.optimisers]),
    )  # fmt: skip


def tasks() -> str:
    """Return the page of tasks and presets."""
    rows = []
    for entry in registry.tasks:
        task, options = task_named(entry.name), asdict(entry.load()())
        defaults = ", ".join(f"{name} = {value!r}" for name, value in options.items())
        baseline = f"{task.baseline():.3g} ({task.baseline_label})"
        rows.append((_linked(entry), entry.summary, f"`{defaults}`", baseline, entry.source))
    presets = [
        (f"`{name}`", f"`{config.cell}`", f"`{config.task}`", f"{config.steps:,} batches of {config.batch_size}")
        for name, config in PRESETS.items()
    ]
    return _page(
        "Tasks",
        "A task is a seeded stream of inputs, targets and a mask. Choose one by `--task` or `RunConfig(task=...)`. The "
        "baseline is the loss of the best predictor without memory, or of a guess, with the options shown.",
        _section("All tasks", ("name", "what it asks", "options", "baseline", "source"), rows),
        _section("Presets", ("name", "cell", "task", "length"), presets,
                 "Complete configurations; `mnemoscope train NAME` runs one."),
    )  # fmt: skip


def lenses() -> str:
    """Return the page of lenses."""
    rows = [(_linked(e), e.summary, ", ".join(e.tags), e.source) for e in registry.lenses]
    return _page(
        "Lenses",
        "A lens analyses a network. It is a function that returns a frozen result, which saves, loads, summarises and "
        "draws itself. `mnemoscope inspect` applies the lenses that suit a network. [Limits](limits.md) lists what a "
        "lens cannot know.",
        _section("All lenses", ("name", "what it shows", "topic", "source"), rows),
    )


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
        _section("All studies", ("study", "question", "source", "results"), rows),
    )


def reference() -> dict[str, str]:
    """Return a page for each package, and an index. A name that a package re-exports appears on the outer page only."""
    packages = [module.name for module in pkgutil.walk_packages(mnemoscope.__path__, "mnemoscope.") if module.ispkg]
    shown: dict[str, list[str]] = {}
    for name in sorted({*packages, *PARTS}):
        if name.startswith(HIDDEN):
            continue
        outer = name.rpartition(".")[0]
        exported = _exported(outer) if outer in shown else []
        members = [member for member in _exported(name) if member not in exported]
        if members or name in PARTS:
            shown[name] = members
    summaries = {name: (importlib.import_module(name).__doc__ or "").strip().partition("\n")[0] for name in shown}
    listed = [f"- [`{name}`]({name}.md): {summary}" for name, summary in summaries.items()]
    index = "# Reference\n\nThe public names, by package.\n\n" + "\n".join(listed) + "\n"
    return {"api/index.md": index, **{f"api/{name}.md": _module_page(name, members) for name, members in shown.items()}}


def _exported(package: str) -> list[str]:
    """Return the names that a package defines or imports as itself, other than its modules; none for a module."""
    module = importlib.import_module(package)
    if not hasattr(module, "__path__"):
        return []
    members = ((name, getattr(module, name)) for name in dir(module) if not name.startswith("_"))
    return [name for name, member in members if not inspect.ismodule(member)]


def _module_page(name: str, members: Sequence[str]) -> str:
    """Return a page that mkdocstrings fills with the given members, or with all public ones."""
    chosen = f"    options:\n      members: [{', '.join(members)}]\n" if members else ""
    return f"# {name}\n\n::: {name}\n{chosen}"


def _page(title: str, lead: str, *sections: str) -> str:
    return "\n\n".join([f"# {title}", lead, *sections]) + "\n"


def _section(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], lead: str = "") -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    table = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
    return "\n\n".join(part for part in (f"## {title}", lead, table) if part)


def _linked(entry: Entry) -> str:
    """Return the name as a link to its object in the reference, if that has one."""
    module, _, name = entry.target.partition(":")
    if "[" in name:  # an item of a table
        return f"`{entry.name}`"
    return f"[`{entry.name}`][{module}.{name}]"


def _options(target: Callable[..., Any], given: Sequence[str]) -> str:
    """Return the options of a cell or network with their defaults, without the arguments that are always given."""
    known = {name: option for name, option in options_of(target).items() if name not in given}
    defaults = [
        name if option.default is option.empty else f"{name} = {option.default!r}" for name, option in known.items()
    ]
    return f"`{', '.join(defaults)}`" if defaults else ""
