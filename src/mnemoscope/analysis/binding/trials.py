"""What a network holds while it runs: variables decoded from its states, beside those that the theory expects."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.analysis.binding.linearised import Linearised, silence
from mnemoscope.analysis.binding.structure import Structure
from mnemoscope.shapes import Bool, Float

PERIODS, FEWEST_STEPS = 6, 64
"""How long a trial is after its inputs: in numbers of variables, and at least."""
FEWEST_TRIALS = 2


@dataclass(frozen=True)
class Trials:
    """Sequences that a network was run on, and what its memories held.

    Subspace j of N at time T holds x(T - N + j), whatever F (the universal law; 1 is the oldest). All values are given
    from `centre` on: bits of any two values are then of opposite sign.
    """

    inputs: Float[Tensor, "time batch features"]
    variables: Float[Tensor, "time batch size"]
    """x(t) - centre: the inputs while they last, then what F makes of them (or what was given)."""
    states: Float[Tensor, "time batch units"]
    decoded: Float[Tensor, "time batch variables size"]
    """z(t) = Psi* (h(t) - h*), from the centre on."""
    outputs: Float[Tensor, "time batch size"]
    """From the centre on."""
    centre: Float[Tensor, " size"]
    """Halfway between the two values of bits; else, and where no variables were given, the outputs at rest."""
    silent: int
    """The first time without input from there on."""

    @property
    def bits(self) -> bool:
        """Whether the variables take two values alone."""
        size = self.variables.abs()
        return bool((size - size.max()).abs().max() <= 1e-9 * size.max())

    @property
    def number(self) -> int:
        """Variables held at a time, N."""
        return self.decoded.shape[2]

    @property
    def expected(self) -> Float[Tensor, "time batch variables size"]:
        """x(T - N + j) for every T and j, from the centre on; NaN before the first variable came."""
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
        """How large what is decoded still is in the last N steps, beside the first N once settled: 1 does not fade."""
        sizes = self.decoded[self.settled].square().mean((1, 2, 3)).sqrt()
        return float(sizes[-self.number :].mean() / sizes[: self.number].mean().clamp_min(1e-300))

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
    rest = network.rest_outputs[found.outputs]
    if variables is None:
        if silent != N or inputs.shape[2] != size:
            return (
                f"{N} variables of {size} elements were found, but the inputs last for {silent} steps and have "
                f"{inputs.shape[2]} features: pass variables=..., the sequence x(t) that is to be held"
            )
        x, centre = follow(found, inputs[:N], len(inputs) - N), rest
    else:
        x = _chosen(variables, network, found, inputs)
        centre = _middle(x, rest)
        x = x - centre
    if len(inputs) < silent + 2 * N:
        return (
            f"the {len(inputs)} steps are too short: {N} variables are followed for at least {2 * N} steps after the "
            f"last input, which is at step {silent}"
        )
    distinct = torch.unique(x[max(silent - N, 0) : silent + N].movedim(1, 0).flatten(1), dim=0)
    if len(distinct) < FEWEST_TRIALS:
        return "all trials are alike: pass different ones, as many as you can"
    states = network.states(inputs)
    decoded = found.basis.read(states - network.fixed_point) + (rest - centre)
    with torch.no_grad():
        outputs = network.outputs(states)[..., found.outputs] - centre
    return Trials(inputs, x, states, decoded, outputs, centre, silent)


def _chosen(variables: Tensor, network: Linearised, found: Structure, inputs: Tensor) -> Tensor:
    """The variables that were given, those elements that outputs tell."""
    x = torch.as_tensor(variables).detach().to(network.A)
    wanted = (*inputs.shape[:2], len(network.C))
    if x.shape != wanted:
        raise ValueError(f"variables must be {wanted} (time, batch, outputs), but are {tuple(x.shape)}.")
    if not torch.isfinite(x).all():
        raise ValueError("variables contain NaN or infinite values.")
    return x[..., found.outputs]


def _middle(x: Tensor, rest: Tensor) -> Tensor:
    low, high = x.aminmax()
    two = bool(((x == low) | (x == high)).all())
    return ((low + high) / 2).expand(len(rest)).clone() if two and low < high else rest
