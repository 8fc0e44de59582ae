"""Whom to cite: BibTeX by key, as data that can be read without importing torch.

The entries are in `references.bib`, with an empty line between any two. A registry entry names its keys in `cites`; the
page of a network prints them with `bibtex`, and `mnemoscope cite` with `commented_bibtex`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
