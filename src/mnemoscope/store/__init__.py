"""Runs and results on disk, read back as plain data: a table of runs, and the results of studies. Imports no torch.

Reading changes no file. What cannot be read is reported next to what can.
"""

from mnemoscope.store.export import write_csv, write_parquet
from mnemoscope.store.runs import RUN_FILES, informative_columns, newer_version_note, read_runs
from mnemoscope.store.selection import differing_columns, select
from mnemoscope.store.study_results import StoredResults, find_study_results

__all__ = [
    "RUN_FILES",
    "StoredResults",
    "differing_columns",
    "find_study_results",
    "informative_columns",
    "newer_version_note",
    "read_runs",
    "select",
    "write_csv",
    "write_parquet",
]
