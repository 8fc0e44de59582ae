"""Causal tests: change what a memory holds, and see whether the future changes as the explanation says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite, isnan

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.variables.linearised import Linearised
from mnemoscope.lenses.variables.structure import Structure
from mnemoscope.lenses.variables.trials import Trials, evolve_variables, r2

PASSED = 0.95
"""Of the future that must be as predicted."""
PERIODS, FEWEST_STEPS = 3, 32
"""How long it is followed: in numbers of variables, and at least."""
REMOVED = "remove the memory space"


@dataclass(frozen=True)
class CausalTest:
    """One intervention on the states of all trials at one time, and what became of the outputs after it."""

    name: str
    prediction: str
    agreement: float
    """Share of the output bits that are as predicted; for other numbers, R^2. Where the memory is removed, how much is
    gone of the power with which the outputs followed the old future."""
    changed: float
    """The same over those that the intervention should have changed; NaN where it should change none."""
    control: float
    """After a push just as long, but in a random direction: share of the output bits that are as if nothing had been
    done. Where it is high, the effect of the intervention is due to its direction, not to its length."""

    @property
    def score(self) -> float:
        """The lower of the two shares."""
        return self.agreement if isnan(self.changed) else min(self.agreement, self.changed)

    @property
    def passed(self) -> bool:
        """Whether the future was as predicted."""
        return self.score >= PASSED


def causal_tests(
    network: Linearised, found: Structure, trials: Trials, generator: torch.Generator
) -> tuple[CausalTest, ...]:
    """Write a variable, flip a bit, swap two subspaces, put in another trial's memory, keep or remove the memory space.

    The intervention is made N steps after the last input. Where variables repeat each other (compose copy), what is
    the same is changed alike, as a state cannot hold both.
    """
    N = found.basis.variables
    time = trials.silent + N - 1
    state, held = trials.states[time], trials.decoded[time]
    truth = trials.variables[time - N + 1 : time + 1]
    bench = _Bench(network, found, trials, time, max(PERIODS * N, FEWEST_STEPS))
    rest = network.fixed_point
    memory = (state - rest) @ found.projection.mT
    tests = []
    for name, prediction, values, true_values in _edits(found, held, truth.movedim(0, 1), trials.bits, generator):
        change = found.basis.change(found.held(values - found.values(held)))
        tests.append(bench.test(name, prediction, change, found.held(true_values), generator))
    other = torch.roll(torch.arange(len(state)), 1)
    tests.append(
        bench.test("transplant the memory space", "the future of the trial it is taken from", memory[other] - memory,
                   truth[:, other].movedim(0, 1), generator)
    )  # fmt: skip
    tests.append(
        bench.test("keep only the memory space", "nothing changes", rest + memory - state, truth.movedim(0, 1),
                   generator)
    )  # fmt: skip
    tests.append(bench.removed(-memory, generator))
    return tuple(tests)


class _Bench:
    """Where interventions are tried: the same states, followed for the same time."""

    def __init__(self, network: Linearised, found: Structure, trials: Trials, time: int, steps: int) -> None:
        self.network, self.found, self.steps = network, found, steps
        self.state, self.bits, self.centre = trials.states[time], trials.bits, trials.centre
        self.old = evolve_variables(found, trials.variables[time - found.basis.variables + 1 : time + 1], steps)[
            -steps:
        ]

    def test(
        self, name: str, prediction: str, change: Tensor, window: Float[Tensor, "batch variables size"],
        generator: torch.Generator,
    ) -> CausalTest:  # fmt: skip
        new = evolve_variables(self.found, window.movedim(1, 0), self.steps)[-self.steps :]
        outputs = self._future(change)
        differs = new != self.old
        changed = self._score(outputs[differs], new[differs]) if differs.any() else float("nan")
        return CausalTest(name, prediction, self._score(outputs, new), changed, self._control(change, generator))

    def removed(self, change: Tensor, generator: torch.Generator) -> CausalTest:
        """Nothing of the old future is left: 1 - the power of the outputs along it, beside that of an intact run."""
        left, before = self._along(self._future(change)), self._along(self._future(torch.zeros_like(change)))
        known = isfinite(left) and isfinite(before) and abs(before) > 1e-12
        gone = max(1 - (left / before) ** 2, 0.0) if known else 0.0
        return CausalTest(
            REMOVED, "nothing of the old future is left", gone, float("nan"), self._control(change, generator)
        )

    def _along(self, outputs: Tensor) -> float:
        """The coefficient of the old future in the outputs, over what all trials share."""
        own, old = outputs - outputs.mean(1, keepdim=True), self.old - self.old.mean(1, keepdim=True)
        return float((own * old).sum() / old.square().sum())

    def _future(self, change: Tensor) -> Tensor:
        run = self.network.free_run(self.state + change, self.steps)
        return self.network.outputs(run)[..., self.found.outputs] - self.centre

    def _control(self, change: Tensor, generator: torch.Generator) -> float:
        random = torch.randn(change.shape, dtype=change.dtype, generator=generator)
        random *= change.norm(dim=1, keepdim=True) / random.norm(dim=1, keepdim=True)
        return self._score(self._future(random), self.old)

    def _score(self, outputs: Tensor, expected: Tensor) -> float:
        if not torch.isfinite(outputs).all():
            return 0.0
        if self.bits:
            return float(((outputs > 0) == (expected > 0)).double().mean())
        return max(float(r2(outputs, expected)), 0.0)


def _edits(
    found: Structure, held: Tensor, truth: Tensor, bits: bool, generator: torch.Generator
) -> Iterator[tuple[str, str, Tensor, Tensor]]:
    """Name, prediction, new values of the independent elements as the states hold them, and as they truly are."""
    now, true = found.values(held), found.values(truth)
    pair = _pair(found.basis.variables, generator)  # first of all: for one seed the same, whatever else is drawn
    batch, free = now.shape
    rows = torch.arange(batch)
    size = found.basis.size

    which = torch.randint(0, found.basis.variables, (batch,), generator=generator)
    members = found.groups[which[:, None] * size + torch.arange(size)]
    fresh = 2.0 * torch.randint(0, 2, true.shape, generator=generator).double() - 1
    if not bits:
        fresh = torch.randn(true.shape, dtype=torch.float64, generator=generator) * true.std()
    fresh = fresh * true.abs().max() if bits else fresh
    # a bit is as loud as others are held
    loudness = now.abs().mean(0) / true.abs().max() if bits else torch.ones(free, dtype=now.dtype)
    written, true_written = now.clone(), true.clone()
    written[rows[:, None], members] = (fresh * loudness)[rows[:, None], members]
    true_written[rows[:, None], members] = fresh[rows[:, None], members]
    yield "write a variable", "it comes up in its turn", written, true_written

    one = torch.randint(0, free, (batch,), generator=generator)
    flip = torch.ones_like(now)
    flip[rows, one] = -1
    yield "flip a bit", "it comes up flipped, and all else as before", now * flip, true * flip

    if pair is not None:
        first, second = pair
        words = f"swap subspaces {first + 1} and {second + 1}"
        swapped = _swapped(found, now, first, second), _swapped(found, true, first, second)
        yield words, "they come up in each other's place", *swapped


def _pair(variables: int, generator: torch.Generator) -> tuple[int, int] | None:
    if variables < 2:
        return None
    first = int(torch.randint(0, variables - 1, (), generator=generator))
    return first, int(torch.randint(first + 1, variables, (), generator=generator))


def _swapped(found: Structure, values: Tensor, first: int, second: int) -> Tensor:
    values, size = values.clone(), found.basis.size
    for element in range(size):
        a, b = first * size + element, second * size + element
        own, other = int(found.groups[a]), int(found.groups[b])
        if own != other:
            sign = int(found.group_signs[a] * found.group_signs[b])
            values[:, [own, other]] = sign * values[:, [other, own]]
    return values
