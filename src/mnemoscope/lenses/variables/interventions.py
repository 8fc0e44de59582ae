"""Causal tests: change what a memory holds, and check that the future changes as the explanation predicts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite, isnan

import torch
from torch import Generator, Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.lenses.controls import scale_to
from mnemoscope.lenses.variables.linearisation import Linearisation
from mnemoscope.lenses.variables.rule import evolve_variables
from mnemoscope.lenses.variables.structure import Structure
from mnemoscope.lenses.variables.trials import Trials, r2

PASSED = 0.95
"""Share of the future that must be as predicted for a test to pass."""
DIFFERENT = 1e-6
"""Numbers differ if they do so by more than this share of their standard deviation."""
PERIODS, FEWEST_STEPS = 3, 32
"""Steps compared after an intervention: this many times the number of variables, and at least the second number."""
REMOVED = "remove the memory space"
"""Name of the test that must destroy the future instead of changing it."""


@dataclass(frozen=True)
class CausalTest:
    """One intervention on the states of all trials at one time, and its effect on the later outputs."""

    name: str
    prediction: str
    agreement: float
    """Share of the output bits that are as predicted; R^2 for other numbers. If the memory is removed: the share by
    which the power of the outputs along the old future drops."""
    changed: float
    """The same over the outputs that the intervention should change; NaN if it should change none."""
    control: float
    """Share of the output bits that stay as without intervention after a push of the same length in a random direction.
    If it is high, the effect of the intervention is due to its direction, not to its length."""

    @property
    def score(self) -> float:
        """The lower of `agreement` and `changed`."""
        return self.agreement if isnan(self.changed) else min(self.agreement, self.changed)

    @property
    def passed(self) -> bool:
        """Whether enough of the future was as predicted."""
        return self.score >= PASSED


def causal_tests(
    network: Linearisation, structure: Structure, trials: Trials, generator: Generator
) -> tuple[CausalTest, ...]:
    """Write a variable, flip a bit, swap two subspaces, transplant another trial's memory, keep or remove the memory.

    The intervention takes place N steps after the last input, or later if transients still reach the outputs. If
    variables depend on each other (compose copy), all copies of an element change together, as a state cannot hold two
    values of one element.
    """
    N = structure.basis.variables
    time = trials.faded
    state, held = trials.states[time], trials.decoded[time]
    truth = trials.variables[time - N + 1 : time + 1]
    experiment = _Experiment(network, structure, trials, time, max(PERIODS * N, FEWEST_STEPS), generator)
    rest = network.fixed_point
    memory = (state - rest) @ structure.projection.mT
    window = truth.movedim(0, 1)
    tests = []
    for name, prediction, values, true_values in _edits(structure, held, window, trials.bits, generator):
        change = structure.basis.embed(structure.expand(values - structure.free_values(held)))
        tests.append(experiment.test(name, prediction, change, structure.expand(true_values)))
    other = torch.roll(torch.arange(len(state)), 1)
    name, prediction = "transplant the memory space", "the future of the trial it is taken from"
    tests.append(experiment.test(name, prediction, memory[other] - memory, truth[:, other].movedim(0, 1)))
    name, prediction = "keep only the memory space", "nothing changes"
    tests.append(experiment.test(name, prediction, rest + memory - state, window))
    tests.append(experiment.removal(-memory))
    return tuple(tests)


class _Experiment:
    """The states at the time of the intervention, and the steps over which the outputs are compared."""

    def __init__(
        self, network: Linearisation, structure: Structure, trials: Trials, time: int, steps: int, generator: Generator
    ) -> None:
        self.network, self.structure, self.steps, self.generator = network, structure, steps, generator
        self.state, self.centre = trials.states[time], trials.centre
        # only a signed selection maps bits to bits; F predicts numbers, and is judged by them
        self.bits = trials.bits and structure.selection is not None
        held = trials.variables[time - structure.basis.variables + 1 : time + 1]
        self.old = evolve_variables(structure, held, steps)[-steps:]

    def test(self, name: str, prediction: str, change: Tensor, window: Tensor) -> CausalTest:
        """Compare the outputs after a change of the states with the future of `window`, (batch, variables, size)."""
        new = evolve_variables(self.structure, window.movedim(1, 0), self.steps)[-self.steps :]
        outputs = self._future(change)
        if self.bits:
            differs = (new > 0) != (self.old > 0)
        else:
            differs = (new - self.old).abs() > DIFFERENT * float(self.old.std())
        changed = self._score(outputs[differs], new[differs]) if differs.any() else float("nan")
        return CausalTest(name, prediction, self._score(outputs, new), changed, self._control(change))

    def removal(self, change: Tensor) -> CausalTest:
        """Return 1 - the power of the outputs along the old future, relative to an unchanged run."""
        after, before = self._along_old(self._future(change)), self._along_old(self._future(torch.zeros_like(change)))
        known = isfinite(after) and isfinite(before) and abs(before) > 1e-12
        drop = max(1 - (after / before) ** 2, 0.0) if known else 0.0
        prediction = "nothing of the old future is left"
        return CausalTest(REMOVED, prediction, drop, float("nan"), self._control(change))

    def _along_old(self, outputs: Tensor) -> float:
        """Return the regression coefficient of the outputs on the old future, both centred over the trials."""
        outputs, old = outputs - outputs.mean(1, keepdim=True), self.old - self.old.mean(1, keepdim=True)
        return float((outputs * old).sum() / old.square().sum())

    def _future(self, change: Tensor) -> Tensor:
        run = self.network.free_run(self.state + change, self.steps)
        return self.network.outputs(run)[..., self.structure.outputs] - self.centre

    def _control(self, change: Tensor) -> float:
        random = torch.randn(change.shape, dtype=change.dtype, generator=self.generator)
        return self._score(self._future(scale_to(random, change)), self.old)

    def _score(self, outputs: Tensor, expected: Tensor) -> float:
        if not torch.isfinite(outputs).all():
            return 0.0
        if self.bits:
            return float(((outputs > 0) == (expected > 0)).double().mean())
        return max(float(r2(outputs, expected)), 0.0)


def _edits(
    structure: Structure, held: Tensor, truth: Tensor, bits: bool, generator: Generator
) -> Iterator[tuple[str, str, Tensor, Tensor]]:
    """Yield name, prediction, new values of the independent elements as the states hold them, and their true values."""
    now, true = structure.free_values(held), structure.free_values(truth)
    pair = _draw_pair(structure.basis.variables, generator)  # drawn first: it depends on the seed alone
    batch, free = now.shape
    rows = torch.arange(batch)

    which = torch.randint(0, structure.basis.variables, (batch,), generator=generator)
    fresh = 2.0 * torch.randint(0, 2, true.shape, generator=generator).double() - 1
    if not bits:
        fresh = torch.randn(true.shape, dtype=torch.float64, generator=generator) * true.std()
    fresh = fresh * true.abs().max() if bits else fresh
    # a new bit gets the amplitude at which the network holds the others
    amplitude = now.abs().mean(0) / true.abs().max() if bits else torch.ones(free, dtype=now.dtype)
    written, true_written = (
        values + _part_of(structure, which, new - values) for values, new in ((now, fresh * amplitude), (true, fresh))
    )
    yield "write a variable", "it comes up in its turn", written, true_written

    element = torch.randint(0, free, (batch,), generator=generator)
    flip = torch.ones_like(now)
    flip[rows, element] = -1
    yield "flip a bit", "it comes up flipped, and all else as before", now * flip, true * flip

    if pair is not None:
        first, second = pair
        name = f"swap subspaces {first + 1} and {second + 1}"
        swapped = _swap(structure, now, first, second), _swap(structure, true, first, second)
        yield name, "they come up in each other's place", *swapped


def _draw_pair(variables: int, generator: Generator) -> tuple[int, int] | None:
    if variables < 2:
        return None
    first = int(torch.randint(0, variables - 1, (), generator=generator))
    return first, int(torch.randint(first + 1, variables, (), generator=generator))


def _part_of(
    structure: Structure, which: Int[Tensor, " batch"], change: Float[Tensor, "batch free"]
) -> Float[Tensor, "batch free"]:
    """Return the part of a change of free values that changes one variable, another one in each trial."""
    blocks = structure.mixing.unflatten(0, (structure.basis.variables, -1))
    parts = torch.stack([structure.setting(j) @ block for j, block in enumerate(blocks)])  # (variables, free, free)
    return (parts[which] @ change[..., None])[..., 0]


def _swap(structure: Structure, values: Tensor, first: int, second: int) -> Tensor:
    """Return the free values with two variables exchanged, as far as their elements are free or copies."""
    values, M = values.clone(), structure.mixing
    size = structure.basis.size
    sole = (M != 0).sum(1) == 1
    for element in range(size):
        a, b = first * size + element, second * size + element
        free_a, free_b = int(M[a].abs().argmax()), int(M[b].abs().argmax())
        if sole[a] and sole[b] and free_a != free_b:
            sign = float(M[a, free_a] * M[b, free_b])
            values[:, [free_a, free_b]] = sign * values[:, [free_b, free_a]]
    return values
