"""What an entry of a registry is, and how it is found by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from mnemoscope.registry.plugins import load_plugins


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
    """Keys into `citations.BIBTEX`; "mnemoscope" where it is ours."""
    sections: str = ""
    """`module:function` that returns the sections of a lens for a `report.InspectedNetwork`; "" if it adds none to the
    page of every network."""

    def load(self) -> Any:
        return _load(self.target)

    def load_sections(self) -> Any:
        """The function behind `sections`."""
        return _load(self.sections)


def _load(target: str) -> Any:
    module, _, attribute = target.partition(":")
    name, _, key = attribute.removesuffix("]").partition("[")
    held = getattr(import_module(module), name)
    return held[key] if key else held


@dataclass
class Registry:
    """An ordered list of entries of one kind, with lookup by name; plugins add to it.

    >>> instruments = Registry("instrument")
    >>> instruments.add(Entry("clock", "tells the time", "mnemoscope", "time:time"))
    >>> instruments["clocks"]
    Traceback (most recent call last):
    KeyError: "There is no instrument named 'clocks'. Did you mean 'clock'? Known: clock."
    """

    kind: str
    entries: dict[str, Entry] = field(default_factory=dict)
    """What is known so far, without plugins that nobody has asked for."""

    def add(self, *entries: Entry) -> None:
        """Add entries; the same one again changes nothing."""
        for entry in entries:
            known = self.entries.setdefault(entry.name, entry)
            if known != entry:
                raise ValueError(
                    f"There is already a {self.kind} named {entry.name!r}, {known.target}; {entry.target} needs "
                    f"another name."
                )

    def __getitem__(self, name: str) -> Entry:
        if name not in self:
            near = get_close_matches(name, self.entries, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise KeyError(f"There is no {self.kind} named {name!r}.{hint} Known: {', '.join(self.entries)}.")
        return self.entries[name]

    def __iter__(self) -> Iterator[Entry]:
        load_plugins()
        return iter([*self.entries.values()])

    def __len__(self) -> int:
        load_plugins()
        return len(self.entries)

    def __contains__(self, name: str) -> bool:
        if name not in self.entries:
            load_plugins()
        return name in self.entries

    def load(self, name: str) -> Any:
        """The class or function behind a name."""
        return self[name].load()
