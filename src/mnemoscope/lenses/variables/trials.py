"""Trials: run the network, decode the variables from its states and compare them with those of the theory."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.lenses.variables.linearisation import Linearisation, input_duration
from mnemoscope.lenses.variables.structure import Structure
from mnemoscope.lenses.variables.theory import continue_sequence

PERIODS, FEWEST_STEPS = 6, 64
"""Steps of a trial after its inputs: this many times the number of variables, and at least the second number."""
FEWEST_TRIALS = 2
"""Fewest trials with different variables."""


@dataclass(frozen=True)
class Trials:
    """Sequences that a network was run on, and the variables that its memory held.

    Subspace j of N at time T holds x(T - N + j) for every F (the universal law; 1 is the oldest). All values are
    centred. Bits, which may have any two values, are centred halfway between them, so that they have opposite signs.
    Other numbers are centred at the point of linearisation.
    """

    inputs: Float[Tensor, "time batch features"]
    variables: Float[Tensor, "time batch size"]
    """x(t), centred: the inputs while they last, then F of the last N variables (or the variables that were given)."""
    states: Float[Tensor, "time batch units"]
    decoded: Float[Tensor, "time batch variables size"]
    """z(t) = Psi* (h(t) - h*), centred."""
    outputs: Float[Tensor, "time batch size"]
    """Outputs, centred."""
    centre: Float[Tensor, " size"]
    """Offset subtracted from the outputs."""
    input_steps: int
    """Number of steps up to the last nonzero input."""

    @property
    def bits(self) -> bool:
        """Whether each element takes exactly two values once the inputs have ended."""
        size = self.variables[self.input_steps :].abs()
        return bool(((size - size.amax((0, 1))).abs() <= 1e-9 * size.amax((0, 1))).all())

    @property
    def number(self) -> int:
        """Number of variables held at a time, N."""
        return self.decoded.shape[2]

    @property
    def expected(self) -> Float[Tensor, "time batch variables size"]:
        """x(T - N + j) for every T and j, centred; NaN before the first variable."""
        return _windows(self.variables, self.number)

    @property
    def settled(self) -> Bool[Tensor, " time"]:
        """Times at which F has produced all variables held: N steps after the last input and later.

        Before that, some inputs have not passed through F: of the s^2 bits of compose copy, F drops s (s - 1) / 2 in
        the first round.
        """
        return torch.arange(len(self.variables)) >= self.input_steps + self.number - 1

    @property
    def steps(self) -> int:
        """Number of settled times."""
        return int(self.settled.sum())

    @property
    def r2_over_time(self) -> Float[Tensor, " time"]:
        """Share of the variance of the variables that is decoded at each time."""
        return torch.stack([r2(z, x) for z, x in zip(self.decoded, self.expected, strict=True)])

    @property
    def sign_accuracy_over_time(self) -> Float[Tensor, " time"]:
        """Share of the elements whose sign is decoded at each time; NaN until all variables have arrived."""
        right = ((self.decoded > 0) == (self.expected > 0)).double()
        return torch.where(self.expected.isnan(), torch.nan, right).mean((1, 2, 3))

    @property
    def r2(self) -> float:
        """Share of the variance that is decoded at settled times."""
        return float(r2(self.decoded[self.settled], self.expected[self.settled]))

    @property
    def sign_accuracy(self) -> float:
        """Share of the signs that are decoded at settled times."""
        return float(self.sign_accuracy_over_time[self.settled].mean())

    @property
    def retention(self) -> float:
        """Spread of the decoded values over the trials in the last N steps, relative to the first N settled ones.

        It is 1 if variables neither fade nor grow.
        """
        sizes = self.decoded[self.settled].std(1).square().mean((1, 2)).sqrt()
        return float(sizes[-self.number :].mean() / sizes[: self.number].mean().clamp_min(1e-300))


def r2(estimate: Float[Tensor, "*shape"], truth: Float[Tensor, "*shape"]) -> Float[Tensor, ""]:
    """Return 1 - squared error / variance: below 0 if the mean is a better estimate, NaN if the truth has NaN."""
    return 1 - (estimate - truth).square().sum() / (truth - truth.mean()).square().sum()


def evolve_variables(
    structure: Structure, first: Float[Tensor, "variables batch size"], steps: int
) -> Float[Tensor, "time ..."]:
    """Continue a sequence from its first N variables: by the signed selection if there is one, else by F_emp."""
    if structure.selection is not None:
        return structure.selection.simulate(first, steps)
    return continue_sequence(structure.F, first, steps)


def random_inputs(structure: Structure, batch: int, generator: torch.Generator) -> Float[Tensor, "time batch size"]:
    """Return N random vectors of bits, followed by zeros."""
    N, size = structure.basis.variables, structure.basis.size
    bits = 2.0 * torch.randint(0, 2, (N, batch, size), generator=generator) - 1
    return torch.cat([bits, torch.zeros(max(PERIODS * N, FEWEST_STEPS + N), batch, size)]).double()


def run_trials(
    network: Linearisation,
    structure: Structure,
    inputs: Float[Tensor, "time batch features"],
    variables: Float[Tensor, "time batch outputs"] | None = None,
) -> Trials | str:
    """Run the network on the inputs and decode; return the reason if the inputs do not fit the structure.

    Without `variables`, x(t) is the input while it lasts, and F of the last N variables after it.
    """
    N, size = structure.basis.variables, structure.basis.size
    end = input_duration(inputs)
    if variables is None:
        if end != N or inputs.shape[2] != size:
            return (
                f"{N} variables of {size} elements were found, but the inputs last for {end} steps and have "
                f"{inputs.shape[2]} features: pass variables=..., the sequence x(t) that the network should hold"
            )
        x = evolve_variables(structure, inputs[:N], len(inputs) - N)
    else:
        x = _check_variables(variables, network, structure, inputs)
    if len(inputs) < end + 2 * N:
        return (
            f"the {len(inputs)} steps are too short: {N} variables need at least {2 * N} steps after the last input, "
            f"which is at step {end}"
        )
    distinct = torch.unique(x[end : end + N].movedim(1, 0).flatten(1), dim=0)
    if len(distinct) < FEWEST_TRIALS:
        return "all trials are alike: pass different ones, as many as you can"
    states = network.states(inputs)
    decoded = structure.basis.read(states - network.fixed_point)
    with torch.no_grad():
        outputs = network.outputs(states)[..., structure.outputs]
    after = x[end:]
    low, high = after.amin((0, 1)), after.amax((0, 1))
    if bool((((after == low) | (after == high)).all((0, 1)) & (low < high)).all()):
        middle = (low + high) / 2
        x = x - middle
        # The network may hold the two values at any two levels; if variables are given, outputs have their unit.
        first = slice(end + N - 1, end + 2 * N - 1)
        decoded = decoded - _halfway(decoded.movedim(2, 0)[:, first], _windows(x, N).movedim(2, 0)[:, first])
        centre = middle if variables is not None else _halfway(outputs[None, first], x[None, first])
    else:
        centre = network.rest_outputs[structure.outputs]
        if variables is not None:
            x = x - centre
        elif network.fitted:  # the states are relative to their mean
            x = x - after.mean((0, 1))
    return Trials(inputs, x, states, decoded, outputs - centre, centre, end)


def _windows(x: Float[Tensor, "time batch size"], number: int) -> Float[Tensor, "time batch variables size"]:
    """Return x(T - N + j) for every T and j; NaN before the first variable."""
    before = torch.full_like(x[: number - 1], torch.nan)
    return torch.cat([before, x]).unfold(0, number, 1).movedim(-1, 2)


def _halfway(
    values: Float[Tensor, "variables time batch size"], x: Float[Tensor, "variables time batch size"]
) -> Float[Tensor, " size"]:
    """Return, per element, the point halfway between its mean over set bits and its mean over unset bits."""
    up = x > 0
    set_, unset = ((values * where).sum((0, 1, 2)) / where.sum((0, 1, 2)).clamp_min(1) for where in (up, ~up))
    return (set_ + unset) / 2


def _check_variables(variables: Tensor, network: Linearisation, structure: Structure, inputs: Tensor) -> Tensor:
    """Return the elements of the given variables that the structure contains."""
    x = torch.as_tensor(variables).detach().to(network.A)
    shape = (*inputs.shape[:2], len(network.C))
    if x.shape != shape:
        raise ValueError(f"variables must be {shape} (time, batch, outputs), but are {tuple(x.shape)}.")
    if not torch.isfinite(x).all():
        raise ValueError("variables contain NaN or infinite values.")
    return x[..., structure.outputs]
