"""The replacement lens: replace the input of one step, and see what changes later."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.base.progress import show_slow
from mnemoscope.base.validation import check_whole
from mnemoscope.cells import Cell, Lengths, Network, check_finite_inputs, read_inputs, run_with_cache, scan
from mnemoscope.lenses.replacement.result import MeasuredInfluence
from mnemoscope.lenses.whole_network import Readout, in_evaluation_mode, parts_of
from mnemoscope.lenses.wide_readouts import narrow_readout

ROOM = 4_000_000
"""Numbers of outputs or states that are in memory at a time."""


@show_slow("influence")
@in_evaluation_mode
@torch.no_grad()
def measure_influence(
    network: Network,
    inputs: Tensor,
    *,
    readout: Readout | None = None,
    lengths: Lengths | None = None,
    sources: int = 32,
    trials: int = 16,
) -> MeasuredInfluence:
    """Replace the input of one step by that of another trial, and measure how much later outputs and states change.

    Unlike a gradient, this is the effect of inputs as they occur. A network that holds a bit in a saturated state has
    no gradient to the pulse that set it, but it would be in another state without that pulse. The change is a trace of
    the input; that the trace can be read out, only the behaviour of the network shows.

    Args:
        network: a `Model`, a cell, or a torch.nn module that `adapt` takes.
        inputs: the trials, in the layout of the network; at least two.
        readout: from the outputs of a cell to answers; by default the network's own, or none.
        lengths: number of steps of each trial; what follows is padding.
        sources: number of steps whose input is replaced, one at a time, evenly spaced.
        trials: number of trials that are used, the first ones.

    A linear network forgets about half of its state at every step, up to the noise of a few trials:

    >>> from mnemoscope.cells import Elman
    >>> from mnemoscope.connectivity import Dense
    >>> half = Elman(2, 3, "linear", Dense.from_matrix(torch.eye(3) / 2))
    >>> states = measure_influence(half, torch.randn(12, 8, 2)).state_curve
    >>> (states[1:5] / states[:4]).round(decimals=1).tolist()
    [0.5, 0.5, 0.5, 0.5]

    """
    check_whole(1, sources=sources)
    check_whole(2, trials=trials)
    cell, encode, read = parts_of(network, readout)
    given = read_inputs(inputs, batch_first=cell.batch_first, lengths=lengths)
    check_finite_inputs(given.xs, given.mask)
    xs = given.xs[:, :trials]
    if xs.shape[1] < 2:
        raise ValueError(f"Inputs are exchanged between trials: at least two are needed, not {xs.shape[1]}.")
    present = torch.ones(xs.shape[:2], dtype=torch.bool) if given.mask is None else given.mask[:, :trials].cpu()
    run = _Runner(cell.time_first(), encode, narrow_readout(read), present)
    before, other = run(xs), xs.roll(1, 1)
    distances = [None if values is None else _distance(values, present) for values in before]
    replaced = (other != xs).reshape(*xs.shape[:2], -1).any(2).cpu() & present & present.roll(1, 1)  # (time, trials)
    steps = torch.linspace(0, len(xs) - 1, min(sources, len(xs))).round().long()
    largest = max(part.numel() for part in before if part is not None)
    changes = _Changes(run, xs, other, replaced, before, distances, present)
    rows = [changes(part) for part in steps.split(max(1, ROOM // largest))]
    outputs, states = (torch.cat(parts) if parts[0] is not None else None for parts in zip(*rows, strict=True))
    assert outputs is not None
    return MeasuredInfluence(steps, outputs, states, xs.shape[1])


class _Runner:
    """Runs sequences (time, trials, features), and returns answers and flat states in float64 on the CPU."""

    def __init__(self, cell: Cell, encode: Readout, read: Readout, present: Bool[Tensor, "time trials"]) -> None:
        self.cell, self.encode, self.read = cell, encode, read
        self.mask = None if bool(present.all()) else present

    def __call__(self, xs: Tensor) -> tuple[Tensor, Tensor | None]:
        copies = 1 if self.mask is None else xs.shape[1] // self.mask.shape[1]
        mask = None if self.mask is None else self.mask.repeat(1, copies).to(xs.device)
        xs = self.encode(xs)
        if self.cell.grows:  # a state that grows has no distance to one of another length
            outputs, states = scan(self.cell, xs, mask=mask)[0], None
        else:
            outputs, cache = run_with_cache(self.cell, xs, mask=mask)
            states = cache.flat().double().cpu()
        return self.read(outputs).double().cpu(), states


@dataclass(frozen=True)
class _Changes:
    """Trials with the inputs of other trials, and the answers and states of the network without a replacement."""

    run: _Runner
    xs: Tensor
    other: Tensor
    replaced: Bool[Tensor, "time trials"]
    before: tuple[Tensor, Tensor | None]
    distances: list[Float[Tensor, ""] | None]
    present: Bool[Tensor, "time trials"]

    def __call__(self, steps: Int[Tensor, " sources"]) -> list[Float[Tensor, "sources time"] | None]:
        """Return the changes of outputs and states after the input of each of these steps is replaced; NaN before."""
        copies = self.xs.unsqueeze(1).repeat(1, len(steps), *(1,) * (self.xs.dim() - 1))  # (time, sources, trials, ...)
        for source, step in enumerate(steps.tolist()):
            copies[step, source] = self.other[step]
        counts = self.present.unsqueeze(1) & self.replaced[steps]  # (time, sources, trials)
        early = torch.arange(len(self.xs)).unsqueeze(1) < steps
        changes: list[Tensor | None] = []
        for old, new, distance in zip(self.before, self.run(copies.flatten(1, 2)), self.distances, strict=True):
            if old is None or new is None or distance is None:
                changes.append(None)
                continue
            squares = (new.unflatten(1, (len(steps), -1)) - old.unsqueeze(1)).square().sum(3)
            mean = squares.masked_fill(~counts, 0.0).sum(2) / counts.sum(2)  # NaN where no trial counts
            changes.append((mean.masked_fill(early, torch.nan).sqrt() / distance).T)
        return changes


def _distance(values: Float[Tensor, "time trials size"], present: Bool[Tensor, "time trials"]) -> Float[Tensor, ""]:
    """Return the root mean square distance between two trials at the same step."""
    both = present & present.roll(1, 1)
    return ((values - values.roll(1, 1)).square().sum(2)[both].mean()).sqrt()
