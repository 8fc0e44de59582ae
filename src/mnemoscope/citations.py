"""Whom to cite: BibTeX by key, as data that can be read without importing torch.

The entries are in `references.bib`, with an empty line between any two. A registry entry names its keys in `cites`; the
page of a network prints them with `bibtex`.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from importlib.resources import files

from mnemoscope import __version__

OWN = f"""\
@software{{mnemoscope,
  author  = {{{{The Mnemoscope founders}}}},
  title   = {{Mnemoscope: recurrent networks, and what they remember}},
  year    = {{2026}},
  version = {{{__version__}}}
}}"""


def _read(text: str) -> dict[str, str]:
    """Entries by key, where an empty line is between any two."""
    entries = text.strip().split("\n\n")
    by_key = {entry.partition("{")[2].partition(",")[0]: entry for entry in entries}
    if len(by_key) < len(entries):
        raise ValueError(f"{len(entries)} entries have {len(by_key)} keys: one is there twice.")
    return by_key


BIBTEX = {"mnemoscope": OWN, **_read((files("mnemoscope") / "references.bib").read_text(encoding="ascii"))}


def bibtex(keys: Iterable[str]) -> str:
    """The entries of `keys`, each once, in the order given, with an empty line between them.

    >>> print(bibtex(["jang"]).splitlines()[0])
    @unpublished{jang,
    """
    return "\n\n".join(_entry(key) for key in dict.fromkeys(keys))


def _entry(key: str) -> str:
    if key not in BIBTEX:
        near = get_close_matches(key, BIBTEX, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise KeyError(f"There is no citation with the key {key!r}.{hint} Known: {', '.join(BIBTEX)}.")
    return BIBTEX[key]
