"""The predictability lens: the largest Lyapunov exponent along inputs, and iterations on short pieces of them."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.progress import show_slow
from mnemoscope.base.validation import check_whole
from mnemoscope.cells import Cell, Network, Newton, State, as_cell, check_finite_inputs, read_equal_inputs, scan
from mnemoscope.cells.flat_steps import FlatSteps, why_not_flat
from mnemoscope.cells.newton import solve
from mnemoscope.cells.sequence import start_state
from mnemoscope.lenses.attractors.lyapunov import BLOCKS, lyapunov_spectrum
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.predictability.result import Predictability
from mnemoscope.lenses.whole_network import in_evaluation_mode

LENGTHS = (32, 64, 128, 256)
"""Numbers of inputs on which iterations are counted, unless others are given."""


@show_slow("predictability")
@in_evaluation_mode
def measure_predictability(
    network: Network,
    inputs: Float[Tensor, "time batch features"],
    *,
    state: State | None = None,
    newton: Newton | None = None,
    lengths: tuple[int, ...] | None = None,
    steps: int = 1000,
    seed: int = 0,
    progress: bool = True,
) -> Predictability:
    """Estimate beforehand whether `scan(network, inputs, backend="newton")` converges, and in how many iterations.

    Newton's method needs few iterations if the network forgets its initial state, that is if its largest Lyapunov
    exponent along the inputs is negative, and a number in proportion to the steps if it is positive (Gonzalez et al.
    2025). The lens computes the exponent on the first inputs, step by step in float64, and counts iterations on short
    pieces of them: at the beginning, and where the network has left its initial state, whichever takes more. From these
    it extrapolates to all inputs.

    Args:
        network: a cell, a recurrent module of torch.nn, or what `adapt` returns for a network of your own.
        inputs: (time, batch, features), or (batch, time, features) if the network is a torch.nn module with
            `batch_first`.
        state: the state before the first input; the cell's initial state by default.
        newton: options of the iteration; all defaults if None.
        lengths: numbers of inputs on which iterations are counted; 32, 64, 128 and 256 by default.
        steps: first inputs along which the exponent is measured, at least 40; a fifth of them is transient.
        seed: seed of the first tangent vectors.
        progress: show a progress bar after 3 seconds.

    >>> import mnemoscope as ms
    >>> xs = torch.randn(2000, 1, 3, generator=torch.manual_seed(0))
    >>> found = measure_predictability(ms.cells.DiagonalGRU(3, 16), xs)
    >>> found.converges, found.predicted[1] < 20
    (True, True)

    """
    cell, newton = as_cell(network, state), newton or Newton()
    xs = read_equal_inputs(inputs, batch_first=cell.batch_first)
    check_finite_inputs(xs)
    cell = cell.time_first()
    state = start_state(cell, xs, state)
    reason = why_not_flat(cell, state)
    if reason is not None:
        raise ValueError(f"Newton's method cannot run this {type(cell).__name__}: {reason}.")
    check_whole(2 * BLOCKS, steps=steps)
    if len(xs) < 2 * BLOCKS:
        raise ValueError(f"An exponent takes at least {2 * BLOCKS} inputs, but there are {len(xs)}.")
    lengths = tuple(length for length in LENGTHS if length <= len(xs)) if lengths is None else lengths
    check_whole(1, **{f"lengths[{number}]": length for number, length in enumerate(lengths)})
    if not lengths or list(lengths) != sorted(set(lengths)) or lengths[-1] > len(xs):
        raise ValueError(f"lengths must ascend from 1 to at most {len(xs)}, the number of inputs, but are {lengths}.")
    first = xs[:steps]
    exponents = lyapunov_spectrum(
        Dynamics(cell), 1, transient=len(first) // 5, starts=state, inputs=first.detach(), seed=seed, progress=progress
    )
    counts = _counted(cell, xs, state, newton, lengths)
    later = min(len(first) // 2, len(xs) - lengths[-1])
    if later:  # a network may leave its initial state slowly, and expand only then
        with torch.no_grad():
            reached = scan(cell, xs[:later], state)[1]
        settled = _counted(cell, xs[later:], reached, newton, lengths)
        # the first failure is the last entry of both
        counts = [max(pair, key=lambda count: (not count[1], count[0])) for pair in zip(counts, settled, strict=False)]
    return Predictability(
        exponents.exponents[:, 0],
        exponents.errors[:, 0],
        torch.tensor(lengths[: len(counts)]),
        torch.tensor([count for count, _ in counts]),
        counts[-1][1],
        newton.iterations,
        len(xs),
        exponents.steps,
    )


def _counted(cell: Cell, xs: Tensor, state: State, newton: Newton, lengths: tuple[int, ...]) -> list[tuple[int, bool]]:
    """Return the iterations on each length, and whether they converged; the first failure is the last entry."""
    steps = FlatSteps(cell, xs[: lengths[-1]], state, None)
    start, counts = steps.layout.flatten(state), []
    with torch.no_grad():
        for length in lengths:
            outcome = solve(steps, start, replace(newton, window=min(length, newton.window or length)), length)[1]
            counts.append((outcome.iterations, outcome.solved == length))
            if not counts[-1][1]:
                break
    return counts
