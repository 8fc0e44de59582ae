"""Full and sparse attention: the kernels, on a GPU or in Triton's interpreter, compared with the CPU."""

import pytest
import torch

from mnemoscope.kernels.attention_scans import Weights
from mnemoscope.kernels.full_attention import _PASSES as FULL
from mnemoscope.kernels.full_attention_types import FullAttention
from mnemoscope.kernels.history import HistoryStart
from mnemoscope.kernels.sparse_attention import _PASSES as SPARSE
from mnemoscope.kernels.sparse_attention_types import SparseAttention
from tests.slow import slow

pytest.importorskip("triton")
from mnemoscope.kernels import triton_full_attention
from tests.kernels.test_triton_screened import DEVICE, assert_near, moved


def problem(cell, additive, time, given, size=5, batch=2, empty=0):
    torch.manual_seed(size + time)
    gates = 4 * size if cell == "lstm" else size
    us = torch.randn(time, batch, gates)
    c = torch.randn(batch, size) if cell == "lstm" else None
    filled = (torch.arange(batch * given).view(batch, given) >= empty).float() if empty else None  # the first are empty
    start = HistoryStart(torch.randn(batch, size), c, torch.randn(batch, given, 2 * size), filled)
    bias = 0.3 * torch.randn(size) if cell == "modrelu" else None
    square = [torch.randn(rows, size) / size**0.5 for rows in (gates, size, size)]
    return us, start, Weights(square[0], bias, *square[1:], 3 * torch.randn(size) if additive else None)


def compare(passes, options, additive, time, given, bound=2e-5, **sizes):
    us, start, weights = problem(options.cell, additive, time, given, **sizes)
    exact = (us.double(), moved(start, "cpu", torch.float64), moved(weights, "cpu", torch.float64))
    here = (us.to(DEVICE), moved(start, DEVICE, torch.float32), moved(weights, DEVICE, torch.float32))
    expected, found = passes.forward_on_cpu(*exact, options), passes.kernels().forward(*here, options)
    assert_near(found, expected, bound)
    torch.manual_seed(0)
    first = start.s.double()
    grads = [torch.randn_like(expected.outputs), torch.randn_like(first), None, torch.randn_like(expected.rows)]
    if options.cell == "lstm":
        grads[2] = torch.randn_like(first)
    slow = passes.backward_on_cpu(tuple(grads), *exact[1:], options, expected)
    given_grads = tuple(None if grad is None else grad.to(DEVICE, torch.float32) for grad in grads)
    fast = passes.kernels().backward(given_grads, *here[1:], options, found)
    for result in (slow, fast):  # not needed: the gradients of values are part of those of the drive
        result.rows[:, given:, : first.shape[1]] = 0
    assert_near(fast, slow, bound)


@pytest.mark.parametrize(
    ("cell", "additive", "given", "time", "empty"),
    [
        ("lstm", True, 3, 5, 4),  # the first member has no row, and the second lacks one
        *slow(
            ("lstm", True, 3, 5, 0),
            ("modrelu", False, 0, 7, 0),
            ("tanh", True, 33, 40, 0),
            ("tanh", True, 70, 40, 100),
            ("logistic", False, 5, 3, 2),
        ),
    ],
)
def test_the_kernels_of_full_attention_equal_the_cpu_steps(cell, additive, given, time, empty, monkeypatch):
    monkeypatch.setattr(triton_full_attention, "AT_ONCE", 4 * 2 * 25)  # chunks of 4 steps
    compare(FULL, FullAttention(cell, 0.5), additive, time, given, empty=empty)


@pytest.mark.parametrize(
    ("options", "additive", "given", "time"),
    [
        (SparseAttention("lstm", 0.5, every=2, top_k=2, truncate=3, phase=1), True, 0, 7),
        *slow(
            (SparseAttention("tanh", 1.0, every=1, top_k=3, truncate=None, phase=0), False, 33, 6),
            (SparseAttention("modrelu", 0.5, every=3, top_k=2, truncate=2, phase=4), True, 1, 10),
        ),
    ],
)
def test_the_kernels_of_sparse_attention_equal_the_cpu_steps(options, additive, given, time):
    compare(SPARSE, options, additive, time, given)
