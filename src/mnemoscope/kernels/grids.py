"""Scans whose programs share the units of a tile of sequences (`triton_grid`): sizes, chosen without Triton."""

from __future__ import annotations

from math import ceil, inf
from typing import NamedTuple

import torch

from mnemoscope.kernels.devices import exact_products, shared_memory


class Grid(NamedTuple):
    """How a scan is divided among programs."""

    share: int
    """Units of a program."""
    warps: int
    """Warps of a program, which divide the sum over units."""
    rows: int = 16
    """Sequences of a tile; the matrix units take at least 16."""

    def parts(self, units: int) -> tuple[int, int]:
        """Return the size of the parts into which a sum over units is divided, and their number, as powers of 2.

        >>> Grid(share=16, warps=8).parts(300)
        (64, 8)
        """
        size = max(16, _power_of_2(ceil(units / self.warps)))
        return size, _power_of_2(ceil(units / size))

    def shared_bytes(self, units: int, columns: int, number: int) -> int:
        """Return the shared memory of a program: `columns` of a matrix, and states of a tile or parts of its sums.

        A number of the matrix takes `number` bytes. `benchmarks/kernel_limits.py` prints what the compiler needs.
        """
        size, count = self.parts(units)
        return size * count * number * columns + 4 * self.rows * count * max(size, columns)

    def fits(self, device: torch.device, batch: int, units: int, columns: int) -> bool:
        """Whether the GPU has room for programs with `columns` of a float32 matrix each, for all at the same time."""
        on_gpu = device.type == "cuda"
        programs = torch.cuda.get_device_properties(device).multi_processor_count if on_gpu else inf
        limit = shared_memory(device) if on_gpu else inf
        resident = ceil(batch / self.rows) * ceil(units / self.share) <= programs
        return resident and self.shared_bytes(units, columns, bytes_on_chip(torch.float32)) <= limit


def bytes_on_chip(dtype: torch.dtype) -> int:
    """Return the bytes of a number of a matrix on chip: three bfloat16 parts if it is an exact float32 number."""
    return 6 if dtype == torch.float32 and exact_products() else dtype.itemsize


def _power_of_2(number: int) -> int:
    return 1 << (number - 1).bit_length()
