"""Linear dynamics of a trained network at the slow points of each context, and the axes of its trials."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells import Model
from mnemoscope.lenses import Dynamics, Recording, find_slow_manifold, record_activity, regression_axes
from mnemoscope.tasks import ContextDecision

LEAST_SPREAD = 1e-12
"""Spread below which states count as one point."""
EVERY = 4
"""Every how many steps of the stimulus a state of each trial is a start of the descent to slow points."""
CROSSED = 0.1
"""A slow point crosses at most this share of the diameter of the trials' states in the duration of the stimulus."""
DESCENT = 3000
"""Largest number of steps of the descent to a slow point."""


@dataclass(frozen=True)
class Linearisation:
    """The slowest mode at each slow point of one context. Vectors point towards the choice "right"."""

    points: Float[Tensor, "points size"]
    """Slow points."""
    speeds: Float[Tensor, " points"]
    """Length of a step at each point, as a share of the diameter of all points."""
    time_constants: Float[Tensor, "points modes"]
    """Steps in which each mode grows or decays by a factor e, the slowest mode first."""
    right: Float[Tensor, "points size"]
    """Direction of the slowest mode, of unit length; NaN if it is complex."""
    left: Float[Tensor, "points size"]
    """Selection vectors, with left · right = 1; NaN if the mode is complex."""
    effects: Float[Tensor, "size inputs"]
    """How far a unit of each input moves the state in one step."""

    @property
    def gains(self) -> Float[Tensor, "points inputs"]:
        """How far the state ends along the slowest mode after a unit of each input in one step."""
        return self.left @ self.effects

    @property
    def direct(self) -> Float[Tensor, "points inputs"]:
        """How far a unit of each input moves the state along the slowest mode at once."""
        return self.right @ self.effects


@torch.no_grad()
def record_grid(model: Model, task: ContextDecision) -> Recording:
    """Return the activity in one trial without noise of every combination of motion, colour and context."""
    trials = task.grid()
    return record_activity(model, trials.batch.inputs, trials.table)


def choice_axis(recording: Recording) -> Float[Tensor, " size"]:
    """Return the direction of the choice at the end of the delay, by regression on motion, colour and choice."""
    return regression_axes(recording.in_epoch("delay"), "choice", "motion", "colour", orthogonal=False)["choice"]


def dynamics_of(model: Model, task: ContextDecision, context: int) -> Dynamics:
    """Return the network in one context, without evidence."""
    constant = torch.zeros(task.input_size, dtype=torch.float64)
    constant[task.input_names.index(f"{task.labels['context'][context]} context")] = 1
    return Dynamics(model.cell.double(), constant)


@torch.no_grad()
def settled_states(dynamics: Dynamics, recording: Recording, steps: int) -> Float[Tensor, "trials size"]:
    """Return the states that the trials of a recording reach `steps` steps after the delay, without evidence."""
    states = recording.in_epoch("delay").activity[-1].to(dynamics.origin)
    for _ in range(steps):
        states = dynamics(states)
    return states


def minimise_speed(dynamics: Dynamics, recording: Recording, steps: int) -> Float[Tensor, "points size"]:
    """Return the slow points that a descent reaches from the states of trials during the stimulus.

    The source minimises q = |F(x) - x|^2 / 2 too, instead of letting states move. Here it is a gradient descent from
    each state, until it is slow; it hardly moves a state along a line of slow points, on which q changes little.
    States that do not become slow within `DESCENT` steps are left out.

    Args:
        dynamics: the network in one context, without evidence.
        recording: trials of that context.
        steps: duration of the stimulus in steps, in which a slow point hardly moves (`CROSSED`).

    """
    activity = recording.in_epoch("stimulus").activity.to(dynamics.origin)
    limit = CROSSED * torch.cdist(activity[-1], activity[-1]).max().clamp_min(LEAST_SPREAD) / steps
    states = activity[::EVERY].flatten(0, 1)
    identity = torch.eye(states.shape[1], dtype=states.dtype, device=states.device)
    stiffness = torch.linalg.matrix_norm(dynamics.jacobian(states) - identity, ord=2).max().square()
    slow = torch.zeros(len(states), dtype=torch.bool, device=states.device)
    for _ in range(DESCENT):
        with torch.enable_grad():
            x = states.detach().requires_grad_()
            residual = dynamics(x) - x
            (slope,) = torch.autograd.grad(residual.square().sum() / 2, x)
        slow = residual.detach().norm(dim=1) <= limit
        if bool(slow.all()):
            break
        states = torch.where(slow[:, None], states, states - slope / stiffness)
    return states[slow]


@torch.no_grad()
def linearise(
    dynamics: Dynamics, states: Float[Tensor, "points size"], towards: Float[Tensor, " size"]
) -> Linearisation:
    """Return the linear dynamics at slow points, with vectors that point towards a direction."""
    diameter = torch.cdist(states, states).max().clamp_min(LEAST_SPREAD)
    values, vectors = torch.linalg.eig(dynamics.jacobian(states))  # modes are columns
    order = values.abs().log().abs().argsort(1)
    constants = 1 / values.abs().log().abs().gather(1, order)
    rows, slowest = torch.arange(len(states)), order[:, 0]
    is_real = (values[rows, slowest].imag.abs() <= 1e-9)[:, None]
    right = vectors[rows, :, slowest].real
    left = torch.linalg.inv(vectors)[rows, slowest].real
    length = right.norm(dim=1, keepdim=True)
    sign = torch.where(right @ towards.to(right) < 0, -1.0, 1.0)[:, None]
    return Linearisation(
        points=states,
        speeds=(dynamics(states) - states).norm(dim=1) / diameter,
        time_constants=constants,
        right=(sign * right / length).masked_fill(~is_real, torch.nan),
        left=(sign * left * length).masked_fill(~is_real, torch.nan),
        effects=dynamics.input_jacobian(states[:1]).detach(),
    )


def slow_line(dynamics: Dynamics, recording: Recording, steps: int) -> tuple[str, float]:
    """Return the shape on which the states of the trials settle, and for how many steps it holds a value."""
    states = recording.activity.flatten(0, 1)
    states = states[states.isfinite().all(1)].to(dynamics.origin)
    memory = find_slow_manifold(dynamics, starts=states, steps=steps)
    return memory.topology, memory.lifetime if memory else 0.0
