"""The gradient of V, `sum_t D_t h_{t-1}^T`, on matrix units at nearly float32 precision.

The rows of D and h are divided into groups. Every number is split into two bfloat16 parts; three of their products are
computed in one matrix product per group: `[a2 a1 a1]^T [b1 b2 b1]`. The neglected part is 2^-18 of the product, which
suffices because, unlike in the recurrence, no error is carried on. Groups are short because the matrix units truncate
their sums; the sum over groups is in float32.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from mnemoscope.kernels.devices import on_device
from mnemoscope.kernels.triton_parts import parts

GROUP = 2048
"""Number of rows in one product."""
AT_ONCE = 2**25
"""Numbers that are split together; their parts take 12 bytes each."""
WIDTH = 1024


def outer_products(left: Tensor, right: Tensor) -> Tensor:
    """Return `left^T right` (m, n) for contiguous float32 matrices (rows, m) and (rows, n)."""
    rows = left.shape[0]
    total = left.new_zeros(left.shape[1], right.shape[1])
    stride = GROUP * max(1, AT_ONCE // (GROUP * max(left.shape[1], right.shape[1])))
    for begin in range(0, rows, stride):
        these = slice(begin, min(begin + stride, rows))
        a, b = _in_parts(left[these], second_at=0), _in_parts(right[these], second_at=1)
        in_groups = torch.bmm(a.mT, b, out_dtype=torch.float32) if a.is_cuda else torch.bmm(a.float().mT, b.float())
        total += in_groups.sum(0)
    return total


def _in_parts(x: Tensor, second_at: int) -> Tensor:
    """Return (groups, 3 GROUP, units): three copies of the first parts of a group, the second parts at block `second_at`."""
    rows, units = x.shape
    group = min(GROUP, rows)
    groups = triton.cdiv(rows, group)
    split = torch.empty(groups, 3 * group, units, dtype=torch.bfloat16, device=x.device)
    programs = (triton.cdiv(group * units, WIDTH), groups)
    with on_device(x):
        _split[programs](x, split, group * units, rows * units, SECOND_AT=second_at, WIDTH=WIDTH)
    return split


@triton.jit(do_not_specialize=["numbers"])
def _split(x, split, in_group, numbers, SECOND_AT: tl.constexpr, WIDTH: tl.constexpr):
    group = tl.program_id(1).to(tl.int64)
    here = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    inside = here < in_group
    place = group * in_group + here
    first, second, _ = parts(tl.load(x + place, mask=inside & (place < numbers), other=0.0))
    to = split + 3 * group * in_group + here
    for block in tl.static_range(3):
        tl.store(to + block * in_group, second if block == SECOND_AT else first, mask=inside)
