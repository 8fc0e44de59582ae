"""What an entry of a registry is, and how it is found by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Entry:
    """One named thing: what it is, where it comes from, and the `module:attribute` that holds it, or the
    `module:table[key]`.
    """

    name: str
    summary: str
    source: str
    target: str
    tags: tuple[str, ...] = ()
    cites: tuple[str, ...] = ()
    """Keys into `citations.BIBTEX`."""

    def load(self) -> Any:
        module, _, attribute = self.target.partition(":")
        name, _, key = attribute.removesuffix("]").partition("[")
        held = getattr(import_module(module), name)
        return held[key] if key else held


@dataclass
class Registry:
    """An ordered list of entries of one kind, with lookup by name."""

    kind: str
    entries: dict[str, Entry] = field(default_factory=dict)

    def add(self, *entries: Entry) -> None:
        for entry in entries:
            if entry.name in self.entries:
                raise ValueError(f"There is already a {self.kind} named {entry.name!r}.")
            self.entries[entry.name] = entry

    def __getitem__(self, name: str) -> Entry:
        if name not in self.entries:
            near = get_close_matches(name, self.entries, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise KeyError(f"There is no {self.kind} named {name!r}.{hint} Known: {', '.join(self.entries)}.")
        return self.entries[name]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries.values())

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, name: str) -> bool:
        return name in self.entries

    def load(self, name: str) -> Any:
        """The class or function behind a name."""
        return self[name].load()
