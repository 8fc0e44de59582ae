"""Readouts learned without gradients: FORCE, while the network runs, and ridge regression, after it ran."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.base.progress import Bar
from mnemoscope.cells.state import State
from mnemoscope.training.least_squares import RecursiveLeastSquares, ridge
from mnemoscope.training.students import Network, Student, student_of


@dataclass(frozen=True)
class Snapshot:
    """The readout at one moment of the learning."""

    step: int
    """How many steps had been run."""
    readout: Float[Tensor, "... output features"]


@dataclass(frozen=True)
class ForceRun:
    """What happened while FORCE taught a network; the network itself has the learned readout."""

    outputs: Float[Tensor, "time ... output"]
    """z at every step, before the update of that step; of several reservoirs (time, reservoirs, batch, output)."""
    errors: Float[Tensor, " updates"]
    """Mean |z - f| at each update, before it."""
    steps: Int[Tensor, " updates"]
    """At which steps the readout was updated."""
    change: Float[Tensor, " updates"]
    """Length of each change of the readout, which falls towards 0 as it is learned."""
    snapshots: tuple[Snapshot, ...]
    state: State
    """After the last step."""

    def summary(self) -> str:
        """In words."""
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
    """Teach a readout while the network runs, by recursive least squares (Sussillo & Abbott 2009; Jang, Eq 27-28).

    The output is fed back as it is, z before the update, and stays near its target because the readout is changed so
    often. What is taught is W_o of an `EchoState`, of several that run together, or the linear readout of a `Model` of
    any cell, whose output is not fed back. The network is changed in place.

    Args:
        network: an EchoState with outputs, a list of them, or a Model.
        inputs: (time, batch, features); for several reservoirs also (time, reservoirs, batch, features).
        targets: of the same form. The members of a batch share the readout, and are learned from together.
        every: steps between updates.
        alpha: P begins as I / alpha.
        mask: (time, batch): where False, nothing is learned; for instance while a target changes.
        forgetting: factor in (0, 1] by which the weight of the past shrinks at each update.
        noise: standard deviation of Gaussian noise added to the states of reservoirs at every step.
        state: where to begin; the network's own initial state by default.
        keep: numbers of steps after which a `Snapshot` of the readout is kept.
        seed: of the noise.
        progress: show a progress bar.

    >>> from mnemoscope.cells import EchoState
    >>> reservoir = EchoState(1, 50, output_size=1, input_scale=2.0)
    >>> pulses = torch.randn(500, 1, 1).sign() * (torch.rand(500, 1, 1) < 0.05)
    >>> run = train_force(reservoir, pulses, pulses.cumsum(0).tanh(), keep=[100])
    >>> len(run.errors), run.snapshots[0].readout.shape
    (250, torch.Size([1, 50]))

    """
    if every < 1:
        raise ValueError(f"every counts the steps between updates, from 1 on, but is {every}.")
    if noise < 0:
        raise ValueError(f"noise is a standard deviation, 0 or positive, but is {noise}.")
    student = student_of(network, inputs, state, noise, seed)
    targets = _targets(student, inputs, targets)
    mask = _learned(mask, targets)
    wanted = sorted(set(keep))
    if wanted and not 0 <= wanted[0] <= wanted[-1] <= len(inputs):
        raise ValueError(f"keep holds numbers of steps between 0 and {len(inputs)}, but {wanted} were given.")
    learner = RecursiveLeastSquares(student.readout.shape[-1], alpha, learners=tuple(student.readout.shape[:-2]),
                                    forgetting=forgetting, device=student.readout.device)  # fmt: skip
    outputs, errors, steps, change = [], [], [], []
    snapshots = [Snapshot(0, student.kept())] if wanted[:1] == [0] else []
    due = torch.zeros(len(inputs), dtype=torch.bool)
    due[::every] = True
    due &= mask.flatten(1).any(1).cpu()
    whole = mask.flatten(1).all(1).cpu().tolist()
    with torch.no_grad():
        walk = Bar(student.steps(), total=len(inputs), desc="force", unit="step", disable=not progress)
        for t, (features, f, now) in enumerate(zip(walk, targets.unbind(), due.tolist(), strict=True)):
            z = features @ student.readout.mT
            outputs.append(z)
            student.z = z
            if now:
                e = z - f
                if not whole[t]:
                    features, e = features * mask[t].unsqueeze(-1), e * mask[t].unsqueeze(-1)
                delta = learner.update(features, e)
                student.readout += delta
                errors.append(e.abs().sum() / (mask[t].sum() * e.shape[-1]))
                change.append(delta.norm())
                steps.append(t)
            if t + 1 in wanted:
                snapshots.append(Snapshot(t + 1, student.kept()))
        if not torch.isfinite(student.readout).all():
            raise FloatingPointError(
                "The readout did not stay finite, and the network was left as it was: it or its feedback grows without "
                "bound. Use a bounded nonlinearity, a larger alpha or a smaller feedback_scale."
            )
        student.write()
    nothing = torch.zeros(0)
    return ForceRun(
        outputs=student.as_given(torch.stack(outputs)),
        errors=torch.stack(errors).cpu() if errors else nothing,
        steps=torch.tensor(steps, dtype=torch.int64),
        change=torch.stack(change).cpu() if change else nothing,
        snapshots=tuple(snapshots),
        state=student.last_state(),
    )


def fit_readout(
    network: Network,
    inputs: Float[Tensor, "time ... features"],
    targets: Float[Tensor, " ..."],
    *,
    alpha: float = 1.0,
    washout: int = 0,
    mask: Bool[Tensor, " ..."] | None = None,
    noise: float = 0.0,
    seed: int = 0,
) -> None:
    """Teach a readout by ridge regression on the states of one run (Jaeger 2001). The network is changed in place.

    A reservoir with feedback is driven by its teacher: the targets are fed back in place of the outputs, which are
    right once the readout is learned; `noise` on its states keeps it stable when it then hears itself.

    Args:
        network: an EchoState with outputs, a list of them, or a Model of any cell.
        inputs: as for `train_force`.
        targets: as for `train_force`.
        alpha: weight of |W_o|^2.
        washout: steps at the beginning that are left out.
        mask: (time, batch): where False, a step is left out.
        noise: standard deviation of Gaussian noise added to the states of reservoirs at every step.
        seed: of the noise.

    >>> from mnemoscope.cells import EchoState, Model
    >>> model = Model(EchoState(1, 50), output_size=1)
    >>> xs = torch.rand(300, 1, 1)
    >>> fit_readout(model, xs, xs.roll(3, 0), alpha=1e-6, washout=10)

    """
    if not 0 <= washout < len(inputs):
        raise ValueError(f"washout leaves out steps at the beginning, fewer than {len(inputs)}, but is {washout}.")
    student = student_of(network, inputs, None, noise, seed)
    targets = _targets(student, inputs, targets)
    mask = _learned(mask, targets).clone()
    mask[:washout] = False
    if not mask.any():
        raise ValueError("Nothing is left to learn from: the mask and the washout leave out every step.")
    features = []
    student.z = torch.zeros_like(targets[0])  # nothing is heard before the first target
    with torch.no_grad():
        for one, f in zip(student.steps(), targets.unbind(), strict=True):
            features.append(one)
            student.z = f
        seen = torch.stack(features)  # (time, ..., batch, features)
        for learner in range(student.readout.shape[0]):
            own = mask[:, learner]
            student.readout[learner] = ridge(seen[:, learner][own], targets[:, learner][own], alpha)
        student.write()


def _targets(student: Student, inputs: Tensor, targets: Tensor) -> Tensor:
    """Targets (time, learners or 1, batch, output)."""
    expected = (*inputs.shape[:-1], student.readout.shape[-2])
    if tuple(targets.shape) != expected:
        raise ValueError(f"The targets must have shape {expected}, as the inputs, but have {tuple(targets.shape)}.")
    if not torch.isfinite(targets).all():
        raise ValueError("The targets contain NaN or infinite values.")
    targets = targets.to(student.readout)
    if targets.dim() == 4:
        return targets
    return targets.unsqueeze(1).expand(-1, student.readout.shape[0], -1, -1)


def _learned(mask: Tensor | None, targets: Tensor) -> Tensor:
    """The mask (time, learners, batch)."""
    shape = targets.shape[:-1]
    if mask is None:
        return torch.ones(shape, dtype=torch.bool, device=targets.device)
    own = mask.unsqueeze(1) if mask.dim() == 2 else mask
    if mask.dtype != torch.bool or own.dim() != 3 or own.shape[0] != shape[0] or own.shape[2] != shape[2]:
        raise ValueError(
            f"mask must be of bool and of shape (time, batch) = {(shape[0], shape[2])}, but is {mask.dtype} of shape "
            f"{tuple(mask.shape)}."
        )
    return own.expand(shape).to(targets.device)
