"""Classes that the sequences of a task make a network hold, for interventions on its state."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Int, Num
from mnemoscope.tasks import (
    Copy,
    FlipFlop,
    KeyValueRecall,
    MultiQueryRecall,
    Task,
    VariableBinding,
    WordProblem,
)
from mnemoscope.tasks.cognitive import TrialTask

LATER = 16
"""Steps after the change at which answers are compared, at most."""
VALUES = 8
"""Values that the key of interest has in trials of key-value recall, at most."""
PAIRS = 4
"""Pairs of these trials at least, if the task has so many: short convolutions no longer hold the first one."""
OF_EACH_CLASS = 16
"""Sequences of each class at least, on average."""


@dataclass(frozen=True)
class HeldClass:
    """Sequences, the class that a network has to hold at one of their steps, and the later answers that need it."""

    name: str
    """Description of the class, such as "the product of the word"."""
    inputs: Num[Tensor, "time batch ..."]
    """Features, or the numbers of tokens."""
    classes: Int[Tensor, " batch"]
    """Class of each sequence; -1 for those without one."""
    at: int
    """Step after which the state is changed."""
    counts: Bool[Tensor, "time batch"]
    """Steps whose answers are compared."""
    answers: str
    """How outputs are read: "values", "classes" or "bits"."""
    output: int | None = None
    """The output that is compared; None for all."""

    def of(self, chosen: Bool[Tensor, " batch"]) -> HeldClass:
        """Return some of the sequences."""
        inputs = self.inputs[:, chosen.to(self.inputs.device)]
        counts = self.counts[:, chosen.to(self.counts.device)]
        return replace(self, inputs=inputs, classes=self.classes[chosen], counts=counts)

    def shortened(self) -> HeldClass:
        """Return the sequences up to the last step that is compared; at most `LATER` steps are."""
        later = self.counts.any(1).nonzero()[:, 0]
        later = later[later > self.at][:LATER]
        stop = int(later[-1]) + 1 if len(later) else len(self.counts)
        return replace(self, inputs=self.inputs[:stop], counts=self.counts[:stop])


def held_class(task: Task, sequences: int, seed: int, number: int) -> HeldClass | None:
    """Return test sequences of a task with the class that they hold; None for tasks that name no class.

    They are those of one batch, by its `number`. There are more than asked for if the classes are many.
    """
    found = None
    if isinstance(task, WordProblem):
        found = _product(task, sequences, seed, number)
    elif isinstance(task, TrialTask):
        found = _condition(task, sequences, seed, number)
    elif isinstance(task, KeyValueRecall):
        found = _value(task, sequences, seed, number)
    elif isinstance(task, MultiQueryRecall):
        found = _token(task, sequences, seed, number)
    elif isinstance(task, VariableBinding):
        found = _bound_bit(task, sequences, seed, number)
    elif isinstance(task, FlipFlop):
        found = _bit(task, sequences, seed, number)
    elif isinstance(task, Copy):
        found = _symbol(task, sequences, seed, number)
    return None if found is None else found.shortened()


def _product(task: WordProblem, sequences: int, seed: int, number: int) -> HeldClass:
    """Return words with the product of their first half."""
    at = max(task.length // 2, 1)
    batch = task.batch(max(sequences, OF_EACH_CLASS * task.output_size), seed, number, "test")
    return HeldClass("the product of the word", batch.inputs, batch.targets[at], at, batch.mask, "classes")


def _condition(task: TrialTask, sequences: int, seed: int, number: int) -> HeldClass | None:
    """Return trials with the value of the condition that is held, at the end of the epoch in which it is."""
    analysis = task.analysis
    if analysis is None or analysis.held is None:
        return None
    trials = task.noisy_grid(-(-sequences // len(task.grid().table)), seed + number)
    values = trials.table[analysis.held].values
    known = ~values.isnan()
    classes = torch.full(values.shape, -1)
    classes[known] = values[known].unique(return_inverse=True)[1]
    at = int(trials.table.epoch(analysis.epoch).stops.min()) - 1
    return HeldClass(f"the {analysis.held}", trials.batch.inputs, classes, at, task.recalled(trials.batch), "values")


def _value(task: KeyValueRecall, sequences: int, seed: int, number: int) -> HeldClass:
    """Return lists whose first key is the same in all, with its value, after the last pair.

    A network binds a value to its key, so that the states of one value have a common direction only for one key. The
    names of two keys are exchanged in each sequence, and the first value is set. Keys and values are uniform and
    independent, so that these sequences are those of the task with this key first, and one of these values.
    """
    pairs = min(max(task.fewest, PAIRS), task.most)
    batch = task.at(pairs).batch(max(sequences, OF_EACH_CLASS * min(task.values, VALUES)), seed, number, "test")
    shown = int(task.apart)  # step of the first value
    keys, values = batch.inputs.clone().split([task.keys, task.values], -1)
    first, rows = keys[0].argmax(-1), torch.arange(keys.shape[1])
    order = torch.arange(task.keys).repeat(len(rows), 1)
    order[rows, first], order[:, 0] = 0, first
    classes = rows % min(task.values, VALUES)
    values[shown] = 0
    values[shown, rows, classes] = 1
    inputs = torch.cat([keys.gather(2, order.expand_as(keys)), values], -1)
    at = (1 + int(task.apart)) * pairs - 1
    return HeldClass("the value of the first pair", inputs, classes, at, task.sources(batch) == shown, "classes")


def _token(task: MultiQueryRecall, sequences: int, seed: int, number: int) -> HeldClass:
    """Return lists of tokens whose first key is the same in all, with its value, after the last pair.

    As in `_value`, a value has a common direction only for one key. In each sequence the names of two keys are
    exchanged, and those of two values; fillers take part. The distribution of all tokens is the same for all names, so
    that these sequences are those of the task with this key first, and one of these values.
    """
    values = min(task.vocabulary - task.vocabulary // 2, VALUES)
    batch = task.batch(max(sequences, OF_EACH_CLASS * values), seed, number, "test")
    classes = torch.arange(batch.mask.shape[1]) % values
    inputs = _exchanged(batch.inputs, torch.ones_like(classes), batch.inputs[0])
    inputs = _exchanged(inputs, task.vocabulary // 2 + classes, batch.inputs[1])
    return HeldClass(
        "the value of the first pair", inputs, classes, 2 * task.pairs - 1, task.sources(batch) == 1, "classes"
    )


def _exchanged(
    tokens: Int[Tensor, "time batch"], one: Int[Tensor, " batch"], other: Int[Tensor, " batch"]
) -> Int[Tensor, "time batch"]:
    """Return sequences in each of which the names of two tokens are exchanged."""
    return torch.where(tokens == one, other, torch.where(tokens == other, one, tokens))


def _bound_bit(task: VariableBinding, sequences: int, seed: int, number: int) -> HeldClass:
    """Return sequences with the first bit of the newest vector, after all vectors were replaced once."""
    at = 2 * task.variables - 1
    batch = task.at(4 * task.variables).batch(sequences, seed, number, "test")
    bits = batch.targets[..., 0] > 0
    alike = (bits == bits[at]).double().mean(1)
    determined = ((alike == 0) | (alike == 1)).unsqueeze(1)  # this bit again, or its opposite
    name = "the first bit of the newest vector"
    return HeldClass(name, batch.inputs, bits[at].long(), at, batch.mask & determined, "bits", output=0)


def _bit(task: FlipFlop, sequences: int, seed: int, number: int) -> HeldClass:
    """Return sequences with their first bit at half of the steps."""
    at = task.length // 2
    batch = task.batch(sequences, seed, number, "test")
    sign = batch.targets[at, :, 0]
    classes = torch.where(sign == 0, -1, (sign > 0).long())
    return HeldClass("the first bit", batch.inputs, classes, at, batch.mask, "bits", output=0)


def _symbol(task: Copy, sequences: int, seed: int, number: int) -> HeldClass:
    """Return strings with their first symbol, before it is due."""
    batch = task.batch(max(sequences, OF_EACH_CLASS * task.alphabet), seed, number, "test")
    due = len(batch.mask) - task.symbols
    counts = torch.zeros_like(batch.mask)
    counts[due] = True
    return HeldClass("the first symbol", batch.inputs, batch.targets[due], due - 1, counts, "classes")
