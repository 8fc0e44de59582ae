"""The API reference: a page for each lens and for each other package, as Markdown by path."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Sequence

from tables import section  # pyright: ignore[reportMissingImports]

import mnemoscope
from mnemoscope import lenses, registry

PARTS = (
    "mnemoscope.config.run_config",
    "mnemoscope.registry.citations",
    "mnemoscope.networks.recurrent",
    "mnemoscope.cells.nonlinearities",
    "mnemoscope.networks.matrix",
    "mnemoscope.networks.attentive",
    "mnemoscope.lenses.result",
    "mnemoscope.drawing.axes",
    "mnemoscope.drawing.svg",
    "mnemoscope.replication.cited_works",
    "mnemoscope.replication.scoreboard",
)
"""Modules with public functions that their package does not export."""
HIDDEN = ("mnemoscope.kernels", "mnemoscope.cli", "mnemoscope.config.presets")
"""Packages without a public API."""
LENSES = "mnemoscope.lenses"
SHARED = {LENSES: "Dynamics", f"{LENSES}.result": "Result"}
"""Titles of the pages on what all lenses share."""
ROOMS = {
    "Networks": ("cells", "networks", "connectivity", "memory", "relational"),
    "Tasks and training": ("tasks", "config", "training", "sweeps", "engines", "store"),
    "Pages and studies": ("arena", "inspection", "report", "drawing", "replication", "registry"),
}
"""The other rooms of the package, by topic."""


def reference() -> dict[str, str]:
    """Return the index, and a page for each lens and each other package with a public name."""
    names = public_names()
    index = "\n\n".join([
        "# Reference",
        "Each lens has a page: its functions first, then its result. The names of `mnemoscope` are those of its rooms: "
        "`ms.find_fixed_points` is `mnemoscope.lenses.find_fixed_points`.",
        _lens_table(names),
        *(_room_table(topic, names) for topic in ROOMS),
    ])  # fmt: skip
    return {"api/index.md": index + "\n", **{f"api/{page}.md": _page(page, names[page]) for page in names}}


def navigation() -> list[dict[str, str | list[dict[str, str]]]]:
    """Return the reference as a part of the navigation of the site."""
    names = public_names()
    topics = {"Lenses": ("lenses",), **ROOMS}
    parts = {
        topic: [{_title(page): f"api/{page}.md"} for room in rooms for page in _of_room(room, names)]
        for topic, rooms in topics.items()
    }
    return [{"Contents": "api/index.md"}, *({topic: pages} for topic, pages in parts.items())]


def public_names() -> dict[str, list[str]]:
    """Return the names on each page, each with the package that it is imported from.

    A name that a package re-exports appears on the outer page only. The names of lenses appear on the page of their
    lens, as names of `mnemoscope.lenses` if that exports them.
    """
    packages = [module.name for module in pkgutil.walk_packages(mnemoscope.__path__, "mnemoscope.") if module.ispkg]
    names: dict[str, list[str]] = {}
    for page in sorted({*packages, *PARTS}):
        if page.startswith(HIDDEN):
            continue
        outer = page.rpartition(".")[0]
        found = [f"{page}.{name}" for name in _exported(page) if name not in _exported(outer)]
        if _is_lens(page):
            shared = [name for name in _exported(LENSES) if _home(name) == page]
            found = [*(f"{LENSES}.{name}" for name in sorted(shared, key=_rank)), *found]
        elif page == LENSES:
            found = [f"{LENSES}.{name}" for name in _exported(LENSES) if not _is_lens(_home(name))]
        if found or page in PARTS:
            names[page] = found
    return names


def _is_lens(page: str) -> bool:
    return page.rpartition(".")[0] == LENSES and hasattr(importlib.import_module(page), "__path__")


def _home(name: str) -> str:
    """Return the folder of the lens that defines a name of `mnemoscope.lenses`, or its module."""
    return ".".join(getattr(lenses, name).__module__.split(".")[:3])


def _rank(name: str) -> tuple[bool, str]:
    """Return a key that sorts functions before classes, each by name."""
    return not inspect.isfunction(getattr(lenses, name)), name


def _exported(package: str) -> list[str]:
    """Return the names that a package defines or imports as itself, other than its modules; none for a module."""
    module = importlib.import_module(package)
    if package == "mnemoscope" or not hasattr(module, "__path__"):
        return []
    members = ((name, getattr(module, name)) for name in dir(module) if not name.startswith("_"))
    return [name for name, member in members if not inspect.ismodule(member)]


def _page(page: str, names: Sequence[str]) -> str:
    """Return a page that mkdocstrings fills: that of a lens name by name, another package as a whole."""
    if _is_lens(page):
        options = "show_root_heading: true\n      show_root_toc_entry: true\n      show_root_full_path: false"
        parts = [f"::: {name}\n    options:\n      {options}" for name in names]
        return "\n\n".join([f"# {_title(page)}", _summary(page), _imports(page, names), *parts]) + "\n"
    members = f"    options:\n      members: [{', '.join(_short(name) for name in names)}]\n" if names else ""
    return f"# {SHARED.get(page, page)}\n\n::: {page}\n{members}"


def _imports(page: str, names: Sequence[str]) -> str:
    """Return a sentence on where the names of a lens are imported from."""
    inner = ", ".join(f"`{_short(name)}`" for name in names if name.startswith(f"{page}."))
    return f"Import from `{LENSES}`" + (f", and {inner} from `{page}`." if inner else ".")


def _lens_table(names: dict[str, list[str]]) -> str:
    """Return the registered lenses with their call and their page."""
    rows = []
    for entry in registry.lenses:
        target = entry.target.replace(":", ".")
        page = next(page for page in names if target in names[page])
        call = f"[`ms.{_short(target)}`][{target}]"
        rows.append((f"[`{entry.name}`]({page}.md)", call, entry.summary, entry.source))
    lead = "[Which lens answers my question?](../which-lens.md) lists their questions, answers and limits."
    return section("Lenses", ("lens", "call", "what it shows", "source"), rows, lead)


def _room_table(topic: str, names: dict[str, list[str]]) -> str:
    """Return the pages of the rooms of a topic."""
    pages = [page for room in ROOMS[topic] for page in _of_room(room, names)]
    return section(topic, ("package", "what it holds"), [(f"[`{page}`]({page}.md)", _summary(page)) for page in pages])


def _of_room(room: str, names: dict[str, list[str]]) -> list[str]:
    """Return the pages of a room, the room itself first, and lenses last."""
    return sorted(
        (page for page in names if f"{page}.".startswith(f"mnemoscope.{room}.")),
        key=lambda page: (_is_lens(page), page),
    )


def _title(page: str) -> str:
    """Return the title of a page: the folder of a lens as a phrase, or the name of another package."""
    name = _short(page).replace("_", " ").capitalize() if _is_lens(page) else page.removeprefix("mnemoscope.")
    return SHARED.get(page, name)


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _summary(page: str) -> str:
    """Return the first line of the docstring of a package."""
    return (importlib.import_module(page).__doc__ or "").strip().partition("\n")[0]
