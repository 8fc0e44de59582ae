"""Engines run jobs: in this process, in processes of this machine, on a Ray cluster, or on a Slurm cluster."""

from mnemoscope.engines.engine import Engine
from mnemoscope.engines.factory import ENGINES, build_engine
from mnemoscope.engines.in_process import InProcess
from mnemoscope.engines.job import Event, Job, Outcome, Progress
from mnemoscope.engines.job_display import JobDisplay
from mnemoscope.engines.local import Local

__all__ = [
    "ENGINES",
    "Engine",
    "Event",
    "InProcess",
    "Job",
    "JobDisplay",
    "Local",
    "Outcome",
    "Progress",
    "build_engine",
]
