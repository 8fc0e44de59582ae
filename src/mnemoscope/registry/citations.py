"""The works to cite: their BibTeX by key, readable without importing torch.

The BibTeX entries are in `references.bib`, separated by empty lines. A registry entry lists its keys in `cites`; a
`Source` is one place in one of these works. The page of a network prints the entries with `bibtex`, and
`mnemoscope cite` prints them with `commented_bibtex`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from textwrap import wrap
from typing import NamedTuple

from mnemoscope import registry
from mnemoscope.base.suggestions import did_you_mean
from mnemoscope.base.version import __version__

OWN = f"""\
@software{{mnemoscope,
  author  = {{{{The Mnemoscope founders}}}},
  title   = {{Mnemoscope: recurrent networks, and what they remember}},
  year    = {{2026}},
  version = {{{__version__}}}
}}"""
"""BibTeX entry of this library."""


@dataclass(frozen=True)
class Source:
    """A place in a published work: its BibTeX key, and where in the work to look.

    >>> print(Source("kerg2022thesis", "Table 2"))
    Kerg 2022, Table 2
    >>> print(Source("karuvally2023"))
    Karuvally et al. 2023
    """

    work: str
    """Key into `BIBTEX`."""
    locus: str = ""
    """Place in the work, as the work numbers it: "Table 2", "Eq 3.4.1"; "" for the work as a whole."""
    unread: bool = False
    """Whether the statement is known from other works or the text alone, and the place itself was not read."""

    def __post_init__(self) -> None:
        _entry(self.work)  # raises on an unknown key

    def __str__(self) -> str:
        unread = "a figure that we have not checked" if self.unread else ""
        return ", ".join(filter(None, (short_name(self.work), self.locus, unread)))


class Use(NamedTuple):
    """One use of a registered object: the kind of its registry, and its name there."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def cites(self) -> tuple[str, ...]:
        """Works to cite for it, as keys into `BIBTEX`."""
        return registry.REGISTRIES[self.kind][self.name].cites


def _read(text: str) -> dict[str, str]:
    """Return BibTeX entries by key; empty lines separate the entries of `text`."""
    entries = text.strip().split("\n\n")
    by_key = {entry.partition("{")[2].partition(",")[0]: entry for entry in entries}
    if len(by_key) < len(entries):
        raise ValueError(f"{len(entries)} BibTeX entries have {len(by_key)} keys: a key is there twice.")
    return by_key


BIBTEX = {"mnemoscope": OWN, **_read((files("mnemoscope.registry") / "references.bib").read_text(encoding="ascii"))}
"""BibTeX entries by key."""

ALWAYS = ("mnemoscope", "ansel2024")
"""Keys of the works that every use cites: this library, and PyTorch."""


def add_bibtex(text: str) -> None:
    """Add BibTeX entries, separated by empty lines, so that a plugin can cite its sources.

    Adding an identical entry again changes nothing; a different entry with a known key is an error.
    """
    for key, entry in _read(text).items():
        if not entry.startswith("@") or not key:
            raise ValueError(f"A BibTeX entry begins with @type{{key, but this one begins with {entry[:20]!r}.")
        if BIBTEX.setdefault(key, entry) != entry:
            raise ValueError(f"There is already a different BibTeX entry with the key {key!r}; choose another key.")


def short_name(key: str) -> str:
    """Return the authors and the year of a work, as running text cites them.

    >>> short_name("hochreiter1997"), short_name("arjovsky2016"), short_name("jang")
    ('Hochreiter & Schmidhuber 1997', 'Arjovsky et al. 2016', 'Jang')
    """
    entry = _entry(key)
    if entry == OWN:
        return "mnemoscope"
    surnames = [_plain(author.partition(",")[0]) for author in re.split(r"\s+and\s+", _field(entry, "author"))]
    authors = " & ".join(surnames) if len(surnames) < 3 and "others" not in surnames else f"{surnames[0]} et al."
    return f"{authors} {_field(entry, 'year')}".strip()


def cited(uses: Iterable[Use]) -> dict[str, list[str]]:
    """Return, for each work by key, the uses that cite it.

    >>> cited([Use("cell", "lstm"), Use("task", "adding"), Use("optimiser", "adam")])
    {'hochreiter1997': ['cell lstm', 'task adding'], 'kingma2015': ['optimiser adam']}
    """
    found: dict[str, list[str]] = {}
    for use in dict.fromkeys(uses):
        for key in use.cites:
            found.setdefault(key, []).append(str(use))
    return found


def bibtex(keys: Iterable[str]) -> str:
    """Return the BibTeX entries of `keys`, each once, in the given order, separated by empty lines.

    >>> print(bibtex(["jang"]).splitlines()[0])
    @unpublished{jang,
    """
    return "\n\n".join(_entry(key) for key in dict.fromkeys(keys))


def commented_bibtex(found: Mapping[str, Sequence[str]]) -> str:
    """Return the BibTeX entries of these keys, sorted, each below a comment that lists the uses that cite it.

    >>> print(commented_bibtex({"jang": ["lens bifurcations"]}).splitlines()[:2])
    ['% lens bifurcations', '@unpublished{jang,']
    """
    return "\n\n".join(f"{_comment(found[key])}\n{_entry(key)}" for key in sorted(found))


def _comment(uses: Sequence[str]) -> str:
    return "\n".join(wrap(", ".join(dict.fromkeys(uses)), 118, initial_indent="% ", subsequent_indent="% "))


def _entry(key: str) -> str:
    if key not in BIBTEX:
        raise KeyError(
            f"There is no BibTeX entry with the key {key!r}.{did_you_mean(key, BIBTEX)} Known: {', '.join(BIBTEX)}."
        )
    return BIBTEX[key]


def _field(entry: str, name: str) -> str:
    """Return the content of a field of a BibTeX entry, without its outer braces; "" where it is absent."""
    start = re.search(rf"^\s*{name}\s*=\s*\{{", entry, re.MULTILINE)
    if start is None:
        return ""
    depth = 1
    for end in range(start.end(), len(entry)):
        depth += (entry[end] == "{") - (entry[end] == "}")
        if not depth:
            return entry[start.end() : end]
    raise ValueError(f"The field {name!r} of this BibTeX entry has no closing brace:\n{entry}")


_ACCENTS = {"'": "\u0301", "`": "\u0300", "^": "\u0302", '"': "\u0308", "~": "\u0303", "v": "\u030c"}
"""Combining characters of the accents that LaTeX writes with a backslash."""


def _plain(latex: str) -> str:
    r"""Return a name in Unicode.

    >>> _plain(r"Mart{\'i}nez-Rubio"), _plain(r"Luko{\v{s}}evi{\v{c}}ius")
    ('Martínez-Rubio', 'Lukoševičius')
    """
    accented = re.sub(
        r"\\(['`^\"~]|v(?=\W))\s*\{?\\?([A-Za-z])\}?", lambda match: match[2] + _ACCENTS[match[1]], latex.strip()
    )
    return unicodedata.normalize("NFC", re.sub(r"[{}]", "", accented))
