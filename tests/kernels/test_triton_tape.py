"""The steps of a tape on a GPU, or in Triton's interpreter, compared with the steps on a CPU in float64."""

import pytest
import torch

from mnemoscope.kernels.tape import _backward, _forward
from mnemoscope.kernels.tape_types import Layout, Start, TapeOptions, Weights

pytest.importorskip("triton")
from mnemoscope.kernels import triton_controllers as controllers, triton_tape as kernels
from tests.slow import slow

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"


def problem(controller, options, units=5, numbers=3, slots=6, time=2, batch=1):
    torch.manual_seed(0)
    new = torch.randn
    layers = {"lstm": 1, "layers": 2, "feed-forward": 1}[controller]
    width = 4 * units if controller == "lstm" else units
    recurrent = None if controller == "feed-forward" else new(layers, width, units) / units**0.5
    outputs = Layout.of(numbers, options)
    count = 2 * (numbers + 3 + outputs.moves) + 2 * numbers
    weights = Weights(recurrent, new(layers * width, numbers), 2 * new(count, units), new(count))
    heads = (new(batch, 1, slots).softmax(-1) for _ in range(2))
    c = new(batch, units) if controller == "lstm" else None
    start = Start(new(batch, units), c, new(batch, numbers, slots), *heads, new(batch, 1, numbers))
    us = new(time, batch, layers * width)
    grads = [new(time, batch, units), new(time, batch, 1, numbers), new(batch, units), None if c is None else c.sin()]
    return us, start, weights, [*grads, *(part.cos() for part in start[2:5])]


def moved(parts, to, dtype):
    return [None if part is None else part.to(to, dtype) for part in parts]


@pytest.mark.parametrize(
    ("controller", "reach", "least", "limit", "tile", "largest"),
    [
        ("lstm", 1, 0.0, None, 4096, controllers.LARGEST),
        ("layers", 2, 1.0, 0.3, 32, controllers.LARGEST),
        *slow(("feed-forward", 0, 0.0, None, 32, 0), ("layers", 1, 1.0, None, 32, 0)),
    ],
)
def test_the_kernels_equal_the_steps_on_a_cpu(controller, reach, least, limit, tile, largest, monkeypatch):
    monkeypatch.setattr(kernels, "TILE", tile)  # blocks of two rows
    monkeypatch.setattr(controllers, "LARGEST", largest)
    options = TapeOptions(1, 1, reach, least, limit)
    us, start, weights, grads = problem(controller, options)
    exact, by = Start(*moved(start, "cpu", torch.float64)), Weights(*moved(weights, "cpu", torch.float64))
    trace, *addressing = _forward(us.double(), exact, by, options)
    pulled = tuple(moved(grads, "cpu", torch.float64))
    expected = _backward(pulled, exact.h, exact.c, by, trace, tuple(addressing), options)
    start, weights = Start(*moved(start, DEVICE, torch.float32)), Weights(*moved(weights, DEVICE, torch.float32))
    found_trace = kernels.forward(us.to(DEVICE), start, weights, options)
    for name in ("hs", "memory", "write", "read", "reads"):
        assert_near(getattr(found_trace, name), getattr(trace, name), name)
    found = kernels.backward(
        tuple(moved(grads, DEVICE, torch.float32)), start.h, start.c, weights, found_trace, options
    )
    names = ["us", "h", "c", "memory", "write", "read", "reads", "recurrent", "reader", "heads", "bias"]
    for name, one, other in zip(names, found, expected, strict=True):
        assert (one is None) == (other is None), name
        if one is not None:
            assert_near(one, other, name)


def assert_near(found, expected, name):
    assert (found.cpu().double() - expected).norm() <= 2e-5 * expected.norm(), name
