"""What there is: cells, tasks, lenses and studies by name, as data that can be read without importing torch.

To add one, write its file and one line here. The command line, the studies and the documentation all read these lists.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Entry:
    """One named thing: what it is, where it comes from, and the `module:attribute` that holds it."""

    name: str
    summary: str
    source: str
    target: str
    tags: tuple[str, ...] = ()
    cites: tuple[str, ...] = ()
    """Keys into `citations.BIBTEX`."""

    def load(self) -> Any:
        module, _, attribute = self.target.partition(":")
        return getattr(import_module(module), attribute)


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


cells = Registry("cell")
cells.add(
    Entry(
        "elman",
        "h' = phi(V h + U x + b), any recurrent matrix and nonlinearity",
        "Elman 1990",
        "mnemoscope.cells:Elman",
        cites=("elman1990",),
    ),
    Entry(
        "gru",
        "gated recurrent unit, torch.nn.GRU's form",
        "Cho et al. 2014",
        "mnemoscope.cells:GRU",
        cites=("cho2014",),
    ),
    Entry(
        "lstm",
        "long short-term memory, torch.nn.LSTM's form",
        "Hochreiter & Schmidhuber 1997",
        "mnemoscope.cells:LSTM",
        cites=("hochreiter1997",),
    ),
)

tasks = Registry("task")
tasks.add(
    Entry(
        "flipflop",
        "n bits, each held at the sign of its last pulse",
        "Sussillo & Barak 2013; Jang, section 6",
        "mnemoscope.tasks:FlipFlop",
        ("discrete memory",),
        ("sussillo2013", "jang"),
    ),
    Entry(
        "copy",
        "recall 10 symbols after a delay",
        "Hochreiter & Schmidhuber 1997; Arjovsky et al. 2016",
        "mnemoscope.tasks:Copy",
        ("delayed recall",),
        ("hochreiter1997", "arjovsky2016"),
    ),
    Entry(
        "adding",
        "add the two marked numbers of a long sequence",
        "Hochreiter & Schmidhuber 1997",
        "mnemoscope.tasks:Adding",
        ("delayed recall",),
        ("hochreiter1997",),
    ),
)

lenses = Registry("lens")
lenses.add(
    Entry(
        "fixed-points",
        "all fixed points, their kinds and time constants, and whether the set is complete",
        "Sussillo & Barak 2013; Jang, Eq 1-13",
        "mnemoscope.analysis:find_fixed_points",
        ("dynamics",),
        ("sussillo2013", "jang"),
    ),
    Entry(
        "spectra",
        "eigenvalues, Schur form, departure from normality, growth of powers, Kreiss constant, pseudospectra",
        "Henrici 1962; Trefethen & Embree 2005; Kerg et al. 2019, Eq 3.4.1, Fig 3",
        "mnemoscope.analysis:spectrum",
        ("matrices",),
        ("henrici1962", "trefethen2005", "kerg2019"),
    ),
    Entry(
        "transients",
        "norm and spread of an ensemble of states that starts on a sphere, step by step",
        "Kerg et al. 2019, Fig 1b",
        "mnemoscope.analysis:transients",
        ("dynamics",),
        ("kerg2019",),
    ),
)

studies = Registry("study")
studies.add(
    Entry(
        "flipflop-cube",
        "the 27 fixed points of a trained 3-bit flip-flop: corners, edges, faces and centre of a cube",
        "Jang, section 6 and Fig 6",
        "mnemoscope.studies.flipflop_cube:STUDY",
        ("dynamics",),
        ("jang", "sussillo2013"),
    ),
)
