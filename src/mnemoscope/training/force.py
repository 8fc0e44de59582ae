"""FORCE learning: a readout trained by recursive least squares while its network runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.base.progress import Bar
from mnemoscope.cells.state import State
from mnemoscope.training.least_squares import RecursiveLeastSquares
from mnemoscope.training.readouts import Network, TrainableReadout, check_mask, check_targets, trainable_readout


@dataclass(frozen=True)
class Snapshot:
    """The readout after some step of the training."""

    step: int
    """Number of steps run."""
    readout: Float[Tensor, "... output features"]


@dataclass(frozen=True)
class ForceRun:
    """Record of a FORCE run; the network itself holds the trained readout."""

    outputs: Float[Tensor, "time ... output"]
    """z at every step, before the update of that step; for several reservoirs (time, reservoirs, batch, output)."""
    errors: Float[Tensor, " updates"]
    """Mean |z - f| before each update."""
    steps: Int[Tensor, " updates"]
    """Steps at which the readout was updated."""
    change: Float[Tensor, " updates"]
    """Norm of each change of the readout, which falls towards 0 as the readout converges."""
    snapshots: tuple[Snapshot, ...]
    state: State
    """State after the last step."""

    def summary(self) -> str:
        """Return a sentence with the number of updates, and the first and last errors."""
        if not len(self.errors):
            return f"{self.outputs.shape[0]} steps were run, and no update was made."
        tenth = max(1, len(self.errors) // 10)
        first, last = (self.errors[part].mean().item() for part in (slice(0, tenth), slice(-tenth, None)))
        return (
            f"{len(self.errors)} updates in {self.outputs.shape[0]} steps: the error before an update was {first:.3g} "
            f"on average over the first tenth of them and {last:.3g} over the last; the last changes of the readout "
            f"have length {self.change[-tenth:].mean().item():.2g}."
        )


def train_force(
    network: Network,
    inputs: Float[Tensor, "time ... features"],
    targets: Float[Tensor, " ..."],
    *,
    every: int = 2,
    alpha: float = 1.0,
    mask: Bool[Tensor, " ..."] | None = None,
    forgetting: float = 1.0,
    noise: float = 0.0,
    state: State | None = None,
    keep: Iterable[int] = (),
    seed: int = 0,
    progress: bool = False,
) -> ForceRun:
    """Train a readout while the network runs, by recursive least squares (Sussillo & Abbott 2009; Jang, Eq 27-28).

    The network receives its own output z, before the update, as feedback. z stays near its target because the readout
    is updated so often. The trained readout is W_o of an `EchoState`, or of several that run in parallel, or the linear
    readout of a `Model` of any cell, whose output is not fed back. The network changes in place.

    Args:
        network: an EchoState with outputs, a list of them, or a Model.
        inputs: (time, batch, features); for several reservoirs also (time, reservoirs, batch, features).
        targets: the same leading dimensions as the inputs. The members of a batch share one readout.
        every: steps between updates.
        alpha: P is initialised as I / alpha.
        mask: (time, batch); no update uses steps where it is False, for instance while a target changes.
        forgetting: factor in (0, 1] by which the weight of the past shrinks at each update.
        noise: standard deviation of Gaussian noise added to the states of reservoirs at every step.
        state: state before the first step; the network's initial state by default.
        keep: numbers of steps after which a `Snapshot` of the readout is kept.
        seed: seed of the noise.
        progress: show a progress bar.

    >>> from mnemoscope.cells import EchoState
    >>> reservoir = EchoState(1, 50, output_size=1, input_scale=2.0)
    >>> pulses = torch.randn(500, 1, 1).sign() * (torch.rand(500, 1, 1) < 0.05)
    >>> run = train_force(reservoir, pulses, pulses.cumsum(0).tanh(), keep=[100])
    >>> len(run.errors), run.snapshots[0].readout.shape
    (250, torch.Size([1, 50]))

    """
    kept = _checked_options(every, noise, keep, len(inputs))
    readout = trainable_readout(network, inputs, state, noise, seed)
    targets = check_targets(readout, inputs, targets)
    mask = check_mask(mask, targets)
    least_squares = RecursiveLeastSquares(
        readout.weight.shape[-1],
        alpha,
        learners=tuple(readout.weight.shape[:-2]),
        forgetting=forgetting,
        device=readout.weight.device,
    )
    log = _Log()
    if kept[:1] == [0]:
        log.snapshots.append(Snapshot(0, readout.snapshot()))
    due = torch.zeros(len(inputs), dtype=torch.bool)
    due[::every] = True
    due &= mask.flatten(1).any(1).cpu()
    unmasked = mask.flatten(1).all(1).cpu().tolist()
    with torch.no_grad():
        features_over_time = Bar(readout.steps(), total=len(inputs), desc="force", unit="step", disable=not progress)
        for t, (features, f, update) in enumerate(zip(features_over_time, targets.unbind(), due.tolist(), strict=True)):
            z = features @ readout.weight.mT
            log.outputs.append(z)
            readout.z = z
            if update:
                e = z - f
                if not unmasked[t]:
                    features, e = features * mask[t].unsqueeze(-1), e * mask[t].unsqueeze(-1)
                delta = least_squares.update(features, e)
                readout.weight += delta
                log.add_update(t, e.abs().sum() / (mask[t].sum() * e.shape[-1]), delta.norm())
            if t + 1 in kept:
                log.snapshots.append(Snapshot(t + 1, readout.snapshot()))
        if not torch.isfinite(readout.weight).all():
            raise FloatingPointError(
                "The readout did not stay finite, and the network was left unchanged: it or its feedback grows without "
                "bound. Use a bounded nonlinearity, a larger alpha or a smaller feedback_scale."
            )
        readout.write_back()
    return log.finished(readout)


@dataclass
class _Log:
    """Outputs, updates and snapshots of a run, collected step by step."""

    outputs: list[Tensor] = field(default_factory=list)
    errors: list[Tensor] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    change: list[Tensor] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)

    def add_update(self, step: int, error: Tensor, change: Tensor) -> None:
        self.steps.append(step)
        self.errors.append(error)
        self.change.append(change)

    def finished(self, readout: TrainableReadout) -> ForceRun:
        """Return the record of the run."""
        nothing = torch.zeros(0)
        return ForceRun(
            outputs=readout.like_inputs(torch.stack(self.outputs)),
            errors=torch.stack(self.errors).cpu() if self.errors else nothing,
            steps=torch.tensor(self.steps, dtype=torch.int64),
            change=torch.stack(self.change).cpu() if self.change else nothing,
            snapshots=tuple(self.snapshots),
            state=readout.last_state(),
        )


def _checked_options(every: int, noise: float, keep: Iterable[int], steps: int) -> list[int]:
    """Return the steps of the snapshots in order; raise if an option has no valid value."""
    if every < 1:
        raise ValueError(f"every counts the steps between updates, from 1 on, but is {every}.")
    if noise < 0:
        raise ValueError(f"noise is a standard deviation, 0 or positive, but is {noise}.")
    kept = sorted(set(keep))
    if kept and not 0 <= kept[0] <= kept[-1] <= steps:
        raise ValueError(f"keep holds numbers of steps between 0 and {steps}, but {kept} were given.")
    return kept
