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
from difflib import get_close_matches
from importlib.resources import files
from textwrap import wrap
from typing import NamedTuple

from mnemoscope import registry
from mnemoscope.base.version import __version__

OWN = f"""\
@software{{mnemoscope,
  author  = {{{{The Mnemoscope founders}}}},
  title   = {{Mnemoscope: recurrent networks, and what they remember}},
  year    = {{2026}},
  version = {{{__version__}}}
}}"""


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

    def __post_init__(self) -> None:
        _entry(self.work)  # raises on an unknown key

    def __str__(self) -> str:
        return ", ".join(filter(None, (short_name(self.work), self.locus)))


class Use(NamedTuple):
    """Something that was used, by its kind and its name in the registry of that kind."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def cites(self) -> tuple[str, ...]:
        """Keys into `BIBTEX`."""
        return registry.REGISTRIES[self.kind][self.name].cites


def _read(text: str) -> dict[str, str]:
    """Entries by key, where an empty line is between any two."""
    entries = text.strip().split("\n\n")
    by_key = {entry.partition("{")[2].partition(",")[0]: entry for entry in entries}
    if len(by_key) < len(entries):
        raise ValueError(f"{len(entries)} entries have {len(by_key)} keys: one is there twice.")
    return by_key


BIBTEX = {"mnemoscope": OWN, **_read((files("mnemoscope.registry") / "references.bib").read_text(encoding="ascii"))}

ALWAYS = ("mnemoscope", "ansel2024")
"""What everything here rests on: this library, and PyTorch."""


def add_bibtex(text: str) -> None:
    """Add entries, with an empty line between any two, so that a plugin can cite its own sources.

    An entry that is there already may come again as it is, but not with other words.
    """
    for key, entry in _read(text).items():
        if not entry.startswith("@") or not key:
            raise ValueError(f"A BibTeX entry begins with @type{{key, and this one with {entry[:20]!r}.")
        if BIBTEX.setdefault(key, entry) != entry:
            raise ValueError(f"There is already a citation with the key {key!r}, and it is another one.")


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
    """For which of these each work is cited, in words, by its key.

    >>> cited([Use("cell", "lstm"), Use("task", "adding"), Use("optimiser", "adam")])
    {'hochreiter1997': ['cell lstm', 'task adding'], 'kingma2015': ['optimiser adam']}
    """
    found: dict[str, list[str]] = {}
    for use in dict.fromkeys(uses):
        for key in use.cites:
            found.setdefault(key, []).append(str(use))
    return found


def bibtex(keys: Iterable[str]) -> str:
    """The entries of `keys`, each once, in the order given, with an empty line between them.

    >>> print(bibtex(["jang"]).splitlines()[0])
    @unpublished{jang,
    """
    return "\n\n".join(_entry(key) for key in dict.fromkeys(keys))


def commented_bibtex(found: Mapping[str, Sequence[str]]) -> str:
    """The entries of these keys, sorted, each below a comment that says for what it is.

    >>> print(commented_bibtex({"jang": ["lens evolution"]}).splitlines()[:2])
    ['% lens evolution', '@unpublished{jang,']
    """
    return "\n\n".join(f"{_comment(found[key])}\n{_entry(key)}" for key in sorted(found))


def _comment(words: Sequence[str]) -> str:
    return "\n".join(wrap(", ".join(dict.fromkeys(words)), 118, initial_indent="% ", subsequent_indent="% "))


def _entry(key: str) -> str:
    if key not in BIBTEX:
        near = get_close_matches(key, BIBTEX, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise KeyError(f"There is no citation with the key {key!r}.{hint} Known: {', '.join(BIBTEX)}.")
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
