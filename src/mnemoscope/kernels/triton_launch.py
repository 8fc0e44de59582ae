"""Launch several Triton kernels in turn, after compiling those that are new at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from torch import Tensor
from triton import AsyncCompileMode

from mnemoscope.kernels.devices import on_device

_compiled: set[tuple[Any, ...]] = set()
"""Keys of the launches whose kernels are compiled."""


class Launch(NamedTuple):
    """A kernel, its grid, and its arguments but the constants."""

    kernel: Any
    grid: tuple[int, ...]
    arguments: tuple[Any, ...]
    constants: dict[str, Any]
    """Those that the kernel does not take are left out; `num_warps` and `num_stages` are options of the compiler."""

    def options(self) -> dict[str, Any]:
        """Return the constants of this kernel and the options of the compiler."""
        names = {*self.kernel.arg_names, "num_warps", "num_stages"}
        return {name: value for name, value in self.constants.items() if name in names}


def launch_all(launches: list[Launch], example: Tensor, key: tuple[Any, ...]) -> None:
    """Launch the kernels on the device of `example`. Launches with the same key need the same compiled kernels."""
    with on_device(example):
        if example.is_cuda and (example.device, *key) not in _compiled:
            _compile(launches)
            _compiled.add((example.device, *key))
        for launch in launches:
            launch.kernel[launch.grid](*launch.arguments, **launch.options())


def _compile(launches: list[Launch]) -> None:
    """Compile in threads: most of the time is spent in LLVM and in the assembler, outside of Python.

    An error is raised by the launch that follows, which compiles the kernel again.
    """
    with ThreadPoolExecutor(len(launches)) as threads, AsyncCompileMode(threads, ignore_errors=True):
        for launch in launches:
            launch.kernel.warmup(*launch.arguments, grid=launch.grid, **launch.options())
