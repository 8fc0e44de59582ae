"""The command that says whom to cite. No torch at import."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from mnemoscope import registry
from mnemoscope.config import PRESETS
from mnemoscope.registry.citations import ALWAYS, Use, cited, commented_bibtex

if TYPE_CHECKING:
    from tyro.conf import Positional
else:
    try:
        from tyro.conf import Positional
    except ImportError:  # main says what to install
        Positional = Optional


@dataclass(frozen=True)
class Cite:
    """Print the BibTeX of everything that runs, presets or studies have used.

    Each word is the folder of a run, the .toml of one, a folder of many, a file of results, a preset, a study, or
    anything of `mnemoscope list`. Above each entry stands for what it is cited; each is printed once, sorted by key.

        mnemoscope cite runs/flipflop/0123456789
        mnemoscope cite flipflop-cube ptb > used.bib
        mnemoscope cite copy-table --preset cpu --keys
    """

    what: Positional[tuple[str, ...]] = ()
    """Folders, files or names."""
    preset: str | None = None
    """Of studies, the preset that was run; all of them by default."""
    all: bool = False
    """Print all that any of them cites."""
    keys: bool = False
    """Print the keys alone, each with what it is cited for."""

    def run(self) -> int:
        if self.all == bool(self.what):
            raise ValueError("Say what to cite: a run, a preset, a study, anything of `mnemoscope list`, or --all.")
        found = _all() if self.all else self._of_words()
        found |= {key: [*found.get(key, []), "all of it"] for key in ALWAYS}
        if self.keys:
            width = max(map(len, found))
            for key in sorted(found):
                print(f"{key:{width}}  {', '.join(found[key])}")
        else:
            print(commented_bibtex(found))
        return 0

    def _of_words(self) -> dict[str, list[str]]:
        named = {word: _uses(word) for word in self.what}
        if self.preset is not None and not any(use.kind == "study" for uses in named.values() for use in uses):
            raise ValueError(f"--preset is for studies, and none of {', '.join(self.what)} is one.")
        from mnemoscope.replication.citing import cited_by_path, merged  # imports torch, so not before names are known

        return merged(self._of_name(word, uses) if uses else cited_by_path(Path(word)) for word, uses in named.items())

    def _of_name(self, word: str, uses: list[Use]) -> dict[str, list[str]]:
        """Of all that have the name, the preset of a run among them."""
        from mnemoscope.replication.citing import cited_by_study, merged, uses_of_config

        studies = [cited_by_study(registry.studies.load(use.name), self.preset) for use in uses if use.kind == "study"]
        if self.preset is not None:
            return merged(studies)
        run = cited(uses_of_config(PRESETS[word])) if word in PRESETS else {}
        return merged([*studies, run, cited(uses)])


def _uses(word: str) -> list[Use]:
    """All that have this name; none if it is a path."""
    uses = [Use(kind, word) for kind, entries in registry.REGISTRIES.items() if word in entries]
    if word in PRESETS:
        uses.append(Use("task", PRESETS[word].task))
    if not uses and not Path(word).exists():
        known = dict.fromkeys(
            [*PRESETS, *(entry.name for entries in registry.REGISTRIES.values() for entry in entries)]
        )
        near = get_close_matches(word, known, n=3)
        hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else " `mnemoscope list` shows what there is."
        raise ValueError(f"{word!r} is no file or folder, and nothing has that name.{hint}")
    return uses


def _all() -> dict[str, list[str]]:
    """All that is cited by what a registry has."""
    return cited(Use(kind, entry.name) for kind, entries in registry.REGISTRIES.items() for entry in entries)
