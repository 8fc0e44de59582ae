"""What a network holds while it runs: variables decoded from its states, beside those that the theory expects."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.lenses.variables.linearised import Linearised, silence
from mnemoscope.lenses.variables.structure import Structure

PERIODS, FEWEST_STEPS = 6, 64
"""How long a trial is after its inputs: in numbers of variables, and at least."""
FEWEST_TRIALS = 2


@dataclass(frozen=True)
class Trials:
    """Sequences that a network was run on, and what its memories held.

    Subspace j of N at time T holds x(T - N + j), whatever F (the universal law; 1 is the oldest). All values are
    centred: bits, of any two values, are halfway between them 0, so that they have opposite signs; other numbers where
    the network was linearised.
    """

    inputs: Float[Tensor, "time batch features"]
    variables: Float[Tensor, "time batch size"]
    """x(t), centred: the inputs while they last, then what F makes of them (or what was given)."""
    states: Float[Tensor, "time batch units"]
    decoded: Float[Tensor, "time batch variables size"]
    """z(t) = Psi* (h(t) - h*), centred."""
    outputs: Float[Tensor, "time batch size"]
    """Centred."""
    centre: Float[Tensor, " size"]
    """What was taken off the outputs."""
    silent: int
    """The first time without input from there on."""

    @property
    def bits(self) -> bool:
        """Whether each element takes two values alone, once the inputs have ended."""
        size = self.variables[self.silent :].abs()
        return bool(((size - size.amax((0, 1))).abs() <= 1e-9 * size.amax((0, 1))).all())

    @property
    def number(self) -> int:
        """Variables held at a time, N."""
        return self.decoded.shape[2]

    @property
    def expected(self) -> Float[Tensor, "time batch variables size"]:
        """x(T - N + j) for every T and j, centred; NaN before the first variable came."""
        return _windows(self.variables, self.number)

    @property
    def settled(self) -> Bool[Tensor, " time"]:
        """Times at which all variables were made by F, none put in: N steps after the last input and later.

        Until then F may not have come to act on all that was put in: of compose copy's s^2 bits, s (s - 1) / 2 are
        forgotten in the first round.
        """
        return torch.arange(len(self.variables)) >= self.silent + self.number - 1

    @property
    def steps(self) -> int:
        """How long it was followed, once settled."""
        return int(self.settled.sum())

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
    def kept(self) -> float:
        """How much what is decoded still differs from trial to trial in the last N steps, beside the first N once
        settled: 1 neither fades nor grows.
        """
        sizes = self.decoded[self.settled].std(1).square().mean((1, 2)).sqrt()
        return float(sizes[-self.number :].mean() / sizes[: self.number].mean().clamp_min(1e-300))


def r2(estimate: Float[Tensor, "*shape"], truth: Float[Tensor, "*shape"]) -> Float[Tensor, ""]:
    """1 - squared error / variance; below 0 where the estimate is worse than the mean. NaN where truth is."""
    return 1 - (estimate - truth).square().sum() / (truth - truth.mean()).square().sum()


def evolve_variables(
    found: Structure, first: Float[Tensor, "variables batch size"], steps: int
) -> Float[Tensor, "time ..."]:
    """The variables that follow from the first N: by the signed selection where there is one, else by F_emp."""
    if found.selection is not None:
        return found.selection.simulate(first, steps)
    sequence = list(first.unbind(0))
    for _ in range(steps):
        window = torch.stack(sequence[-found.basis.variables :], -2)
        sequence.append(window.flatten(-2) @ found.F.mT)
    return torch.stack(sequence)


def random_inputs(found: Structure, batch: int, generator: torch.Generator) -> Float[Tensor, "time batch size"]:
    """N random vectors of bits, then zeros."""
    N, size = found.basis.variables, found.basis.size
    bits = 2.0 * torch.randint(0, 2, (N, batch, size), generator=generator) - 1
    return torch.cat([bits, torch.zeros(max(PERIODS * N, FEWEST_STEPS + N), batch, size)]).double()


def run_trials(
    network: Linearised,
    found: Structure,
    inputs: Float[Tensor, "time batch features"],
    variables: Float[Tensor, "time batch outputs"] | None = None,
) -> Trials | str:
    """Run the network on inputs and decode; without `variables`, x(t) is the input and then what F makes of it.

    A sentence that says why where the inputs do not fit what was found.
    """
    N, size = found.basis.variables, found.basis.size
    silent = silence(inputs)
    if variables is None:
        if silent != N or inputs.shape[2] != size:
            return (
                f"{N} variables of {size} elements were found, but the inputs last for {silent} steps and have "
                f"{inputs.shape[2]} features: pass variables=..., the sequence x(t) that is to be held"
            )
        x = evolve_variables(found, inputs[:N], len(inputs) - N)
    else:
        x = _chosen(variables, network, found, inputs)
    if len(inputs) < silent + 2 * N:
        return (
            f"the {len(inputs)} steps are too short: {N} variables are followed for at least {2 * N} steps after the "
            f"last input, which is at step {silent}"
        )
    distinct = torch.unique(x[silent : silent + N].movedim(1, 0).flatten(1), dim=0)
    if len(distinct) < FEWEST_TRIALS:
        return "all trials are alike: pass different ones, as many as you can"
    states = network.states(inputs)
    decoded = found.basis.read(states - network.fixed_point)
    with torch.no_grad():
        outputs = network.outputs(states)[..., found.outputs]
    after = x[silent:]
    low, high = after.amin((0, 1)), after.amax((0, 1))
    if bool((((after == low) | (after == high)).all((0, 1)) & (low < high)).all()):
        middle = (low + high) / 2
        x = x - middle
        # how loud the two values are held, and where: by the readout's units alone if these are the variables'
        first = slice(silent + N - 1, silent + 2 * N - 1)
        decoded = decoded - _halfway(decoded.movedim(2, 0)[:, first], _windows(x, N).movedim(2, 0)[:, first])
        centre = middle if variables is not None else _halfway(outputs[None, first], x[None, first])
    else:
        centre = network.rest_outputs[found.outputs]
        if variables is not None:
            x = x - centre
        elif network.fitted:  # the states were counted from their mean
            x = x - after.mean((0, 1))
    return Trials(inputs, x, states, decoded, outputs - centre, centre, silent)


def _windows(x: Float[Tensor, "time batch size"], number: int) -> Float[Tensor, "time batch variables size"]:
    """x(T - N + j) for every T and j; NaN before the first came."""
    before = torch.full_like(x[: number - 1], torch.nan)
    return torch.cat([before, x]).unfold(0, number, 1).movedim(-1, 2)


def _halfway(
    values: Float[Tensor, "variables time batch size"], x: Float[Tensor, "variables time batch size"]
) -> Float[Tensor, " size"]:
    """Of each element, halfway between its mean where the bit is set and where it is not."""
    up = x > 0
    set_, unset = ((values * where).sum((0, 1, 2)) / where.sum((0, 1, 2)).clamp_min(1) for where in (up, ~up))
    return (set_ + unset) / 2


def _chosen(variables: Tensor, network: Linearised, found: Structure, inputs: Tensor) -> Tensor:
    """The variables that were given, those elements that outputs tell."""
    x = torch.as_tensor(variables).detach().to(network.A)
    wanted = (*inputs.shape[:2], len(network.C))
    if x.shape != wanted:
        raise ValueError(f"variables must be {wanted} (time, batch, outputs), but are {tuple(x.shape)}.")
    if not torch.isfinite(x).all():
        raise ValueError("variables contain NaN or infinite values.")
    return x[..., found.outputs]
