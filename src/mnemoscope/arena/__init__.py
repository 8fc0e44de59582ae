"""The memory arena: networks of one size, trained on the same tasks with the same tuning budget, in one table.

    table = run_arena(read_arena("tiny")).table
    print(table.summary())

An arena is a TOML file (`definition.py`); `docs/arena.md` describes its tables and how to submit a network.
"""

from typing import TYPE_CHECKING

from mnemoscope.base.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from mnemoscope.arena.card.build import memory_card as memory_card
    from mnemoscope.arena.card.result import MemoryCard as MemoryCard
    from mnemoscope.arena.cell import ArenaCell as ArenaCell, TrainedRun as TrainedRun
    from mnemoscope.arena.definition import (
        Arena as Arena,
        ArenaTask as ArenaTask,
        Entrant as Entrant,
        add_networks as add_networks,
        read_arena as read_arena,
    )
    from mnemoscope.arena.result import ArenaTable as ArenaTable
    from mnemoscope.arena.runner import ArenaProgress as ArenaProgress, run_arena as run_arena

__getattr__, __dir__ = lazy_attributes(__name__, __file__)
