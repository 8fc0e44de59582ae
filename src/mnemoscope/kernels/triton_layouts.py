"""Gluon, the language of Triton in which a kernel states which thread holds which number, and its place in tests.

Triton chooses these layouts by itself. For the product of a matrix with one vector it lets all threads of a warp share
every sum, which takes more time than the products. Gluon has no interpreter: under `TRITON_INTERPRET=1` its kernels run
in that of Triton, in which layouts have no meaning.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language
from triton.experimental.gluon.language import BlockedLayout, SliceLayout, SwizzledSharedLayout

__all__ = ["BlockedLayout", "SliceLayout", "SwizzledSharedLayout", "gl", "jit"]


class _Memory:
    """Shared memory in the interpreter: the tensors that were stored, by their indices."""

    def __init__(self, stored: dict[int, Any], key: int = 0) -> None:
        self.stored, self.key = stored, key

    def index(self, key: Any) -> _Memory:
        return _Memory(self.stored, int(key))

    def slice(self, start: Any, length: Any) -> _Memory:
        from triton.runtime.interpreter import TensorHandle

        whole = self.stored[self.key]
        data = whole.handle.data[int(start) : int(start) + int(length)]
        part = tl.tensor(TensorHandle(data, whole.handle.dtype), tl.block_type(whole.dtype, list(data.shape)))
        return _Memory({0: part})

    def store(self, value: Any) -> None:
        self.stored[self.key] = value

    def load(self, layout: object) -> Any:
        return self.stored[self.key]


class _Interpreted:
    """The functions of Gluon that our kernels use, in the interpreter of Triton."""

    SliceLayout, SwizzledSharedLayout = SliceLayout, SwizzledSharedLayout

    def __getattr__(self, name: str) -> Any:
        return getattr(tl, name)  # at each use, as the interpreter replaces them while it runs

    @staticmethod
    def arange(start: Any, end: Any, layout: object) -> Any:
        return tl.arange(start, end)

    @staticmethod
    def zeros(shape: Any, dtype: Any, layout: object) -> Any:
        return tl.zeros(shape, dtype)

    @staticmethod
    def convert_layout(x: Any, layout: object) -> Any:
        return x

    @staticmethod
    def allocate_shared_memory(dtype: Any, shape: Any, layout: object) -> _Memory:
        return _Memory({})


gl: Any = _Interpreted() if triton.knobs.runtime.interpret else language
"""The functions in which kernels are written."""
jit: Any = triton.jit if triton.knobs.runtime.interpret else gluon.jit
"""The decorator of kernels."""
