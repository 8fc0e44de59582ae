"""Where jobs are done: in processes of this machine, on a Ray cluster, on a Slurm cluster."""

from mnemoscope.engines.engine import Engine
from mnemoscope.engines.here import Here
from mnemoscope.engines.job import Event, Job, Outcome, Progress
from mnemoscope.engines.local import Local
from mnemoscope.engines.named import ENGINES, engine

__all__ = ["ENGINES", "Engine", "Event", "Here", "Job", "Local", "Outcome", "Progress", "engine"]
