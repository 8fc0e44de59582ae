"""The trial of benchmarks/ray_trials.py, in a separate file, so that its process imports nothing else."""


def nothing(root: str) -> None:
    """Do nothing."""
