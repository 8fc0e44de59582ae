"""What lies on disk, read back as plain data: runs as one table, and the state of the studies. Imports no torch.

Nothing is written to what is read, and what cannot be read is told beside what can.
"""

from mnemoscope.store.exporting import write_csv, write_parquet
from mnemoscope.store.runs import SIGNS, newer_than_this, read_runs, telling_columns
from mnemoscope.store.selecting import differing, select
from mnemoscope.store.studies import Held, held_results

__all__ = [
    "SIGNS",
    "Held",
    "differing",
    "held_results",
    "newer_than_this",
    "read_runs",
    "select",
    "telling_columns",
    "write_csv",
    "write_parquet",
]
