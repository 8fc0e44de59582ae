"""Runs and results on disk, read back as plain data: a table of runs, and the results of studies. Imports no torch.

Reading changes no file. What cannot be read is reported next to what can.
"""

from mnemoscope.store.export import write_csv as write_csv, write_parquet as write_parquet
from mnemoscope.store.run_table import (
    RUN_FILES as RUN_FILES,
    informative_columns as informative_columns,
    newer_version_note as newer_version_note,
    read_runs as read_runs,
)
from mnemoscope.store.selection import differing_columns as differing_columns, select as select
from mnemoscope.store.study_results import StoredResults as StoredResults, find_study_results as find_study_results
