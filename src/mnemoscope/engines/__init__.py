"""Engines run jobs: in this process, in processes of this machine, on a Ray cluster, or on a Slurm cluster."""

from mnemoscope.engines.factory import ENGINES as ENGINES, Engine as Engine, build_engine as build_engine
from mnemoscope.engines.in_process import InProcess as InProcess
from mnemoscope.engines.job import Event as Event, Job as Job, Outcome as Outcome, Progress as Progress
from mnemoscope.engines.job_display import JobDisplay as JobDisplay
from mnemoscope.engines.local import Local as Local
