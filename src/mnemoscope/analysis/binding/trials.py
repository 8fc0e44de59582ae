"""What a network holds while it runs: variables decoded from its states, beside those that the theory expects."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.analysis.binding.linearised import Linearised, silence
from mnemoscope.analysis.binding.structure import Structure
from mnemoscope.shapes import Bool, Float

PERIODS = 6
"""How long a trial is, in numbers of variables."""


@dataclass(frozen=True)
class Trials:
    """Sequences that a network was run on, and what its memories held.

    Subspace j of N at time T holds x(T - N + j), whatever F (the universal law; 1 is the oldest).
    """

    inputs: Float[Tensor, "time batch features"]
    variables: Float[Tensor, "time batch size"]
    """x(t): the inputs while they last, then what F makes of them (or what was given)."""
    states: Float[Tensor, "time batch units"]
    decoded: Float[Tensor, "time batch variables size"]
    """z(t) = Psi* (h(t) - h*)."""
    outputs: Float[Tensor, "time batch size"]
    silent: int
    """The first time without input from there on."""

    @property
    def bits(self) -> bool:
        """Whether the variables are 1 and -1 alone."""
        return bool((self.variables.abs() == 1).all())

    @property
    def number(self) -> int:
        """Variables held at a time, N."""
        return self.decoded.shape[2]

    @property
    def expected(self) -> Float[Tensor, "time batch variables size"]:
        """x(T - N + j) for every T and j; NaN before the first variable came."""
        before = torch.full_like(self.variables[: self.number - 1], torch.nan)
        windows = torch.cat([before, self.variables]).unfold(0, self.number, 1)
        return windows.movedim(-1, 2)

    @property
    def settled(self) -> Bool[Tensor, " time"]:
        """Times at which all variables were made by F, none put in: N steps after the last input and later.

        Until then F may not have come to act on all that was put in: of compose copy's s^2 bits, s (s - 1) / 2 are
        forgotten in the first round.
        """
        return torch.arange(len(self.variables)) >= self.silent + self.number - 1

    @property
    def r2_over_time(self) -> Float[Tensor, " time"]:
        """Share of the variance of the variables that is decoded at each time."""
        return torch.stack([r2(z, x) for z, x in zip(self.decoded, self.expected, strict=True)])

    @property
    def right_over_time(self) -> Float[Tensor, " time"]:
        """Share of the variables' elements whose sign is decoded, at each time; NaN until all variables have come."""
        right = ((self.decoded > 0) == (self.expected > 0)).double()
        return torch.where(self.expected.isnan(), torch.nan, right).mean((1, 2, 3))

    @property
    def r2(self) -> float:
        """Share of the variance decoded, once settled."""
        return float(r2(self.decoded[self.settled], self.expected[self.settled]))

    @property
    def right(self) -> float:
        """Share of signs decoded, once settled."""
        return float(self.right_over_time[self.settled].mean())

    @property
    def output_right(self) -> float:
        """Share of the outputs' signs that are those of the variables, after the inputs."""
        own = slice(self.silent, None)
        return float(((self.outputs[own] > 0) == (self.variables[own] > 0)).double().mean())


def r2(estimate: Float[Tensor, "*shape"], truth: Float[Tensor, "*shape"]) -> Float[Tensor, ""]:
    """1 - squared error / variance; below 0 where the estimate is worse than the mean. NaN where truth is."""
    return 1 - (estimate - truth).square().sum() / (truth - truth.mean()).square().sum()


def follow(found: Structure, first: Float[Tensor, "variables batch size"], steps: int) -> Float[Tensor, "time ..."]:
    """The variables that follow from the first N: by the signed selection where there is one, else by F_emp."""
    if found.selection is not None:
        return found.selection.continued(first, steps)
    sequence = list(first.unbind(0))
    for _ in range(steps):
        window = torch.stack(sequence[-found.basis.variables :], -2)
        sequence.append(window.flatten(-2) @ found.F.mT)
    return torch.stack(sequence)


def random_inputs(found: Structure, batch: int, generator: torch.Generator) -> Float[Tensor, "time batch size"]:
    """N random vectors of bits, then zeros."""
    N, size = found.basis.variables, found.basis.size
    bits = 2.0 * torch.randint(0, 2, (N, batch, size), generator=generator) - 1
    return torch.cat([bits, torch.zeros(PERIODS * N, batch, size)]).double()


def run_trials(
    network: Linearised,
    found: Structure,
    inputs: Float[Tensor, "time batch features"],
    variables: Float[Tensor, "time batch size"] | None = None,
) -> Trials:
    """Run the network on inputs and decode; without `variables`, x(t) is the input and then what F makes of it."""
    N, size = found.basis.variables, found.basis.size
    silent = silence(inputs)
    if variables is None:
        if silent != N:
            raise ValueError(
                f"{N} variables were found, but the inputs last for {silent} steps: pass variables=..., the sequence "
                f"x(t) that is to be held, (time, batch, {size})."
            )
        variables = follow(found, inputs[:N], len(inputs) - N)
    variables = variables.detach().to(device="cpu", dtype=torch.float64)
    if variables.shape != (*inputs.shape[:2], size):
        raise ValueError(
            f"variables must be (time, batch, {size}) for inputs {tuple(inputs.shape)}, but are "
            f"{tuple(variables.shape)}."
        )
    if len(inputs) < silent + 2 * N:
        raise ValueError(
            f"The {len(inputs)} steps are too short: {N} variables are followed for at least {2 * N} steps after the "
            f"last input, which is at step {silent}."
        )
    states = network.states(inputs)
    decoded = found.basis.read(states - network.fixed_point)
    with torch.no_grad():
        outputs = network.outputs(states)
    return Trials(inputs, variables, states, decoded, outputs, silent)
