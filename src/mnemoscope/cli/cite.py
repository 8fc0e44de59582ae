"""The command `cite`. Importing it does not import torch."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from mnemoscope import registry
from mnemoscope.base.suggestions import did_you_mean
from mnemoscope.base.terminal import printable
from mnemoscope.cli.tyro_types import Positional
from mnemoscope.config import PRESETS
from mnemoscope.registry.citations import ALWAYS, Use, cited, commented_bibtex


@dataclass(frozen=True)
class Cite:
    """Print the BibTeX of the works behind runs, presets, studies, or anything that has a name.

    Name the folder or the .toml file of a run, a folder with many runs, a file of results, a preset, a study, or
    anything that `mnemoscope list` shows. Entries are sorted by key; a comment above each says why it is cited.

        mnemoscope cite runs/flipflop/0123456789
        mnemoscope cite flipflop-cube ptb > used.bib
        mnemoscope cite copy-table --preset cpu --keys
    """

    what: Positional[tuple[str, ...]] = ()
    """Folders, files or names to cite."""
    preset: str | None = None
    """For studies, the preset that was run; all presets by default."""
    all: bool = False
    """Print every work that the library cites."""
    keys: bool = False
    """Print only the keys, each with the reason why it is cited."""

    def run(self) -> int:
        if self.all == bool(self.what):
            raise ValueError("Name what to cite: a run, a preset, a study, anything in `mnemoscope list`, or --all.")
        problems: list[str] = []
        found = _cited_by_all() if self.all else self._cited_by_names(problems)
        found |= {key: [*found.get(key, []), "everything"] for key in ALWAYS}
        if self.keys:
            width = max(map(len, found))
            for key in sorted(found):
                print(f"{key:{width}}  {', '.join(found[key])}")
        else:
            print(commented_bibtex(found))
        return 1 if problems else 0

    def _cited_by_names(self, unread: list[str]) -> dict[str, list[str]]:
        """Return the works cited by all names; names of files that cannot be read are added to `unread`."""
        named = {name: _uses(name) for name in self.what}
        if self.preset is not None and not any(use.kind == "study" for uses in named.values() for use in uses):
            raise ValueError(f"--preset is for studies, and none of {', '.join(self.what)} is one.")
        from mnemoscope.replication.cited_works import (  # imports torch, so only after the names are checked
            cited_by_path,
            merged,
        )

        problems: list[str] = []
        works = []
        for name, uses in named.items():
            try:
                works.append(self._cited_by_name(name, uses) if uses else cited_by_path(Path(name), problems))
            except (ValueError, OSError) as error:
                if len(named) == 1:
                    raise
                unread.append(name)
                problems.append(str(error))
        found = merged(works)
        for problem in problems:
            print(printable(f"Not cited, because it cannot be read: {problem}"), file=sys.stderr)
        return found

    def _cited_by_name(self, name: str, uses: list[Use]) -> dict[str, list[str]]:
        """Return the works cited by everything of this name, including the preset of a run."""
        from mnemoscope.replication.cited_works import cited_by_study, merged, uses_of_config

        studies = [cited_by_study(registry.studies.load(use.name), self.preset) for use in uses if use.kind == "study"]
        if self.preset is not None:
            return merged(studies)
        run = cited(uses_of_config(PRESETS[name])) if name in PRESETS else {}
        return merged([*studies, run, cited(uses)])


def _uses(name: str) -> list[Use]:
    """Return everything of this name; nothing if it is a path."""
    uses = [Use(kind, name) for kind, entries in registry.REGISTRIES.items() if name in entries]
    if name in PRESETS:
        uses.append(Use("task", PRESETS[name].task))
    if not uses and not Path(name).exists():
        known = dict.fromkeys(
            [*PRESETS, *(entry.name for entries in registry.REGISTRIES.values() for entry in entries)]
        )
        hint = did_you_mean(name, known, most=3) or " `mnemoscope list` shows all names."
        raise ValueError(f"{name!r} is no file or folder, and nothing has that name.{hint}")
    return uses


def _cited_by_all() -> dict[str, list[str]]:
    """Return the works cited by all entries of all registries."""
    return cited(Use(kind, entry.name) for kind, entries in registry.REGISTRIES.items() for entry in entries)
