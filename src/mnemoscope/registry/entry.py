"""An entry of a registry, and the registry that finds entries by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mnemoscope.base.lazy_imports import load_object
from mnemoscope.base.suggestions import did_you_mean
from mnemoscope.registry.plugins import load_plugins


@dataclass(frozen=True)
class Entry:
    """One named object of the library, or of a plugin."""

    name: str
    """How the command line, configurations and pages call it."""
    summary: str
    """One line on what it is."""
    source: str
    """Place of publication, such as "Jang, section 6"; "mnemoscope" for our own work."""
    target: str
    """The `module:attribute` or the `module:table[key]` that holds it."""
    tags: tuple[str, ...] = ()
    """Keywords."""
    cites: tuple[str, ...] = ()
    """Keys into `citations.BIBTEX`; "mnemoscope" for our own work."""
    sections: str = ""
    """For a lens, the `module:function` that returns its sections for a `report.InspectedNetwork`; "" if it adds none
    to the page of every network."""

    def load(self) -> Any:
        """Import and return the class, function or object behind the entry."""
        return load_object(self.target)

    def load_sections(self) -> Any:
        """Import and return the function behind `sections`."""
        return load_object(self.sections)


@dataclass
class Registry:
    """Entries of one kind, in order, with lookup by name; plugins may add entries.

    >>> instruments = Registry("instrument")
    >>> instruments.add(Entry("clock", "shows the time", "mnemoscope", "time:time"))
    >>> instruments["clocks"]
    Traceback (most recent call last):
    KeyError: "There is no instrument named 'clocks'. Did you mean 'clock'? Known: clock."
    """

    kind: str
    """Kind of the entries, in the singular: "cell", "task"."""
    entries: dict[str, Entry] = field(default_factory=dict)
    """Entries by name, without those of plugins that are not loaded yet."""
    former_names: Mapping[str, str] = field(default_factory=dict)
    """Names of earlier versions and the names of today, so that files of earlier versions can be read."""

    def add(self, *entries: Entry) -> None:
        """Add entries. Adding an equal entry again changes nothing; another one of the same name is an error."""
        for entry in entries:
            known = self.entries.setdefault(entry.name, entry)
            if known != entry:
                raise ValueError(
                    f"There is already a {self.kind} named {entry.name!r}, {known.target}; {entry.target} needs "
                    f"another name."
                )

    def __getitem__(self, name: str) -> Entry:
        if name not in self:
            raise KeyError(
                f"There is no {self.kind} named {name!r}.{did_you_mean(name, self.entries)} Known: "
                f"{', '.join(self.entries)}."
            )
        return self.entries[name] if name in self.entries else self.entries[self.former_names[name]]

    def __iter__(self) -> Iterator[Entry]:
        load_plugins()
        return iter([*self.entries.values()])

    def __len__(self) -> int:
        load_plugins()
        return len(self.entries)

    def __contains__(self, name: str) -> bool:
        if name not in self.entries:
            load_plugins()
        return name in self.entries or name in self.former_names

    def load(self, name: str) -> Any:
        """Import and return the class, function or object behind a name."""
        return self[name].load()
