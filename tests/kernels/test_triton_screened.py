"""Screened attention on a GPU, or in Triton's interpreter, compared with the CPU."""

from dataclasses import replace

import pytest
import torch

from mnemoscope.kernels.attention_scans import Weights
from mnemoscope.kernels.screened_cpu import backward_on_cpu, forward_on_cpu
from mnemoscope.kernels.screened_types import EMPTY, Screening, Start

pytest.importorskip("triton")
from mnemoscope.kernels import triton_screened as kernels
from tests.slow import slow

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
needs_gpu = pytest.mark.skipif(not GPU, reason="needs a GPU")
TANH = Screening("tanh", 3, 4, normalised=False, scale=1.0)
HOWS = {
    "tanh": TANH,
    "logistic": replace(TANH, cell="logistic", normalised=True),
    "modrelu": replace(TANH, cell="modrelu", scale=0.5),
    "lstm": replace(TANH, cell="lstm", scale=0.5),
    "one and one": replace(TANH, cell="lstm", short_term=1, relevant=1),
}


def problem(options, additive, size=5, time=9, batch=2, filled=5):
    torch.manual_seed(size + time)
    gates = 4 * size if options.cell == "lstm" else size
    us = torch.randn(time, batch, gates)
    score = torch.rand(batch, options.slots)
    score[:, min(filled, options.slots) :] = EMPTY
    score[0] = EMPTY
    rows = torch.randn(batch, options.slots, 2 * size) * (score != EMPTY).unsqueeze(-1)
    c = torch.randn(batch, size) if options.cell == "lstm" else None
    start = Start(torch.randn(batch, size), c, rows, score)
    bias = 0.3 * torch.randn(size) if options.cell == "modrelu" else None
    square = [torch.randn(rows, size) / size**0.5 for rows in (gates, size, size)]
    weights = Weights(square[0], bias, *square[1:], 3 * torch.randn(size) if additive else None)
    return us, start, weights


def moved(record, to, dtype):
    return type(record)(*(None if x is None else x.to(to, dtype if x.is_floating_point() else None) for x in record))


def assert_near(found, expected, bound=2e-5):
    for name, one, other in zip(expected._fields, found, expected, strict=True):
        assert (one is None) == (other is None), name
        if one is not None and name != "dropped":
            one, other = (x.cpu().double().nan_to_num(neginf=-1.0) for x in (one, other))
            assert one.shape == other.shape, name
            assert (one - other).norm() <= bound * other.norm() + 1e-6, name


@pytest.mark.parametrize("additive", [True, *slow(False)])
@pytest.mark.parametrize("options", [*slow("tanh", "logistic", "modrelu", "lstm"), "one and one"])
def test_the_kernels_equal_the_cpu_steps(options, additive):
    options = HOWS[options]
    us, start, weights = problem(options, additive)
    exact = (us.double(), moved(start, "cpu", torch.float64), moved(weights, "cpu", torch.float64))
    here = (us.to(DEVICE), moved(start, DEVICE, torch.float32), moved(weights, DEVICE, torch.float32))
    expected, found = forward_on_cpu(*exact, options), kernels.forward(*here, options)
    assert (expected.moved >= 0).any()
    assert_near(found, expected)
    there = expected.moved >= 0
    assert torch.equal(found.dropped.cpu()[there], expected.dropped[there])
    torch.manual_seed(0)
    grads = [torch.randn_like(expected.outputs), torch.randn_like(start.s.double()), None]
    if options.cell == "lstm":
        grads[2] = torch.randn_like(start.s.double())
    grads.append(torch.randn_like(expected.last))
    slow = backward_on_cpu(tuple(grads), *exact[1:], options, expected)
    given = tuple(None if grad is None else grad.to(DEVICE, torch.float32) for grad in grads)
    assert_near(kernels.backward(given, *here[1:], options, found), slow)
