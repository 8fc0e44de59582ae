"""What there is: cells, tasks, lenses and studies by name, as data that can be read without importing torch.

To add one, write its file and one line in the list of its kind: `cell_entries.py`, `task_entries.py`, `lens_entries.py`
or `study_entries.py`. The command line, the studies and the documentation all read these lists.
"""

from mnemoscope.registry.cell_entries import OWN_READOUT, cells
from mnemoscope.registry.entry import Entry, Registry
from mnemoscope.registry.lens_entries import lenses
from mnemoscope.registry.study_entries import studies
from mnemoscope.registry.task_entries import tasks

__all__ = ["OWN_READOUT", "Entry", "Registry", "cells", "lenses", "studies", "tasks"]
