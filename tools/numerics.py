"""Compare the mathematics with independent references on random problems, and print one row for each comparison.

    make numerics                                         all comparisons, and the table in docs/reliability.md
    python -m tools.numerics --only fisher --scale 0.1    a tenth of one
    python -m tools.numerics --only scans --seed 7 --case 3    one case again

The folder of a failed case is kept in build/reliability, with its traceback and the command that repeats it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import torch
from benchmarks.slow_manifolds import false_alarm, wrong_shape
from mpmath import mp
from tests.cells.test_cells import CELLS
from tests.kernels.test_kernels import COMPLEX, REAL, inputs, reference
from tools.reliability import Batch, Case, Check, NotRun, main
from torch import Tensor

import mnemoscope as ms
from mnemoscope.cells.state import leaves, map_state, named_leaves
from mnemoscope.cells.unrolled import hold_masked
from mnemoscope.kernels import diagonal_scan, elementwise_scan, linear_scan

DIGITS = 70
ROUNDING = 2.0**-52
SCAN_TOLERANCE = 1e-10
"""Largest error of a value or gradient, relative to the largest entry: float64, some tens of steps of order 1."""


def scan_equals_loop(case: Case) -> float:
    """Compare a cell's scan with the plain loop: outputs, last state, and all gradients, masked or not."""
    return _compare_scan(case, {})


def chunks_equal_loop(case: Case) -> float:
    """Compare a scan in chunks that the backward pass recomputes with the plain loop."""
    return _compare_scan(case, {"checkpoint": case.random.choice(["sqrt", 1, 2, 3, 5, 64])})


def _compare_scan(case: Case, options: dict[str, Any]) -> float:
    torch.manual_seed(case.random.randrange(1 << 30))
    name = [*CELLS][case.number % len(CELLS)]
    time, batch = case.random.randint(1, 40), case.random.randint(1, 5)
    cell = CELLS[name]().double().eval()  # h-detach draws random numbers in training
    xs = torch.randn(time, batch, 3, dtype=torch.float64, requires_grad=True)
    mask = torch.rand(time, batch) < 0.7 if case.random.random() < 0.4 else None
    start = cell.initial_state(batch)
    with torch.no_grad():  # a state that the cell can reach, with memories where it has some
        for x in torch.randn(case.random.randint(0, 12), batch, 3, dtype=torch.float64):
            start = cell(x, start)
    start = map_state(lambda part: part.detach().clone().requires_grad_(part.is_floating_point()), start)

    def loop() -> tuple[Tensor, Any]:
        state, outputs = start, []
        for t, x in enumerate(xs):
            new = cell(x if mask is None else x.masked_fill(~mask[t].unsqueeze(-1), 0), state)
            state = new if mask is None else hold_masked(mask[t], new, state)
            outputs.append(cell.output(state))
        return torch.stack(outputs), state

    weight = torch.randn(1, dtype=torch.float64)
    given = [xs, *cell.parameters(), *leaves(start)]
    found, expected = ms.scan(cell, xs, start, mask=mask, **options), loop()
    # scores and filled slots only choose the states that an attentive cell keeps: a scan returns them without gradient
    last = [(name, part) for name, part in named_leaves(found[1]) if part.is_floating_point() or part.is_complex()]
    chooses = [name.rpartition(".")[2] in ("score", "filled") for name, _ in last]
    through = [True, *(not each for each in chooses)]
    if any(each and part.requires_grad for each, (_, part) in zip(chooses, last, strict=True)):
        raise AssertionError(f"{name}: the scan returns scores or filled slots with a part of their gradient.")
    found, expected = (_with_gradients(*each, given, weight, through) for each in (found, expected))
    return _largest_error(found, expected, f"{name}, {time} steps, batch {batch}, masked {mask is not None}, {options}")


def kernel_equals_loop(case: Case) -> float:
    """Compare the elementwise, linear and diagonal scans, which pair or chunk their steps, with the plain loop."""
    torch.manual_seed(case.random.randrange(1 << 30))
    time, batch, units = case.random.randint(1, 300), case.random.randint(1, 4), case.random.randint(1, 9)
    kind = ("elementwise", "linear", "diagonal", "varying")[case.number % 4]
    number = case.random.choice([torch.float64, torch.complex128])
    name = "linear" if kind != "elementwise" else case.random.choice(REAL if number == torch.float64 else COMPLEX)
    given = inputs(name, number, time, batch, units)
    us, h0, V, *bias = given
    if kind == "elementwise":
        found, expected = elementwise_scan(us, h0, V, name, *bias), reference(us, h0, V, name, *bias)
    elif kind == "linear":
        found, expected = linear_scan(V, us, h0), reference(us, h0, V, name)
    else:
        a = 0.99 * torch.tanh(torch.randn(*((units,) if kind == "diagonal" else us.shape), dtype=number))
        given = [a.requires_grad_(), us, h0]
        h, states = h0, []
        for t in range(time):
            h = (a if kind == "diagonal" else a[t]) * h + us[t]
            states.append(h)
        found, expected = diagonal_scan(a, us, h0), torch.stack(states)
    weight = torch.ones(1, dtype=torch.float64)
    both = [_with_gradients(states, states[-1], given, weight) for states in (found, expected)]
    return _largest_error(*both, f"{kind} {name} {number}, {time} steps, batch {batch}, {units} units")


