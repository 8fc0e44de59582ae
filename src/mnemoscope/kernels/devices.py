"""Devices of a scan: the threads of a CPU, and the kernels and the precision of a GPU."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.util import find_spec

import torch
from torch import Tensor

SHARED_FROM = 2e6
"""Operations per step from which several threads are used. Two threads are faster than one from 1e6 if they spin while
waiting (OMP_WAIT_POLICY=active), and from above 4e6 if they sleep."""


@contextmanager
def useful_threads(h: Tensor, outputs: int | None = None) -> Generator[None]:
    """Use one thread if a step is too short to be shared: waking the others would take longer than the step.

    A step multiplies `h` by a matrix with as many rows as `h` has units, or as many as there are `outputs`.
    torch stores the number per thread, so that work on other threads is not slowed. The products of the backward pass
    are included: two sleeping threads take twice as long for dV as one (N = 128, batch 10, 220 steps).
    """
    before = torch.get_num_threads()
    operations = (8 if h.is_complex() else 2) * h.numel() * (h.shape[-1] if outputs is None else outputs)
    few = h.device.type == "cpu" and before > 1 and operations < SHARED_FROM
    if few:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        if few:
            torch.set_num_threads(before)


def no_triton(scan: str, device: torch.device) -> str | None:
    """Return the reason why a scan of that name has no Triton kernels on the device, or None if it may have."""
    if device.type != "cuda":
        return f"there is no {scan} for the device {device.type}"
    if find_spec("triton") is None:
        return f"the {scan} for CUDA needs Triton, which is not installed"
    if torch.version.hip is not None:
        return f"the {scan} was written for, and tried on, NVIDIA GPUs alone"
    if torch.cuda.get_device_capability(device) < (8, 0):
        return f"the {scan} needs a GPU of compute capability 8.0 or newer"
    return None


def no_float32_scan(scan: str, device: torch.device, dtype: torch.dtype) -> str | None:
    """Return why a scan that has float32 kernels on a GPU, and float64 on the CPU too, does not run, or None."""
    if device.type == "cpu":
        known = dtype in (torch.float32, torch.float64)
        return None if known else f"the {scan} computes in float32 or float64 on the CPU, not in {dtype}"
    reason = no_triton(scan, device)
    if reason is None and dtype != torch.float32:
        return f"the {scan} computes in float32, not in {dtype}"
    return reason


def shared_memory(device: torch.device) -> int:
    """Return the bytes of shared memory that a block on this GPU may have, where a kernel asks for the most."""
    return torch.cuda.get_device_properties(device).shared_memory_per_block_optin


def on_device(x: Tensor) -> AbstractContextManager:
    """Launch kernels on the GPU of `x`; Triton's interpreter, used in tests, needs nothing."""
    return torch.cuda.device(x.device) if x.is_cuda else nullcontext()


def exact_products() -> bool:
    """Whether float32 products on a GPU keep their precision, because the user has not chosen tf32.

    The newer setting of torch decides; `torch.set_float32_matmul_precision` writes it too, and reading the older one
    may raise.
    """
    chosen = torch.backends.cuda.matmul.fp32_precision
    if chosen == "none":  # inherits the general setting
        chosen = torch.backends.fp32_precision  # type: ignore
    return chosen != "tf32"
