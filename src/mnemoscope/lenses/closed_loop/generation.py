"""Generate tokens from many prompts in a closed loop, and see which of the sequences end in a repetition."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.base.progress import slow_bar
from mnemoscope.lenses.attractors.simulation import sketch_matrix
from mnemoscope.lenses.closed_loop.feedback import loop_cell
from mnemoscope.lenses.dynamics import Dynamics

SETTLED = 1e-6
"""A state has settled to a loop if it returns, after a period, to this share of the distance between prompts."""


@dataclass(frozen=True)
class Generation:
    """Tokens that a closed loop generates from the states in which prompts leave it."""

    starts: Float[Tensor, "prompts size"]
    """States after the prompts."""
    tokens: Int[Tensor, "time prompts"]
    """Generated tokens, one more than steps: the first is the answer to the prompt."""
    states: Float[Tensor, "prompts size"]
    """States after the last step, with the last token as their input."""
    path: Float[Tensor, "window prompts sketch"]
    """Sketches of the last states, up to the last one."""

    @property
    def extent(self) -> float:
        """Scale on which states are near: the root mean square distance of first and last states from their mean.

        It is at least a millionth of the size of a state, so that rounding is no distance.
        """
        cloud = torch.cat([self.starts, self.states])
        spread, size = (float(part.square().sum(1).mean().sqrt()) for part in (cloud - cloud.mean(0), cloud))
        return max(spread, 1e-6 * size) or 1.0

    def repetitions(self, max_period: int) -> tuple[Int[Tensor, " prompts"], Int[Tensor, " prompts"]]:
        """Return the least period of tokens and states together, and that of the tokens alone; 0 without one.

        Tokens repeat if all of the last `2 max_period` do so; states, if those of the last period return.
        """
        window, near = self.tokens[-len(self.path) :], SETTLED * self.extent
        both = torch.zeros(self.tokens.shape[1], dtype=torch.int64)
        alone = both.clone()
        for period in range(1, max_period + 1):
            same = (window[period:] == window[:-period]).all(0).cpu()
            gap = (self.path[-period:] - self.path[-2 * period : -period]).norm(dim=2).amax(0).cpu()
            alone = torch.where((alone == 0) & same, period, alone)
            both = torch.where((both == 0) & same & (gap <= near), period, both)
        return both, alone

    def entries(self, periods: Int[Tensor, " prompts"]) -> Int[Tensor, " prompts"]:
        """Return the number of tokens before those that repeat with a given period up to the end; -1 for period 0."""
        found = torch.full_like(periods, -1)
        for prompt, period in enumerate(periods.tolist()):
            if period:
                tokens = self.tokens[:, prompt]
                differs = (tokens[period:] != tokens[:-period]).nonzero()
                found[prompt] = int(differs[-1]) + 1 if len(differs) else 0
        return found


def first_tokens(
    starts: Float[Tensor, "prompts size"], logits: Float[Tensor, "prompts tokens"], window: int
) -> Generation:
    """Return the answers to prompts alone, from which `generate` continues; `window` states will be kept."""
    return Generation(starts, logits.argmax(-1).cpu()[None], starts, starts.new_zeros(window, len(starts), 0))


@torch.no_grad()
def generate(dynamics: Dynamics, before: Generation, steps: int, progress: bool) -> Generation:
    """Continue the closed loop for `steps` steps; the token of a step is the most probable one."""
    cell, sketch, window = loop_cell(dynamics), sketch_matrix(dynamics), len(before.path)
    tokens, states = [], before.states
    path = states.new_zeros(window, len(states), sketch.shape[1])
    for step in slow_bar(range(1, steps + 1), "tokens", shown=progress):
        new, logits = cell.advance(dynamics.unflatten(states))
        states = dynamics.flatten(new)
        tokens.append(logits.argmax(-1))
        if step > steps - window:
            path[step - steps - 1] = states @ sketch
    found = torch.isfinite(states).all(1)
    if not bool(found.all()):
        raise ValueError(
            f"The state is not finite after {steps} tokens from {int((~found).sum())} of {len(found)} prompts: the "
            f"closed loop diverges. Check the weights of the network."
        )
    return Generation(before.starts, torch.cat([before.tokens, torch.stack(tokens).cpu()]), states, path)


@torch.no_grad()
def orbit_of(
    dynamics: Dynamics, state: Float[Tensor, " size"], period: int
) -> tuple[Float[Tensor, "period size"], Float[Tensor, ""]]:
    """Return the states from a given one on, and the least lead of a token over the next one in logits."""
    cell = loop_cell(dynamics)
    states, leads = [], []
    now = state[None]
    for _ in range(period):
        states.append(now)
        new, logits = cell.advance(dynamics.unflatten(now))
        now = dynamics.flatten(new)
        leads.append(logits.topk(2).values.diff().neg())
    return torch.cat(states), torch.cat(leads).amin().cpu()


@torch.no_grad()
def distances_to(
    dynamics: Dynamics,
    generation: Generation,
    orbits: list[Float[Tensor, "period size"]],
    member: Int[Tensor, " prompts"],
    phase: Int[Tensor, " prompts"],
    traced: Int[Tensor, " traced"],
) -> Float[Tensor, "traced time"]:
    """Return the distance of some prompts from their loop over time, each compared with the state of its phase.

    All prompts are run again, as before: the same computation in a smaller batch could round differently.
    """
    steps, states = len(generation.tokens) - 1, generation.starts
    distances = []
    for step in range(steps + 1):
        target = torch.stack(
            [
                orbits[loop][(at - steps + step) % len(orbits[loop])]
                for loop, at in zip(member[traced].tolist(), phase[traced].tolist(), strict=True)
            ]
        )
        distances.append((states[traced.to(states.device)] - target).norm(dim=1).cpu())
        if step < steps:
            states = dynamics(states)
    return torch.stack(distances, 1)