def _values(outputs: Tensor, state: Any) -> list[Tensor]:
    """Return the outputs and the numbers of the last state."""
    return [outputs, *(part for part in leaves(state) if part.is_floating_point() or part.is_complex())]


def _with_gradients(
    outputs: Tensor, state: Any, given: Sequence[Tensor], weight: Tensor, through: Sequence[bool] = (True, True)
) -> list[Tensor]:
    """Return outputs, last state, and the gradients of a fixed sum of those values that `through` selects."""
    values = _values(outputs, state)
    ramp = [torch.linspace(-1, 1, part.numel(), dtype=torch.float64).view(part.shape) + weight for part in values]
    chosen = zip(values, ramp, through, strict=True)
    total = sum((part.abs().square() * each).sum() for part, each, wanted in chosen if wanted)
    wanted = [part for part in given if part.requires_grad]
    assert isinstance(total, Tensor)
    gradients = torch.autograd.grad(total, wanted, allow_unused=True)
    return [*values, *(torch.zeros_like(part) if g is None else g for part, g in zip(wanted, gradients, strict=True))]


def _largest_error(found: Sequence[Tensor], expected: Sequence[Tensor], what: str) -> float:
    scale = max([1.0, *(part.detach().abs().max().item() for part in expected if part.numel())])
    pairs = zip(found, expected, strict=True)
    error = max((one - other).detach().abs().max().item() if one.numel() else 0.0 for one, other in pairs) / scale
    if not error <= SCAN_TOLERANCE:
        raise AssertionError(f"{what}: the error is {error:.1e}, more than {SCAN_TOLERANCE:.0e}.")
    return error


def fisher_equals_digits(case: Case) -> float:
    """Compare Fisher memory with 70 digits: the Stein equation solved as one linear system."""
    torch.manual_seed(case.random.randrange(1 << 30))
    size, lags = case.random.randint(1, 5), 8
    A = torch.randn(size, size, dtype=torch.float64)
    A *= case.random.uniform(0.2, 0.98) / torch.linalg.eigvals(A).abs().max()
    w, noise = torch.randn(size, dtype=torch.float64), case.random.uniform(0.1, 3.0)
    with mp.workdps(DIGITS):
        exact_A, exact_w = (mp.matrix(part.tolist()) for part in (A, w))
        kronecker = mp.matrix(size * size)
        for i, j, k, m in torch.cartesian_prod(*[torch.arange(size)] * 4).reshape(-1, 4).tolist():
            row, column = i * size + j, k * size + m
            kronecker[row, column] = (1 if row == column else 0) - exact_A[i, k] * exact_A[j, m]
        unit = mp.matrix([mp.mpf(noise) if i == j else 0 for i in range(size) for j in range(size)])
        solution = mp.lu_solve(kronecker, unit)
        C = mp.matrix(size)
        for i in range(size):
            for j in range(size):
                C[i, j] = solution[i * size + j]
        exact, signal = [], exact_w
        for _ in range(lags):
            exact.append(float((signal.T * mp.lu_solve(C, signal))[0]))
            signal = exact_A * signal
        condition = float(mp.cond(C))
    found = ms.fisher_memory(A, w, noise=noise, lags=lags).curve
    error = max(abs(found[lag].item() - exact[lag]) for lag in range(lags)) / max(exact)
    tolerance = 1e3 * ROUNDING * condition
    if not error <= tolerance:
        raise AssertionError(f"The curve differs by {error:.1e}, more than {tolerance:.1e}; condition {condition:.1e}.")
    return error


def no_false_manifold(case: Case) -> None:
    """Check that the slow-manifold lens claims none for a random system without one."""
    _raise_if(false_alarm(case.number, case.seed))


def planted_manifold_is_named(case: Case) -> None:
    """Check that the slow-manifold lens names the topology of a random planted manifold."""
    _raise_if(wrong_shape(case.number, case.seed))


def _raise_if(message: str) -> None:
    if message:
        raise AssertionError(message)


def batch_of(module: str) -> Callable[[int, int], Mapping[str, Any]]:
    """Return the function `check` of a module of this folder, imported when it is called."""

    def check(number: int, seed: int) -> Mapping[str, Any]:
        try:
            found = import_module(f"tools.{module}")
        except ModuleNotFoundError as error:
            if error.name != f"tools.{module}":
                raise
            raise NotRun(f"tools/{module}.py is not available") from error
        return found.check(number, seed)

    return check


CHECKS = (
    Batch("maps", "fixed points of random two-dimensional maps against all roots", batch_of("numerics_maps"), 2000),
    Batch("binding", "planted binding models: rotations, leaks, noise, transients", batch_of("numerics_binding"), 200),
    Check("no-manifold", "systems without a slow manifold: none may be claimed", no_false_manifold, 200),
    Check("manifolds", "planted lines, rings, planes, spheres, tori: their topology", planted_manifold_is_named, 40),
    Check("fisher", f"Fisher memory of random networks against {DIGITS} digits", fisher_equals_digits, 200),
    Check("scans", "every cell's scan against its loop, with gradients, in float64", scan_equals_loop, 20 * len(CELLS)),
    Check("chunks", "the same in chunks that the backward pass recomputes", chunks_equal_loop, 10 * len(CELLS)),
    Check("kernels", "paired and chunked kernels against their loops, with gradients", kernel_equals_loop, 800),
)
"""One line for each comparison."""

if __name__ == "__main__":
    sys.exit(main("tools.numerics", CHECKS, __doc__, None))
