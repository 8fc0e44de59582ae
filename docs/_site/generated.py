"""The pages of the documentation that are made from the registries and the docstrings, as Markdown by path."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.util import find_spec
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
    "mnemoscope.replication.citing",
    "mnemoscope.replication.scoreboard",
)
"""Modules with something to call that their package does not hand on."""
HIDDEN = ("mnemoscope.kernels", "mnemoscope.cli")
"""Packages that one does not call."""


def pages(results: Path) -> dict[str, str]:
    """All of them; `results` is the folder of the studies' results."""
    written = {"cells.md": cells(), "tasks.md": tasks(), "lenses.md": lenses(), "studies.md": studies(results)}
    return {**written, **reference()}


def cells() -> str:
    """Cells, relational networks and what they are made of."""
    sizes = ("input_size", "hidden_size", "output_size")
    return _page(
        "Cells and networks",
        "One step of a network each, to be named by `--cell` or `RunConfig(cell=...)`; options by `--cell-options`. "
        "This page is made from the registries, which `mnemoscope list cells` and `list networks` show too.",
        _section("Cells", ("name", "what it is", "options", "source"),
                 [(_linked(e), e.summary, _options(e.load(), sizes), e.source) for e in registry.cells]),
        _section("Relational networks", ("name", "what it is", "options", "source"),
                 [(f"`{e.name}`", e.summary, _options(e.load(), ("problem",)), e.source) for e in registry.networks],
                 "They learn the tasks that show all objects of a problem at once."),
        _section("What they are made of", ("name", "kind", "what it is", "source"),
                 [(_linked(e), ", ".join(e.tags), e.summary, e.source) for e in registry.parts],
                 "Parts with a source of their own, which `mnemoscope cite` finds in a network."),
        _section("Optimisers", ("name", "what it is", "source"),
                 [(f"`{e.name}`", e.summary, e.source) for e in registry.optimisers]),
    )  # fmt: skip


def tasks() -> str:
    """Tasks and presets."""
    rows = []
    for entry in registry.tasks:
        task, options = task_named(entry.name), asdict(entry.load()())
        told = ", ".join(f"{name} = {value!r}" for name, value in options.items())
        baseline = f"{task.baseline():.3g} ({task.baseline_label})"
        rows.append((_linked(entry), entry.summary, f"`{told}`", baseline, entry.source))
    presets = [
        (f"`{name}`", f"`{one.cell}`", f"`{one.task}`", f"{one.steps:,} batches of {one.batch_size}")
        for name, one in PRESETS.items()
    ]
    return _page(
        "Tasks",
        "Seeded streams of inputs, targets and a mask, to be named by `--task` or `RunConfig(task=...)`. The loss "
        "beside each is that of the best predictor that remembers nothing, or guesses, with the options shown.",
        _section("What there is to learn", ("name", "what is asked", "options", "loss to beat", "source"), rows),
        _section("Presets of training", ("name", "cell", "task", "length"), presets,
                 "Whole configurations that `mnemoscope train` knows by name."),
    )  # fmt: skip


def lenses() -> str:
    """What can be seen of a network."""
    rows = [(_linked(e), e.summary, ", ".join(e.tags), e.source) for e in registry.lenses]
    return _page(
        "Lenses",
        "What can be seen of a network. Each is a function that returns a frozen result, which saves, loads and draws "
        "itself. `mnemoscope inspect` looks through those that suit the network. What a lens cannot know is in "
        "[limits](limits.md).",
        _section("What there is to look through", ("name", "what it shows", "of", "source"), rows),
    )


def studies(results: Path) -> str:
    """Studies, their presets, and of which there are results."""
    held: dict[str, list[str]] = {}
    for one in find_study_results(results):
        held.setdefault(one.study, []).append(f"[{one.preset}](../results/{one.path.name}) ({one.progress})")
    rows = []
    for entry in registry.studies:
        study: Study = entry.load()
        ran = "; ".join(held.get(entry.name, ["never run"]))
        rows.append((f"`{entry.name}`", study.question, entry.source, ran))
    return _page(
        "Studies",
        "A study is something published, measured again: `mnemoscope study NAME --preset smoke`, `cpu` or `paper`. "
        "The [scoreboard](../SCOREBOARD.md) has every published number beside ours.",
        _section("What was published, and is asked again", ("study", "question", "source", "results"), rows),
    )


def reference() -> dict[str, str]:
    """A page for each package, and a list of them. What a package hands on from one within it is on its own page."""
    found = [each.name for each in pkgutil.walk_packages(mnemoscope.__path__, "mnemoscope.") if each.ispkg]
    shown: dict[str, list[str]] = {}
    for name in sorted({*found, *PARTS}):
        if name.startswith(HIDDEN):
            continue
        outer, _, last = name.rpartition(".")
        handed_on = {*importlib.import_module(outer).__all__} - {last} if outer in shown else set()
        members = [each for each in getattr(importlib.import_module(name), "__all__", []) if each not in handed_on]
        if members or name in PARTS:
            shown[name] = members
    firsts = {name: (importlib.import_module(name).__doc__ or "").strip().partition("\n")[0] for name in shown}
    listed = [f"- [`{name}`]({name}.md): {first}" for name, first in firsts.items()]
    index = "# Reference\n\nEverything that is meant to be called, by package.\n\n" + "\n".join(listed) + "\n"
    return {"api/index.md": index, **{f"api/{name}.md": _of_module(name, members) for name, members in shown.items()}}


def _of_module(name: str, members: Sequence[str]) -> str:
    chosen = f"    options:\n      members: [{', '.join(members)}]\n" if members else ""
    return f"# {name}\n\n::: {name}\n{chosen}"


def _page(title: str, lead: str, *sections: str) -> str:
    return "\n\n".join([f"# {title}", lead, *sections]) + "\n"


def _section(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], lead: str = "") -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    table = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
    return "\n\n".join(part for part in (f"## {title}", lead, table) if part)


def _linked(entry: Entry) -> str:
    """The name, as a link to what it stands for where the reference has that."""
    module, _, name = entry.target.partition(":")
    if "[" in name:  # one of a table
        return f"`{entry.name}`"
    inner = (
        f".{name}" if hasattr(importlib.import_module(module), "__path__") and find_spec(f"{module}.{name}") else ""
    )  # a package of the same name
    return f"[`{entry.name}`][{module}.{name}{inner}]"


def _options(target: Callable[..., Any], given: Sequence[str]) -> str:
    known = {name: each for name, each in options_of(target).items() if name not in given}
    told = ", ".join(name if each.default is each.empty else f"{name} = {each.default!r}"
                     for name, each in known.items())  # fmt: skip
    return f"`{told}`" if told else ""
