"""The trial of benchmarks/trials.py, in a separate file, so that its process imports nothing else."""

from pathlib import Path

import torch

from mnemoscope.base.files import write_atomically


def add(root: str, number: int) -> None:
    """Write the sum of two numbers to a file."""
    write_atomically(Path(root) / str(number), str(float(torch.ones(2).sum())).encode())
