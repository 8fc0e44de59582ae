"""Trials: run the network, decode the variables from its states and compare them with those of the theory."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.connectivity.signed_selection import companion
from mnemoscope.lenses.variables.linearisation import Linearisation, input_duration
from mnemoscope.lenses.variables.rule import RuleErrors, evolve_variables, recognise_rule
from mnemoscope.lenses.variables.structure import Structure

PERIODS, FEWEST_STEPS = 6, 64
"""Steps of a trial after its inputs: this many times the number of variables, and at least the second number."""
FEWEST_TRIALS = 2
"""Fewest trials with different variables."""
FADED, LONGEST_WAIT = 0.01, 512
"""Transients have faded if they give less than this share of the outputs; most steps to wait for it."""
ROUNDING = 1e-9
"""Share of the variance that rounding may leave unexplained."""
REACHED = 1e-6
"""Directions of the memory that inputs drive with less than this share of the strongest count as not reached."""


@dataclass(frozen=True)
class Trials:
    """Sequences that a network was run on, and the variables that its memory held.

    Subspace j of N at time T holds x(T - N + j) for every F (the universal law; 1 is the oldest). All values are
    centred. Bits, which may have any two values, are centred halfway between them, so that they have opposite signs.
    Other numbers are centred at the point of linearisation.
    """

    inputs: Float[Tensor, "time batch features"]
    variables: Float[Tensor, "time batch size"]
    """x(t), centred: the inputs while they last, then F of the last N variables (or the variables that were given). If
    inputs add up, the first N are what they leave in the memory."""
    states: Float[Tensor, "time batch units"]
    decoded: Float[Tensor, "time batch variables size"]
    """z(t) = Psi* (h(t) - h*), centred."""
    outputs: Float[Tensor, "time batch size"]
    """Outputs, centred."""
    centre: Float[Tensor, " size"]
    """Offset subtracted from the outputs."""
    input_steps: int
    """Number of steps up to the last nonzero input."""
    inputs_add_up: bool = False
    """Whether inputs are added to F of the variables held, as in a linear network; otherwise they replace it."""
    faded: int = 0
    """First settled time at which transients no longer reach the outputs, or the first one if they always do."""
    rule_errors: RuleErrors | None = None
    """How well F and the nearest signed selection predict the variables; None in files of earlier versions."""

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


def random_inputs(
    network: Linearisation, structure: Structure, batch: int, generator: torch.Generator
) -> Float[Tensor, "time batch size"]:
    """Return N random vectors of bits, followed by zeros until transients have faded and variables came up again."""
    N, size = structure.basis.variables, structure.basis.size
    bits = 2.0 * torch.randint(0, 2, (N, batch, size), generator=generator) - 1
    steps = max(PERIODS * N, FEWEST_STEPS + N, _fading_steps(network, structure) + 2 * N)
    return torch.cat([bits, torch.zeros(steps, batch, size)]).double()


def run_trials(
    network: Linearisation,
    structure: Structure,
    inputs: Float[Tensor, "time batch features"],
    variables: Float[Tensor, "time batch outputs"] | None = None,
) -> tuple[Structure, Trials] | str:
    """Run the network on the inputs and decode; return the reason if the inputs do not fit the structure.

    The structure is returned with the signed selection that the trials support, if there is one. Without `variables`,
    each input is a new variable: it replaces F of those held, or is added to it if that describes the states better.
    Afterwards x(t) is F of the last N variables.
    """
    N, size = structure.basis.variables, structure.basis.size
    end = input_duration(inputs)
    if variables is None and (end != N or inputs.shape[2] != size):
        return (
            f"{N} variables of {size} elements were found, but the inputs last for {end} steps and have "
            f"{inputs.shape[2]} features: pass variables=..., the sequence x(t) that the network should hold"
        )
    given = None if variables is None else _check_variables(variables, network, structure, inputs)
    if len(inputs) < end + 2 * N:
        return (
            f"the {len(inputs)} steps are too short: {N} variables need at least {2 * N} steps after the last input, "
            f"which is at step {end}"
        )
    states = network.states(inputs)
    decoded = structure.basis.read(states - network.fixed_point)
    structure, rule_errors = recognise_rule(structure, decoded[end + N - 1 :])
    add_up = False
    if given is None:
        first, total = inputs[:N], _sum_of_inputs(network, structure, inputs[:N])
        unexplained = _unexplained(structure, first, decoded)
        if total is not None and ROUNDING < unexplained > _unexplained(structure, total, decoded):
            first, add_up = total, True
        x = evolve_variables(structure, first, len(inputs) - N)
    else:
        x = given
    distinct = torch.unique(x[end : end + N].movedim(1, 0).flatten(1), dim=0)
    if len(distinct) < FEWEST_TRIALS:
        return "all trials are alike: pass different ones, as many as you can"
    with torch.no_grad():
        outputs = network.outputs(states)[..., structure.outputs]
    faded = _faded_time(network, structure, states, end + N - 1)
    after = x[end:]
    low, high = after.amin((0, 1)), after.amax((0, 1))
    if bool((((after == low) | (after == high)).all((0, 1)) & (low < high)).all()):
        middle = (low + high) / 2
        x = x - middle
        # The network may hold the two values at any two levels; if variables are given, outputs have their unit.
        decoded = decoded - _halfway(decoded[end + N - 1 :], _windows(x, N)[end + N - 1 :])
        centre = middle if given is not None else _halfway(outputs[faded:, :, None], x[faded:, :, None])
    else:
        centre = network.rest_outputs[structure.outputs]
        if given is not None:
            x = x - centre
        elif network.fitted:  # the states are relative to their mean
            x = x - after.mean((0, 1))
    return structure, Trials(inputs, x, states, decoded, outputs - centre, centre, end, add_up, faded, rule_errors)


def _fading_steps(network: Linearisation, structure: Structure) -> int:
    """Return the steps after which inputs reach the outputs of the linearised network through its memory alone."""
    C = network.C[structure.outputs]
    memory, transient = structure.projection @ network.B, network.B - structure.projection @ network.B
    least = FADED * float((C @ memory).norm()) / structure.basis.variables  # as many inputs may add up
    last = 0
    for step in range(1, LONGEST_WAIT + 1):  # non-normal transients may grow again after they were small
        if float((C @ transient).norm()) > least:
            last = step
        transient = network.A @ transient
    return last


def _faded_time(network: Linearisation, structure: Structure, states: Tensor, settled: int) -> int:
    """Return the first settled time at which the outputs are free of transients, or the first one if none is."""
    free = states[settled : len(states) - structure.basis.variables]
    deviations = free - free.mean(1, keepdim=True)
    memory = deviations @ structure.projection.mT
    readout = network.C[structure.outputs].mT
    shares = ((deviations - memory) @ readout).flatten(1).norm(dim=1) / (memory @ readout).flatten(1).norm(dim=1)
    present = (shares > FADED).nonzero().flatten()
    faded = int(present[-1]) + 1 if len(present) else 0
    return settled + (faded if faded < len(shares) else 0)


def _sum_of_inputs(
    network: Linearisation, structure: Structure, inputs: Float[Tensor, "variables batch features"]
) -> Float[Tensor, "variables batch size"] | None:
    """Return the variables that a linear network holds after N inputs: u(t) adds w u(t) to the free values f.

    f(t) = Phi f(t-1) + w u(t) with w from Psi* B. None if the inputs cannot set all free values independently.
    """
    M = structure.mixing
    M_inverse = torch.linalg.pinv(M)
    Phi, w = M_inverse @ companion(structure.F) @ M, M_inverse @ structure.basis.duals @ network.B
    responses = [w]
    for _ in inputs[1:]:
        responses.append(Phi @ responses[-1])
    strengths = torch.linalg.svdvals(torch.cat(responses, 1))
    if len(strengths) < structure.free or float(strengths[-1]) <= REACHED * float(strengths[0]):
        return None
    f = torch.stack([u @ response.mT for u, response in zip(inputs.flip(0), responses, strict=True)]).sum(0)
    return structure.expand(f).movedim(1, 0)


def _unexplained(structure: Structure, first: Tensor, decoded: Tensor) -> float:
    """Return the share of the decoded variance at settled times that does not follow from `first`.

    A network may hold each element at its level, which may change, so the decoded values are regressed on the predicted
    ones at each time. All times count: the levels of a network that saturates settle slowly, and until then they
    resemble a sum of the inputs.
    """
    N = structure.basis.variables
    z = decoded[2 * N - 1 :]
    x = _windows(evolve_variables(structure, first, len(decoded) - N), N)[2 * N - 1 :]
    x, z = (part - part.mean(1, keepdim=True) for part in (x, z))
    explained = (x * z).sum(1).square() / x.square().sum(1).clamp_min(1e-300)
    return float(1 - explained.sum() / z.square().sum().clamp_min(1e-300))


def _windows(x: Float[Tensor, "time batch size"], number: int) -> Float[Tensor, "time batch variables size"]:
    """Return x(T - N + j) for every T and j; NaN before the first variable."""
    before = torch.full_like(x[: number - 1], torch.nan)
    return torch.cat([before, x]).unfold(0, number, 1).movedim(-1, 2)


def _halfway(
    values: Float[Tensor, "time batch variables size"], x: Float[Tensor, "time batch variables size"]
) -> Float[Tensor, " size"]:
    """Return, per element, the point halfway between its mean over set bits and its mean over unset bits.

    Times count by the squared distance of the two means, as a variable has no levels before it has settled on them, nor
    once it is lost; and by the inverse of its variance, as the error of a mean grows with variables that grow.
    """
    up = x > 0
    set_, unset = ((values * where).sum((1, 2)) / where.sum((1, 2)).clamp_min(1) for where in (up, ~up))
    size = values.square().mean((1, 2)).clamp_min(1e-100)
    weight = ((set_ - unset) / size).square()
    return ((set_ + unset) / 2 * weight).sum(0) / weight.sum(0).clamp_min(1e-300)


def _check_variables(variables: Tensor, network: Linearisation, structure: Structure, inputs: Tensor) -> Tensor:
    """Return the elements of the given variables that the structure contains."""
    x = torch.as_tensor(variables).detach().to(network.A)
    shape = (*inputs.shape[:2], len(network.C))
    if x.shape != shape:
        raise ValueError(f"variables must be {shape} (time, batch, outputs), but are {tuple(x.shape)}.")
    if not torch.isfinite(x).all():
        raise ValueError("variables contain NaN or infinite values.")
    return x[..., structure.outputs]
