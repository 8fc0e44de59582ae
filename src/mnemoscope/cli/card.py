"""The command card. Importing it does not import torch."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, fields
from pathlib import Path

from mnemoscope.base.terminal import printable, shows_progress
from mnemoscope.cli.inspections import program
from mnemoscope.cli.tyro_types import Positional


@dataclass(frozen=True)
class Card:
    """Make the memory card of a run: what it remembers, how long, how much, by which mechanism, how it fails, its cost.

    Every card has the same six questions, axes and units, so that the cards of two networks can be laid side by side.
    It writes card.html, card.json (all numbers), card.pdf and card.svg (one page, for a paper). Where a lens does not
    apply or could not decide, the card states the reason.

        mnemoscope card runs/flipflop/0123456789
        mnemoscope card runs/flipflop/0123456789 --out paper/cards/flipflop
        mnemoscope card runs/mqar/0123456789 --arena results/arena/memory.json
    """

    path: Positional[Path]
    """Folder of a finished run."""
    out: Path | None = None
    """Folder of the four files; by default that of the run."""
    arena: Path | None = None
    """Results of an arena, in which the network is placed."""
    seed: int = 0
    """Seed of the search for fixed points."""
    full: bool = False
    """Run the measurements that take longer than some seconds as well, such as long delays of large networks."""
    json: bool = False
    """Print the card as JSON."""

    def run(self) -> int:
        if not self.path.is_dir():
            raise FileNotFoundError(f"There is no folder {self.path}; the card is made from the folder of a run.")
        if self.arena is not None and not self.arena.is_file():
            raise FileNotFoundError(f"There is no file {self.arena}; --arena takes the collected results of an arena.")
        from mnemoscope.arena import ArenaTable, memory_card
        from mnemoscope.inspection import InspectionOptions
        from mnemoscope.report.markup import check_report_extra

        check_report_extra()  # the files come last, after the measurements
        arena = None if self.arena is None else ArenaTable.load(self.arena)
        shown = shows_progress(self.json)
        options = InspectionOptions(seed=self.seed, command=self._command(), progress=shown, full=self.full)
        card = memory_card(self.path, arena=arena, options=options)
        folder = self.path if self.out is None else self.out
        card.save(folder)
        if self.json:
            print(json.dumps({**card.to_dict(), "folder": str(folder.resolve())}, indent=2))
        else:
            print(printable(f"{card.summary()}\nCard: {folder.resolve() / 'card.pdf'}"))
        return 0

    def _command(self) -> str:
        """Return these arguments as a command, which the card shows."""
        words = [*program(), "card", str(self.path)]
        for argument in fields(self):
            value = getattr(self, argument.name)
            if argument.name not in ("path", "json", "out") and value != argument.default:
                words += [f"--{argument.name}", *([] if value is True else [str(value)])]
        return shlex.join(words)
